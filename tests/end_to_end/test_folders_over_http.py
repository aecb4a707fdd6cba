"""Files of a workspace, workspaces and folders: CLIENTS.md 3."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from palaver_daemon import Here, palaver


async def names(here: Here, q: str = "", **more: object) -> list[str]:
    extra = "".join(f"&{name}={value}" for name, value in more.items())
    answer = await here.ask("GET", f"/v1/workspace/files?workspace={here.workspace}&q={quote(q)}{extra}")
    return [one["path"] for one in answer["files"]]


def test_files_are_found_by_letters_and_what_gitignore_names_is_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            await here.new_session()
            for path in ("src/handler.py", "build/handler.o", ".env", "note book.txt", ".git/handler", os.fsdecode(b"h\xffndler.txt")):
                (here.workspace / path).parent.mkdir(exist_ok=True)
                (here.workspace / path).touch()
            (here.workspace / "link").symlink_to("/etc")
            (here.workspace / ".gitignore").write_text("build/\n")
            assert await names(here, "handler") == ["src/handler.py"]
            assert "h\ufffdndler.txt" in await names(here, "ndler")
            assert await names(here, "ote b") == ["note book.txt"]
            everything = await names(here)
            assert {"src", ".env", ".gitignore"} <= set(everything) and not {"link", "build", ".git"} & set(everything)
            assert await here.ask("GET", f"/v1/workspace/files?workspace={here.workspace}&q=.&limit=1") == {
                "files": [{"path": ".env", "kind": "file"}],
                "truncated": True,
            }
            (here.workspace / "src").chmod(0o755)
            inside = await here.ask("GET", f"/v1/workspace/files?workspace={here.workspace}/src&q=")
            assert inside["files"] == [{"path": "handler.py", "kind": "file"}]
            assert {one["path"] for one in (await here.ask("GET", f"/v1/workspace/tree?path={here.workspace}"))["entries"]} >= {
                "h\ufffdndler.txt"
            }

    asyncio.run(run())


@pytest.mark.parametrize("place", ["{folder}", "/", "{data}", "relative", "{folder}/none", "{folder}/work/../settings"])
def test_only_known_workspaces_are_looked_into(tmp_path: Path, place: str) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            await here.new_session()
            path = quote(place.format(folder=tmp_path, data=here.data))
            for route in (f"/v1/workspace/files?workspace={path}", f"/v1/workspace/tree?path={path}"):
                answer = await here.answer("GET", route)
                assert (answer.status, answer.code) == (403, "workspace_unknown"), route

    asyncio.run(run())


def test_workspaces_come_with_their_sessions_the_latest_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            assert await here.ask("GET", "/v1/workspaces") == {"workspaces": []}
            other = tmp_path / "other"
            other.mkdir()
            await here.new_session()
            await here.new_session()
            last = await here.new_session(workspace_path=str(other))
            found = (await here.ask("GET", "/v1/workspaces"))["workspaces"]
            assert [(one["path"], one["name"], one["sessions"], one["trusted"]) for one in found] == [
                (str(other), "other", 1, False),
                (str(here.workspace), "work", 2, False),
            ]
            assert found[0]["last_used_at"] == (await here.ask("GET", f"/v1/sessions/{last}"))["updated_at"]
            await here.ask("DELETE", f"/v1/sessions/{last}")
            found = (await here.ask("GET", "/v1/workspaces"))["workspaces"]
            assert [(one["name"], one["sessions"]) for one in found] == [("work", 2), ("other", 0)]
        async with palaver(tmp_path) as here:
            assert len((await here.ask("GET", "/v1/workspaces"))["workspaces"]) == 2

    asyncio.run(run())


def test_folders_are_shown_to_admins_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here:
            for name in ("b", "A", ".hidden", "repo/.git"):
                (tmp_path / "tree" / name).mkdir(parents=True)
            (tmp_path / "tree" / "file").touch()
            assert await here.ask("GET", f"/v1/folders?path={tmp_path}/tree") == {
                "path": f"{tmp_path}/tree",
                "parent": str(tmp_path),
                "folders": [
                    {"name": "A", "git": False},
                    {"name": "b", "git": False},
                    {"name": "repo", "git": True},
                    {"name": ".hidden", "git": False},
                ],
                "truncated": False,
            }
            assert (await here.ask("GET", "/v1/folders?path=/"))["parent"] is None
            assert (await here.ask("GET", "/v1/folders"))["path"] == os.path.realpath(os.path.expanduser("~"))
            for wrong in ("relative", f"{tmp_path}/tree/file", f"{tmp_path}/none"):
                answer = await here.answer("GET", f"/v1/folders?path={wrong}")
                assert (answer.status, answer.json["errors"][0]["path"]) == (422, "path"), wrong
            refused = await here.answer("GET", "/v1/folders", token=await here.mint("read,prompt,approve"))
            assert (refused.status, refused.code) == (403, "scope")

    asyncio.run(run())


def test_a_page_of_the_past_is_the_page_that_was_there_then(tmp_path: Path) -> None:
    """CLIENTS.md 3: `…/transcript?at=` and `…/events?until=`."""

    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat(mode="auto") as chat:
            await chat.runs('write the file a.txt with "one"')
            then = await chat.transcript()
            await chat.runs("write 5 words")
            await chat.say("wait 60 seconds")
            await chat.happens("turn_started", 3)
            seq = then["as_of_seq"]
            assert await chat.get(f"transcript?limit=1000&at={seq}") == then
            newest = await chat.get(f"transcript?limit=1&at={seq}")
            assert newest["entries"] == then["entries"][-1:] and newest["as_of_seq"] == seq
            older = await chat.get(f"transcript?limit=1&at={seq}&before={newest['earlier']}")
            assert older["entries"] == then["entries"][-2:-1]
            for at in range(1, seq + 1, 3):
                past = await chat.get(f"transcript?at={at}&limit=1000")
                assert past["as_of_seq"] == at
            log = await chat.log()
            assert (await chat.get(f"events?until={seq}"))["events"] == log[:seq]
            page = await chat.get(f"events?format=json&after=2&limit=3&until={seq}")
            assert (page["events"], page["next_after"]) == (log[2:5], 5)
            assert (await chat.get("events?until=0"))["events"] == []
            beyond = await chat.refused("GET", "transcript?at=99999")
            assert (beyond.status, beyond.code) == (410, "cursor_ahead")
            assert len(log) <= beyond.json["head_seq"] <= len(await chat.log())  # the turn that runs goes on meanwhile
            assert (await chat.refused("GET", "transcript?at=0")).status == 422
            await chat.post("cancel")

    asyncio.run(run())
