"""What someone wants: orders from people, backends, tools and timers, all through one door.

- A command brings every id and time that its events will need: `decide` invents nothing. Where it may need more than it can
  know, it brings one fresh base (`fresh`) to derive them from.
- A command from a client has a reply; a report of the engine's own mostly has none.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from palaver.wire.events import (
    ArtifactAdded,
    ContextCompacted,
    ContextUsage,
    FilesChanged,
    ModelFallback,
    ModelResolved,
    Notice,
    PlanUpdated,
    TaskFinalized,
    TurnUndone,
    VerifyCompleted,
    snake_case,
)
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, PartId, StepId, TurnId
from palaver.wire.values import (
    Action,
    Answer,
    AnswerCause,
    Budget,
    CallError,
    CallKind,
    CancelCause,
    Cost,
    Delivered,
    Delivery,
    DenyCause,
    EndCause,
    ErrorInfo,
    Location,
    Message,
    Option,
    Part,
    Plan,
    Preview,
    Question,
    Refs,
    RunBy,
    Scope,
    SessionInfo,
    StopReason,
    Stream,
    Subject,
    TextKind,
    ToolCall,
    ToolResult,
    Usage,
)


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=snake_case):
    """One order. Encoded with its name in `type`, as the golden sessions keep it."""


# --- replies ------------------------------------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    message_id: MessageId
    turn_id: TurnId | None
    delivered: Delivered
    item_id: ItemId | None = None


class Cancelling(msgspec.Struct, frozen=True):
    turn_id: TurnId | None


class Retrying(msgspec.Struct, frozen=True):
    turn_id: TurnId


class Approved(msgspec.Struct, frozen=True):
    """How an approval was settled."""

    approval_id: AskId
    outcome: Literal["granted", "denied"]
    by: str
    at: str


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a question was settled."""

    question_id: AskId
    cause: AnswerCause
    by: str
    at: str
    answers: dict[str, Answer] | None = None


Reply = Accepted | Cancelling | Retrying | Approved | Answered


# --- the session --------------------------------------------------------------------------------------------------------------


class CreateSession(Command, frozen=True, kw_only=True):
    session: SessionInfo


class UpdateSession(Command, frozen=True, kw_only=True):
    changes: dict[str, Any]
    """Checked by whoever sends it: names and values of `SessionInfo`."""


class CloseSession(Command, frozen=True, kw_only=True):
    """Written when nothing runs any more; queue items and waiting messages are removed with it."""

    by: str


# --- input --------------------------------------------------------------------------------------------------------------------


class AddMessage(Command, frozen=True, kw_only=True):
    message: Message
    turn_id: TurnId
    """The turn that it will be part of, unless it joins one that there is."""
    item_id: ItemId
    delivery: Delivery = "auto"
    auto_run: bool = True
    scope: str | None = None
    fingerprint: str | None = None
    """Of the parts as the client sent them."""
    refs: Refs | None = None
    """Into `message`."""


class EditItem(Command, frozen=True, kw_only=True):
    item_id: ItemId
    parts: tuple[Part, ...] | None = None
    refs: Refs | None = None
    """Into the message with these parts."""
    message_id: MessageId | None = None
    """For an item whose first text is in the log already: its new text is a new message."""
    before: ItemId | msgspec.UnsetType | None = msgspec.UNSET
    """The item that it is to stand before; None puts it at the end."""
    scope: str | None = None


class RemoveItem(Command, frozen=True, kw_only=True):
    item_id: ItemId


class PromoteItem(Command, frozen=True, kw_only=True):
    item_id: ItemId
    turn_id: TurnId
    """For a coming turn that has no id yet."""
    scope: str | None = None
    by: str = "user"


class PauseQueue(Command, frozen=True, kw_only=True):
    reason: str = "user"
    fresh: str | None = None
    """At a start: messages that no turn is there to read become items too, and their ids are derived from this."""


class ResumeQueue(Command, frozen=True, kw_only=True):
    pass


# --- the turn, from people ----------------------------------------------------------------------------------------------------


class CancelTurn(Command, frozen=True, kw_only=True):
    by: str
    fresh: str
    cause: CancelCause = "user_cancel"
    turn_id: TurnId | None = None
    keep_queue: bool = True


