"""The commands as processes, against a small daemon on a real socket: what they ask, print and end with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from palaver.cli.run import Mine, exit_status
from stand_in import Asked, Reply, StandIn, control, event, frame

pytestmark = pytest.mark.anyio

ID = "sess_01aaaaaaaaaaaaaaaaaaaaaaaa"
OTHER = "sess_01bbbbbbbbbbbbbbbbbbbbbbbb"
USAGE = {"input_tokens": 1, "output_tokens": 2}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Case:
    """A data folder whose daemon is the stand-in."""

    def __init__(self, folder: Path, daemon: StandIn) -> None:
        self.folder = folder
        self.daemon = daemon
        (folder / "token").write_text("id.secret")
        daemon_file = {"pid": os.getpid(), "url": daemon.url, "token_file": str(folder / "token"), "version": "0.1.0"}
        (folder / "daemon.json").write_text(json.dumps(daemon_file))

    def env(self, **more: str) -> dict[str, str]:
        """Proxies that lead nowhere are set: what goes to our own machine must not use them."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:1")
        return {**kept, **proxies, "PALAVER_DATA": str(self.folder), "HOME": str(self.folder), **more}

    async def start(self, *words: str, **env: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "palaver.cli.main", *words)
        return await asyncio.create_subprocess_exec(*command, env=self.env(**env), stdin=pipe, stdout=pipe, stderr=pipe)

    async def palaver(self, *words: str, stdin: bytes = b"", **env: str) -> Ended:
        process = await self.start(*words, **env)
        out, err = await asyncio.wait_for(process.communicate(stdin), 30)
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def case(tmp_path: Path) -> AsyncGenerator[Case, None]:
    async with StandIn() as daemon:
        yield Case(tmp_path, daemon)


def session(session_id: str = ID, **more: Any) -> dict[str, Any]:
    base = {"id": session_id, "status": "active", "title": "Fix it", "agent": "demo", "head_seq": 0, "waiting": []}
    return {**base, "updated_at": "2026-01-02T03:04:05.678Z", "workspace_path": "/w", **more}


def with_sessions(case: Case, *sessions: dict[str, Any]) -> None:
    def page(asked: Asked) -> Reply:
        begin = int(asked.query.get("cursor", 0))
        end = begin + min(1, int(asked.query["limit"]))
        return Reply(body={"sessions": list(sessions[begin:end]), "next_cursor": str(end) if end < len(sessions) else None})

    case.daemon.answers[("GET", "/v1/sessions")] = page
    for one in sessions:
        case.daemon.answers[("GET", f"/v1/sessions/{one['id']}")] = Reply(body=one)


async def test_sessions_lists_every_page_and_obeys_nothing_in_a_title(case: Case) -> None:
    """SECURITY 19."""
    with_sessions(case, session(title="a\x1b[31m\nb"), session(OTHER, title=None))
    ended = await case.palaver("sessions")
    assert ended.status == 0
    lines = [line.split("\t") for line in ended.out.splitlines()]
    assert lines[0][:3] == ["id", "status", "title"]
    assert [line[0] for line in lines[1:]] == [ID, OTHER]
    assert lines[1][2] == "a⟨U+001B⟩[31m ⏎ b"


async def test_sessions_with_json_prints_the_apis_body(case: Case) -> None:
    with_sessions(case, session())
    ended = await case.palaver("sessions", "--json", "--status", "active")
    assert json.loads(ended.out) == {"sessions": [session()], "next_cursor": None}
    assert case.daemon.asked[-1].query["status"] == "active"


@pytest.mark.parametrize(("word", "found"), [("last", ID), (ID, ID), ("01a", ID), ("sess_01b", OTHER), ("BBBB", OTHER)])
async def test_a_session_is_named_by_any_part_of_its_id_that_is_its_own(case: Case, word: str, found: str) -> None:
    with_sessions(case, session(), session(OTHER))
    case.daemon.answers[("POST", f"/v1/sessions/{found}/messages")] = Reply(
        202, {"message_id": "msg_1", "turn_id": "turn_1", "delivered": "queued", "item_id": "item_1"}
    )
    ended = await case.palaver("send", word, "-", "--delivery", "queue", stdin=b"hello\n")
    assert (ended.status, ended.out) == (0, "queued turn_1\n")
    body = case.daemon.asked[-1].body
    assert body["parts"] == [{"type": "text", "text": "hello\n"}] and body["delivery"] == "queue" and body["client_message_id"]


