"""What every session's log keeps to, whatever happened in it: the numbered promises, as far as events can show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from palaver.backends.history import History, is_legal
from palaver.core.due import AwaitDeadline, CompactHistory, EndTurn, RunTool, TakeTurn, due
from palaver.core.state import State
from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, MessageId, TurnId

BARRED = (
    e.StepStarted
    | e.ModelOutputStarted
    | e.ToolCallStarted
    | e.ToolCallRunning
    | e.ApprovalRequested
    | e.QuestionAsked
    | e.MessageDelivered
    | e.TurnParked
)
"""What a turn whose cancel was requested brings no more."""


class Law:
    """Takes the log event by event; `holds` compares what it saw with the state."""

    def __init__(self) -> None:
        self.seq = 0
        self.turn: TurnId | None = None
        self.cancelled = False
        self.ended: set[TurnId] = set()
        self.calls: set[CallId] = set()
        self.running: set[CallId] = set()
        self.barred: set[CallId] = set()
        """Calls that may not begin: what they wait for is not granted."""
        self.asks: set[AskId] = set()
        self.chars: Counter[tuple[str, str]] = Counter()
        self.seen: dict[MessageId, TurnId | None] = {}
        """Each message of the input, with the turn that it was last said to be part of."""
        self.steers: set[MessageId] = set()
        self.read: set[MessageId] = set()
        self.standing = "active"
        self.closed = False
        self.fork = False
        """Left out of a fork is what its queue was, and its last turn ends interrupted whatever was asked of it."""
        self.history = History()

    def take(self, recorded: e.Recorded) -> None:
        assert recorded.seq == self.seq + 1
        self.seq = recorded.seq
        self.history.take(recorded)
        assert not (self.cancelled and isinstance(recorded.data, BARRED)), f"{recorded.type} after the cancel"
        self._turns(recorded)
        self._calls(recorded)
        self._asks(recorded)
        self._texts(recorded)
        self._input(recorded)

    def _turns(self, recorded: e.Recorded) -> None:
        match recorded.data:
            case e.SessionCreated(session=session):
                self.fork = session.forked_from is not None
            case e.TurnStarted():
                assert self.turn is None and recorded.turn_id is not None
                assert recorded.turn_id not in self.ended
                self.turn, self.cancelled, self.standing = recorded.turn_id, False, "active"
            case e.TurnCancelRequested():
                assert recorded.turn_id == self.turn and not self.cancelled
                self.cancelled = True
            case e.TurnCompleted(outcome=outcome):
                assert recorded.turn_id == self.turn and self.turn is not None
                assert (outcome == "cancelled") == self.cancelled or (self.fork and outcome == "interrupted")
                assert not self.calls and not self.asks, "a turn ended before what it had begun"
                self.ended.add(self.turn)
                self.turn, self.cancelled = None, False
                self.standing = {"failed": "failed", "cancelled": "canceled"}.get(outcome, "active")
            case e.SessionFailed(turn_id=turn_id) | e.SessionCanceled(turn_id=turn_id):
                assert turn_id in self.ended and self.turn is None
            case e.SessionCompleted():
                assert self.turn is None
                self.closed = True

    def _calls(self, recorded: e.Recorded) -> None:
        match recorded.data:
            case e.ToolCallStarted(tool_call=call, waits=waits):
                assert call.id not in self.calls and self.turn is not None
                self.calls.add(call.id)
                if waits:
                    self.barred.add(call.id)
            case e.ApprovalRequested(tool_call=call_asked) if call_asked is not None:
                self.barred.add(call_asked.id)
            case e.ApprovalGranted(tool_call=granted) if granted is not None:
                self.barred.discard(granted.id)
            case e.ToolCallRunning(tool_call_id=call_id):
                assert call_id in self.calls and call_id not in self.running
                assert call_id not in self.barred, "a call began that nobody allowed"
                self.running.add(call_id)
            case e.ToolCallCompleted(tool_call=call_ref):
                assert call_ref.id in self.calls
                self.calls.discard(call_ref.id)

    def _asks(self, recorded: e.Recorded) -> None:
        match recorded.data:
            case e.ApprovalRequested(approval_id=ask_id) | e.QuestionAsked(question_id=ask_id):
                assert ask_id not in self.asks
                self.asks.add(ask_id)
            case e.ApprovalGranted(approval_id=ask_id) | e.ApprovalDenied(approval_id=ask_id) | e.QuestionAnswered(question_id=ask_id):
                assert ask_id in self.asks, "settled twice, or never asked"
                self.asks.discard(ask_id)

    def _texts(self, recorded: e.Recorded) -> None:
        """The texts of a plain stream's deltas add up."""
        match recorded.data:
            case e.ModelOutputDelta(message_id=message_id, part_id=part_id, offset=offset, text=text):
                assert offset == self.chars[message_id, part_id]
                self.chars[message_id, part_id] += len(text)
            case e.ToolOutputDelta(tool_call_id=call_id, stream=stream, offset=offset, text=text):
                assert offset == self.chars[call_id, stream]
                self.chars[call_id, stream] += len(text)

    def _input(self, recorded: e.Recorded) -> None:
        match recorded.data:
            case e.MessageAdded(message=message, delivery=delivery):
                self.seen[message.id] = recorded.turn_id
                if delivery == "steer":
                    self.steers.add(message.id)
            case e.QueueChanged(items=items, steered=steered):
                for item in items:
                    if item.message is not None:
                        self.seen[item.message_id] = item.turn_id
                        self.steers.discard(item.message_id)
                for message_id in steered:
                    self.seen[message_id] = recorded.turn_id
                    if self.turn is not None and recorded.turn_id == self.turn:
                        self.steers.add(message_id)
            case e.TurnStarted(message_ids=ids, attempt_of=attempt_of):
                for message_id in ids:
                    promised = self.seen[message_id]
                    waited = self.fork or message_id in self.steers or promised is None
                    assert attempt_of or waited or promised == recorded.turn_id, f"{message_id} was promised {promised}"
                    assert attempt_of or message_id not in self.read
                self.read.update(ids)
            case e.MessageDelivered(message_id=message_id):
                assert self.fork or self.seen[message_id] in (self.turn, None)
                assert message_id not in self.read
                self.read.add(message_id)

    def holds(self, state: State) -> None:
        assert state.seq == self.seq
        assert (state.turn.id if state.turn else None) == self.turn
        assert set(state.asks) == self.asks
        assert set(state.turn.calls if state.turn else ()) == self.calls
        self._status(state)
        self._places(state)
        _work(state)
        wrong = is_legal(self.history.messages(closing=True))
        assert wrong is None, wrong

    def _status(self, state: State) -> None:
        expected = "completed" if self.closed else "waiting_approval" if self.asks else "active" if self.turn else self.standing
        assert state.status == expected

    def _places(self, state: State) -> None:
        """Each message is in one place only, and what was read waits nowhere."""
        places = Counter(waiting_ids(state))
        assert all(count == 1 for count in places.values()), places
        assert not places.keys() & self.read
        if state.turn is None:
            assert state.coming is None

    def nowhere(self, state: State) -> set[MessageId]:
        """Messages of the log that no turn read and that wait for none."""
        return set(self.seen) - self.read - set(waiting_ids(state))


