"""What a turn does to files, seen from outside: the report at its end, its diffs, undo and redo, whoever made the change."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, palaver, palaver_process, scripted, until
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
QUIET = "[verify]\nauto = false\n"
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+uno\n*** Add File: new/c.txt\n+c\n*** End Patch\n"
BOTH = 'change "one" to "uno" in a.txt then run the command `rm gone; mv src moved; echo more > made; chmod +x made`'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def fill(work: Path) -> None:
    (work / "src").mkdir(parents=True)
    (work / "src" / "b.py").write_text("b = 1\nb = 2\n")
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "gone").write_text("to be deleted\n")


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    fill(tmp_path / "work")
    async with palaver(tmp_path, config=QUIET) as here, here.chat(mode="auto") as chat:
        yield chat


@asynccontextmanager
async def told(tmp_path: Path, *steps: Step, config: str = QUIET) -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    fill(tmp_path / "work")
    async with ScriptedModel(steps) as model, palaver(tmp_path, config=config, env=scripted(model.url)) as here:
        async with here.chat(mode="auto") as chat:
            yield here, chat, model


def look(chat: Chat) -> dict[str, str]:
    work = chat.client.workspace
    return {str(path.relative_to(work)): path.read_text() for path in sorted(work.rglob("*")) if path.is_file()}


async def turn_of(chat: Chat, said: str) -> str:
    turn = str((await chat.say(said))["turn_id"])
    assert (await chat.ended(turn))["outcome"] == "completed"
    return turn


async def test_the_report_stands_before_the_end_and_names_what_patch_and_shell_changed(chat: Chat) -> None:
    """S4-08, CLIENTS 1: `files_changed`, its diffs, its block."""
    turn = await turn_of(chat, BOTH)
    types = chat.turn(turn)
    assert types[-2:] == ["files_changed", "turn_completed"]
    [event] = chat.of("files_changed")
    files = {file["path"]: file for file in event["data"]["files"]}
    assert {path: (file["change"], file["added"], file["removed"]) for path, file in files.items()} == {
        "a.txt": ("modified", 1, 1),
        "gone": ("deleted", 0, 1),
        "made": ("added", 1, 0),
        "moved/b.py": ("renamed", 0, 0),
    }
    assert event["data"]["truncated_count"] == 0
    diff = await chat.client.answer("GET", f"{chat.path}/{files['a.txt']['diff_ref']}")
    assert diff.body == b"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+uno\n two\n"
    blocks = [block for entry in (await chat.transcript())["entries"] for block in entry["blocks"] if block["kind"] == "change_report"]
    assert [block["id"] for block in blocks] == [f"changes:{turn}"]
    assert await chat.transcript() == chat.reader.page()
    check_ended(await chat.check())


async def test_a_turn_that_only_reads_takes_no_checkpoint_and_reports_nothing(chat: Chat) -> None:
    """DESIGN 7: a turn without such a call takes none."""
    turn = await turn_of(chat, "read the file a.txt")
    assert chat.of("files_changed") == []
    assert (await chat.get(f"turns/{turn}/changes")) == {"files": []}
    assert list(chat.client.data.glob("workspaces/*/changes.sqlite")) == []


async def test_changes_show_their_diffs_and_whether_they_are_still_so(chat: Chat) -> None:
    """API: `GET …/turns/{id}/changes`; CLIENTS 3: the session's net changes, shaped as a turn's."""
    first = await turn_of(chat, 'change "one" to "uno" in a.txt')
    await turn_of(chat, 'change "uno" to "eins" in a.txt then run the command `echo x > new`')
    old = await chat.get(f"turns/{first}/changes")
    assert old == {"files": [{"path": "a.txt", "change": "modified", "diff": old["files"][0]["diff"], "stale": True}]}
    assert "-one\n+uno\n" in old["files"][0]["diff"]
    net = {file["path"]: file for file in (await chat.get("changes"))["files"]}
    assert set(net) == {"a.txt", "new"} and "-one\n+eins\n" in net["a.txt"]["diff"]
    assert [file["stale"] for file in net.values()] == [False, False]
    (chat.client.workspace / "new").write_text("y\n")
    assert (await chat.get("changes"))["files"][1]["stale"] is True
    assert (await chat.refused("GET", "turns/turn_none/changes")).status == 404


async def test_undo_is_previewed_done_told_and_undone_again(chat: Chat) -> None:
    """CLIENTS 3."""
    before = look(chat)
    turn = await turn_of(chat, BOTH)
    after = look(chat)
    preview = await chat.post(f"turns/{turn}/undo", {"preview": True})
    assert look(chat) == after and chat.of("turn_undone") == []
    done = await chat.post(f"turns/{turn}/undo")
    assert done == preview
    assert {file["path"]: file["action"] for file in done["files"]} == {
        "a.txt": "restored",
        "gone": "recreated",
        "made": "deleted",
        "moved/b.py": "deleted",
        "src/b.py": "recreated",
    }
    assert "-uno\n+one\n" in done["files"][0]["diff"] and done["conflicts"] == []
    assert look(chat) == before
    event = await chat.happens("turn_undone")
    assert event["turn_id"] is None
    assert event["data"] == {
        "turn_id": turn,
        "by": "user",
        "redo": False,
        "files": [{"path": file["path"], "action": file["action"]} for file in done["files"]],
    }
    assert await chat.post(f"turns/{turn}/undo") == {"files": [], "conflicts": []}
    assert (await chat.get("changes")) == {"files": []}
    again = await chat.post(f"turns/{turn}/undo", {"redo": True})
    assert look(chat) == after and len(again["files"]) == 5
    assert (await chat.happens("turn_undone", 2))["data"]["redo"] is True
    assert await chat.transcript() == chat.reader.page()
    check_ended(await chat.check())


async def test_undo_leaves_what_was_changed_since_and_says_so(chat: Chat) -> None:
    """Restores only what still is as the agent left it, previews conflicts."""
    turn = await turn_of(chat, BOTH)
    (chat.client.workspace / "a.txt").write_text("mine\n")
    wanted = {"paths": ["a.txt", "gone"]}
    assert (await chat.post(f"turns/{turn}/undo", {**wanted, "preview": True}))["conflicts"] == [
        {"path": "a.txt", "reason": "It has been changed since."}
    ]
    done = await chat.post(f"turns/{turn}/undo", wanted)
    assert [file["path"] for file in done["files"]] == ["gone"]
    assert (chat.client.workspace / "a.txt").read_text() == "mine\n"
    assert (chat.client.workspace / "made").exists(), "not among the paths"


async def test_undo_waits_for_no_running_turn_and_needs_the_scope_approve(chat: Chat) -> None:
    """CLIENTS 3, SECURITY 2: 409 `turn_running`; undo is `approve`."""
    assert isinstance(chat.client, Here)
    turn = await turn_of(chat, BOTH)
    after = look(chat)
    narrow = await chat.client.mint("prompt")
    path = f"{chat.path}/turns/{turn}/undo"
    assert (await chat.client.answer("POST", path, {}, token=narrow)).code == "scope"
    await chat.say("wait 60 seconds")
    await chat.happens("turn_started", 2)
    assert (await chat.refused("POST", f"turns/{turn}/undo", {})).code == "turn_running"
    assert (await chat.refused("POST", f"turns/{turn}/undo", {"preview": True})).code == "turn_running"
    await chat.post("cancel")
    await chat.happens("turn_completed", 2)
    assert look(chat) == after
    assert (await chat.refused("POST", "turns/turn_none/undo", {})).status == 404


async def test_the_model_hears_of_an_undo(tmp_path: Path) -> None:
    """The agent knows that its files are not as it left them."""
    async with told(tmp_path, calls(("apply_patch", {"patch": PATCH})), text("done"), text("so be it")) as (_, chat, model):
        turn = await turn_of(chat, "go")
        await chat.post(f"turns/{turn}/undo")
        await turn_of(chat, "and now?")
        notes = [str(message["content"]) for message in model.requests[2]["messages"] if message["role"] == "user"]
        [note] = [note for note in notes if "undid file changes of an earlier turn" in note]
        assert "a.txt (restored), new/c.txt (deleted)" in note and "Read these files again" in note
        assert notes[-1].endswith("and now?") or "and now?" in notes[-1]


async def test_what_a_person_changed_before_the_first_writing_call_is_not_reported(tmp_path: Path) -> None:
    """DESIGN 7: the checkpoint is taken before the first call that may write."""
    ask = calls(("ask_user", {"questions": [{"text": "Ready?", "options": [{"label": "Yes"}, {"label": "No"}]}]}))
    async with told(tmp_path, ask, calls(("shell", {"command": "echo x > by-agent"})), text("done")) as (_, chat, _):
        turn = (await chat.say("go"))["turn_id"]
        [item] = await chat.asks()
        (chat.client.workspace / "by-hand").write_text("mine\n")
        (chat.client.workspace / "a.txt").write_text("mine too\n")
        question = item["data"]["questions"][0]["id"]
        await chat.client.ask("POST", f"/v1/questions/{item['id']}", {"answers": {question: {"selected": ["Yes"]}}})
        await chat.ended(turn)
        assert [file["path"] for file in chat.of("files_changed")[0]["data"]["files"]] == ["by-agent"]


async def test_a_cancelled_and_a_failed_turn_report_what_they_had_changed(chat: Chat) -> None:
    """Everything a turn changed, however it ended."""
    turn = (await chat.say("run the command `echo x > half; echo begun; sleep 60`"))["turn_id"]
    await until(lambda: (chat.client.workspace / "half").exists())
    await chat.post("cancel")
    assert (await chat.ended(turn))["outcome"] == "cancelled"
    assert chat.turn(turn)[-3:] == ["files_changed", "turn_completed", "session_canceled"]
    failed = (await chat.say("run the command `echo x > broken` then fail"))["turn_id"]
    assert (await chat.ended(failed))["outcome"] == "failed"
    assert [[file["path"] for file in event["data"]["files"]] for event in chat.of("files_changed")] == [["half"], ["broken"]]
    assert [file["path"] for file in (await chat.post(f"turns/{turn}/undo"))["files"]] == ["half"]
    check_ended(await chat.check())


async def test_a_restart_in_the_middle_of_a_turn_reports_what_it_had_changed(tmp_path: Path) -> None:
    """Promise 2: after kill -9 the turn's end still says what it did, and it can be undone."""
    fill(tmp_path / "work")
    async with palaver_process(tmp_path, config=QUIET) as here:
        async with here.chat(mode="auto") as chat:
            turn = (await chat.say("run the command `echo x > half; sleep 60`"))["turn_id"]
            await until(lambda: (here.workspace / "half").exists())
            await here.kill()
            id = chat.id
    async with palaver_process(tmp_path, config=QUIET) as here, here.chat(id) as chat:
        assert (await chat.ended(turn))["outcome"] == "interrupted"
        assert [file["path"] for file in chat.of("files_changed")[0]["data"]["files"]] == ["half"]
        await chat.post(f"turns/{turn}/undo")
        assert not (here.workspace / "half").exists()
        check_ended(await chat.check())


