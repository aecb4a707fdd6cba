"""An event with the turn that it is of, before it has a number."""

from __future__ import annotations

from typing import NamedTuple

from palaver.wire.events import AnyEvent, ToolCallCompleted
from palaver.wire.ids import CallId, TurnId
from palaver.wire.values import CallError, CallRef, Part, ToolResult


class Happened(NamedTuple):
    turn_id: TurnId | None
    event: AnyEvent


def of(turn_id: TurnId | None, event: AnyEvent) -> Happened:
    return Happened(turn_id, event)


def denied(call_id: CallId, name: str, code: str, message: str, *, truncated: bool = False) -> ToolCallCompleted:
    """The result of a call that did not run, or did not run to its end: the model reads the message."""
    result = ToolResult(call_id, False, (Part("text", text=message),), error=CallError(code, message), truncated=truncated)
    return ToolCallCompleted(tool_call=CallRef(call_id, name), tool_result=result, duration_ms=0)
