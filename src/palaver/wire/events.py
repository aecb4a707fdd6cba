"""What happened: facts in the past tense, appended once and kept forever.

- A field is only ever added, and always with a default.
- A new meaning is a new event; the old one stays readable.
- Nothing here measures or invents: ids and times come from whoever was there.
- The envelope (`Recorded`) carries what every event has: its number, its time, its session and its turn. The name in
  `type` is the struct's name in snake_case, so one search finds every side.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from palaver.wire.ids import AskId, CallId, MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import (
    Answer,
    AnswerCause,
    Budget,
    CallKind,
    CallRef,
    CancelCause,
    CommandRun,
    ContextCategory,
    Cost,
    Counts,
    DenyCause,
    EndCause,
    ErrorInfo,
    FileChange,
    Location,
    Message,
    Option,
    Outcome,
    Peer,
    Plan,
    Preview,
    Question,
    QueueEntry,
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
    Trigger,
    UndoneFile,
    Usage,
)


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One fact. Encoded as the `data` of its envelope."""

    refs: Refs | None = None
    """Strings that were too big for the line: here they keep their first 2 KiB, the files that are named hold the whole."""


# --- session ------------------------------------------------------------------------------------------------------------------


class SessionCreated(Event, frozen=True, kw_only=True):
    session: SessionInfo


class SessionUpdated(Event, frozen=True, kw_only=True):
    session: dict[str, Any]
    """Only the changed fields: absent is unchanged, null is cleared."""


class SessionCompleted(Event, frozen=True, kw_only=True):
    by: str


class SessionFailed(Event, frozen=True, kw_only=True):
    turn_id: TurnId
    error: ErrorInfo


class SessionCanceled(Event, frozen=True, kw_only=True):
    turn_id: TurnId
    by: str


# --- input --------------------------------------------------------------------------------------------------------------------


class MessageAdded(Event, frozen=True, kw_only=True):
    message: Message
    delivery: str | None = None
    """How it came in: `steer` waits for its turn to read it, absent starts or joins one."""
    scope: str | None = None
    """`prompt` where the token that sent it may not approve: its turn is decided in at most the mode `ask`."""
    fingerprint: str | None = None
    """Of the parts as the client sent them: the same `client_message_id` with others is refused."""


class MessageDelivered(Event, frozen=True, kw_only=True):
    message_id: MessageId
    turn_id: TurnId
    step_id: StepId


class QueueChanged(Event, frozen=True, kw_only=True):
    """Order and membership in full."""

    items: tuple[QueueEntry, ...]
    paused: bool
    reason: str | None = None
    steered: tuple[MessageId, ...] = ()
    """Messages that left the queue for the turn that runs or comes, whose `message_added` was written before."""


# --- turn ---------------------------------------------------------------------------------------------------------------------


class TurnStarted(Event, frozen=True, kw_only=True):
    trigger: Trigger
    message_ids: tuple[MessageId, ...]
    agent: str
    backend: str
    model: str | None = None
    attempt_of: TurnId | None = None
    scope: str | None = None
    """`prompt` where the token that started it (a retry, a promotion) may not approve."""


class TurnCancelRequested(Event, frozen=True, kw_only=True):
    by: str
    cause: CancelCause
    keep_queue: bool


class TurnParked(Event, frozen=True, kw_only=True):
    waiting: tuple[AskId, ...]


class ModelResolved(Event, frozen=True, kw_only=True):
    model: str
    provider: str


class ModelFallback(Event, frozen=True, kw_only=True):
    preferred: str
    actual: str
    reason: str


class StepStarted(Event, frozen=True, kw_only=True):
    step_id: StepId
    index: int


class TurnCompleted(Event, frozen=True, kw_only=True):
    """The one end of a turn."""

    outcome: Outcome
    stop_reason: StopReason
    usage: Usage
    duration_ms: int
    counts: Counts
    cause: EndCause | None = None
    error: ErrorInfo | None = None
    cost: Cost | None = None


# --- output -------------------------------------------------------------------------------------------------------------------


class ModelOutputStarted(Event, frozen=True, kw_only=True):
    message_id: MessageId
    step_id: StepId


class ModelOutputDelta(Event, frozen=True, kw_only=True):
    message_id: MessageId
    part_id: PartId
    kind: TextKind
    offset: int
    """Code points from the start of the part."""
    text: str
    data: Any = None