async def test_a_session_that_is_deleted_leaves_no_content_behind(tmp_path: Path) -> None:
    fill(tmp_path / "work")
    secret = "a word that is nowhere else"
    async with palaver(tmp_path, config=QUIET) as here, here.chat(mode="auto") as chat:
        await turn_of(chat, f'write the file note with "{secret}"')
        await turn_of(chat, "run the command `rm note`")
        stores = list(here.data.glob("workspaces/*/changes.sqlite"))
        assert len(stores) == 1
        await here.ask("DELETE", f"/v1/sessions/{chat.id}")
    kept = b"".join(path.read_bytes() for path in here.data.glob("workspaces/*/changes.sqlite*"))
    assert secret.encode() not in kept


async def test_a_file_that_git_tracks_though_it_is_ignored_counts(chat: Chat) -> None:
    """Everything a turn changed."""
    work = chat.client.workspace
    (work / ".gitignore").write_text("lib/\n")
    for name in ("kept", "loose"):
        (work / "lib").mkdir(exist_ok=True)
        (work / "lib" / name).write_text("1\n")
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(work)}
    for words in (["init", "-q"], ["add", "-f", "lib/kept"]):
        subprocess.run(["git", *words], cwd=work, env=env, check=True)
    turn = ""
    for content in ("2", "3"):
        turn = await turn_of(chat, f"run the command `echo {content} > lib/kept; echo {content} > lib/loose`")
        assert [file["path"] for file in (await chat.get(f"turns/{turn}/changes"))["files"]] == ["lib/kept"]
    await chat.post(f"turns/{turn}/undo")
    assert (work / "lib" / "kept").read_text() == "2\n"


