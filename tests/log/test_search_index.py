"""The index of what was said, over logs and rows that the test writes: `log/search.py`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palaver.log.index import Row, SessionIndex
from palaver.log.search import SearchIndex
from palaver.views import search

pytestmark = pytest.mark.anyio

SESSION = "sess_1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def line(seq: int, text: str) -> bytes:
    message = {"id": f"msg_{seq}", "role": "user", "parts": [{"type": "text", "text": text, "id": "part_1"}]}
    whole = {**message, "created_at": "2026-01-01T00:00:00.000Z", "author": {"kind": "user"}}
    head = {"v": 1, "seq": seq, "ts": "2026-01-01T00:00:00.000Z", "session_id": SESSION, "turn_id": None}
    return json.dumps({**head, "type": "message_added", "data": {"message": whole}}, separators=(",", ":")).encode() + b"\n"


def row(head: int) -> Row:
    return Row(SESSION, "2026-01-01T00:00:00.000Z", "active", "/w", "title", False, None, None, head, b"{}")


class World:
    """One session's log and row, and the indexes over them."""

    def __init__(self, folder: Path, *, trigrams: bool = True) -> None:
        self.log = folder / "events.ndjson"
        self.list = SessionIndex(folder / "index.sqlite", list)
        self.said = SearchIndex(self.list, lambda session_id: self.log, search, can_do=lambda: trigrams)

    def write(self, *texts: str, head: int) -> None:
        self.log.write_bytes(b"".join(line(seq, text) for seq, text in enumerate(texts, 1)))
        self.list.put(row(head))

    async def finds(self, query: str) -> list[int]:
        """The numbers of the events that have it, once everything was taken in."""
        jobs = 0
        while await self.said.catch_up():
            jobs += 1
            assert jobs < 1000
        return [hit.seq for hit in (await self.said.find(query, session=None, limit=100, cursor=None)).hits]


@pytest.mark.parametrize("trigrams", [True, False])
async def test_what_is_not_in_the_list_yet_is_not_found_yet(tmp_path: Path, trigrams: bool) -> None:
    """A log may hold lines that no sync has covered: the row knows how far it is safe."""
    world = World(tmp_path, trigrams=trigrams)
    world.write("needle one", "needle two", "needle three", head=2)
    assert await world.finds("needle") == [2, 1]
    world.list.put(row(3))
    assert await world.finds("needle") == [3, 2, 1]
    assert await world.finds("ee") == [3, 2, 1] and await world.finds("two needle") == [2]
    await world.list.close()


@pytest.mark.parametrize("trigrams", [True, False])
async def test_a_log_that_was_replaced_is_read_anew(tmp_path: Path, trigrams: bool) -> None:
    world = World(tmp_path, trigrams=trigrams)
    world.write("old one", "old two", "old three", head=3)
    assert await world.finds("old") == [3, 2, 1]
    world.write("new one", head=1)
    assert await world.finds("old") == [] and await world.finds("new") == [1]
    await world.list.close()


@pytest.mark.parametrize("content", [b"", b"no log\n", line(5, "needle"), line(1, "needle")[:-5], b"\n\n\n"])
async def test_what_is_no_log_is_left_alone_and_asked_once(tmp_path: Path, content: bytes) -> None:
    world = World(tmp_path)
    world.log.write_bytes(content)
    world.list.put(row(3))
    assert await world.finds("needle") == []
    assert not await world.said.catch_up()
    world.log.unlink()
    world.list.put(row(4))
    assert await world.finds("needle") == []
    await world.list.close()


async def test_a_long_log_is_taken_in_by_short_jobs_and_its_longest_line_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(*(f"grain <{number}> " + "sand " * (100_000 if number == 7 else 100) for number in range(2000)), head=2000)
    assert await world.said.catch_up()
    assert await world.finds("grain <7> sand") == [8] and await world.finds("grain <1999>") == [2000]
    await world.list.close()


async def test_an_sqlite_that_can_do_more_or_less_than_the_last_one_makes_the_tables_anew(tmp_path: Path) -> None:
    for trigrams in (True, False, True):
        world = World(tmp_path, trigrams=trigrams)
        world.write("needle one", head=1)
        assert await world.finds("needle") == [1]
        await world.list.close()
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as database:
            assert database.execute("SELECT what FROM made").fetchall() == [(f"search 1 {trigrams}",)]
