"""What the next decision needs, and nothing more.

Every value here is frozen, the dicts too by custom: they are copied before they are changed. So a state can be kept, encoded into a
checkpoint and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal

import msgspec

from palaver.wire.commands import Accepted, Answered, Approved
from palaver.wire.events import ApprovalRequested, QuestionAsked
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import (
    CallKind,
    CancelCause,
    Cost,
    ErrorInfo,
    Message,
    Outcome,
    Plan,
    Refs,
    Rule,
    RunBy,
    SessionInfo,
    Status,
    TextKind,
    ToolCall,
    Trigger,
    Usage,
)

STORED_ROW = 64
KEPT = 1000
"""Replies and answers that a session remembers, so that the same id sent twice counts once."""
QUEUE_LIMIT = 200
NO_USAGE = Usage(0, 0)


class Fold(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of the state."""


class Waiting(Fold, frozen=True):
    """A message in the log that no turn has read yet."""

    message: Message
    joins: Literal["steer", "coming"]
    """The running turn at its next step, or the turn that comes when the running one has ended."""
    refs: Refs | None = None
    scope: str | None = None


class Stored(Fold, frozen=True):
    """A message that was sent without running: the next one that runs takes it along."""

    id: MessageId
    scope: str | None = None


class Item(Fold, frozen=True):
    id: ItemId
    turn_id: TurnId
    delivery: str
    message: Message
    paused: bool = False
    added: bool = False
    """Its `message_added` is in the log: it was a steer or an interrupt that nobody read."""
    refs: Refs | None = None
    scope: str | None = None
    fingerprint: str | None = None


class OpenPart(Fold, frozen=True):
    id: PartId
    kind: TextKind
    text: str
    chars: int


class OpenOutput(Fold, frozen=True):
    id: MessageId
    step_id: StepId
    parts: tuple[OpenPart, ...] = ()
    started_at: str = ""


CallState = Literal["awaiting_approval", "approved", "running"]


class Call(Fold, frozen=True):
    """A call without its result."""

    tool_call: ToolCall
    kind: CallKind
    state: CallState
    message_id: MessageId | None = None
    step_id: StepId | None = None
    run_by: RunBy = "daemon"
    refs: Refs | None = None
    ask: AskId | None = None
    """The approval or question that it waits for, or that was granted."""
    shown: str | None = None
    """The diff that its approval showed, or the hash of one that was too long: nothing else may be done."""
    running_since: str | None = None
    chars: dict[str, int] = {}
    """Code points of each output stream that are in the log."""
    title: str = ""


class Cancel(Fold, frozen=True):
    by: str
    cause: CancelCause
    keep_queue: bool


class Turn(Fold, frozen=True):
    id: TurnId
    trigger: Trigger
    message_ids: tuple[MessageId, ...]
    """What it began with, then the steers that it read."""
    started_at: str
    backend: str
    agent: str
    model: str | None = None
    attempt_of: TurnId | None = None
    cancel: Cancel | None = None
    parked: bool = False
    steps: int = 0
    tool_calls: int = 0
    output: OpenOutput | None = None
    calls: dict[CallId, Call] = {}
    """In the order in which they were started."""
    usage: Usage = NO_USAGE
    cost: Cost | None = None
    """Of the answers so far, where prices are known."""
    narrow: bool = False
    """It reads a message of somebody who may not approve: it is decided in at most the mode `ask`."""
    stepped_at: str = ""
    """When its newest step began."""
    files: int = 0
    """How many it changed, once that is known."""

    @property
    def ending(self) -> bool:
        return self.cancel is not None


class LastTurn(Fold, frozen=True):
    id: TurnId
    outcome: Outcome
    message_ids: tuple[MessageId, ...]
    ended_at: str
    error: ErrorInfo | None = None
    narrow: bool = False
    seq: int = 0
    """Of its end."""
    files: int = 0


