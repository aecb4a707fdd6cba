"""AGENTS.md: the root's is always told, those below it once something beside them is touched, never what a link leads out to."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from rooms import Room

from palaver.context.agents_md import LONGEST, AgentsFiles
from palaver_daemon import palaver, scripted
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Room(workspace)


def told(room: Room, *touched: str) -> str:
    return asyncio.run(AgentsFiles(room.reach()).told(touched))


def test_the_roots_comes_first_and_the_nearest_last(room: Room) -> None:
    for folder in ("", "web/", "web/app/", "other/"):
        room.write(f"{folder}AGENTS.md", f"Rules of [{folder}]")
    assert told(room) == "# AGENTS.md of the workspace\n\nRules of []"
    text = told(room, "web/app/src/main.ts", "web/readme.md")
    assert [text.index(f"[{folder}]") for folder in ("", "web/", "web/app/")] == sorted(
        text.index(f"[{f}]") for f in ("", "web/", "web/app/")
    )
    assert "for files below web/app/, where it goes before those above it" in text
    assert "[other/]" not in text
    assert told(room, "web/a", "web/b", "web/AGENTS.md").count("[web/]") == 1
    assert "[other/]" in told(room, "other"), "a folder that was listed is touched"


@pytest.mark.parametrize("path", ["../secret/x", "/etc/passwd", ".", "", "no/such/folder/x", "a/../../secret/x"])
def test_what_lies_outside_or_nowhere_instructs_nobody(room: Room, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "AGENTS.md").write_text("outside")
    assert told(room, path) == ""


def test_what_is_no_plain_text_file_of_the_workspace_instructs_nobody(room: Room, tmp_path: Path) -> None:
    """SECURITY 13: no link out, no pipe, no folder, nothing binary."""
    (tmp_path / "AGENTS.md").write_text("outside")
    (room.workspace / "AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    room.write("binary/AGENTS.md", b"a\0b")
    (room.workspace / "folder" / "AGENTS.md").mkdir(parents=True)
    (room.workspace / "pipe").mkdir()
    os.mkfifo(room.workspace / "pipe" / "AGENTS.md")
    (room.workspace / "linked").symlink_to(tmp_path)
    assert told(room, "binary/x", "folder/x", "pipe/x", "linked/x") == ""


def test_a_long_one_is_cut_and_says_so(room: Room) -> None:
    room.write("AGENTS.md", "x" * (LONGEST + 7))
    assert told(room).endswith("\n[… 7 characters more: read the file]")


async def test_the_model_is_told_the_nearest_once_the_turn_touches_files_beside_it(tmp_path: Path) -> None:
    steps = [calls(("read_file", {"path": "web/a.ts"})), calls(("read_file", {"path": "web/a.ts"})), text("done"), text("again")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        (here.workspace / "web").mkdir()
        (here.workspace / "web" / "a.ts").write_text("let a = 1\n")
        (here.workspace / "AGENTS.md").write_text("Write tests.")
        (here.workspace / "web" / "AGENTS.md").write_text("Use tabs.")
        async with here.chat(system_prompt="Be kind.", mode="edit") as chat:
            await chat.runs("go")
            systems = [one["messages"][0]["content"] for one in model.requests]
            assert all(one.count("Write tests.") == 1 and "Be kind." in one and "Mode: edit" in one for one in systems)
            assert [one.count("Use tabs.") for one in systems] == [0, 1, 1]
            (here.workspace / "AGENTS.md").write_text("Write no tests.")
            await chat.runs("again")
            last = model.requests[-1]["messages"][0]["content"]
            assert "Write no tests." in last and "Use tabs." in last
            assert [one["role"] for one in model.requests[-1]["messages"]].count("system") == 1