class ModelOutputCompleted(Event, frozen=True, kw_only=True):
    message: Message
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    """At the prices of the model that answered, which may be a fallback."""


class ModelOutputDiscarded(Event, frozen=True, kw_only=True):
    message_id: MessageId


# --- tools --------------------------------------------------------------------------------------------------------------------


class ToolCallStarted(Event, frozen=True, kw_only=True):
    tool_call: ToolCall
    kind: CallKind
    title: str
    locations: tuple[Location, ...]
    run_by: RunBy
    """Who performs it: what a backend runs by itself is shown, not run again."""
    message_id: MessageId | None
    """None for a call that the daemon makes itself."""
    step_id: StepId | None
    waits: bool = False
    """An ask or a result follows in the same append: should the log end before it, the call may not begin."""


class ToolCallRunning(Event, frozen=True, kw_only=True):
    tool_call_id: CallId


class ToolOutputDelta(Event, frozen=True, kw_only=True):
    tool_call_id: CallId
    stream: Stream
    offset: int
    text: str


class ToolCallCompleted(Event, frozen=True, kw_only=True):
    tool_call: CallRef
    tool_result: ToolResult
    duration_ms: int


# --- asking -------------------------------------------------------------------------------------------------------------------


class ApprovalRequested(Event, frozen=True, kw_only=True):
    approval_id: AskId
    subject: Subject
    tool_call: ToolCall | None
    kind: CallKind
    preview: Preview
    options: tuple[Option, ...]
    reason: str | None = None
    deadline: str | None = None
    budget: Budget | None = None
    """Of the subject `budget`: what approving gives."""


class ApprovalGranted(Event, frozen=True, kw_only=True):
    approval_id: AskId
    tool_call: CallRef | None
    by: str
    scope: Scope
    reason: str | None = None
    option_id: str | None = None
    input: Any = None
    client_answer_id: str | None = None


class ApprovalDenied(Event, frozen=True, kw_only=True):
    approval_id: AskId
    tool_call: CallRef | None
    by: str
    cause: DenyCause
    reason: str | None = None
    option_id: str | None = None
    client_answer_id: str | None = None


class QuestionAsked(Event, frozen=True, kw_only=True):
    question_id: AskId
    questions: tuple[Question, ...]
    tool_call_id: CallId | None = None
    deadline: str | None = None


class QuestionAnswered(Event, frozen=True, kw_only=True):
    question_id: AskId
    cause: AnswerCause
    by: str
    answers: dict[str, Answer] | None = None
    reason: str | None = None
    client_answer_id: str | None = None


class PlanUpdated(Event, frozen=True, kw_only=True):
    plan: Plan
    run_by: RunBy
    tool_call_id: CallId | None = None


# --- around -------------------------------------------------------------------------------------------------------------------


class SubagentSpawned(Event, frozen=True, kw_only=True):
    child_session_id: SessionId
    child_turn_id: TurnId
    tool_call_id: CallId
    agent: str
    task: str


class SubagentFinished(Event, frozen=True, kw_only=True):
    child_session_id: SessionId
    tool_call_id: CallId
    outcome: Outcome
    summary: str
    usage: Usage
    cost: Cost | None = None


class ExchangeSent(Event, frozen=True, kw_only=True):
    exchange_id: str
    role: Literal["sender", "target"]
    peer: Peer
    message_id: MessageId
    receipt: str
    tool_call_id: CallId | None = None


class ExchangeReplied(Event, frozen=True, kw_only=True):
    exchange_id: str
    receipt: Literal["answered", "failed", "expired", "cancelled", "refused"]
    message: Message | None = None
    cause: str | None = None


class FilesChanged(Event, frozen=True, kw_only=True):
    files: tuple[FileChange, ...]
    truncated_count: int


class TurnUndone(Event, frozen=True, kw_only=True):
    turn_id: TurnId
    by: str
    redo: bool
    files: tuple[UndoneFile, ...]
    truncated_count: int = 0
    """Files that are not named."""


class VerifyCompleted(Event, frozen=True, kw_only=True):
    ok: bool
    clean: bool
    dirty: tuple[str, ...]
    commands: tuple[CommandRun, ...]
    workspace_hash: str
    tool_call_id: CallId


class TaskFinalized(Event, frozen=True, kw_only=True):
    summary: str
    verified: bool | None
    files: tuple[str, ...]
    duration_ms: int
    tool_call_id: CallId
    cost: Cost | None = None


