"""Rules as a client meets them: made, listed, explained and removed over HTTP, also after a restart; and what a turn changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palaver.wire.codec import decode_event, encode_event
from palaver.wire.events import FilesChanged, Recorded
from palaver.wire.values import FileChange
from palaver_daemon import Chat, Here, Json, palaver

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with palaver(tmp_path) as here:
        yield here


async def add(here: Here, workspace: Path, **fields: str) -> Json:
    made: Json = await here.ask("POST", "/v1/rules", {"workspace": str(workspace), **fields})
    return made


async def rules(here: Here, query: str = "") -> list[Json]:
    found: list[Json] = (await here.ask("GET", f"/v1/rules{query}"))["rules"]
    return found


async def explained(here: Here, command: str) -> Json:
    said: Json = await here.ask(
        "POST", "/v1/rules/explain", {"tool": "shell", "input": {"command": command}, "workspace": str(here.workspace)}
    )
    return said


# --- explaining ---------------------------------------------------------------------------------------------------------------


async def test_explain_says_what_is_decided_and_by_which_rule(here: Here) -> None:
    """API.md, Asking: allowed by a rule, denied by one, asked by the mode; nothing of it is run, asked or kept."""
    await add(here, here.workspace, decision="allow", tool="shell", command="git status")
    await add(here, here.workspace, decision="deny", tool="shell", command="git push")
    allowed, denied, asked = [await explained(here, f"git {what}") for what in ("status --short", "push origin", "commit -m x")]
    assert allowed == {"decision": "allow", "by": "grant of this workspace: tool shell, command git status"}
    assert (denied["decision"], denied["by"]) == ("deny", "deny rule of this workspace: tool shell, command git push")
    assert (asked["decision"], asked["by"]) == ("ask", "mode ask")
    assert (await here.ask("GET", "/v1/sessions"))["sessions"] == [] and await here.inbox() == []


async def test_explain_names_the_part_of_a_command_that_had_no_rule(here: Here) -> None:
    """API.md, Asking; SECURITY 4: one part without a rule is enough for an ask, and it is that part that is named."""
    await add(here, here.workspace, decision="allow", tool="shell", command="git status")
    await add(here, here.workspace, decision="allow", tool="shell", command="git log")
    said = await explained(here, "git status && rm x && git log")
    assert said == {"decision": "ask", "by": "mode ask", "uncovered": [{"text": "rm x", "why": "no rule names it"}]}
    assert (await explained(here, "git status && git log"))["decision"] == "allow"


async def test_explain_says_which_field_makes_no_sense(here: Here) -> None:
    """API.md, Errors: an unknown tool and arguments that are none are 422 with the field."""
    for body, place in (({"tool": "teleport", "input": {}}, "tool"), ({"tool": "shell", "input": {"comand": "ls"}}, "input")):
        answer = await here.answer("POST", "/v1/rules/explain", {**body, "workspace": str(here.workspace)})
        assert (answer.status, answer.json["errors"][0]["path"]) == (422, place)


# --- the life of a rule -------------------------------------------------------------------------------------------------------


async def test_the_rules_of_every_folder_are_listed_and_hold_after_a_restart(tmp_path: Path) -> None:
    """API.md, Asking: `GET /v1/rules` without a workspace lists them all, though nobody has named their folders since the start."""
    other = tmp_path / "other"
    other.mkdir()
    async with palaver(tmp_path) as here:
        assert await rules(here) == []
        first = await add(here, here.workspace, decision="allow", tool="shell", command="touch")
        second = await add(here, other, decision="deny", tool="shell", command="touch")
        gone = await add(here, other, decision="deny", kind="network")
        assert (await here.answer("DELETE", f"/v1/rules/{gone['id']}")).status == 204
        again = await here.answer("DELETE", f"/v1/rules/{gone['id']}")
        assert (again.status, again.code) == (404, "not_found")
    by_id = sorted([first, second], key=lambda rule: str(rule["id"]))
    async with palaver(tmp_path) as here:
        assert sorted(await rules(here), key=lambda rule: str(rule["id"])) == by_id
        assert await rules(here, f"?workspace={other}") == [second]
        async with here.chat() as chat:
            assert (await chat.runs("run the command `touch made`"))["outcome"] == "completed"
            assert (here.workspace / "made").exists() and not chat.of("approval_requested")
    async with palaver(tmp_path) as here:
        assert (await here.answer("DELETE", f"/v1/rules/{first['id']}")).status == 204
        assert await rules(here) == [second]
        async with here.chat() as chat:
            await chat.say("run the command `touch made`")
            assert len(await chat.asks()) == 1
            await chat.post("cancel")
            await chat.idle()
    async with palaver(tmp_path) as here:
        assert await rules(here) == [second]


async def test_a_rule_that_an_approval_made_is_listed_and_can_be_removed_after_a_restart(tmp_path: Path) -> None:
    """API.md, Asking: scope `workspace`."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        sent = await chat.say("run the command `touch a`")
        [ask] = await chat.asks()
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve", "scope": "workspace"})
        await chat.ended(sent["turn_id"])
    async with palaver(tmp_path) as here:
        [rule] = await rules(here)
        assert (rule["decision"], rule["tool"], rule["workspace"]) == ("allow", "shell", str(here.workspace))
        await here.ask("DELETE", f"/v1/rules/{rule['id']}")
        assert await rules(here) == []


