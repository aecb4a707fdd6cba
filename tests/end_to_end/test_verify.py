"""A turn that changed files checks its work by itself: an ordinary call that everybody sees, and a failure that the model hears of."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, palaver, process_is_there, scripted, until
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio

MAKEFILE = "test:\n\t@grep -q good state && echo all is good\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def put(words: str) -> Step:
    return calls(("shell", {"command": f"echo {words} >> state"}))


@asynccontextmanager
async def told(
    tmp_path: Path, *steps: Step, makefile: str = MAKEFILE, config: str = "", mode: str = "auto", **fields: Any
) -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    """A session whose model says these steps, in a workspace with that Makefile."""
    (tmp_path / "work").mkdir(exist_ok=True)
    if makefile:
        (tmp_path / "work" / "Makefile").write_text(makefile)
    async with ScriptedModel(steps) as model, palaver(tmp_path, config=config, env=scripted(model.url), **fields) as here:
        async with here.chat(mode=mode) as chat:
            yield here, chat, model


def checks(chat: Chat) -> list[Json]:
    """The calls that no message holds."""
    return [one["data"] for one in chat.of("tool_call_started") if one["data"]["message_id"] is None]


def unchecked(chat: Chat) -> list[Json]:
    """The notices that there is nothing to check with; where no sandbox holds, the session says that too."""
    return [one for one in chat.of("notice") if one["data"]["code"] == "not_verified"]


def verdicts(chat: Chat) -> list[bool]:
    return [one["data"]["ok"] for one in chat.of("verify_completed")]


async def test_a_turn_that_changed_files_is_checked_by_a_call_of_its_own(tmp_path: Path) -> None:
    """S4-09, S4-47, S4-73: after the last answer, visible, with its output; what passes ends the turn."""
    async with told(tmp_path, put("good"), text("done")) as (_, chat, model):
        ended = await chat.runs("go")
        assert (ended["outcome"], len(model.requests)) == ("completed", 2)
        [check] = checks(chat)
        assert (check["tool_call"]["name"], check["title"], check["kind"]) == ("verify", "Verify: make test", "exec")
        assert check["tool_call"]["input"] == {"commands": ["make test"]}
        result = chat.result(check["tool_call"]["id"])
        assert result["ok"] and "all is good" in result["parts"][0]["text"]
        [ref] = result["artifacts"]
        types = [one["type"] for one in chat.reader.events]
        last = len(types) - types[::-1].index("tool_call_completed") - 1
        assert types[last - 1] == "verify_completed" and "turn_completed" in types[last:]
        verified = chat.of("verify_completed")[0]["data"]
        assert verified["tool_call_id"] == check["tool_call"]["id"]
        [run] = verified["commands"]
        assert (run["command"], run["exit_code"], run["artifact"]) == ("make test", 0, ref)
        check_ended(await chat.check())
        assert await chat.transcript() == chat.reader.page()


async def test_what_failed_is_told_to_the_model_which_mends_it(tmp_path: Path) -> None:
    """S4-47, T-15 (failing, repeated after edit): the model reads the failure as a note, and the mended files are checked again."""
    async with told(tmp_path, put("bad"), text("done"), put("good"), text("mended")) as (_, chat, model):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert verdicts(chat) == [False, True]
        note = model.requests[2]["messages"][-1]
        assert note["role"] == "user" and "`verify` was run automatically, it failed" in str(note["content"])
        assert "Exit code" in str(note["content"])
        assert "it succeeded" not in str(model.requests[3]["messages"])
        check_ended(await chat.check())


@pytest.mark.parametrize("attempts", [0, 2])
async def test_what_fails_for_ever_ends_the_turn(tmp_path: Path, attempts: int) -> None:
    """S4-47, DESIGN 5.5: fed back a bounded number of times."""
    steps = [step for _ in range(5) for step in (put("bad"), text("done"))]
    async with told(tmp_path, *steps, config=f"[verify]\nattempts = {attempts}\n") as (_, chat, model):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert verdicts(chat) == [False] * (attempts + 1)
        assert len(model.requests) == 2 * (attempts + 1)


async def test_a_check_that_fails_only_sometimes_is_run_again_after_the_next_edit(tmp_path: Path) -> None:
    """T-15: flaky: the same files may pass the second time, and what the model heard of is the first result, once."""
    flaky = "test:\n\t@if [ -e ../again ]; then echo passed; else touch ../again; echo flaked; exit 1; fi\n"
    async with told(tmp_path, put("one"), text("done"), put("two"), text("done now"), makefile=flaky) as (_, chat, model):
        assert (await chat.runs("go"))["outcome"] == "completed"
        results = [chat.result(one["tool_call"]["id"]) for one in checks(chat)]
        assert [result["ok"] for result in results] == [False, True]
        assert "flaked" in str(model.requests[2]["messages"][-1]) and len(model.requests) == 4
        assert str(model.requests[3]["messages"]).count("flaked") == 1


async def test_a_model_that_changes_nothing_after_a_failure_is_not_checked_again(tmp_path: Path) -> None:
    async with told(tmp_path, put("bad"), text("done"), text("I cannot mend it")) as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert verdicts(chat) == [False]


async def test_a_check_that_the_model_made_itself_is_not_made_again(tmp_path: Path) -> None:
    """S4-64: and what its call left out, the call in the log names."""
    async with told(tmp_path, put("good"), calls(("verify", {})), text("done")) as (_, chat, _):
        await chat.runs("go")
        assert (checks(chat), verdicts(chat)) == ([], [True])
        call = chat.of("tool_call_started")[-1]["data"]["tool_call"]
        assert (call["name"], call["input"]) == ("verify", {"commands": ["make test"]})


async def test_files_that_were_checked_once_are_not_checked_again_by_the_next_turn(tmp_path: Path) -> None:
    look = calls(("shell", {"command": "cat state"}))
    async with told(tmp_path, put("good"), text("done"), look, text("there"), calls(("read_file", {"path": "state"})), text("read")) as all:
        _, chat, _ = all
        for said in ("go", "look", "read"):
            assert (await chat.runs(said))["outcome"] == "completed"
        assert verdicts(chat) == [True]


async def test_a_turn_that_only_reads_is_not_checked(tmp_path: Path) -> None:
    """DESIGN 5.5: also where files change meanwhile by somebody else's hand."""
    async with told(tmp_path, calls(("read_file", {"path": "Makefile"})), text("read"), text("hello")) as (here, chat, _):
        await chat.runs("read")
        (here.workspace / "mine").write_text("x")
        await chat.runs("hello")
        assert checks(chat) == [] and unchecked(chat) == []


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """S4-09, S4-65: `auto = false`; the tool is still there for the model."""
    async with told(tmp_path, put("bad"), text("done"), config="[verify]\nauto = false\n") as (_, chat, model):
        await chat.runs("go")
        assert checks(chat) == [] and unchecked(chat) == [] and chat.of("verify_completed") == []
        assert "verify" in [tool["function"]["name"] for tool in model.requests[0]["tools"]]


