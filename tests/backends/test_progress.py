"""What the log says about a turn's progress and its time: the same whether it was heard as it came or read again."""

from __future__ import annotations

import pytest

from palaver.backends.progress import Progress
from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, MessageId, SessionId, StepId, TurnId
from palaver.wire.values import CallRef, FileRef, Part, Preview, Refs, ToolCall, ToolResult


def at(second: float) -> str:
    return f"2026-01-01T00:00:{second:06.3f}Z"


class Turn:
    def __init__(self) -> None:
        self.progress = Progress(at(0))
        self._seq = 0

    def take(self, second: float, event: e.AnyEvent) -> None:
        self._seq += 1
        self.progress.take(e.Recorded(self._seq, at(second), SessionId("sess_1"), TurnId("turn_1"), event))

    def call(self, name: str, input: object, said: str, *, own: bool = False, refs: Refs | None = None) -> int:
        """How often the same has come of the same, after this call."""
        self.start(f"call_{self._seq}", name, input, own=own)
        return self.end(f"call_{self._seq - 1}", name, said, refs)

    def start(self, id: str, name: str, input: object, *, own: bool = False) -> None:
        call = ToolCall(CallId(id), name, input)
        message_id = None if own else MessageId("msg_1")
        started = e.ToolCallStarted(
            tool_call=call, kind="exec", title=name, locations=(), run_by="daemon", message_id=message_id, step_id=StepId("step_1")
        )
        self.take(0, started)

    def end(self, id: str, name: str, said: str, refs: Refs | None = None) -> int:
        result = ToolResult(CallId(id), True, (Part("text", text=said),), artifacts=(f"artifacts/{id}",))
        self.take(0, e.ToolCallCompleted(tool_call=CallRef(CallId(id), name), tool_result=result, duration_ms=self._seq, refs=refs))
        return self.progress.same


def test_the_same_call_counts_whatever_its_duration_artifacts_and_order_of_keys() -> None:
    turn = Turn()
    assert [turn.call("shell", {"a": 1, "b": 2}, "x"), turn.call("shell", {"b": 2, "a": 1}, "x")] == [1, 2]


def test_another_result_another_input_or_another_tool_is_new() -> None:
    turn = Turn()
    assert turn.call("shell", {"a": 1}, "x") == 1
    assert turn.call("shell", {"a": 1}, "x") == 2
    assert turn.call("shell", {"a": 1}, "y") == 1
    assert turn.call("shell", {"a": 2}, "y") == 1
    assert turn.call("verify", {"a": 2}, "y") == 1
    assert turn.call("shell", {"a": 1}, "x") == 1, "known, but something new came since"


def test_results_that_differ_only_in_what_was_left_out_differ() -> None:
    turn = Turn()
    for sha in ("1", "2"):
        assert turn.call("shell", {}, "x", refs={"/tool_result/parts/0/text": FileRef("artifacts/f", 9, sha)}) == 1


def test_a_check_that_the_daemon_makes_itself_does_not_count() -> None:
    turn = Turn()
    assert [turn.call("verify", {}, "failed", own=True) for _ in range(6)] == [0] * 6


def test_time_stands_still_only_while_a_person_alone_is_waited_for() -> None:
    turn = Turn()
    turn.take(1, e.ModelOutputStarted(message_id=MessageId("msg_1"), step_id=StepId("step_1")))
    turn.start("call_r", "read_file", {})
    asked = e.ApprovalRequested(approval_id=AskId("appr_1"), subject="tool", tool_call=None, kind="exec", preview=Preview(), options=())
    turn.take(2, asked)
    assert turn.progress.worked_s(at(3)) == 3, "the message is still being written"
    turn.take(4, e.ModelOutputDiscarded(message_id=MessageId("msg_1")))
    assert turn.progress.worked_s(at(9)) == 4
    turn.take(10, e.ToolCallRunning(tool_call_id=CallId("call_r")))
    assert turn.progress.worked_s(at(12)) == pytest.approx(6)
    turn.end("call_r", "read_file", "x")
    turn.take(20, e.ApprovalGranted(approval_id=AskId("appr_1"), tool_call=None, by="me", scope="once"))
    assert turn.progress.worked_s(at(21)) > 0
