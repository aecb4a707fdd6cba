"""Spec 004's acceptance list, by a client that knows spec 004 alone: its fields, its paths, its events, nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Process, palaver_process
from serving import chunks, read_head

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["--no-token", "with a token"])
async def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Process]:
    words = [request.param] if request.param.startswith("--") else []
    async with palaver_process(tmp_path, *words) as process:
        yield process


class Spec004Client:
    """What spec 004 says, and plain HTTP."""

    def __init__(self, daemon: Process) -> None:
        self._daemon = daemon
        self.workspace = daemon.workspace
        (self.workspace / "notes.txt").write_text("remember the milk\n")

    async def create(self) -> str:
        body = {"workspace_path": str(self.workspace), "system_prompt": "Be brief.", "auto_run": True}
        created = await self._daemon.ask("POST", "/v1/sessions", body)
        return str(created["session_id"])

    async def send(self, session_id: str, text: str) -> dict[str, str]:
        body = {"role": "user", "parts": [{"type": "text", "text": text}], "auto_run": True}
        sent: dict[str, str] = await self._daemon.ask("POST", f"/v1/sessions/{session_id}/messages", body)
        return sent

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await self._daemon.ask(method, path, body)

    async def events(self, session_id: str, last: str, count: int = 1) -> list[dict[str, Any]]:
        """History and live, as `EventSource.onmessage` gives them, until so many events of the type `last`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._daemon.port)
        sign = f"Authorization: Bearer {self._daemon.token}\r\n" if self._daemon.token else ""
        head = f"GET /v1/sessions/{session_id}/events HTTP/1.1\r\nHost: 127.0.0.1:{self._daemon.port}\r\n{sign}\r\n"
        writer.write(head.encode())
        found: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(20):
                status, headers = await read_head(reader)
                assert (status, headers["content-type"]) == (200, "text/event-stream")
                buffer = b""
                async for chunk in chunks(reader):
                    *blocks, buffer = (buffer + chunk).split(b"\n\n")
                    found += [event for block in blocks if (event := _message(block)) is not None]
                    if sum(event["type"] == last for event in found) >= count:
                        return found
        finally:
            writer.close()
        raise AssertionError(f"the stream ended after {found}")


def _message(block: bytes) -> dict[str, Any] | None:
    lines = block.decode().split("\n")
    if any(line.startswith("event:") for line in lines):
        return None  # a named event is no `message`
    data = "\n".join(line.removeprefix("data:").removeprefix(" ") for line in lines if line.startswith("data:"))
    event: dict[str, Any] | None = json.loads(data) if data else None
    return event


@pytest.fixture
def client(daemon: Process) -> Spec004Client:
    return Spec004Client(daemon)


async def test_creating_a_session_returns_its_id_and_writes_session_json(client: Spec004Client, daemon: Process) -> None:
    """S4-69, S4-11, S4-13, S4-20, S4-21."""
    session_id = await client.create()
    assert session_id.startswith("sess_")
    stored = json.loads((daemon.data / "sessions" / session_id / "session.json").read_text())
    fields = ("id", "created_at", "updated_at", "status", "workspace_path", "system_prompt", "last_turn_id")
    got = await client.ask("GET", f"/v1/sessions/{session_id}")
    assert {name: stored[name] for name in fields} == {name: got[name] for name in fields}
    assert (stored["status"], stored["workspace_path"], stored["system_prompt"]) == ("active", str(client.workspace), "Be brief.")
    assert stored["last_turn_id"] is None


async def test_sessions_are_listed_most_recent_first(client: Spec004Client) -> None:
    """S4-12."""
    first, second = await client.create(), await client.create()
    await client.send(first, "write 2 words")
    await client.events(first, "turn_completed")
    listed = (await client.ask("GET", "/v1/sessions"))["sessions"]
    assert [session["id"] for session in listed] == [first, second]


