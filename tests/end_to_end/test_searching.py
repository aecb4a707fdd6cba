"""`GET /v1/search`, over HTTP: CLIENTS.md 3."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from palaver.daemon import build
from palaver.log.folders import DataFolder
from palaver.settings import load
from palaver_daemon import Client, Json, palaver


async def hits(client: Client, query: str, **more: Any) -> list[Json]:
    """Every hit, page by page."""
    found: list[Json] = []
    cursor = ""
    while True:
        given = "".join(f"&{name}={value}" for name, value in more.items()) + cursor
        page = await client.ask("GET", f"/v1/search?q={quote(query)}{given}")
        assert page["complete"]
        found += page["hits"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def test_messages_calls_and_paths_are_found_at_once_with_what_is_around(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat(mode="auto", title="One") as chat:
            await chat.runs('please write the file zebra.txt with "quagga 😀 okapi"')
            said, *_ = await hits(here, "PLEASE WRITE")
            message = chat.of("message_added")[0]
            assert said == {
                "session_id": chat.id,
                "session_title": "One",
                "message_id": message["data"]["message"]["id"],
                "seq": message["seq"],
                "role": "user",
                "ts": message["ts"],
                "before": "",
                "match": "please write",
                "after": ' the file zebra.txt with "quagga 😀 okapi"',
            }
            call = chat.of("tool_call_started")[0]
            called = [hit for hit in await hits(here, "quagga 😀") if hit["role"] == "tool"]
            assert call["data"]["message_id"] in {hit["message_id"] for hit in called}
            assert call["seq"] in {hit["seq"] for hit in await hits(here, "zebra.txt")}
            around = await chat.get(f"transcript?around={called[0]['message_id']}")
            assert any(entry["message"] and entry["message"]["id"] == called[0]["message_id"] for entry in around["entries"])
            assert await hits(here, "nobody said this") == []

    asyncio.run(run())


def test_pages_give_every_hit_once_the_newest_first_also_within_a_session(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            ids = [await here.new_session() for _ in range(3)]
            for number in range(12):
                body = {"role": "user", "auto_run": False, "parts": [{"type": "text", "text": f"needle number {number} ab"}]}
                await here.ask("POST", f"/v1/sessions/{ids[number % 3]}/messages", body)
            for query in ("needle", "ab", "NUMBER needle"):  # with trigrams, without, and by words
                found = await hits(here, query, limit=5)
                texts = [hit["before"] + hit["match"] + hit["after"] for hit in found]
                assert sorted(texts) == sorted(f"needle number {number} ab" for number in range(12))
                times = [hit["ts"] for hit in found]
                assert times == sorted(times, reverse=True)
            mine = await hits(here, "needle", limit=3, session=ids[1])
            assert [hit["after"] for hit in mine] == [f" number {number} ab" for number in (10, 7, 4, 1)]
            titles = await here.ask("GET", "/v1/sessions?q=needle")
            assert {one["id"] for one in titles["sessions"]} == set(ids)  # their first line is their title
            assert (await here.ask("GET", "/v1/sessions?q=number%2011"))["sessions"] == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 422, "invalid"),
        ("q=", 422, "invalid"),
        ("q=%20%20", 422, "invalid"),
        (f"q={'x' * 257}", 422, "invalid"),
        ("q=x&cursor=nonsense", 422, "invalid"),
        ("q=x&cursor=-1", 422, "invalid"),
        (f"q=x&cursor={'9' * 60}", 422, "invalid"),
        ("q=x&limit=0", 422, "invalid"),
        ("q=x&session=sess_none", 404, "not_found"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(tmp_path: Path, query: str, status: int, code: str) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            answer = await here.answer("GET", f"/v1/search?{query}")
            assert (answer.status, answer.code) == (status, code)

    asyncio.run(run())


@pytest.mark.parametrize("query", ['"', "'", "a AND b", "NEAR(", "*", "%", "-x", "a:b", "col : x", "\\", "(", "ab\u00e9"])
def test_no_query_is_taken_for_an_expression(tmp_path: Path, query: str) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat:
            await chat.say(f"before {query} after", auto_run=False)
            await chat.say("nothing of it", auto_run=False)
            assert [hit["match"] for hit in await hits(here, query)] == [query]

    asyncio.run(run())


def test_what_a_deleted_session_said_is_found_no_more_and_is_not_kept(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat, here.chat() as other:
            for one in (chat, other):
                await one.say("shibboleth", auto_run=False)
            assert len(await hits(here, "shibboleth")) == 2
            await here.ask("DELETE", chat.path)
        with closing(sqlite3.connect(tmp_path / "data" / "index.sqlite")) as database:
            assert database.execute("SELECT DISTINCT session_id FROM said").fetchall() == [(other.id,)]
        async with palaver(tmp_path) as here:
            assert [hit["session_id"] for hit in await hits(here, "shibboleth")] == [other.id]

    asyncio.run(run())


def test_an_index_that_is_missing_old_or_wrong_is_made_again(tmp_path: Path) -> None:
    async def run() -> None:
        index = tmp_path / "data" / "index.sqlite"

        def damage(statement: str) -> None:
            with closing(sqlite3.connect(index)) as database, database:
                database.execute(statement)

        async with palaver(tmp_path) as here, here.chat() as chat:
            await chat.say("shibboleth one", auto_run=False)
            await chat.say("shibboleth two", auto_run=False)
            assert len(await hits(here, "shibboleth")) == 2
        harms: tuple[Callable[[], object], ...] = (
            index.unlink,
            lambda: index.write_bytes(b"no database at all" * 100),
            lambda: damage("UPDATE made SET what = 'another version'"),
            lambda: damage("UPDATE searched SET seq = 1, head = NULL"),
            lambda: damage("UPDATE searched SET seq = 99, head = 99"),
            lambda: damage("DROP TABLE said_words"),
            lambda: damage("UPDATE sessions SET head_seq = 1"),
        )
        for number, harm in enumerate(harms):
            harm()
            async with palaver(tmp_path) as here, here.chat(chat.id) as chat_again:
                await chat_again.say(f"shibboleth {number}", auto_run=False)
                found = [hit["after"] for hit in await hits(here, "shibboleth")]
                assert found == [*(f" {one}" for one in reversed(range(number + 1))), " two", " one"], number

    asyncio.run(run())


def test_the_sessions_of_a_full_folder_are_taken_in_beside_everything_else(tmp_path: Path) -> None:
    """The list is answered while the index fills, and idle sessions are not loaded for it."""

    async def run() -> None:
        async with palaver(tmp_path) as here:
            original = await here.new_session()
            for number in range(40):
                body = {"role": "user", "auto_run": False, "parts": [{"type": "text", "text": f"grain {number} " + "sand " * 2000}]}
                await here.ask("POST", f"/v1/sessions/{original}/messages", body)
        folder = tmp_path / "data" / "sessions"
        log = (folder / original / "events.ndjson").read_bytes()
        shown = json.loads((folder / original / "session.json").read_bytes())
        for number in range(60):
            id = f"sess_{number:026d}"
            (folder / id).mkdir(mode=0o700)
            (folder / id / "events.ndjson").write_bytes(log.replace(original.encode(), id.encode()))
            (folder / id / "session.json").write_text(json.dumps({**shown, "id": id, "head_seq": log.count(b"\n")}))
        (tmp_path / "data" / "index.sqlite").unlink()
        async with palaver(tmp_path) as here:
            searching = asyncio.create_task(here.ask("GET", "/v1/search?q=grain&limit=200"))
            lists = 0
            while not searching.done():
                await here.ask("GET", "/v1/sessions?limit=5")
                lists += 1
            assert lists >= 3
            async with asyncio.timeout(20):
                while not (page := await here.ask("GET", "/v1/search?q=grain%2039&limit=200"))["complete"]:
                    await asyncio.sleep(0.01)
            assert len(page["hits"]) == 61 and not here.in_memory

    asyncio.run(run())


def test_a_disk_that_takes_nothing_is_said_and_the_list_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        data = DataFolder(tmp_path / "data")
        data.prepare()
        (tmp_path / "data" / "index.sqlite").mkdir()  # nothing can be written there
        built = build(load(None, {"HOME": str(tmp_path)}), data, env={})
        built.sessions.start()
        assert (await built.hub.list(status=None, workspace=None, q=None, parent=None, limit=5, cursor=None))["sessions"] == []
        with pytest.raises(Exception, match="disk takes no writes"):
            await built.hub.search("x", session=None, limit=5, cursor=None)
        await built.close()

    asyncio.run(run())