async def test_where_nothing_says_how_to_check_the_session_hears_so_once(tmp_path: Path) -> None:
    """T-15: no commands configured. Also after a restart."""
    (tmp_path / "work").mkdir()
    async with ScriptedModel([step for _ in range(3) for step in (put("x"), text("done"))]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
            await chat.runs("one")
            await chat.runs("two")
            [notice] = unchecked(chat)
            assert (notice["data"]["code"], notice["data"]["level"]) == ("not_verified", "info")
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(chat.id) as again:
            await again.runs("three")
            assert len(unchecked(again)) == 1 and checks(again) == []
            check_ended(await again.check())


async def test_the_settings_say_what_runs(tmp_path: Path) -> None:
    """S4-65, API: `[verify] commands`, before what the workspace says."""
    config = '[verify]\ncommands = ["echo first", "grep -q good state"]\n'
    async with told(tmp_path, put("good"), text("done"), config=config) as (_, chat, _):
        await chat.runs("go")
        assert [run["command"] for run in chat.of("verify_completed")[0]["data"]["commands"]] == ["echo first", "grep -q good state"]


# --- policy -------------------------------------------------------------------------------------------------------------------


async def _approve_shell(here: Here, chat: Chat) -> Json:
    """Let the model's own call pass; the check's approval."""
    [shell] = await chat.asks()
    await here.ask("POST", f"/v1/approvals/{shell['id']}", {"action": "approve"})
    await chat.happens("approval_requested", 2)
    [item] = await chat.asks()
    return item


async def test_a_check_is_asked_like_any_command(tmp_path: Path) -> None:
    """DESIGN 5.5, S4-44: how the answer is remembered: test_trust.py."""
    async with told(tmp_path, put("good"), text("done"), mode="ask") as (here, chat, _):
        turn = (await chat.say("go"))["turn_id"]
        item = await _approve_shell(here, chat)
        asked = chat.of("approval_requested")[-1]["data"]
        assert (asked["tool_call"]["name"], asked["preview"]["command"]) == ("verify", "make test")
        assert asked["subject"] == "trust"
        assert chat.of("verify_completed") == []
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve"})
        assert (await chat.ended(turn))["outcome"] == "completed"
        assert verdicts(chat) == [True]


async def test_a_check_that_is_denied_ends_the_turn_well(tmp_path: Path) -> None:
    """T-15: denied. The model is not asked to mend anything."""
    async with told(tmp_path, put("bad"), text("done"), mode="ask") as (here, chat, model):
        turn = (await chat.say("go"))["turn_id"]
        item = await _approve_shell(here, chat)
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "deny"})
        assert (await chat.ended(turn))["outcome"] == "completed"
        assert chat.result(checks(chat)[0]["tool_call"]["id"])["error"]["code"] == "tool_denied"
        assert (verdicts(chat), len(model.requests)) == ([], 2)
        check_ended(await chat.check())


