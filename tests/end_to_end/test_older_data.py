"""A log of an older version always opens: data folders as they were once written, kept in `golden/data_v*`, and what was served of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from make_data_folder import serve
from palaver.wire.codec import VERSION
from palaver_daemon import check_log, palaver_process

pytestmark = pytest.mark.anyio

KEPT = sorted((Path(__file__).parents[2] / "golden").glob("data_v*"))
CACHES = ("checkpoint", "index.sqlite*")
"""Files that a start can make again from the logs."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def kept(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def copy(kept: Path, folder: Path, *, without: tuple[str, ...] = ()) -> None:
    """The kept folder as `data` below `folder`, with the modes that a daemon gave it, which git does not keep."""
    data = folder / "data"
    shutil.copytree(kept / "data", data, ignore=shutil.ignore_patterns(*without))
    for path in (data, *data.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def missing(old: Any, new: Any, path: str = "") -> list[str]:
    """Where `new` is not what `old` was. An object may have got more fields."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [said for name in old for said in missing(old[name], new.get(name), f"{path}/{name}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [said for place, pair in enumerate(zip(old, new, strict=True)) for said in missing(*pair, f"{path}/{place}")]
    return [] if old == new else [f"{path}: {str(old)[:80]} is now {str(new)[:80]}"]


def test_there_is_a_kept_folder_of_the_version_that_is_written_now(kept: Path) -> None:
    """API.md, Files: old folders are kept as golden cases."""
    logs = [log.read_bytes() for log in kept.glob("data/*/*/events.ndjson")]
    assert {f"data_v{json.loads(line)['v']}" for log in logs for line in log.splitlines()} == {kept.name}
    assert f"data_v{VERSION}" in [folder.name for folder in KEPT]


@pytest.mark.parametrize("without", [(), CACHES], ids=["whole", "without caches"])
async def test_a_daemon_serves_an_older_folder_as_it_was(kept: Path, tmp_path: Path, without: tuple[str, ...]) -> None:
    """API.md, Files: lists, inbox, rules, transcripts, queues and drafts say what they said. What a start adds is `turn_parked`."""
    copy(kept, tmp_path, without=without)
    async with palaver_process(tmp_path) as here:
        assert missing(json.loads((kept / "served.json").read_text()), await serve(here)) == []
        for session in (await here.ask("GET", "/v1/sessions"))["sessions"]:
            events = (await here.ask("GET", f"/v1/sessions/{session['id']}/events?format=json&limit=10000"))["events"]
            assert events == [json.loads(line) for line in here.lines(session["id"])]
        await here.end()
    for log in (kept / "data").rglob("events.ndjson"):
        old, new = log.read_bytes(), (tmp_path / "data" / log.relative_to(kept / "data")).read_bytes()
        assert new.startswith(old)
        assert {json.loads(line)["type"] for line in new[len(old) :].splitlines()} <= {"turn_parked"}


async def test_an_older_folder_goes_on(kept: Path, tmp_path: Path) -> None:
    """API.md, Files; promise 4: the ask that waited is answered once, the queue runs, each open session takes another message."""
    copy(kept, tmp_path)
    async with palaver_process(tmp_path) as here:
        for ask in await here.inbox():
            await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
            async with here.chat(ask["session_id"]) as chat:
                assert (await chat.ended(ask["turn_id"]))["outcome"] == "completed"
        sessions = [one for one in (await here.ask("GET", "/v1/sessions"))["sessions"] if one["status"] != "completed"]
        for session in sessions:
            async with here.chat(session["id"]) as chat:
                queued = [item["turn_id"] for item in (await chat.get("queue"))["items"]]
                if queued:
                    await chat.post("queue/resume")
                sent = await chat.say("write 2 words")
                for turn in (*queued, sent["turn_id"]):
                    assert (await chat.ended(turn))["outcome"] == "completed"
                await chat.post("fork")
        ids = {one["id"] for one in (await here.ask("GET", "/v1/sessions"))["sessions"]}
        await here.end()
    for log in (kept / "data" / "sessions").rglob("events.ndjson"):
        now = tmp_path / "data" / log.relative_to(kept / "data")
        assert now.read_bytes().startswith(log.read_bytes())
        check_log([json.loads(line) for line in now.read_bytes().splitlines()])
    async with palaver_process(tmp_path) as here:
        assert {one["id"] for one in (await here.ask("GET", "/v1/sessions"))["sessions"]} == ids
        assert await here.inbox() == []