def waiting_ids(state: State) -> Iterable[MessageId]:
    yield from state.waiting
    yield from (stored.id for stored in state.stored)
    yield from (item.message.id for item in state.queue)


def _work(state: State) -> None:
    turn, work = state.turn, due(state)
    if turn is None:
        assert work == (frozenset() if state.compaction is None else {CompactHistory(state.compaction.seq)})
        return
    assert all(piece.turn_id == turn.id for piece in work if not isinstance(piece, AwaitDeadline | CompactHistory))
    if turn.ending:
        assert work == {EndTurn(turn.id)}
        return
    deadlines = {ask.id for ask in state.asks.values() if ask.deadline}
    assert {piece.ask_id for piece in work if isinstance(piece, AwaitDeadline)} == deadlines
    runs = {piece.call_id for piece in work if isinstance(piece, RunTool)}
    assert (TakeTurn(turn.id) in work) != turn.parked
    assert not (turn.parked and runs)
    assert all(turn.calls[id].state in ("approved", "running") for id in runs)
    running = {id for id, call in turn.calls.items() if call.state == "running"}
    assert running <= runs, "a call that runs must stay listed, or it is ended"


def lawful(log: Sequence[e.Recorded], state: State) -> Law:
    law = Law()
    for recorded in log:
        law.take(recorded)
    law.holds(state)
    return law
