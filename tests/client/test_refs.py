"""Shortened strings of an event, loaded before somebody decides on them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from palaver.client.connect import Connection
from palaver.client.refs import whole
from palaver.errors import Failed
from stand_in import Reply, StandIn

LONG = "é" * 50_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def place(text: str) -> dict[str, Any]:
    return {"ref": "artifacts/turn_1/a b", "size": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.anyio
async def test_a_shortened_string_comes_back_whole_in_its_place() -> None:
    data = {
        "preview": {"diff": LONG[:1024], "paths": ["x", "y"]},
        "tool_call": {"input": {"a/b~c": [{"p": "short"}]}},
        "refs": {"/preview/diff": place(LONG), "/tool_call/input/a~1b~0c/0/p": place(LONG)},
    }
    answers: dict[tuple[str, str], Any] = {("GET", "/v1/sessions/sess_1/artifacts/turn_1/a%20b"): Reply(body=LONG.encode())}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        found = await whole(connection, "sess_1", data)
    assert found["preview"] == {"diff": LONG, "paths": ["x", "y"]}
    assert found["tool_call"]["input"]["a/b~c"][0]["p"] == LONG
    assert data["preview"]["diff"] == LONG[:1024]  # type: ignore[index]


@pytest.mark.anyio
async def test_a_file_that_is_not_what_the_event_names_is_not_shown() -> None:
    """SECURITY 18: what was shown is what happens."""
    data = {"preview": {"diff": "x"}, "refs": {"/preview/diff": place(LONG)}}
    answers: dict[tuple[str, str], Any] = {("GET", "/v1/sessions/sess_1/artifacts/turn_1/a%20b"): Reply(body=b"something else")}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        with pytest.raises(Failed, match="not what the event says"):
            await whole(connection, "sess_1", data)


@pytest.mark.anyio
async def test_an_event_without_long_strings_asks_for_nothing() -> None:
    async with StandIn() as daemon, Connection(daemon.url, "id.secret") as connection:
        assert await whole(connection, "sess_1", {"a": 1}) == {"a": 1}
        assert daemon.asked == []