@pytest.mark.parametrize("word", ["01", "zz", "sess_01cccccccccccccccccccccccc"])
async def test_a_session_that_is_none_or_many_is_wrong_usage(case: Case, word: str) -> None:
    with_sessions(case, session(), session(OTHER))
    ended = await case.palaver("send", word, "x")
    assert ended.status == 2 and ended.err.startswith("palaver: ")


async def test_what_a_daemon_says_is_shown_and_not_obeyed(case: Case) -> None:
    """SECURITY 19."""
    with_sessions(case, session())
    case.daemon.answers[("POST", f"/v1/sessions/{ID}/messages")] = Reply(409, {"code": "session_closed", "detail": "closed\x1b]0;x\x07"})
    ended = await case.palaver("send", "last", "x")
    assert (ended.status, ended.err) == (1, "palaver: closed⟨U+001B⟩]0;x⟨U+0007⟩\n")


async def test_without_a_daemon_a_client_says_how_to_start_one(tmp_path: Path) -> None:
    async with StandIn() as daemon:
        case = Case(tmp_path, daemon)
    ended = await case.palaver("sessions")
    assert ended.status == 1 and "palaver serve" in ended.err and ended.out == ""


# --- run ----------------------------------------------------------------------------------------------------------------------


def turn(*middle: tuple[str, dict[str, Any]], outcome: str | None = "completed") -> list[dict[str, Any]]:
    """The events of a turn of message msg_1."""
    message = {"id": "msg_1", "role": "user", "parts": [{"type": "text", "text": "hi"}], "author": {"kind": "user"}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("session_created", {"session": session()}),
        ("message_added", {"message": message}),
        ("turn_started", {"trigger": "user", "message_ids": ["msg_1"], "agent": "demo", "backend": "loop"}),
        *middle,
    ]
    if outcome is not None:
        events.append(("turn_completed", end_of(outcome)))
    return [event(seq, kind, data, session_id=ID) for seq, (kind, data) in enumerate(events, 1)]


def end_of(outcome: str) -> dict[str, Any]:
    error = {"error": {"code": "model_failed", "message": "no model"}} if outcome == "failed" else {}
    return {
        "outcome": outcome,
        "stop_reason": "end_turn",
        "usage": USAGE,
        "duration_ms": 5,
        "counts": {"steps": 1, "tool_calls": 0},
        **error,
    }


def answered(text: str) -> list[tuple[str, dict[str, Any]]]:
    part = {"type": "text", "id": "part_1", "text": text}
    delta = {"message_id": "msg_2", "part_id": "part_1", "kind": "text", "offset": 0, "text": text[:3]}
    message = {"id": "msg_2", "role": "assistant", "parts": [part]}
    return [("model_output_delta", delta), ("model_output_completed", {"message": message})]


def called() -> list[tuple[str, dict[str, Any]]]:
    call = {"id": "call_1", "name": "shell", "input": {}}
    started = {"tool_call": call, "kind": "exec", "title": "$ ls", "locations": [], "run_by": "daemon"}
    ended = {"tool_call": {"id": "call_1", "name": "shell"}, "tool_result": {"id": "call_1", "ok": True, "parts": []}, "duration_ms": 7}
    return [("tool_call_started", started), ("tool_call_running", {"tool_call_id": "call_1"}), ("tool_call_completed", ended)]


def frames(envelopes: list[dict[str, Any]]) -> list[bytes]:
    caught_up = control("caught_up", {"seq": envelopes[-1]["seq"]}, ID)
    return [frame(control("hello", {"epoch": "e"}, ID)), *map(frame, envelopes), frame(caught_up)]


def with_turn(case: Case, envelopes: list[dict[str, Any]], items: list[dict[str, Any]] | None = None) -> None:
    answers = case.daemon.answers
    answers[("POST", "/v1/sessions")] = Reply(201, {"session_id": ID, "session": session()})
    answers[("POST", f"/v1/sessions/{ID}/messages")] = Reply(202, {"message_id": "msg_1", "turn_id": "turn_1", "delivered": "started"})
    answers[("GET", f"/v1/sessions/{ID}/events")] = Reply(stream=frames(envelopes), hold=asyncio.Event())
    answers[("GET", "/v1/inbox")] = Reply(body={"items": items or [], "as_of": "x"})


