"""SECURITY 14 through a whole daemon: commands are held by default, and where nothing holds them people are told."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from palaver.sandbox.variants import Sandbox
from palaver_daemon import palaver, palaver_process, process_is_there, texts, until

pytestmark = pytest.mark.anyio
HOLDS = Sandbox().look().variant is not None
TOLD = "do all that you can, and answer approvals too"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_command_is_held_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    """The token is not read, nothing is written outside, and the settings tell clients which variant holds."""
    async with palaver(tmp_path, sandbox=True) as here, here.chat(mode="auto") as chat:
        told = (await here.ask("GET", "/v1/settings"))["sandbox"]
        assert (told["variant"] is not None) is HOLDS and (HOLDS or told["reason"])
        (tmp_path / "out").mkdir()
        # the data folder is named in pieces: the policy's own look at the words is tried elsewhere
        await chat.runs('run the command `echo in > in; D=da; cat ../${D}ta/token; echo out > ../out/file; echo $TMPDIR > "$TMPDIR/t"`')
        assert (here.workspace / "in").read_text() == "in\n"
        assert (tmp_path / "out" / "file").exists() is not HOLDS
        [call] = [one["data"]["tool_call"]["id"] for one in chat.of("tool_call_started")]
        assert (str(here.token) not in texts(chat.result(call))) is HOLDS


async def test_commands_of_one_session_share_a_temporary_folder_that_ends_with_it(tmp_path: Path) -> None:
    async with palaver(tmp_path, sandbox=True) as here, here.chat(mode="auto") as chat:
        if not HOLDS:
            return
        first, second = 'echo kept > "$TMPDIR/kept"; echo $TMPDIR > place', 'cat "$TMPDIR/kept" > found'
        await chat.runs(f"run the command `{first}` then run the command `{second}`")
        assert (here.workspace / "found").read_text() == "kept\n"
        place = Path((here.workspace / "place").read_text().strip())
        assert place.is_dir() and not place.is_relative_to(here.workspace)
        await chat.post("close")
        assert not place.exists()


async def test_a_held_command_streams_and_ends_with_its_cancel(tmp_path: Path) -> None:
    """DESIGN 5.7: the whole group ends within two seconds, the supervisor too."""
    of_others = set(children_of(os.getpid()))
    async with palaver(tmp_path, sandbox=True) as here, here.chat(mode="auto") as chat:
        turn = (await chat.say("run the command `echo begun; sleep 600 & sleep 600`"))["turn_id"]
        await chat.happens("tool_output_delta", text="begun\n")
        before = set(children_of(os.getpid())) - of_others
        assert before
        await chat.post("cancel")
        assert (await chat.ended(turn))["outcome"] == "cancelled"
        await until(lambda: not any(map(process_is_there, before)))


def children_of(parent: int) -> list[int]:
    """Every process below this one, where there is a /proc."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for pid in found:
        found += [child for child, above in parents.items() if above == pid]
    return found[1:]


async def test_without_a_sandbox_the_card_and_the_mode_switch_say_so_and_auto_takes_admin(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, here.chat() as chat:
        turn = (await chat.say("run the command `echo x`"))["turn_id"]
        [item] = await chat.asks()
        assert TOLD in item["data"]["reason"]
        await chat.post("cancel")
        await chat.ended(turn)
        token = await here.mint("approve")
        refused = await here.answer("PATCH", chat.path, {"mode": "auto"}, token=token)
        assert (refused.status, refused.json["code"], refused.json["needed"]) == (403, "scope", "admin")
        assert TOLD in refused.json["detail"]
        refused = await here.answer("POST", "/v1/sessions", {"workspace_path": str(here.workspace), "mode": "auto"}, token=token)
        assert refused.status == 403
        await here.ask("PATCH", chat.path, {"mode": "edit"}, token=token)
        await here.ask("PATCH", chat.path, {"mode": "auto"})
        assert TOLD in (await chat.happens("notice", code="no_sandbox"))["data"]["text"]


async def test_where_a_sandbox_holds_approve_is_enough_for_auto_and_the_card_is_silent(tmp_path: Path) -> None:
    async with palaver(tmp_path, sandbox=True) as here, here.chat() as chat:
        await chat.say("run the command `echo x`")
        [item] = await chat.asks()
        assert (TOLD in (item["data"].get("reason") or "")) is not HOLDS
        status = (await here.answer("PATCH", chat.path, {"mode": "auto"}, token=await here.mint("approve"))).status
        assert status == (200 if HOLDS else 403)


async def test_what_the_hooks_path_names_is_asked_in_mode_edit(tmp_path: Path) -> None:
    """SECURITY 15."""
    async with palaver(tmp_path) as here, here.chat(mode="edit") as chat:
        (here.workspace / ".git").mkdir()
        (here.workspace / ".git" / "config").write_text("[core]\n\thooksPath = tools/hooks\n")
        await chat.say('write the file tools/hooks/post-commit with "x" then write the file tools/other with "x"')
        [item] = await chat.asks()
        assert "tools/hooks/post-commit" in item["data"]["reason"]
        assert not (here.workspace / "tools" / "hooks").exists()


async def test_what_a_killed_daemon_left_running_in_a_sandbox_is_ended_by_the_next_start(tmp_path: Path) -> None:
    """SECURITY 9: the mark is in the environment of everything that a held call started."""
    async with palaver_process(tmp_path, sandbox=True) as first, first.chat(mode="auto") as chat:
        await chat.say("run the command `echo begun; (setsid sleep 600 &) ; sleep 600`")
        await chat.happens("tool_output_delta", text="begun\n")
        marked = [pid for pid in children_of(first.process.pid) if b"PALAVER_CALL=" in environ(pid)]
        assert marked
        await first.kill()
        assert any(map(process_is_there, marked))
    async with palaver_process(tmp_path, sandbox=True) as second:
        await second.inbox()
        assert not any(map(process_is_there, marked))


def environ(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
