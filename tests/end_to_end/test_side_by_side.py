"""Commands and readers that meet at the same moment, or arrive long after the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palaver.engine.actor import EVERYONE, Actor
from palaver.engine.feed import KEPT, Feed
from palaver_daemon import palaver

pytestmark = pytest.mark.anyio
ADMIN = Actor("user", EVERYONE)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_of_two_changes_at_once_the_later_one_stays(tmp_path: Path) -> None:
    """A change is compared with what was decided before it, not with what the disk has so far."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        hub = here.built.hub
        for _ in range(10):
            await asyncio.gather(hub.patch(chat.id, {"mode": "auto"}, ADMIN), hub.patch(chat.id, {"mode": "ask"}, ADMIN))
            assert (await chat.get())["mode"] == "ask"


async def test_a_quiet_session_is_marked_before_it_is_closed(tmp_path: Path) -> None:
    """Decision 9: whatever a client makes happen, the marker is there before its first event."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        session = await here.built.sessions.get(chat.id)
        session.marked = False
        here.built.sessions.folder.clear_open(chat.id)
        await chat.post("close")
        assert (here.data / "open" / chat.id).exists()


async def test_a_reader_of_all_news_who_is_left_behind_is_told_of_the_gap() -> None:
    """Promise 9: the feed keeps so much and no more, and a slow reader hears that something is missing."""

    async def hello() -> dict[str, Any]:
        return {}

    feed = Feed(hello)
    news = feed.follow(None)
    assert (await anext(news)).gap is None
    feed.publish([b"first"])
    assert [line for _, line in (await anext(news)).items] == [b"first"]
    feed.publish([b"x"] * (2 * KEPT + 1))
    behind = await anext(news)
    assert behind.gap is not None and behind.gap["head_seq"] - behind.gap["oldest_seq"] == KEPT - 1
    feed.publish([b"last"])
    assert [line for _, line in (await anext(news)).items] == [b"last"]
    await news.aclose()