class ArtifactAdded(Event, frozen=True, kw_only=True):
    ref: str
    mime_type: str
    size: int
    tool_call_id: CallId | None = None


class ContextUsage(Event, frozen=True, kw_only=True):
    message_count: int
    tokens: int
    source: Literal["estimated", "reported"]
    limit: int | None
    compressed: bool
    """Something of the history stands there shorter than it was."""
    categories: tuple[ContextCategory, ...] | None = None
    step_id: StepId | None = None
    request_ref: str | None = None
    """The file from which the step's request can be put together as it was sent."""


class ContextCompactionRequested(Event, frozen=True, kw_only=True):
    """A person wants the history shorter. It is done at once, or by the next turn's first step; what ends it is `context_compacted`
    or a notice `not_compacted`."""

    by: str
    instructions: str | None = None


class ContextCompacted(Event, frozen=True, kw_only=True):
    summary: str
    from_seq: int
    to_seq: int
    tokens_before: int
    tokens_after: int
    cause: Literal["near_limit", "overflow", "requested"] = "near_limit"
    written_by: Literal["model", "rules"] = "model"
    """`rules`: the model that was asked for a summary failed, so that it holds only what the log says by itself."""
    usage: Usage | None = None
    cost: Cost | None = None


class MissionTriggered(Event, frozen=True, kw_only=True):
    mission_id: str
    run_id: str
    trigger: str
    agent: str
    reason: str | None = None


class MissionSkipped(Event, frozen=True, kw_only=True):
    mission_id: str
    run_id: str
    trigger: str
    agent: str
    reason: str | None = None


class Notice(Event, frozen=True, kw_only=True):
    level: Literal["info", "warning", "error"]
    code: str
    text: str


# --- a workspace's own log ----------------------------------------------------------------------------------------------------


class RuleAdded(Event, frozen=True, kw_only=True):
    rule: dict[str, Any]
    by: str
    approval_id: AskId | None = None


class RuleRemoved(Event, frozen=True, kw_only=True):
    rule_id: str
    by: str


class WorkspaceUsed(Event, frozen=True, kw_only=True):
    """A token that may approve made a session here; from now on one that may only prompt can do so too."""

    path: str
    by: str


class UnknownEvent(Event, frozen=True, kw_only=True):
    """A type that this version does not know: kept in the log, served as it stands, skipped by every fold."""

    raw: bytes = b""


AnyEvent = (
    SessionCreated
    | SessionUpdated
    | SessionCompleted
    | SessionFailed
    | SessionCanceled
    | MessageAdded
    | MessageDelivered
    | QueueChanged
    | TurnStarted
    | TurnCancelRequested
    | TurnParked
    | ModelResolved
    | ModelFallback
    | StepStarted
    | TurnCompleted
    | ModelOutputStarted
    | ModelOutputDelta
    | ModelOutputCompleted
    | ModelOutputDiscarded
    | ToolCallStarted
    | ToolCallRunning
    | ToolOutputDelta
    | ToolCallCompleted
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | QuestionAsked
    | QuestionAnswered
    | PlanUpdated
    | SubagentSpawned
    | SubagentFinished
    | ExchangeSent
    | ExchangeReplied
    | FilesChanged
    | TurnUndone
    | VerifyCompleted
    | TaskFinalized
    | ArtifactAdded
    | ContextUsage
    | ContextCompactionRequested
    | ContextCompacted
    | MissionTriggered
    | MissionSkipped
    | Notice
    | RuleAdded
    | RuleRemoved
    | WorkspaceUsed
    | UnknownEvent
)


def snake_case(name: str) -> str:
    """`TurnStarted` is `turn_started` in every language."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


EVENT_TYPES: dict[str, type[Event]] = {
    snake_case(struct.__name__): struct for struct in Event.__subclasses__() if struct is not UnknownEvent
}
"""Every type that the log knows, by the name that stands in `type`."""

TYPE_NAMES: dict[type[Event], str] = {struct: name for name, struct in EVENT_TYPES.items()}


class Recorded(msgspec.Struct, frozen=True):
    """One event as the log has it: the envelope and what happened."""

    seq: int
    ts: str
    session_id: SessionId
    turn_id: TurnId | None
    data: AnyEvent
    v: int = 1

    @property
    def type(self) -> str:
        return TYPE_NAMES.get(type(self.data), "unknown")