async def test_run_prints_the_answer_and_ends_with_0(case: Case) -> None:
    with_turn(case, turn(*called(), *answered("All is well.\x1b[2J")))
    ended = await case.palaver("run", "hi", "--workspace", str(case.folder), "--agent", "demo", "--mode", "plan", "--model", "m")
    assert ended == Ended(0, "All is well.⟨U+001B⟩[2J\n", ended.err)
    assert ended.err.splitlines() == ["▸ shell $ ls", "✓ shell $ ls  7 ms", "— done · 5 ms · 1 tokens in, 2 out"]
    created = next(one for one in case.daemon.asked if one.path == "/v1/sessions")
    assert created.body == {"workspace_path": str(case.folder), "agent": "demo", "mode": "plan", "model": "m"}


@pytest.mark.parametrize(("outcome", "status"), [("failed", 1), ("interrupted", 1), ("cancelled", 3)])
async def test_run_ends_with_the_outcome_of_its_turn(case: Case, outcome: str, status: int) -> None:
    with_turn(case, turn(outcome=outcome))
    ended = await case.palaver("run", "hi")
    assert (ended.status, ended.out) == (status, "")


async def test_run_with_json_prints_logged_envelopes_only(case: Case) -> None:
    envelopes = turn(*answered("yes"))
    with_turn(case, envelopes)
    ended = await case.palaver("run", "hi", "--json")
    assert ended.status == 0
    assert [json.loads(line) for line in ended.out.splitlines()] == envelopes
    assert next(one for one in case.daemon.asked if one.path.endswith("/events")).query == {"after": "0"}


ASK = {
    "approval_id": "appr_1",
    "subject": "tool",
    "tool_call": {"id": "call_1", "name": "shell", "input": {}},
    "kind": "exec",
    "preview": {"command": "rm x"},
    "options": [{"id": "once", "action": "approve", "scope": "once", "label": "Allow once"}],
}
ITEM = {"id": "appr_1", "kind": "approval", "session_id": ID, "requested_at": "x", "path": [ID], "data": ASK}


@pytest.mark.parametrize("flags", [[], ["--json"]])
async def test_run_ends_with_4_and_prints_the_item_when_nobody_is_there(case: Case, flags: list[str]) -> None:
    with_turn(case, turn(("approval_requested", ASK), outcome=None), [{**ITEM, "id": "appr_0", "session_id": OTHER, "path": [OTHER]}, ITEM])
    ended = await case.palaver("run", "hi", *flags)
    assert ended.status == 4
    printed = (ended.err if flags else ended.out).splitlines()
    assert ITEM in [json.loads(line) for line in printed if line.startswith("{")]
    assert "palaver attach" in ended.err
    assert not any(one.path.startswith("/v1/approvals") or one.path.endswith("/cancel") for one in case.daemon.asked)


async def test_run_goes_on_when_what_was_asked_is_settled_already(case: Case) -> None:
    granted = {"approval_id": "appr_1", "tool_call": None, "by": "Ann", "scope": "once"}
    with_turn(case, turn(("approval_requested", ASK), ("approval_granted", granted)))
    assert (await case.palaver("run", "hi")).status == 0


def cancellable(case: Case, *, item: bool = False) -> asyncio.Event:
    """A turn that ends when it is cancelled, and not before."""
    cancelled = asyncio.Event()

    async def stream() -> AsyncGenerator[bytes, None]:
        for piece in frames(turn(outcome=None)):
            yield piece
        await cancelled.wait()
        yield frame(event(9, "turn_completed", end_of("cancelled"), session_id=ID))

    def cancel(asked: Asked) -> Reply:
        cancelled.set()
        return Reply(202, {"turn_id": "turn_1"})

    with_turn(case, turn())
    case.daemon.answers[("GET", f"/v1/sessions/{ID}/events")] = lambda _: Reply(stream=stream(), hold=asyncio.Event())
    case.daemon.answers[("POST", f"/v1/sessions/{ID}/cancel")] = cancel
    return cancelled


