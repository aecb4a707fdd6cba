"""SECURITY 16: a folder's own verify commands are asked once, and trusted with the files that say what they run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palaver.daemon import Daemon
from palaver.sandbox.variants import Sandbox
from palaver_daemon import Chat, Here, Json, palaver, scripted, until
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
HOLDS = Sandbox().look().variant is not None
MAKEFILE = "include more.mk\ntest:\n\t@sh check.sh\n"
WORDS = "runs what this folder's files say, also after the agent changes them"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def add(name: str, content: str = "x") -> Step:
    return calls(("apply_patch", {"patch": f"*** Begin Patch\n*** Add File: {name}\n+{content}\n*** End Patch"}))


def turns(count: int) -> list[Step]:
    return [step for number in range(count) for step in (add(f"file{number}"), text("done"))]


@asynccontextmanager
async def working(
    tmp_path: Path, *steps: Step, sandbox: bool, config: str = "", change: Callable[[Daemon], None] = lambda built: None
) -> AsyncIterator[tuple[Here, Chat]]:
    """A session in mode edit, in a folder with a Makefile that runs a script."""
    lay_out(tmp_path / "work")
    async with (
        ScriptedModel(steps) as model,
        palaver(tmp_path, config=config, env=scripted(model.url), sandbox=sandbox, change=change) as here,
        here.chat(mode="edit") as chat,
    ):
        yield here, chat


def lay_out(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "more.mk").write_text("")
    (folder / "check.sh").write_text("echo checked\n")


async def asked(chat: Chat) -> Json:
    """The card of the turn that runs."""
    [item] = await chat.asks()
    return item


async def answer(here: Here, item: Json, option: str, **fields: Any) -> Json:
    done: Json = await here.ask("POST", f"/v1/approvals/{item['id']}", {"option_id": option}, **fields)
    return done


def verified(chat: Chat) -> int:
    return len(chat.of("verify_completed"))


async def test_trust_is_asked_once_and_again_when_what_it_rests_on_changed(tmp_path: Path) -> None:
    if not HOLDS:
        return  # test_without_a_sandbox_it_is_asked_in_each_turn says what happens then
    async with working(tmp_path, *turns(5), sandbox=True) as (here, chat):
        turn = (await chat.say("go"))["turn_id"]
        item = await asked(chat)
        assert (item["kind"], item["data"]["subject"]) == ("trust", "trust")
        assert WORDS in item["data"]["reason"] and item["data"]["preview"]["command"] == "make test"
        assert [option["id"] for option in item["data"]["options"]] == ["once", "workspace", "deny"]
        assert set(item["data"]["options"][1]["rule"]["files"]) >= {"Makefile", "more.mk"}
        await answer(here, item, "workspace")
        await chat.ended(turn)
        assert verified(chat) == 1
        [rule] = (await here.ask("GET", f"/v1/rules?workspace={here.workspace}"))["rules"]
        assert rule["command"] == "make test" and rule["files"]["more.mk"]

        (here.workspace / "check.sh").write_text("echo changed; echo x > ../out; echo x > .git/hooks/x; true\n")
        (here.workspace / ".git" / "hooks").mkdir(parents=True)
        await chat.runs("go")  # it fails, so it may run more than once
        assert verified(chat) >= 2 and len(chat.of("approval_requested")) == 1
        assert not (tmp_path / "out").exists() and not list((here.workspace / ".git" / "hooks").iterdir())

        for changed, content in (("more.mk", "# new\n"), ("GNUmakefile", "test:\n\techo other\n")):
            before = verified(chat)
            (here.workspace / changed).write_text(content)
            turn = (await chat.say("go"))["turn_id"]
            item = await asked(chat)
            assert verified(chat) == before
            await answer(here, item, "deny")
            await chat.ended(turn)


async def test_trust_lives_through_a_restart_and_ends_with_its_rule(tmp_path: Path) -> None:
    async with working(tmp_path, *turns(1), sandbox=False) as (here, chat):
        turn = (await chat.say("go"))["turn_id"]
        assert not (await here.ask("GET", "/v1/workspaces"))["workspaces"][0]["trusted"]
        await answer(here, await asked(chat), "always")
        assert (await here.ask("GET", "/v1/workspaces"))["workspaces"][0]["trusted"]
        await chat.ended(turn)
    async with working(tmp_path, add("later"), text("done"), add("last"), text("done"), sandbox=False) as (here, chat):
        await chat.runs("go")
        assert verified(chat) == 1 and not chat.of("approval_requested")
        [rule] = (await here.ask("GET", f"/v1/rules?workspace={here.workspace}"))["rules"]
        await here.ask("DELETE", f"/v1/rules/{rule['id']}")
        await chat.say("go")
        assert (await asked(chat))["kind"] == "trust"


async def test_without_a_sandbox_it_is_asked_in_each_turn_unless_the_person_wants_none(tmp_path: Path) -> None:
    async with working(tmp_path, *turns(4), sandbox=False) as (here, chat):
        for option in ("workspace", "always"):
            turn = (await chat.say("go"))["turn_id"]
            item = await asked(chat)
            assert [one["id"] for one in item["data"]["options"]] == ["once", "workspace", "always", "deny"]
            assert "do all that you can" in item["data"]["reason"]
            await answer(here, item, option)
            await chat.ended(turn)
        await chat.runs("go")
        assert verified(chat) == 3
        (here.workspace / "Makefile").write_text(MAKEFILE + "# changed\n")
        await chat.say("go")
        assert (await asked(chat))["kind"] == "trust"


async def test_trust_of_one_folder_says_nothing_of_another(tmp_path: Path) -> None:
    """The settings' `make test` in a fresh hostile clone."""
    config = '[verify]\ncommands = ["make test"]\n'
    async with working(tmp_path, *turns(1), *turns(1), sandbox=False, config=config) as (here, chat):
        turn = (await chat.say("go"))["turn_id"]
        await answer(here, await asked(chat), "always")
        await chat.ended(turn)
        lay_out(tmp_path / "clone")
        (tmp_path / "clone" / "Makefile").write_text("test:\n\techo hostile > hostile\n")
        async with here.chat(mode="edit", workspace_path=str(tmp_path / "clone")) as other:
            await other.say("go")
            assert (await asked(other))["kind"] == "trust"
            assert not (tmp_path / "clone" / "hostile").exists()