async def test_a_rule_that_denies_the_command_denies_the_check(tmp_path: Path) -> None:
    """SECURITY 11: each command is judged as if the model had called it."""
    config = '[[approval.rules]]\ndecision = "deny"\nkind = "exec"\ncommand = "make"\n'
    async with told(tmp_path, put("bad"), text("done"), config=config) as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert chat.result(checks(chat)[0]["tool_call"]["id"])["error"]["code"] == "tool_denied"


@pytest.mark.parametrize("words", ["good", "bad"])
async def test_a_check_that_waits_for_a_person_lives_through_a_restart(tmp_path: Path, words: str) -> None:
    """Promise 4: what passes then ends the turn, what fails is told to the model."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Makefile").write_text(MAKEFILE)
    async with ScriptedModel([put(words), text("done"), text("I see")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="ask") as chat:
            turn = (await chat.say("go"))["turn_id"]
            item = await _approve_shell(here, chat)
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(chat.id) as again:
            await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve"})
            assert (await again.ended(turn))["outcome"] == "completed"
            assert verdicts(again) == [words == "good"]
            assert len(model.requests) == (2 if words == "good" else 3)
            check_ended(await again.check())


# --- ending it ----------------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_a_check_that_runs(tmp_path: Path) -> None:
    """T-05, DESIGN 5.7: within 2 s, its processes too, with one result."""
    makefile = "test:\n\techo $$$$ > ../pid; sleep 60\n"
    async with told(tmp_path, put("x"), text("done"), text("on"), makefile=makefile) as (_, chat, _):
        turn = (await chat.say("go"))["turn_id"]
        pid = tmp_path / "pid"
        await until(lambda: pid.exists() and pid.read_text().strip())
        began = asyncio.get_running_loop().time()
        await chat.post("cancel", {"turn_id": turn})
        assert (await chat.ended(turn))["outcome"] == "cancelled"
        assert asyncio.get_running_loop().time() - began < 2.0
        assert not process_is_there(int(pid.read_text()))
        assert chat.result(checks(chat)[0]["tool_call"]["id"])["error"]["code"] == "tool_interrupted"
        assert verdicts(chat) == []
        assert (await chat.runs("and now"))["outcome"] == "completed"
        check_ended(await chat.check())


# --- what a check is tied to ----------------------------------------------------------------------------------------------------


async def test_a_check_is_tied_to_content_and_a_later_write_makes_it_stale(tmp_path: Path) -> None:
    """The hash follows content, not times; the same size at the same time is another hash."""
    write = [
        put("good"),
        text("done"),
        calls(("shell", {"command": "touch -r Makefile state"})),
        text("touched"),
        put("more"),
        text("done"),
    ]
    async with told(tmp_path, *write) as (_, chat, _):
        await chat.runs("go")
        await chat.runs("touch it")
        assert verdicts(chat) == [True], "nothing but a time has changed"
        await chat.runs("go on")
        hashes = [one["data"]["workspace_hash"] for one in chat.of("verify_completed")]
        assert len(set(hashes)) == 2


def commit(folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True)


CLEAN = "[verify]\nrequire_clean = true\n"


async def test_a_check_whose_commands_change_files_does_not_count_where_it_must_be_clean(tmp_path: Path) -> None:
    """S4-65: `require_clean`: its commands changed tracked files; the model hears of it and mends it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "formatted").write_text("a\n")
    makefile = "test:\n\techo b >> formatted\n"
    mend = calls(("shell", {"command": "printf 'test:\\n\\ttrue\\n' > Makefile"}))
    async with told(tmp_path, put("x"), text("done"), mend, text("mended"), makefile=makefile, config=CLEAN) as (_, chat, model):
        await chat.runs("go")
        first, second = [one["data"] for one in chat.of("verify_completed")]
        assert (first["ok"], first["clean"], first["dirty"], first["commands"][0]["exit_code"]) == (False, False, ["formatted"], 0)
        assert (second["ok"], second["clean"], second["dirty"]) == (True, True, [])
        assert "they changed files, so this does not count: formatted" in str(model.requests[2]["messages"][-1])
        check_ended(await chat.check())