async def test_run_cancels_its_turn_when_the_time_is_over(case: Case) -> None:
    cancellable(case)
    ended = await case.palaver("run", "hi", "--timeout", "0.2")
    assert ended.status == 3
    assert next(one for one in case.daemon.asked if one.path.endswith("/cancel")).body == {"turn_id": "turn_1"}


async def test_run_cancels_its_turn_at_ctrl_c(case: Case) -> None:
    cancellable(case)
    process = await case.start("run", "hi")
    await until(lambda: any(path.endswith("/events") for path in case.daemon.paths()))
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 3


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_run_takes_a_message_that_still_waits_out_of_the_queue(case: Case) -> None:
    cancellable(case)
    reply = {"message_id": "msg_9", "turn_id": "turn_9", "delivered": "queued", "item_id": "item_9"}
    case.daemon.answers[("POST", f"/v1/sessions/{ID}/messages")] = Reply(202, reply)
    case.daemon.answers[("DELETE", f"/v1/sessions/{ID}/queue/item_9")] = Reply(204)
    with_sessions(case, session())
    ended = await case.palaver("run", "hi", "--session", "last", "--timeout", "0.2")
    assert ended.status == 3
    assert not any(path.endswith("/cancel") for path in case.daemon.paths())


async def test_run_is_used_wrongly_when_the_daemon_says_so(case: Case) -> None:
    problem = {"code": "invalid", "detail": "There is no agent 'x'. Use one of: demo.", "errors": []}
    case.daemon.answers[("POST", "/v1/sessions")] = Reply(422, problem)
    assert (await case.palaver("run", "hi", "--agent", "x")).status == 2
    assert (await case.palaver("run", "  ")).status == 2


def test_the_statuses_of_run_are_those_of_the_page() -> None:
    assert [exit_status(outcome) for outcome in ("completed", "failed", "interrupted", "cancelled")] == [0, 1, 1, 3]


def test_a_message_that_moves_to_another_turn_is_followed() -> None:
    mine = Mine({"message_id": "msg_1", "turn_id": "turn_a", "delivered": "steered"})
    assert not mine.take(event(1, "turn_completed", end_of("completed"), "turn_other"))
    assert mine.take(event(2, "turn_started", {"message_ids": ["msg_1"]}, "turn_b"))
    mine.take(event(3, "turn_completed", end_of("completed"), "turn_a"))
    assert mine.status is None
    mine.take(event(4, "turn_completed", end_of("failed"), "turn_b"))
    assert mine.status == 1


def test_a_message_that_waits_in_a_paused_queue_is_not_waited_for() -> None:
    mine = Mine({"message_id": "msg_1", "turn_id": "turn_a", "delivered": "queued", "item_id": "item_1"})
    item = {"id": "item_1", "turn_id": "turn_a", "message_id": "msg_1", "paused": True}
    mine.take(event(1, "queue_changed", {"items": [item], "paused": True}))
    assert mine.status == 1 and "paused" in mine.why


def test_a_message_that_left_the_queue_is_gone_until_something_says_where_it_went() -> None:
    mine = Mine({"message_id": "msg_1", "turn_id": "turn_a", "delivered": "queued", "item_id": "item_1"})
    mine.take(event(1, "queue_changed", {"items": [], "paused": False}))
    assert mine.gone
    mine.take(event(2, "message_added", {"message": {"id": "msg_1"}}))
    assert not mine.gone


# --- attach, open, token ------------------------------------------------------------------------------------------------------


async def test_attach_with_json_prints_the_log_from_its_beginning(case: Case) -> None:
    envelopes = turn(*answered("yes"))
    with_turn(case, envelopes)
    with_sessions(case, session(head_seq=len(envelopes)))
    deleted = [*frames(envelopes), frame(control("deleted", {"session_id": ID}, ID))]
    case.daemon.answers[("GET", f"/v1/sessions/{ID}/events")] = Reply(stream=deleted)
    ended = await case.palaver("attach", "last", "--json")
    assert ended.status == 0
    assert [json.loads(line) for line in ended.out.splitlines()] == envelopes