async def test_two_sessions_in_one_folder_report_each_its_own_turns(tmp_path: Path) -> None:
    fill(tmp_path / "work")
    async with palaver(tmp_path, config=QUIET) as here, here.chat(mode="auto") as one, here.chat(mode="auto") as two:
        await turn_of(one, 'change "one" to "uno" in a.txt')
        await turn_of(two, 'change "b = 1" to "b = 3" in src/b.py')
        assert [file["path"] for file in (await one.get("changes"))["files"]] == ["a.txt"]
        assert [file["path"] for file in (await two.get("changes"))["files"]] == ["src/b.py"]


async def test_many_files_are_counted_where_they_are_not_named(chat: Chat) -> None:
    """DESIGN 3: an event stays under 64 KiB; `truncated_count`."""
    turn = await turn_of(
        chat, "run the command `mkdir many; for i in $(seq 1 600); do echo $i > many/file-with-a-rather-long-name-$i; done`"
    )
    [event] = chat.of("files_changed")
    assert len(event["data"]["files"]) + event["data"]["truncated_count"] == 600
    assert event["data"]["truncated_count"] > 0
    assert all(len(line) < 64 * 1024 for line in chat.client.lines(chat.id))
    assert len((await chat.get(f"turns/{turn}/changes"))["files"]) == 600
    done: Json = await chat.post(f"turns/{turn}/undo")
    assert len(done["files"]) == 600
    undone = (await chat.happens("turn_undone"))["data"]
    assert len(undone["files"]) + undone.get("truncated_count", 0) == 600
    assert not (chat.client.workspace / "many").exists()


async def test_an_undo_whose_caller_leaves_is_done_whole(chat: Chat) -> None:
    before = look(chat)
    turn = await turn_of(chat, BOTH)
    asking = asyncio.create_task(chat.post(f"turns/{turn}/undo"))
    await asyncio.sleep(0)
    asking.cancel()
    await chat.post(f"turns/{turn}/undo")
    assert look(chat) == before