class Ask(Fold, frozen=True):
    """An approval or a question that nobody has answered."""

    id: AskId
    seq: int
    requested_at: str
    turn_id: TurnId | None
    """None for what is asked about the session itself."""
    approval: ApprovalRequested | None = None
    question: QuestionAsked | None = None

    @property
    def deadline(self) -> str | None:
        event = self.approval or self.question
        return event.deadline if event else None

    @property
    def call_id(self) -> CallId | None:
        if self.approval:
            return self.approval.tool_call.id if self.approval.tool_call else None
        return self.question.tool_call_id if self.question else None


class Settled(Fold, frozen=True):
    """How an ask ended, for whoever answers it again."""

    approval: Approved | None = None
    question: Answered | None = None
    client_answer_id: str | None = None


class Kept(Fold, frozen=True):
    reply: Accepted
    fingerprint: str | None = None


Standing = Literal["active", "failed", "canceled"]


class Compaction(Fold, frozen=True):
    """Of the history, asked for by a person."""

    seq: int
    instructions: str | None = None


class State(Fold, frozen=True):
    seq: int = 0
    updated_at: str = ""
    info: SessionInfo | None = None
    closed: bool = False
    standing: Standing = "active"
    """What the last turn's end left; `status` says more."""
    turn: Turn | None = None
    last_turn: LastTurn | None = None
    coming: TurnId | None = None
    """The turn that starts when the one that is ending has ended; its messages wait in `waiting`."""
    waiting: dict[MessageId, Waiting] = {}
    stored_rows: tuple[tuple[Stored, ...], ...] = ()
    """In rows, so that one more costs the same however many there are: nobody says how long a script goes on storing."""
    queue: tuple[Item, ...] = ()
    queue_reason: str | None = None
    asks: dict[AskId, Ask] = {}
    settled: dict[AskId, Settled] = {}
    replies: dict[str, Kept] = {}
    grants: tuple[Rule, ...] = ()
    """What approvals of the scope `session` allowed."""
    usage: Usage = NO_USAGE
    cost: Cost | None = None
    turns: int = 0
    compaction: Compaction | None = None
    """Asked for, and not done yet."""
    plan: Plan | None = None
    """The latest one that was shown."""
    news_seq: int = 0
    """Of the newest event that a person wants to hear of: a turn ended, or something is asked."""

    @property
    def id(self) -> SessionId:
        return self.created.id

    @property
    def created(self) -> SessionInfo:
        """The session's facts. A log begins with them, so that they are missing only before its first event."""
        assert self.info is not None
        return self.info

    @property
    def stored(self) -> Iterator[Stored]:
        """The messages that were sent without running, oldest first."""
        return chain.from_iterable(self.stored_rows)

    @property
    def status(self) -> Status:
        if self.closed:
            return "completed"
        if self.asks:
            return "waiting_approval"
        return "active" if self.turn else self.standing

    @property
    def last_turn_id(self) -> TurnId | None:
        return self.turn.id if self.turn else self.last_turn.id if self.last_turn else None

    @property
    def queue_paused(self) -> bool:
        return any(item.paused for item in self.queue)

    @property
    def idle(self) -> bool:
        """Nothing is open and nothing can start: the session may leave memory."""
        return self.turn is None and not self.asks and self.compaction is None

    @property
    def turn_asks(self) -> list[Ask]:
        """What the open turn asks."""
        return [ask for ask in self.asks.values() if self.turn is not None and ask.turn_id == self.turn.id]

    @property
    def only_waits(self) -> bool:
        """The open turn waits for a person and for nothing else: it may stay open over a restart."""
        turn = self.turn
        if turn is None or turn.ending or turn.output is not None or not self.turn_asks:
            return False
        # a call whose ask is gone, or was never written, is one that nothing would let go on
        return all(call.state == "approved" or (call.state != "running" and call.ask in self.asks) for call in turn.calls.values())

    def next_calls(self) -> Iterator[CallId]:
        """The calls that run or may begin now: a read waits for the non-reads before it, everything else for all before it."""
        only_reads, first = True, True
        for call in self.turn.calls.values() if self.turn else ():
            held = not only_reads if call.kind == "read" else not first
            if call.state != "awaiting_approval" and not held:
                yield call.tool_call.id
            only_reads, first = only_reads and call.kind == "read", False
