"""The shapes that the primitives speak: spec 000's, and what is particular to a daemon with a durable queue and many approvals.

Events, entries and requests are JSON objects with the keys that TypeScript has, so that both languages read one golden file; states are
frozen, their fields in snake_case. An object may have more keys than are named here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, runtime_checkable

Json = dict[str, Any]
Unsubscribe = Callable[[], None]
ChatMode = Literal["idle", "streaming", "confirming_tool"]
SteeringMode = Literal["steer", "queue"]
FlushMode = Literal["sequential", "batched"]

# --- messages -----------------------------------------------------------------------------------------------------------------


class ContentBlock(TypedDict, total=False):
    """`text`, `tool_use`, `tool_result`, `reasoning`, or a file by its `ref`. Which keys there are follows from `type`."""

    type: str
    text: str
    id: str
    toolUseId: str
    """The call of a result; newer tool_use blocks have their own id here."""
    name: str
    input: Any
    content: Any
    isError: bool
    ref: str
    mimeType: str


class Message(TypedDict):
    role: Literal["user", "assistant", "tool", "event"]
    content: str | Sequence[ContentBlock]
    id: NotRequired[str]
    interrupted: NotRequired[bool]


class TimelineEntry(TypedDict):
    kind: Literal["message"]
    message: Message


class ToolCallEntry(TypedDict):
    id: str
    name: str
    status: Literal["done"]
    duration: NotRequired[float]
    """Milliseconds."""


class ChatMessage(TypedDict):
    id: str
    role: Literal["user", "assistant"]
    content: str | Sequence[ContentBlock]
    toolCalls: NotRequired[list[ToolCallEntry]]


class SendInput(TypedDict):
    messages: list[Message]


Text: TypeAlias = str | Sequence[ContentBlock]
"""What a person sends: words, or blocks where there is more than words."""

# --- events -------------------------------------------------------------------------------------------------------------------


class EventStamp(TypedDict, total=False):
    """What every event may say of where it stands."""

    id: str
    sequence: int
    timestamp: str
    sessionId: str


class ExecutionStartEvent(EventStamp):
    type: Literal["execution_start"]
    executionId: NotRequired[str]


class ExecutionOutput(TypedDict, total=False):
    timeline: list[TimelineEntry]


class ExecutionEndEvent(EventStamp):
    type: Literal["execution_end"]
    executionId: NotRequired[str]
    output: NotRequired[ExecutionOutput | None]
    newTimelineEntries: NotRequired[list[TimelineEntry] | None]
    aborted: NotRequired[bool]
    stopReason: NotRequired[str]
    error: NotRequired[Json]


class ToolCallStartEvent(EventStamp):
    type: Literal["tool_call_start"]
    callId: str
    name: NotRequired[str]


class ToolResultEvent(EventStamp):
    type: Literal["tool_result"]
    callId: str
    name: NotRequired[str]
    result: NotRequired[Any]
    isError: NotRequired[bool]
    durationMs: NotRequired[float]
    """As it was measured where the tool ran."""


class SessionRestoredEvent(EventStamp):
    """What was there before the first event: once after `subscribe`, and again when the log was replaced."""

    type: Literal["session_restored"]
    messages: list[ChatMessage]
    executionId: str | None
    timeline: NotRequired[list[TimelineEntry]]
    """What `messages` was made from, for whoever transforms it otherwise."""
    toolDurations: NotRequired[dict[str, float]]


class ToolConfirmationSettledEvent(EventStamp):
    """Somebody answered, wherever it was; or it expired, or its turn was cancelled."""

    type: Literal["tool_confirmation_settled"]
    callId: str
    approved: NotRequired[bool]
    by: NotRequired[str]


class MessageAcceptedEvent(EventStamp):
    """A text that this client sent is on disk; `delivered` says what became of it."""

    type: Literal["message_accepted"]
    clientMessageId: str
    text: str
    delivered: str


class MessageRefusedEvent(EventStamp):
    """A text that this client sent was not taken: the composer gets it back."""

    type: Literal["message_refused"]
    clientMessageId: NotRequired[str]
    text: str
    code: str
    message: str


class StreamFailedEvent(EventStamp):
    """Nothing more comes of this session: it was deleted, or this client may not read it."""

    type: Literal["stream_failed"]
    code: str
    message: str


StreamEvent: TypeAlias = (
    ExecutionStartEvent
    | ExecutionEndEvent
    | ToolCallStartEvent
    | ToolResultEvent
    | SessionRestoredEvent
    | ToolConfirmationSettledEvent
    | MessageAcceptedEvent
    | MessageRefusedEvent
    | StreamFailedEvent
)

# --- confirmations ------------------------------------------------------------------------------------------------------------


class ToolConfirmationRequest(TypedDict):
    toolUseId: str
    name: str
    arguments: Any
    message: NotRequired[str]
    metadata: NotRequired[Json]
    """`approvalId, subject, kind, preview, options, turnId, deadline?`, and `refused {code, message}` where an answer was not taken."""


class ToolConfirmationResponse(TypedDict):
    approved: bool
    reason: NotRequired[str]
    modifiedArguments: NotRequired[Any]
    always: NotRequired[bool]
    """For the rest of the session."""


class ConfirmationDecision(TypedDict):
    action: Literal["prompt", "approve", "deny"]
    reason: NotRequired[str]


Respond: TypeAlias = Callable[[ToolConfirmationResponse], object]
ConfirmationPolicy: TypeAlias = Callable[[ToolConfirmationRequest], ConfirmationDecision]
ConfirmationHandler: TypeAlias = Callable[[ToolConfirmationRequest, Respond], object]
EventHandler: TypeAlias = Callable[[StreamEvent], object]

# --- functions that a caller may replace --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageTransformContext:
    tool_durations: Mapping[str, float]
    """Milliseconds by call id, of the execution that ended; read-only."""
    first_fallback: int = 0
    """Messages without an id become `msg-<n>` from here on, so that no two of one log share one."""


MessageTransform: TypeAlias = Callable[[Sequence[TimelineEntry], MessageTransformContext], Sequence[ChatMessage]]


class ChatModeDeriver(Protocol):
    def __call__(self, *, is_executing: bool, has_pending_confirmation: bool) -> str: ...


# --- states -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChatError:
    """A text that was not taken."""

    code: str
    message: str
    text: str


@dataclass(frozen=True)
class ToolConfirmationState:
    request: ToolConfirmationRequest
    respond: Respond


@dataclass(frozen=True)
class MessageLogState:
    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True)
class ToolConfirmationsState:
    pending: ToolConfirmationState | None
    """The newest one that is unanswered."""
    pending_all: tuple[ToolConfirmationState, ...] = ()
    """All of them, the oldest first."""


@dataclass(frozen=True)
class MessageSteeringState:
    queued: tuple[Message, ...]
    is_executing: bool
    mode: SteeringMode
    error: ChatError | None = None


@dataclass(frozen=True)
class ChatSessionState:
    messages: tuple[ChatMessage, ...]
    chat_mode: str
    tool_confirmation: ToolConfirmationState | None
    tool_confirmations: tuple[ToolConfirmationState, ...]
    last_submitted: str | None
    queued: tuple[Message, ...]
    is_executing: bool
    mode: SteeringMode
    error: ChatError | None = None


@dataclass(frozen=True)
class StreamingTextState:
    text: str
    """Of the assistant's newest message, as far as it is known."""
    thinking: str
    is_streaming: bool
    message_id: str | None = None


