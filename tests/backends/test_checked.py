"""What the log says about checks: the same whether it was heard as it came or read again."""

from __future__ import annotations

from palaver.backends.checked import NOT_VERIFIED, Checked
from palaver.wire import events as e
from palaver.wire.ids import CallId, MessageId, SessionId, StepId, TurnId
from palaver.wire.values import CallError, CallKind, CallRef, ToolCall, ToolResult

STARTED = e.TurnStarted(trigger="user", message_ids=(), backend="loop", agent="palaver")


def heard(*events: e.AnyEvent) -> Checked:
    checked = Checked()
    for seq, event in enumerate((STARTED, *events), 1):
        checked.take(e.Recorded(seq, "2026-01-01T00:00:00.000Z", SessionId("sess_1"), TurnId("turn_1"), event))
    return checked


def started(name: str, kind: CallKind, message: str | None = "msg_1") -> e.ToolCallStarted:
    return e.ToolCallStarted(
        tool_call=ToolCall(CallId("call_1"), name, {}),
        kind=kind,
        title=name,
        locations=(),
        run_by="daemon",
        message_id=MessageId(message) if message else None,
        step_id=None,
    )


RUNNING = e.ToolCallRunning(tool_call_id=CallId("call_1"))
FAILED = e.ToolCallCompleted(
    tool_call=CallRef(CallId("call_1"), "verify"),
    tool_result=ToolResult(CallId("call_1"), False, (), error=CallError("tool_error", "Exit code 2.")),
    duration_ms=1,
)


def test_only_a_call_that_ran_and_may_change_files_touches_them() -> None:
    """DESIGN 5.5: a read changes nothing, nor does what was asked and denied."""
    assert heard(started("shell", "exec"), RUNNING).touched
    assert heard(started("apply_patch", "write"), RUNNING).touched
    assert not heard(started("read_file", "read"), RUNNING).touched
    assert not heard(started("shell", "exec")).touched
    assert not heard(started("verify", "exec", None), RUNNING).touched
    assert not heard(started("shell", "exec"), RUNNING, STARTED).touched


def test_the_outcome_of_an_own_check_stands_until_the_next_step() -> None:
    own = (started("verify", "exec", None), RUNNING, FAILED)
    assert heard(*own).outcome == FAILED.tool_result
    after = heard(*own, e.StepStarted(step_id=StepId("step_2"), index=2))
    assert (after.outcome, after.attempts) == (None, 1)
    assert heard(*own, STARTED).attempts == 0
    asked_for = heard(started("verify", "exec"), RUNNING, FAILED)
    assert (asked_for.outcome, asked_for.attempts, asked_for.touched) == (None, 0, True)


def test_the_look_of_the_workspace_and_the_notice_outlive_the_turn() -> None:
    verified = e.VerifyCompleted(ok=True, clean=True, dirty=(), commands=(), workspace_hash="abc", tool_call_id=CallId("call_1"))
    checked = heard(verified, e.Notice(level="info", code=NOT_VERIFIED, text="…"), STARTED)
    assert (checked.hash, checked.noticed) == ("abc", True)
    assert not heard(e.Notice(level="info", code="other", text="…")).noticed