async def test_a_message_emits_message_added_and_turn_started(client: Spec004Client) -> None:
    """S4-70, S4-14, S4-15, S4-26, S4-28 to S4-31, S4-37."""
    session_id = await client.create()
    sent = await client.send(session_id, "write 3 words")
    assert sent["message_id"].startswith("msg_") and sent["turn_id"].startswith("turn_")
    events = await client.events(session_id, "turn_completed")
    assert all(set(event) >= {"ts", "session_id", "turn_id", "type", "data"} for event in events)
    types = [event["type"] for event in events]
    assert types.index("message_added") < types.index("turn_started") < types.index("model_output_delta")
    added = next(event for event in events if event["type"] == "message_added")
    message = added["data"]["message"]
    assert (message["id"], message["role"]) == (sent["message_id"], "user")
    assert [(part["type"], part["text"]) for part in message["parts"]] == [("text", "write 3 words")]
    assert next(event for event in events if event["type"] == "turn_started")["turn_id"] == sent["turn_id"]
    streamed = "".join(event["data"]["text"] for event in events if event["type"] == "model_output_delta")
    answer = next(event for event in events if event["type"] == "model_output_completed")["data"]["message"]
    assert streamed == "".join(part["text"] for part in answer["parts"] if part["type"] == "text")
    assert len(streamed.split()) == 3


async def test_tool_calls_emit_started_and_completed(client: Spec004Client) -> None:
    """S4-71, S4-24, S4-25, S4-32, S4-33."""
    session_id = await client.create()
    await client.send(session_id, "read the file notes.txt")
    events = await client.events(session_id, "turn_completed")
    [started] = [event["data"] for event in events if event["type"] == "tool_call_started"]
    [completed] = [event["data"] for event in events if event["type"] == "tool_call_completed"]
    assert (started["tool_call"]["name"], started["tool_call"]["input"]) == ("read_file", {"path": "notes.txt"})
    assert started["tool_call"]["id"].startswith("call_")
    assert completed["tool_call"] == {"id": started["tool_call"]["id"], "name": "read_file"}
    result = completed["tool_result"]
    assert (result["id"], result["ok"]) == (started["tool_call"]["id"], True)
    assert "remember the milk" in result["parts"][0]["text"]


@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_an_approval_gates_the_execution_of_a_tool(client: Spec004Client, action: str) -> None:
    """S4-72, S4-16, S4-34 to S4-36."""
    session_id = await client.create()
    sent = await client.send(session_id, "run the command `touch made.txt`")
    events = await client.events(session_id, "approval_requested")
    asked = events[-1]["data"]
    assert asked["tool_call"]["name"] == "shell"
    assert (await client.ask("GET", f"/v1/sessions/{session_id}"))["status"] == "waiting_approval"
    assert not (client.workspace / "made.txt").exists()
    answer = {"turn_id": sent["turn_id"], "tool_call_id": asked["tool_call"]["id"], "action": action, "reason": "because I say so"}
    await client.ask("POST", f"/v1/sessions/{session_id}/approve", answer)
    events = await client.events(session_id, "turn_completed")
    types = [event["type"] for event in events]
    settled = next(event["data"] for event in events if event["type"] in ("approval_granted", "approval_denied"))
    assert settled["tool_call"] == {"id": asked["tool_call"]["id"], "name": "shell"}
    assert settled["reason"] == "because I say so"
    result = next(event["data"]["tool_result"] for event in events if event["type"] == "tool_call_completed")
    assert (client.workspace / "made.txt").exists() == result["ok"] == ("approval_granted" in types) == (action == "approve")
    if action == "deny":
        assert "because I say so" in result["parts"][0]["text"]


