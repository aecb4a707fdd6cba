"""What a session's log must look like, whatever happened while it was written (promises 1 to 4 and 6)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from palaver.backends.history import History, is_legal
from palaver.core.apply import apply
from palaver.core.state import State
from palaver.views.transcript import Transcript, show, to_page
from palaver.wire import events as e
from palaver.wire.codec import decode_event


class Told:
    """One log as it is on disk, folded in every way. A torn last line is not looked at."""

    def __init__(self, folder: Path) -> None:
        whole = (folder / "events.ndjson").read_bytes()
        self.lines = whole[: whole.rfind(b"\n") + 1].split(b"\n")[:-1]
        self.id = folder.name
        self.recorded = [decode_event(line) for line in self.lines]
        self.state = State()
        self.history = History()
        self.transcript = Transcript()
        for recorded in self.recorded:
            self.state = apply(self.state, recorded)
            self.history.take(recorded)
            show(self.transcript, recorded)

    def all(self, kind: type[e.Event]) -> list[Any]:
        return [recorded.data for recorded in self.recorded if isinstance(recorded.data, kind)]

    def page(self) -> Any:
        """The transcript as parsed JSON."""
        return msgspec.json.decode(msgspec.json.encode(to_page(self.transcript)))

    def open_calls(self) -> set[str]:
        return set(self.state.turn.calls) if self.state.turn else set()

    def message_ids(self) -> set[str]:
        """Of every message that was accepted, read or not."""
        queued = {entry.message_id for event in self.all(e.QueueChanged) for entry in event.items}
        return queued | {event.message.id for event in self.all(e.MessageAdded)}

    def of_client_message(self, id: str) -> set[str]:
        """The ids under which a message that a client named so was accepted."""
        queued = [entry.message for event in self.all(e.QueueChanged) for entry in event.items if entry.message]
        messages = [*queued, *(event.message for event in self.all(e.MessageAdded))]
        return {message.id for message in messages if message.client_message_id == id}

    # --- what must hold -------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """At any moment, also between a crash and the next start."""
        assert [recorded.seq for recorded in self.recorded] == list(range(1, len(self.recorded) + 1)), f"gaps in {self.id}"
        assert not [recorded for recorded in self.recorded if isinstance(recorded.data, e.UnknownEvent)], self.id
        self._check_turns()
        self._check_calls()
        self._check_asks()
        wrong = is_legal(self.history.messages(closing=True))
        assert wrong is None, (self.id, wrong)

    def goes_on(self, since: int) -> bool:
        """A grant that was on disk has settled what its turn waited for, after the event `since`."""
        settled = [one for one in self.recorded[since:] if isinstance(one.data, e.ApprovalGranted) and one.data.by == "policy"]
        return self.state.turn is not None and any(one.turn_id == self.state.turn.id for one in settled)

    def check_recovered(self, since: int) -> None:
        """After a start has looked at it, and whatever went on has come to an end."""
        self.check()
        state = self.state
        if state.turn is not None:
            assert state.asks and state.only_waits, (self.id, state.turn)
            assert state.turn.parked or self.goes_on(since), (self.id, state.turn)
        else:
            assert not state.asks, (self.id, state.asks)
        assert all(item.paused for item in state.queue), (self.id, state.queue)
        assert not state.waiting or state.turn, (self.id, state.waiting)

    def _check_turns(self) -> None:
        starts = Counter(recorded.turn_id for recorded in self.recorded if isinstance(recorded.data, e.TurnStarted))
        ends = Counter(recorded.turn_id for recorded in self.recorded if isinstance(recorded.data, e.TurnCompleted))
        still = Counter([self.state.turn.id] if self.state.turn else [])
        assert starts == ends + still, (self.id, starts, ends)
        assert set(starts.values()) <= {1}, (self.id, starts)
        cancelled = {recorded.turn_id for recorded in self.recorded if isinstance(recorded.data, e.TurnCancelRequested)}
        for recorded in self.recorded:
            if isinstance(recorded.data, e.TurnCompleted) and recorded.turn_id in cancelled:
                assert recorded.data.outcome == "cancelled", (self.id, recorded)

    def _check_calls(self) -> None:
        starts = Counter(event.tool_call.id for event in self.all(e.ToolCallStarted))
        runs = Counter(event.tool_call_id for event in self.all(e.ToolCallRunning))
        ends = Counter(event.tool_call.id for event in self.all(e.ToolCallCompleted))
        assert starts == ends + Counter(self.open_calls()), (self.id, starts, ends)
        assert set(starts.values()) | set(runs.values()) <= {1}, (self.id, starts, runs)
        assert runs <= starts

    def _check_asks(self) -> None:
        asked = Counter([event.approval_id for event in self.all(e.ApprovalRequested)])
        asked += Counter([event.question_id for event in self.all(e.QuestionAsked)])
        settled = Counter([event.approval_id for event in (*self.all(e.ApprovalGranted), *self.all(e.ApprovalDenied))])
        settled += Counter([event.question_id for event in self.all(e.QuestionAnswered)])
        assert asked == settled + Counter(self.state.asks.keys()), (self.id, asked, settled)
        assert set(asked.values()) <= {1}, (self.id, asked)


def check_effects(logs: list[Told], effects: Path) -> None:
    """No effect without its `tool_call_running`, none twice, and none missing of a call that says it went well."""
    done = Counter(effects.read_text().splitlines()) if effects.exists() else Counter[str]()
    commands: dict[str, str] = {}
    ran, went_well = set[str](), set[str]()  # by call: a fork has copies of the events of one call
    for log in logs:
        commands |= {call.id: call.input["command"] for one in log.all(e.ToolCallStarted) if (call := one.tool_call).name == "shell"}
        ran |= {one.tool_call_id for one in log.all(e.ToolCallRunning)}
        went_well |= {one.tool_call.id for one in log.all(e.ToolCallCompleted) if one.tool_result.ok}
    may = Counter(token for call in ran for token in _tokens(commands.get(call, "")))
    must = Counter(token for call in went_well for token in _tokens(commands.get(call, "")))
    assert done <= may, f"effects without a call, or twice: {done - may}"
    assert must <= done, f"effects that a result tells of and nobody finds: {must - done}"


def _tokens(command: str) -> list[str]:
    words = command.replace(";", " ").split()
    return [words[place + 1] for place, word in enumerate(words[:-1]) if word.startswith("./note")]
