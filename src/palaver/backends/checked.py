"""What a session's log says about checks of its work: a fold of every event, so that a turn that is resumed knows as much as a new one."""

from __future__ import annotations

from dataclasses import dataclass, field

from palaver.wire import events as e
from palaver.wire.ids import CallId
from palaver.wire.values import ToolResult

NOT_VERIFIED = "not_verified"
"""The code of the notice that there is nothing to check with."""


@dataclass
class Checked:
    """Fed with every event, in order (`take`). Changed in place."""

    touched: bool = False
    """Something that may change files has run in the latest turn."""
    attempts: int = 0
    """Checks that the daemon made by itself in the latest turn, and that have ended."""
    outcome: ToolResult | None = None
    """Of such a check, until the next step begins."""
    hash: str | None = None
    """How the workspace looked after the latest check of any kind."""
    noticed: bool = False
    """The session was told that there is nothing to check with."""
    _changing: set[CallId] = field(default_factory=set)
    _own: set[CallId] = field(default_factory=set)

    def take(self, recorded: e.Recorded) -> None:
        event = recorded.data
        match event:
            case e.TurnStarted():
                self.touched, self.attempts, self.outcome = False, 0, None
                self._changing.clear()
                self._own.clear()
            case e.StepStarted():
                self.outcome = None
            case e.ToolCallStarted(tool_call=call, kind=kind, message_id=message_id):
                if message_id is None and call.name == "verify":
                    self._own.add(call.id)
                elif kind in ("write", "exec"):
                    self._changing.add(call.id)
            case e.ToolCallRunning(tool_call_id=call_id):
                self.touched = self.touched or call_id in self._changing
            case e.ToolCallCompleted(tool_call=ref, tool_result=result) if ref.id in self._own:
                self.outcome = result
                self.attempts += 1
            case e.VerifyCompleted(workspace_hash=workspace_hash):
                self.hash = workspace_hash
            case e.Notice(code=code):
                self.noticed = self.noticed or code == NOT_VERIFIED