@pytest.mark.parametrize(("recipe", "ok"), [("@echo all is well", True), ("@echo it broke; exit 1", False)])
async def test_verification_runs_after_a_write_and_emits_events_for_command_results(client: Spec004Client, recipe: str, ok: bool) -> None:
    """S4-73, S4-09, S4-64: a call of the tool `verify` after the write, with what `make test` printed."""
    (client.workspace / "Makefile").write_text(f"test:\n\t{recipe}\n")
    session_id = await client.create()
    sent = await client.send(session_id, 'write the file x with "y"')
    for count in (1, 2):
        events = await client.events(session_id, "approval_requested", count)
        answer = {"turn_id": sent["turn_id"], "tool_call_id": events[-1]["data"]["tool_call"]["id"], "action": "approve"}
        await client.ask("POST", f"/v1/sessions/{session_id}/approve", answer)
    events = await client.events(session_id, "turn_completed")
    assert events[-1]["data"]["outcome"] == "completed"
    assert (client.workspace / "x").read_text() == "y\n"
    write, check = [event["data"]["tool_call"] for event in events if event["type"] == "tool_call_started"]
    assert (write["name"], check["name"]) == ("apply_patch", "verify")
    begun_and_ended = [event for event in events if event["type"] in ("tool_call_started", "tool_call_completed")]
    order = [(event["type"], event["data"]["tool_call"]["id"]) for event in begun_and_ended]
    assert order == [(kind, call["id"]) for call in (write, check) for kind in ("tool_call_started", "tool_call_completed")]
    result = [event["data"]["tool_result"] for event in events if event["type"] == "tool_call_completed"][-1]
    assert (result["id"], result["ok"]) == (check["id"], ok)
    assert ("all is well" if ok else "it broke") in result["parts"][0]["text"]


async def test_cancel_retry_and_attachments_are_as_written(client: Spec004Client) -> None:
    """S4-17 to S4-19, S4-39, S4-40."""
    session_id = await client.create()
    sent = await client.send(session_id, "wait 60 seconds")
    await client.events(session_id, "model_output_delta")
    await client.ask("POST", f"/v1/sessions/{session_id}/cancel")
    await client.events(session_id, "session_canceled")
    assert (await client.ask("GET", f"/v1/sessions/{session_id}"))["status"] == "canceled"
    failed = await client.send(session_id, "fail")
    events = await client.events(session_id, "session_failed")
    assert events[-1]["turn_id"] == failed["turn_id"] != sent["turn_id"]
    assert (await client.ask("GET", f"/v1/sessions/{session_id}"))["status"] == "failed"
    retried = await client.ask("POST", f"/v1/sessions/{session_id}/turns/{failed['turn_id']}/retry")
    await client.events(session_id, "session_failed", 2)
    assert retried["turn_id"] not in (sent["turn_id"], failed["turn_id"])
    body = {"name": "img_01.png", "mime_type": "image/png", "data": "iVBORw0KGgo="}
    stored = await client.ask("POST", f"/v1/sessions/{session_id}/attachments", body)
    assert (stored["ref"], stored["mime_type"]) == ("attachments/img_01.png", "image/png")
    parts = [{"type": "text", "text": "write 1 word"}, {"type": "image", "ref": stored["ref"], "mime_type": "image/png"}]
    await client.ask("POST", f"/v1/sessions/{session_id}/messages", {"role": "user", "parts": parts, "auto_run": True})
    events = await client.events(session_id, "turn_completed", 4)
    assert (events[-1]["data"]["outcome"], (await client.ask("GET", f"/v1/sessions/{session_id}"))["status"]) == ("completed", "active")


async def test_a_message_may_be_stored_without_a_turn(client: Spec004Client) -> None:
    """S4-14: `auto_run: false` appends and triggers nothing; the next turn reads it."""
    session_id = await client.create()
    body = {"role": "user", "parts": [{"type": "text", "text": "think about it"}], "auto_run": False}
    stored = await client.ask("POST", f"/v1/sessions/{session_id}/messages", body)
    assert stored["turn_id"] is None
    sent = await client.send(session_id, "write 2 words")
    events = await client.events(session_id, "turn_completed")
    started = next(event["data"] for event in events if event["type"] == "turn_started")
    assert started["message_ids"] == [stored["message_id"], sent["message_id"]]