class RetryTurn(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    new_turn_id: TurnId
    scope: str | None = None


class RequestCompaction(Command, frozen=True, kw_only=True):
    by: str
    instructions: str | None = None


class AnswerApproval(Command, frozen=True, kw_only=True):
    approval_id: AskId
    action: Action
    by: str
    at: str
    scope: Scope = "once"
    option_id: str | None = None
    reason: str | None = None
    input: Any = None
    input_refs: Refs | None = None
    """Into `input`."""
    cause: DenyCause = "user"
    client_answer_id: str | None = None


class AnswerQuestion(Command, frozen=True, kw_only=True):
    question_id: AskId
    cause: AnswerCause
    by: str
    at: str
    result: ToolResult
    """What the call that asked hears."""
    answers: dict[str, Answer] | None = None
    reason: str | None = None
    refs: Refs | None = None
    """Into `answers`."""
    result_refs: Refs | None = None
    """Into `result`."""
    client_answer_id: str | None = None


# --- the turn, as it is reported ----------------------------------------------------------------------------------------------


class BeginStep(Command, frozen=True, kw_only=True):
    """The next model call begins: what waits as a steer is read by it."""

    turn_id: TurnId
    step_id: StepId


class BeginOutput(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    message_id: MessageId
    step_id: StepId


class AddText(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    message_id: MessageId
    part_id: PartId
    kind: TextKind
    offset: int
    text: str
    data: Any = None


class CompleteOutput(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    message: Message
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None


class DiscardOutput(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    message_id: MessageId


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An approval that a call needs, before it is asked."""

    id: AskId
    preview: Preview
    options: tuple[Option, ...]
    subject: Subject = "tool"
    reason: str | None = None
    deadline: str | None = None
    refs: Refs | None = None
    """Into `preview`."""
    budget: Budget | None = None


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question that is a call's only effect."""

    id: AskId
    questions: tuple[Question, ...]
    deadline: str | None = None
    refs: Refs | None = None
    """Into `questions`."""


class NewCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a batch with what was decided about it: let run, to be asked, or answered with an error at once."""

    tool_call: ToolCall
    kind: CallKind
    title: str
    locations: tuple[Location, ...] = ()
    message_id: MessageId | None = None
    step_id: StepId | None = None
    run_by: RunBy = "daemon"
    refs: Refs | None = None
    """Into `tool_call.input`."""
    approval: Approval | None = None
    inquiry: Inquiry | None = None
    error: CallError | None = None
    truncated: bool = False
    """With `error`: the answer that made the call was cut off."""
    plan: Plan | None = None
    """That the approval is about."""


class StartCalls(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    calls: tuple[NewCall, ...]


class AskAgain(Command, frozen=True, kw_only=True):
    """What a granted call would do is no longer what was shown: a new approval, before it begins."""

    turn_id: TurnId
    tool_call_id: CallId
    approval: Approval


class RequestApproval(Command, frozen=True, kw_only=True):
    """An approval that is about the turn and not about a call."""

    turn_id: TurnId
    approval: Approval


class BeginCall(Command, frozen=True, kw_only=True):
    """The effect is next. Whoever sends this waits for the disk before causing it."""

    turn_id: TurnId
    tool_call_id: CallId


class AddOutput(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    tool_call_id: CallId
    stream: Stream
    offset: int
    text: str


class CompleteCall(Command, frozen=True, kw_only=True):
    turn_id: TurnId
    result: ToolResult
    duration_ms: int
    refs: Refs | None = None
    """Into `result`."""


Fact = (
    ModelResolved
    | ModelFallback
    | PlanUpdated
    | FilesChanged
    | VerifyCompleted
    | TaskFinalized
    | ArtifactAdded
    | ContextUsage
    | ContextCompacted
    | Notice
    | TurnUndone
)
"""What needs no decision: it happened, and the log says so."""


class NoteFact(Command, frozen=True, kw_only=True):
    turn_id: TurnId | None
    fact: Any
    """One of `Fact`; untagged on the wire, so golden sessions do not use it."""


class FinishTurn(Command, frozen=True, kw_only=True):
    """The turn is over, by itself or by a crash. One whose cancel was requested ends cancelled whatever this says."""

    turn_id: TurnId
    outcome: Literal["completed", "failed", "interrupted"]
    stop_reason: StopReason
    fresh: str
    at: str
    duration_ms: int
    cause: EndCause | None = None
    error: ErrorInfo | None = None
    cost: Cost | None = None
    changes: FilesChanged | None = None


class EndCancelled(Command, frozen=True, kw_only=True):
    """Everything that the cancelled turn had started has stopped."""

    turn_id: TurnId
    fresh: str
    at: str
    duration_ms: int
    cost: Cost | None = None
    cause: EndCause | None = None
    """The daemon ended first: nothing begins after this turn, what waited becomes the first, paused items."""
    changes: FilesChanged | None = None


class ParkTurn(Command, frozen=True, kw_only=True):
    """At a start: this turn only waits for a person, and stays open."""

    turn_id: TurnId


AnyCommand = (
    CreateSession
    | UpdateSession
    | CloseSession
    | AddMessage
    | EditItem
    | RemoveItem
    | PromoteItem
    | PauseQueue
    | ResumeQueue
    | CancelTurn
    | RetryTurn
    | RequestCompaction
    | AnswerApproval
    | AnswerQuestion
    | BeginStep
    | BeginOutput
    | AddText
    | CompleteOutput
    | DiscardOutput
    | StartCalls
    | AskAgain
    | RequestApproval
    | BeginCall
    | AddOutput
    | CompleteCall
    | NoteFact
    | FinishTurn
    | EndCancelled
    | ParkTurn
)

_commands: msgspec.json.Decoder[AnyCommand] = msgspec.json.Decoder(AnyCommand)


def decode_command(line: bytes) -> AnyCommand:
    return _commands.decode(line)