# --- options, for whoever passes them on --------------------------------------------------------------------------------------


class MessageLogOptions(TypedDict, total=False):
    session_id: str | None
    initial_messages: Sequence[ChatMessage]
    transform: MessageTransform | None
    subscribe: bool


class ToolConfirmationsOptions(TypedDict, total=False):
    session_id: str | None
    policy: ConfirmationPolicy | None
    subscribe: bool


class MessageSteeringOptions(TypedDict, total=False):
    session_id: str | None
    mode: SteeringMode
    flush_mode: FlushMode
    auto_flush: bool
    subscribe: bool


class ChatSessionOptions(MessageSteeringOptions, total=False):
    initial_messages: Sequence[ChatMessage]
    transform: MessageTransform | None
    confirmation_policy: ConfirmationPolicy | None
    derive_mode: ChatModeDeriver | None
    on_event: EventHandler | None
    auto_subscribe: bool


# --- the seam to a session ----------------------------------------------------------------------------------------------------


class QueueItem(TypedDict):
    id: str | None
    """None until the daemon has it."""
    message: Message
    paused: bool
    clientMessageId: NotRequired[str]


@runtime_checkable
class DurableQueue(Protocol):
    """A queue that somebody else keeps, so that two clients see one. Every change of it is told to `on_change`."""

    @property
    def items(self) -> Sequence[QueueItem]: ...
    @property
    def paused(self) -> bool: ...
    def add(self, message: Message) -> Any: ...
    def remove(self, item: QueueItem) -> object: ...
    def clear(self) -> object: ...
    def resume(self) -> object: ...
    def promote(self, item: QueueItem) -> object: ...
    def on_change(self, listener: Callable[[], object]) -> Unsubscribe: ...


class SessionAccessor(Protocol):
    """One session. An accessor may also have `queue`, a `DurableQueue`."""

    @property
    def session_id(self) -> str: ...
    def subscribe(self) -> object: ...
    def unsubscribe(self) -> object: ...
    def send(self, input: SendInput) -> Any: ...
    def interrupt(self, input: SendInput) -> Awaitable[Any]: ...
    def abort(self) -> object: ...
    def on_event(self, handler: EventHandler) -> Unsubscribe: ...
    def on_tool_confirmation(self, handler: ConfirmationHandler) -> Unsubscribe: ...


class ClientSeam(Protocol):
    """All that the primitives know of a client."""

    @property
    def send(self) -> Callable[..., Any]:
        """`send(input, *, session_id)`; with a durable queue also `delivery`."""

    @property
    def session(self) -> Callable[[str], Any]:
        """Gives the `SessionAccessor` of that id."""
