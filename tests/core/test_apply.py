"""The fold of the state: it never refuses, and reads what older and newer versions wrote."""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec
import pytest
from command_cases import CASES, played
from hypothesis import given
from hypothesis import strategies as st
from play import Play, info

from golden import cases, read_lines
from palaver.core.apply import apply
from palaver.core.state import KEPT, State
from palaver.wire.codec import decode_event, encode
from palaver.wire.events import Recorded
from random_logs import random_log


def line(seq: int, type: str, data: dict[str, Any], turn: str | None = None) -> Recorded:
    """An event as another version may have written it."""
    envelope = {"v": 1, "seq": seq, "ts": f"2026-03-01T09:00:0{seq}.000Z", "session_id": "sess_1", "turn_id": turn}
    return decode_event(encode({**envelope, "type": type, "data": data}))


def fold(log: list[Recorded]) -> State:
    return reduce(apply, log, State())


MESSAGE = {"id": "msg_1", "role": "user", "parts": [{"type": "text", "text": "Hi"}], "created_at": "", "author": {"kind": "user"}}
STARTED = {"trigger": "user", "message_ids": ["msg_1"], "agent": "demo", "backend": "loop"}
CALL = {"tool_call": {"id": "call_1", "name": "shell", "input": {}}, "kind": "exec", "title": "shell", "locations": [], "run_by": "daemon"}
OLD = [
    line(1, "session_created", {"session": msgspec.to_builtins(info())}),
    line(2, "message_added", {"message": MESSAGE}, "turn_1"),
    line(3, "turn_started", STARTED, "turn_1"),
]


def test_an_event_of_an_unknown_type_changes_only_the_number_and_the_time() -> None:
    before = fold(OLD)
    after = apply(before, line(4, "song_sung", {"notes": ["c", "e"]}, "turn_1"))
    assert after == msgspec.structs.replace(before, seq=4, updated_at="2026-03-01T09:00:04.000Z")


def test_fields_that_a_version_does_not_know_are_skipped() -> None:
    state = fold([*OLD, line(4, "step_started", {"step_id": "step_1", "index": 0, "mood": "good"}, "turn_1")])
    assert state.turn is not None and state.turn.steps == 1


def test_a_call_of_a_log_that_knew_no_waiting_may_begin() -> None:
    """`waits` came later: absent, the call was allowed unless an ask follows."""
    started = line(4, "tool_call_started", {**CALL, "message_id": None, "step_id": None}, "turn_1")
    assert list(fold([*OLD, started]).next_calls()) == ["call_1"]
    asked = {"approval_id": "appr_1", "subject": "tool", "tool_call": CALL["tool_call"], "kind": "exec", "preview": {}, "options": []}
    assert list(fold([*OLD, started, line(5, "approval_requested", asked, "turn_1")]).next_calls()) == []


def test_an_older_queue_entry_without_its_message_is_left_out() -> None:
    entry = {"id": "item_1", "turn_id": "turn_2", "delivery": "queue", "message_id": "msg_2", "paused": False}
    assert fold([*OLD, line(4, "queue_changed", {"items": [entry], "paused": False})]).queue == ()


USAGE = {"input_tokens": 1, "output_tokens": 1}
STRAY = [
    ("message_delivered", {"message_id": "msg_9", "turn_id": "turn_9", "step_id": "step_9"}),
    ("turn_cancel_requested", {"by": "user", "cause": "user_cancel", "keep_queue": True}),
    ("turn_parked", {"waiting": []}),
    ("step_started", {"step_id": "step_9", "index": 3}),
    ("model_output_started", {"message_id": "msg_9", "step_id": "step_9"}),
    ("model_output_delta", {"message_id": "msg_9", "part_id": "part_9", "kind": "text", "offset": 7, "text": "x"}),
    (
        "model_output_completed",
        {"message": {**MESSAGE, "id": "msg_9", "role": "assistant"}, "usage": {"input_tokens": 1, "output_tokens": 1}},
    ),
    ("model_output_discarded", {"message_id": "msg_9"}),
    ("tool_call_started", {**CALL, "message_id": None, "step_id": None}),
    ("tool_call_running", {"tool_call_id": "call_9"}),
    ("tool_output_delta", {"tool_call_id": "call_9", "stream": "stdout", "offset": 0, "text": "x"}),
    (
        "turn_completed",
        {
            "outcome": "completed",
            "stop_reason": "end_turn",
            "usage": USAGE,
            "duration_ms": 1,
            "counts": {"steps": 1, "tool_calls": 0},
        },
    ),
]


@pytest.mark.parametrize(("type", "data"), STRAY, ids=[type for type, _ in STRAY])
def test_an_event_of_a_turn_that_is_not_there_changes_nothing(type: str, data: dict[str, Any]) -> None:
    before = fold(OLD[:1])
    after = apply(before, line(2, type, data, "turn_9"))
    assert after == msgspec.structs.replace(before, seq=2, updated_at=after.updated_at)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_golden_log_folds(case: Any) -> None:
    log = read_lines(case / "log.ndjson")
    assert fold(log).seq == len(log)


@given(st.randoms(use_true_random=False))
def test_any_log_folds_and_its_fold_survives_a_checkpoint(random: Any) -> None:
    """Promise 1 for the state."""
    log = random_log(random).recorded
    cut = random.randrange(len(log) + 1)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(fold(log[:cut])), type=State)
    assert reduce(apply, log[cut:], kept) == fold(log)


@pytest.mark.parametrize("name", CASES)
def test_a_fold_goes_on_from_a_checkpoint_at_any_event(name: str) -> None:
    """Promise 1 for the state."""
    play = played(name)
    state = State()
    for recorded in play.log:
        state = apply(msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State), recorded)
    assert state == play.state


def test_only_the_newest_thousand_messages_are_remembered() -> None:
    """Promise 5: the same `client_message_id` counts once, as long as it is among the last 1 000."""
    play = Play()
    for number in range(KEPT + 1):
        play.says("Hi", client_id=f"c{number}", auto_run=False)
    assert len(play.state.replies) == KEPT
    length = len(play.log)
    play.says("Hi", client_id="c1", auto_run=False)
    assert len(play.log) == length
    play.says("Hi", client_id="c0", auto_run=False)
    assert len(play.log) == length + 1