async def test_a_folder_that_was_used_before_a_restart_is_known_after_it(tmp_path: Path) -> None:
    """API.md, the rest: `tree` lists it though no session of it has been opened since."""
    async with palaver(tmp_path) as here:
        await here.new_session()
    async with palaver(tmp_path) as here:
        (here.workspace / "a.txt").write_text("a")
        found = await here.ask("GET", f"/v1/workspace/tree?path={here.workspace}")
        assert [entry["path"] for entry in found["entries"]] == ["a.txt"]


# --- what a turn changed ------------------------------------------------------------------------------------------------------


async def test_the_changes_of_a_turn_are_what_its_log_says(tmp_path: Path) -> None:
    """API.md, Queue, turns, the rest: `GET …/turns/{id}/changes`; a turn that is not there is 404, one that changed nothing has none."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        turns = [(await chat.say("write 2 words"))["turn_id"] for _ in range(2)]
        for turn in turns:
            await chat.ended(turn)
    _tell(
        here,
        chat,
        turns[0],
        FilesChanged(files=(FileChange("src/a.py", "modified", 3, 1), FileChange("b.txt", "added", 1, 0)), truncated_count=0),
    )
    async with palaver(tmp_path) as here, here.chat(chat.id) as chat:
        files = (await chat.get(f"turns/{turns[0]}/changes"))["files"]
        assert [(file["path"], file["change"]) for file in files] == [("src/a.py", "modified"), ("b.txt", "added")]
        assert {frozenset(file) for file in files} == {frozenset(("path", "change", "diff", "stale"))}
        assert await chat.get(f"turns/{turns[1]}/changes") == {"files": []}
        assert (await chat.refused("GET", "turns/turn_none/changes")).code == "not_found"


def _tell(here: Here, chat: Chat, turn_id: str, event: FilesChanged) -> None:
    """Put an event before the end of that turn into the log of a daemon that is gone."""
    log = [decode_event(line) for line in here.lines(chat.id)]
    place = next(one.seq for one in log if one.turn_id == turn_id and one.type == "turn_completed")
    told = Recorded(0, log[place - 1].ts, log[0].session_id, log[place - 1].turn_id, event)
    log.insert(place - 1, told)
    folder = here.data / "sessions" / chat.id
    (folder / "checkpoint").unlink(missing_ok=True)
    lines = [encode_event(msgspec.structs.replace(one, seq=seq)) for seq, one in enumerate(log, 1)]
    (folder / "events.ndjson").write_bytes(b"".join(line + b"\n" for line in lines))
