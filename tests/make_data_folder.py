"""Make a small data folder of what this version writes, with what it serves of it, to be kept for good.

`python tests/make_data_folder.py golden/data_v2`. It is made once, when the format changes, and never again: what later versions open
is what this one wrote. Its tokens open nothing: no daemon runs on it but a test's, on a copy.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from palaver_daemon import Chat, Client, Json, palaver_process

WORKSPACE = "/usr"
"""Is on every machine, and nobody can write there by mistake: a kept folder names it for ever."""

OF_THE_VERSION = {"available_modes", "available_models", "available_commands", "capabilities"}
"""What a session could do then; a later version may do more."""
OF_THE_START = {"updated_at", "head_seq", "as_of", "as_of_seq"}
"""A start writes `turn_parked` for a turn that waits on."""


async def make(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with palaver_process(folder) as here:
            await fill(here)
            await here.end()
        async with palaver_process(folder) as here:  # what a start changes stands in the logs before anything is kept
            served = await serve(here)
            await here.end()
        (folder / "data" / "lock").unlink()
        shutil.copytree(folder / "data", target / "data")
    (target / "served.json").write_text(json.dumps(served, ensure_ascii=False, indent=1) + "\n")


async def serve(here: Client) -> Json:
    """What a person finds who opens this folder, without what a start may change."""
    found: Json = {path: await here.ask("GET", path) for path in ("/v1/inbox", "/v1/rules", "/v1/sessions")}
    found["/v1/sessions"]["sessions"].sort(key=lambda session: session["id"])
    for session in found["/v1/sessions"]["sessions"]:
        for what in ("", "/transcript", "/queue", "/draft"):
            path = f"/v1/sessions/{session['id']}{what}"
            found[path] = await here.ask("GET", path)
        _drop(session, OF_THE_VERSION | OF_THE_START)
        _drop(found[f"/v1/sessions/{session['id']}"], OF_THE_VERSION | OF_THE_START)
        _drop(found[f"/v1/sessions/{session['id']}/transcript"], OF_THE_START)
    _drop(found["/v1/inbox"], OF_THE_START)
    return found


def _drop(shown: Json, names: set[str]) -> None:
    for name in names & shown.keys():
        del shown[name]


async def fill(here: Client) -> None:
    async with here.chat(workspace_path=WORKSPACE, title="a whole conversation") as chat:
        await whole(here, chat)
        middle = chat.of("message_added")[1]["data"]["message"]["id"]
        await chat.post("fork", {"at_message_id": middle})
    async with here.chat(workspace_path=WORKSPACE, title="waits for an answer") as chat:
        await chat.say("run the command `pwd`")
        await chat.asks()
        await chat.say("write 2 words")
    async with here.chat(workspace_path=WORKSPACE, title="a paused queue") as chat:
        await chat.say("run the command `pwd`")
        await chat.asks()
        for count in (3, 4):
            await chat.say(f"write {count} words")
        await chat.post("cancel")
        await chat.idle()
    async with here.chat(workspace_path=WORKSPACE, title="closed") as chat:
        await chat.runs("write 5 words")
        await chat.post("close")
    await here.new_session(workspace_path=WORKSPACE, title="nothing said yet")


async def whole(here: Client, chat: Chat) -> None:
    """Text, thinking, a call that an approval let run and one that its rule did, a denial, a question, a file, a failure, a draft."""
    sent = await chat.say("think about it then run the command `echo one`")
    [ask] = await chat.asks()
    await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve", "scope": "workspace"})
    await chat.ended(sent["turn_id"])
    await chat.runs("run the command `echo two` then write 3 words – ünï 😀")
    sent = await chat.say("run the command `pwd`")
    [ask] = await chat.asks()
    await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "deny", "reason": "not here"})
    await chat.ended(sent["turn_id"])
    sent = await chat.say("ask me which with red or blue")
    [question] = await chat.asks()
    given = {one["id"]: {"selected": [one["options"][0]["label"]]} for one in question["data"]["questions"]}
    await here.ask("POST", f"/v1/questions/{question['id']}", {"answers": given})
    await chat.ended(sent["turn_id"])
    file = await chat.post("attachments", {"name": "notes.txt", "mime_type": "text/plain", "data": "bWlsaw=="})
    await chat.runs(
        [{"type": "text", "text": "fail"}, {"type": "file", "ref": file["ref"], "mime_type": "text/plain", "name": "notes.txt"}]
    )
    await chat.post("read", {"seq": 5})
    await here.ask("PUT", f"{chat.path}/draft", {"text": "not sent yet", "attachments": [], "rev": 0})


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
