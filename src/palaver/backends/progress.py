"""Whether a turn gets anywhere, and how long it has worked: a fold of its events, so that a resumed turn knows as much as before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import msgspec

from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId
from palaver.wire.values import Budget, Refs, ToolCall, ToolResult

_Pair = tuple[bytes, bytes]
"""A call and its result, by their hashes."""


NO_MORE = Budget(0, 0.0, 0.0)


@dataclass
class Progress:
    """Of one turn. Fed with every event of it, in order (`take`). Changed in place."""

    _since: str | None
    """When it began to work; None while it waits for a person alone."""
    same: int = 0
    """How often one call has had one and the same result while nothing new came of any other."""
    name: str = ""
    """The tool of that call."""
    more: Budget = NO_MORE
    """What a person gave beyond the limits."""
    declined: bool = False
    """A person was asked for more, and did not give it."""
    _budgets: dict[AskId, Budget] = field(default_factory=dict)
    _calls: dict[CallId, tuple[str, bytes]] = field(default_factory=dict)
    _known: set[_Pair] = field(default_factory=set)
    _again: Counter[_Pair] = field(default_factory=Counter)
    """Since the last pair that was new, or the last word of the person."""
    _worked_s: float = 0.0
    _asks: set[AskId] = field(default_factory=set)
    _busy: set[str] = field(default_factory=set)
    """What goes on beside the asks: calls that run, and the message that is being written."""

    def take(self, recorded: e.Recorded) -> None:
        event = recorded.data
        match event:
            case e.ModelOutputDelta() | e.ToolOutputDelta():
                return  # nearly all events are these
            case e.MessageDelivered():
                self._known.clear()
                self._again.clear()
                self.same = 0
            case e.ToolCallStarted(tool_call=call, message_id=message_id) if message_id is not None:
                self._calls[call.id] = call.name, _hash_of_call(call, event.refs)
            case e.ToolCallCompleted(tool_call=ref, tool_result=result):
                self._busy.discard(ref.id)
                if ref.id in self._calls:
                    name, asked = self._calls.pop(ref.id)
                    self._had(name, (asked, _hash_of_result(result, event.refs)))
            case e.ApprovalRequested(approval_id=ask_id, budget=budget) if budget is not None:
                self._budgets[ask_id] = budget
            case e.ApprovalGranted(approval_id=ask_id, input=changed) if ask_id in self._budgets:
                self._given(self._budgets[ask_id] if changed is None else msgspec.convert(changed, Budget))
            case e.ApprovalDenied(approval_id=ask_id) if ask_id in self._budgets:
                self.declined = True
        self._clock(recorded, event)

    def _given(self, more: Budget) -> None:
        had = self.more
        self.more = Budget(
            (had.steps or 0) + (more.steps or 0), (had.cost or 0.0) + (more.cost or 0.0), (had.seconds or 0.0) + (more.seconds or 0.0)
        )

    def _had(self, name: str, pair: _Pair) -> None:
        if pair not in self._known:
            self._known.add(pair)
            self._again.clear()
            self.same = 0
        self._again[pair] += 1
        if self._again[pair] > self.same:
            self.same, self.name = self._again[pair], name

    # --- time -----------------------------------------------------------------------------------------------------------------

    def worked_s(self, now: str) -> float:
        """Seconds that the turn has worked so far; what it waited for a person alone does not count."""
        return self._worked_s + (_seconds(self._since, now) if self._since else 0.0)

    def _clock(self, recorded: e.Recorded, event: e.AnyEvent) -> None:
        match event:
            case e.ApprovalRequested(approval_id=ask_id) | e.QuestionAsked(question_id=ask_id):
                self._asks.add(ask_id)
            case e.ApprovalGranted(approval_id=ask_id) | e.ApprovalDenied(approval_id=ask_id) | e.QuestionAnswered(question_id=ask_id):
                self._asks.discard(ask_id)
            case e.ToolCallRunning(tool_call_id=call_id):
                self._busy.add(call_id)
            case e.ModelOutputStarted(message_id=message_id):
                self._busy.add(message_id)
            case e.ModelOutputDiscarded(message_id=message_id):
                self._busy.discard(message_id)
            case e.ModelOutputCompleted(message=message):
                self._busy.discard(message.id)
        waits = bool(self._asks) and not self._busy
        if waits and self._since is not None:
            self._worked_s += _seconds(self._since, recorded.ts)
            self._since = None
        elif not waits and self._since is None:
            self._since = recorded.ts


def _hash_of_call(call: ToolCall, refs: Refs | None) -> bytes:
    return _hash([call.name, call.input, call.input_raw, _hashes(refs)])


def _hash_of_result(result: ToolResult, refs: Refs | None) -> bytes:
    """Not its artifacts: each run writes its own."""
    said = [(part.type, part.text) for part in result.parts]
    return _hash([result.ok, result.error, said, _hashes(refs)])


def _hashes(refs: Refs | None) -> list[str]:
    return [ref.sha256 for ref in (refs or {}).values()]


def _hash(value: object) -> bytes:
    return sha256(msgspec.json.encode(value, order="sorted")).digest()


def _seconds(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
