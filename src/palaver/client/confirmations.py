"""Tool calls that wait for somebody's word: which ones, and the answer to each."""

from __future__ import annotations

import logging

from palaver.client.store import Store
from palaver.client.types import (
    ClientSeam,
    ConfirmationDecision,
    ConfirmationPolicy,
    Respond,
    StreamEvent,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolConfirmationsState,
    ToolConfirmationState,
)

_log = logging.getLogger("palaver.client")


class ToolConfirmations(Store[ToolConfirmationsState]):
    """A policy answers first; what it leaves to the person is pending. A later request denies no earlier one.

    With `subscribe=False` somebody else calls `handle_confirmation`, and `process_event` for what was settled elsewhere.
    """

    def __init__(
        self,
        client: ClientSeam,
        *,
        session_id: str | None = None,
        policy: ConfirmationPolicy | None = None,
        subscribe: bool = True,
    ) -> None:
        super().__init__()
        self._pending: list[ToolConfirmationState] = []
        self._policy = policy
        self._snapshot = self._take_snapshot()
        if subscribe and session_id:
            accessor = client.session(session_id)
            self._ends = [
                accessor.on_event(self.process_event),
                accessor.on_tool_confirmation(self.handle_confirmation),
                accessor.unsubscribe,
            ]
            accessor.subscribe()

    @property
    def pending(self) -> ToolConfirmationState | None:
        return self._snapshot.pending

    @property
    def pending_all(self) -> tuple[ToolConfirmationState, ...]:
        return self._snapshot.pending_all

    def handle_confirmation(self, request: ToolConfirmationRequest, respond: Respond) -> None:
        """Let the policy answer, or show it to the person. One that is already shown is shown anew."""
        decision = self._decide(request)
        if decision["action"] == "approve":
            respond({"approved": True})
        elif decision["action"] == "deny":
            reason = decision.get("reason")
            respond({"approved": False} if reason is None else {"approved": False, "reason": reason})
        else:
            self._pending = [*self._others(request["toolUseId"]), ToolConfirmationState(request, respond)]
            self._changed()

    def respond(self, response: ToolConfirmationResponse, tool_use_id: str | None = None) -> bool:
        """Answer the newest one, or the one that is named; False where there is none. Then the next newest is pending."""
        asked = [waits for waits in self._pending if tool_use_id in (None, waits.request["toolUseId"])]
        if not asked:
            return False
        asked[-1].respond(response)
        self._drop(asked[-1].request["toolUseId"])
        return True

    def process_event(self, event: StreamEvent) -> None:
        """What was settled elsewhere is dropped; after a restored log the requests that are open come anew."""
        if event["type"] == "tool_confirmation_settled":
            self._drop(event["callId"])
        elif event["type"] == "session_restored" and self._pending:
            self._pending = []
            self._changed()

    def _decide(self, request: ToolConfirmationRequest) -> ConfirmationDecision:
        """An answer that was refused comes back to a person, and so does what a broken policy did not decide."""
        if self._policy is None or "refused" in request.get("metadata", {}):
            return {"action": "prompt"}
        try:
            return self._policy(request)
        except Exception:
            _log.exception("The confirmation policy raised; %s is left to the person", request["name"])
            return {"action": "prompt"}

    def _others(self, tool_use_id: str) -> list[ToolConfirmationState]:
        return [waits for waits in self._pending if waits.request["toolUseId"] != tool_use_id]

    def _drop(self, tool_use_id: str) -> None:
        others = self._others(tool_use_id)
        if len(others) != len(self._pending):
            self._pending = others
            self._changed()

    def _take_snapshot(self) -> ToolConfirmationsState:
        return ToolConfirmationsState(self._pending[-1] if self._pending else None, tuple(self._pending))