async def test_a_check_on_changes_that_no_turn_of_the_session_made_does_not_count_where_it_must_be_clean(tmp_path: Path) -> None:
    """S4-65: `require_clean`; what a person left there is nothing that the model is sent to mend."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine").write_text("committed\n")
    (work / "Makefile").write_text(MAKEFILE)
    commit(work)
    (work / "mine").write_text("not committed\n")
    async with told(tmp_path, put("good"), text("done"), put("good"), text("done"), config=CLEAN) as (_, chat, model):
        await chat.runs("go")
        [verified] = [one["data"] for one in chat.of("verify_completed")]
        assert (verified["ok"], verified["clean"], verified["dirty"]) == (False, False, ["mine"])
        [check] = checks(chat)
        assert chat.result(check["tool_call"]["id"])["error"]["code"] == "tool_skipped"
        assert len(model.requests) == 2, "the model is not told to mend it"
        commit(work)
        await chat.runs("again")
        assert verdicts(chat) == [False, True]


async def test_what_the_session_itself_changed_may_lie_there_uncommitted(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "Makefile").write_text(MAKEFILE)
    commit(work)
    async with told(tmp_path, put("good"), text("done"), put("more good"), text("done"), config=CLEAN) as (_, chat, _):
        await chat.runs("go")
        await chat.runs("on")
        assert [(one["data"]["ok"], one["data"]["dirty"]) for one in chat.of("verify_completed")] == [(True, []), (True, [])]
