"""Which daemon a client speaks to, and what it takes for none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.client.discover import reach, read_daemon_file
from palaver.errors import Failed, Refused
from stand_in import Reply, StandIn


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def write(data: Path, url: str, *, pid: int | None = None, token: str | None = "id.secret") -> None:
    if token is not None:
        (data / "token").write_text(f"{token}\n")
    body = {"pid": os.getpid() if pid is None else pid, "url": url, "token_file": str(data / "token"), "version": "0.1.0"}
    (data / "daemon.json").write_text(json.dumps(body))


async def refusal(data: Path) -> Refused:
    with pytest.raises(Refused) as caught:
        await reach(data, None, {})
    assert caught.value.code == "no_daemon" and "palaver serve" in caught.value.message
    return caught.value


@pytest.mark.anyio
async def test_the_daemon_of_the_folder_is_found_and_has_proven_itself(tmp_path: Path) -> None:
    """SECURITY 6."""
    async with StandIn({("GET", "/x"): Reply(body={})}) as daemon:
        write(tmp_path, daemon.url)
        async with await reach(tmp_path, None, {}) as connection:
            assert daemon.paths() == []
            await connection.request("GET", "/x")
        assert daemon.asked[-1].headers["authorization"] == "Bearer id.secret"


@pytest.mark.anyio
async def test_no_file_means_no_daemon(tmp_path: Path) -> None:
    await refusal(tmp_path)
    await refusal(tmp_path / "not" / "there")


@pytest.mark.anyio
async def test_a_file_that_a_dead_process_left_means_no_daemon(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    async with StandIn() as daemon:
        write(tmp_path, daemon.url, pid=ended.pid)
        assert "is gone" in (await refusal(tmp_path)).message
        assert daemon.asked == []


@pytest.mark.anyio
async def test_a_port_where_nobody_answers_means_no_daemon(tmp_path: Path) -> None:
    async with StandIn() as daemon:
        write(tmp_path, daemon.url)
    assert "does not answer" in (await refusal(tmp_path)).message


@pytest.mark.anyio
async def test_a_program_that_took_the_port_means_no_daemon_and_gets_no_token(tmp_path: Path) -> None:
    """SECURITY 6."""
    async with StandIn(token=None) as squatter:
        write(tmp_path, squatter.url)
        assert "another program" in (await refusal(tmp_path)).message
        assert "secret" not in str(squatter.asked)


@pytest.mark.anyio
async def test_an_address_gets_the_token_of_the_environment_and_never_the_folders(tmp_path: Path) -> None:
    """SECURITY 6: with --url only $PALAVER_TOKEN is sent."""
    async with StandIn({("GET", "/x"): Reply(body={})}, token="env.secret") as daemon:
        write(tmp_path, daemon.url)
        for flag, env in ((daemon.url, {}), (None, {"PALAVER_URL": daemon.url})):
            async with await reach(tmp_path, flag, env) as connection:
                await connection.request("GET", "/x")
            assert "authorization" not in daemon.asked[-1].headers
        async with await reach(tmp_path, daemon.url, {"PALAVER_TOKEN": "env.secret\n"}) as connection:
            await connection.request("GET", "/x")
        assert daemon.asked[-1].headers["authorization"] == "Bearer env.secret"
        assert "id.secret" not in str(daemon.asked)


@pytest.mark.anyio
async def test_a_token_that_cannot_be_read_is_a_failure_that_names_its_file(tmp_path: Path) -> None:
    write(tmp_path, "http://127.0.0.1:1", token=None)
    with pytest.raises(Failed, match="token"):
        await reach(tmp_path, None, {})


def test_a_file_that_no_daemon_wrote_is_taken_for_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"pid": "x", "url": 1}'):
        (tmp_path / "daemon.json").write_text(text)
        assert read_daemon_file(tmp_path) is None