async def test_attach_tells_the_last_turn_and_shows_what_is_asked(case: Case) -> None:
    envelopes = turn(*answered("yes"), ("approval_requested", ASK), outcome=None)
    with_turn(case, envelopes, [ITEM])
    with_sessions(case, session(head_seq=len(envelopes)))
    deleted = [*frames(envelopes[1:]), frame(control("deleted", {"session_id": ID}, ID))]

    def events(asked: Asked) -> Reply:
        if asked.query.get("format") == "json":
            return Reply(body={"events": envelopes, "next_after": len(envelopes), "head_seq": len(envelopes)})
        assert asked.query["after"] == "1"
        return Reply(stream=deleted)

    case.daemon.answers[("GET", f"/v1/sessions/{ID}/events")] = events
    ended = await case.palaver("attach", ID)
    assert ended.status == 0
    assert ended.out.splitlines() == [
        f"Fix it  ({ID})",
        "you: hi",
        "yes",
        "? may it? shell [exec]  (appr_1)",
        "  command: rm x",
        "this conversation was deleted",
    ]


async def test_open_prints_one_line_with_a_code(case: Case) -> None:
    """SECURITY 5."""
    with_sessions(case, session())
    case.daemon.answers[("POST", "/v1/codes")] = Reply(201, {"code": "c0de", "expires_at": "x"})
    ended = await case.palaver("open", "last", "--print-url", "--scope", "read,prompt")
    assert (ended.status, ended.out) == (0, f"{case.daemon.url}/s/{ID}#code=c0de\n")
    assert case.daemon.asked[-1].body == {"scope": "read,prompt"}
    assert (await case.palaver("open", "--print-url")).out == f"{case.daemon.url}/#code=c0de\n"


async def test_a_browser_gets_a_file_of_ours_and_no_code_on_its_command_line(case: Case) -> None:
    """SECURITY 5: a fake browser finds no code in argv or environment."""
    case.daemon.answers[("POST", "/v1/codes")] = Reply(201, {"code": "c0de", "expires_at": "x"})
    seen = case.folder / "seen"
    browser = case.folder / "browser"
    browser.write_text(f'#!/bin/sh\n{{ printf "%s\\n" "$@"; env; }} > {seen}.part\nmv {seen}.part {seen}\n')
    browser.chmod(0o700)
    ended = await case.palaver("open", BROWSER=str(browser), TMPDIR=str(case.folder))
    assert (ended.status, ended.out) == (0, "")
    await until(seen.exists)
    text = seen.read_text()
    assert "c0de" not in text
    page = Path(text.splitlines()[0].removeprefix("file://"))
    assert f"url={case.daemon.url}/#code=c0de" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700


async def test_where_there_is_no_browser_the_line_is_printed(case: Case) -> None:
    case.daemon.answers[("POST", "/v1/codes")] = Reply(201, {"code": "c0de", "expires_at": "x"})
    ended = await case.palaver("open", DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
    if sys.platform != "darwin":
        assert ended.out == f"{case.daemon.url}/#code=c0de\n"


async def test_token_prints_the_token_alone(case: Case) -> None:
    answer = {"id": "x", "token": "x.y", "scope": "read", "expires_at": "2026"}
    case.daemon.answers[("POST", "/v1/tokens")] = Reply(201, answer)
    ended = await case.palaver("token", "--scope", "read", "--name", "ci", "--days", "7")
    assert (ended.status, ended.out, ended.err) == (0, "x.y\n", "")
    assert case.daemon.asked[-1].body == {"scope": "read", "name": "ci", "days": 7}
    assert json.loads((await case.palaver("token", "--json")).out) == answer


async def test_alone_and_without_a_terminal_palaver_prints_its_help(case: Case) -> None:
    ended = await case.palaver()
    assert ended.status == 0 and ended.out.startswith("usage: palaver")
    assert case.daemon.asked == []


async def test_serve_with_bad_settings_ends_with_2_and_names_the_line(case: Case) -> None:
    config = case.folder / "c.toml"
    config.write_text("[server]\nprot = 1\n")
    ended = await case.palaver("serve", "--config", str(config))
    assert (ended.status, ended.err) == (2, f"palaver: {config}:2: there is no key 'server.prot'. Did you mean 'port'?\n")


async def test_a_reader_that_stops_reading_is_no_failure_with_a_trace(case: Case) -> None:
    with_sessions(case, *(session() for _ in range(3)))
    process = await case.start("sessions")
    assert process.stdout is not None and process.stderr is not None
    process.stdout._transport.close()  # type: ignore[attr-defined]
    assert b"Traceback" not in await process.stderr.read()
    await process.wait()
