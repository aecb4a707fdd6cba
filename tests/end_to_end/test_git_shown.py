"""What git says of a session's folder, in the list and for watchers: CLIENTS.md 2."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from palaver_daemon import Here, Json, palaver, row_of


def repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for words in (["init", "-q", "-b", "trunk"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=folder, check=True)


async def listed(here: Here) -> list[Json]:
    found: list[Json] = (await here.ask("GET", "/v1/sessions"))["sessions"]
    return found


def test_the_branch_and_whether_it_is_dirty_stand_in_list_session_and_workspaces(tmp_path: Path) -> None:
    async def run() -> None:
        repository(tmp_path / "work")
        async with palaver(tmp_path) as here, here.socket() as ws, here.chat(mode="auto") as chat:
            clean = {"branch": "trunk", "dirty": False}
            [row] = await listed(here)
            assert row["git"] == clean and row == row_of(await chat.get())
            assert (await here.ask("GET", "/v1/workspaces"))["workspaces"][0]["git"] == clean
            await ws.send(json.dumps({"op": "watch"}))
            await chat.runs('write the file new.txt with "x"')
            async with asyncio.timeout(10):
                while True:
                    frame = json.loads(await ws.recv())
                    if frame["type"] == "session_changed" and frame["data"]["session"].get("git") == {"branch": "trunk", "dirty": True}:
                        break
            assert (await listed(here))[0]["git"]["dirty"]
            kept = json.loads((here.data / "sessions" / chat.id / "session.json").read_bytes())
            assert "git" not in kept

    asyncio.run(run())


def test_a_folder_without_a_repository_says_nothing_of_git(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat:
            assert "git" not in await chat.get() and "git" not in (await listed(here))[0]
            repository(tmp_path / "work")
            await chat.runs("write 3 words")  # something ran: it is looked at again
            async with asyncio.timeout(10):
                while "git" not in await chat.get():
                    await asyncio.sleep(0.02)

    asyncio.run(run())