async def test_to_run_them_once_is_an_approval_and_to_trust_them_takes_admin(tmp_path: Path) -> None:
    """SECURITY 2."""
    async with working(tmp_path, *turns(1), sandbox=False) as (here, chat):
        turn = (await chat.say("go"))["turn_id"]
        item = await asked(chat)
        token = await here.mint("approve")
        for option in ("workspace", "always"):
            refused = await here.answer("POST", f"/v1/approvals/{item['id']}", {"option_id": option}, token=token)
            assert (refused.status, refused.json["needed"]) == (403, "admin")
        await answer(here, item, "once", token=token)
        await chat.ended(turn)
        assert verified(chat) == 1
        assert (await here.ask("GET", f"/v1/rules?workspace={here.workspace}"))["rules"] == []


async def test_where_nobody_is_there_to_be_asked_the_turn_says_that_it_is_not_verified(tmp_path: Path) -> None:
    """DESIGN 5.5: no stream is open, and no client asked for anything of late."""

    def leave(built: Daemon) -> None:
        built.sessions.attended_s = 0.0

    lay_out(tmp_path / "work")
    async with (
        ScriptedModel(turns(1)) as model,
        palaver(tmp_path, env=scripted(model.url), change=leave) as here,
    ):
        id = await here.new_session(mode="edit")
        await here.ask("POST", f"/v1/sessions/{id}/messages", {"role": "user", "parts": [{"type": "text", "text": "go"}]})
        log = await until(lambda: ended_log(here, id))
        [notice] = [event["data"] for event in log if event["type"] == "notice"]
        assert notice["code"] == "not_verified" and "nobody was there" in notice["text"]
        assert not [event for event in log if event["type"] == "approval_requested"]
        assert log[-1]["data"]["outcome"] == "completed"


def ended_log(here: Here, session_id: str) -> list[Json]:
    """The log on disk, once its turn has ended: nobody asks the daemon."""
    log = [json.loads(line) for line in here.lines(session_id) if line.endswith(b"\n")]
    return log if any(event["type"] == "turn_completed" for event in log) else []
