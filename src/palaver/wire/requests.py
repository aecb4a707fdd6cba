"""What clients send and what they are told: one struct for each body of the API, from which `openapi.json` is made.

- A request keeps what it knows and skips what it does not, except where a field that is not known would be a change that never happened.
- `UNSET` is absent, `None` is `null`: only what was sent counts as changed.
- An answer may say more than its struct; the struct is what a client may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from palaver.wire.values import (
    Action,
    Answer,
    AnswerCause,
    CallKind,
    Capabilities,
    Choice,
    ContextCategory,
    Cost,
    Delivered,
    Delivery,
    ErrorInfo,
    ForkedFrom,
    Message,
    Outcome,
    Scope,
    SlashCommand,
    Status,
    Stream,
    Usage,
)

Short = Annotated[str, Meta(max_length=256)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
Limit = Annotated[int, Meta(ge=1)]
Scopes = Annotated[str, Meta(max_length=256, pattern=r"^ *(read|prompt|approve|admin)( *, *(read|prompt|approve|admin))* *$")]
"""One scope, or several with commas between."""

# --- queries ------------------------------------------------------------------------------------------------------------------


class HealthQuery(Struct, frozen=True):
    token_id: Short = ""
    nonce: Short = ""


class SessionsQuery(Struct, frozen=True):
    status: Status | None = None
    workspace: str | None = None
    q: str | None = None
    parent: str | None = None
    limit: Limit = 50
    cursor: str | None = None


class TranscriptQuery(Struct, frozen=True):
    before: str | None = None
    after: str | None = None
    around: str | None = None
    limit: Limit = 50
    at: Annotated[int, Meta(ge=1, le=9_007_199_254_740_991)] | None = None
    """As it was when the session had so many events."""


class SearchQuery(Struct, frozen=True):
    q: Annotated[str, Meta(min_length=1, max_length=256)]
    session: str | None = None
    limit: Limit = 20
    cursor: Annotated[str, Meta(max_length=64)] | None = None


class EventsQuery(Struct, frozen=True):
    after: Annotated[str, Meta(pattern=r"^-?[0-9]{1,100}$")] | None = None
    until: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)] | None = None
    """The last event that is wanted: what is finite comes as JSON."""
    format: Literal["sse", "json"] = "sse"
    limit: Limit = 1000
    tail: bool = False
    ticket: Short | None = None


class AllEventsQuery(Struct, frozen=True):
    after: Annotated[str, Meta(pattern=r"^-?[0-9]{1,100}$")] | None = None
    ticket: Short | None = None


class OutputQuery(Struct, frozen=True):
    stream: Stream = "output"
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Limit = 65_536


class ContextQuery(Struct, frozen=True):
    turn: str | None = None
    step: str | None = None


class ExportQuery(Struct, frozen=True):
    format: Literal["html", "json"] = "html"


class RulesQuery(Struct, frozen=True):
    workspace: str | None = None


class TreeQuery(Struct, frozen=True):
    path: str
    depth: Annotated[int, Meta(ge=1, le=16)] = 2


class FilesQuery(Struct, frozen=True):
    workspace: str
    q: Annotated[str, Meta(max_length=256)] = ""
    limit: Limit = 20


class FoldersQuery(Struct, frozen=True):
    path: str | None = None
    """Absent: the person's home folder."""


# --- doors --------------------------------------------------------------------------------------------------------------------


class Health(Struct, frozen=True, omit_defaults=True):
    ok: bool
    version: str
    proof: str | None = None
    """HMAC-SHA256 in hex, only for a token id that this daemon knows."""


class PlainHealth(Struct, frozen=True):
    ok: bool


class NewCode(Struct, frozen=True):
    scope: Scopes = "admin"


class Code(Struct, frozen=True):
    code: str
    expires_at: str


class Login(Struct, frozen=True):
    code: Short


class LoggedIn(Struct, frozen=True):
    token: str
    expires_at: str
    scope: str


class NewToken(Struct, frozen=True):
    scope: Scopes = "read"
    name: Annotated[str, Meta(min_length=1, max_length=80)] | None = None
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class TokenInfo(Struct, frozen=True):
    id: str
    name: str
    scope: str
    created_at: str
    expires_at: str | None
    parent: str | None


class MintedToken(TokenInfo, frozen=True):
    token: str
    """Shown this once: the daemon keeps its hash only."""


class TokenList(Struct, frozen=True):
    tokens: list[TokenInfo]


class Ticket(Struct, frozen=True):
    ticket: str
    expires_at: str


class FieldError(Struct, frozen=True):
    path: str
    message: str


class Problem(Struct, frozen=True, omit_defaults=True):
    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] = []


# --- sessions -----------------------------------------------------------------------------------------------------------------


class NewSession(Struct, frozen=True):
    workspace_path: Annotated[str, Meta(min_length=1, max_length=4096)]
    system_prompt: str | None = None
    auto_run: bool = True
    """The default for its messages."""
    title: Annotated[str, Meta(max_length=1000)] | None = None
    agent: Short | None = None
    model: Short | None = None
    mode: Short | None = None
    delivery: Delivery | None = None


class SessionPatch(Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, Meta(max_length=1000)] | UnsetType | None = UNSET
    delivery: Delivery | UnsetType = UNSET
    mode: Short | UnsetType = UNSET
    model: Short | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET
    system_prompt: str | UnsetType | None = UNSET


class ChosenId(Struct, frozen=True):
    id: Short


class ForkAt(Struct, frozen=True):
    at_message_id: Short | None = None


class ReadMark(Struct, frozen=True):
    seq: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]


class NewDraft(Struct, frozen=True):
    text: str = ""
    attachments: list[Any] = []
    rev: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)] = 0
    """The revision that this one replaces."""
    client: Short | None = None


class Draft(Struct, frozen=True):
    text: str
    attachments: list[Any]
    rev: int


class DraftSaved(Struct, frozen=True):
    rev: int


class QueueItem(Struct, frozen=True):
    id: str
    turn_id: str
    delivery: str
    message_id: str
    paused: bool
    message: Message | None = None


class Queue(Struct, frozen=True):
    items: list[QueueItem]
    paused: bool
    reason: str | None = None


class QueueSummary(Struct, frozen=True):
    """`items` is left out in lists."""

    paused: bool
    items: list[QueueItem] = []
    reason: str | None = None


class InboxItem(Struct, frozen=True):
    id: str
    kind: Literal["approval", "question", "plan", "review", "budget", "login", "trust"]
    session_id: str
    session_title: str | None
    turn_id: str | None
    agent: str
    title: str
    requested_at: str
    path: list[str]
    """Session ids from the root."""
    deadline: str | None = None
    data: Any = None
    """The requesting event's; left out in lists of sessions."""


class Inbox(Struct, frozen=True):
    items: list[InboxItem]
    as_of: Any


class Activity(Struct, frozen=True):
    """What a running turn is doing."""

    text: str
    since: str


class GitState(Struct, frozen=True):
    branch: str | None
    """None where HEAD is no branch."""
    dirty: bool
    """Something differs from HEAD, or is not tracked."""


class EndedTurn(Struct, frozen=True):
    id: str
    outcome: Outcome
    ended_at: str
    error: ErrorInfo | None = None
    files: int = 0
    """How many it changed."""


class Session(Struct, frozen=True):
    id: str
    created_at: str
    updated_at: str
    status: Status
    workspace_path: str
    system_prompt: str | None
    last_turn_id: str | None
    title: str | None
    agent: str
    backend: str
    model: str | None
    mode: str
    delivery: str
    head_seq: int
    read_seq: int
    archived: bool
    queue: QueueSummary
    waiting: list[InboxItem]
    usage: Usage | None
    cost: Cost | None
    capabilities: Capabilities
    available_modes: list[Choice] = []
    available_models: list[Choice] = []
    available_commands: list[SlashCommand] = []
    parent_session_id: str | None = None
    forked_from: ForkedFrom | None = None
    read_only: str | None = None
    """Why it can only be read, where that is so."""
    running_turn_id: str | None = None
    unread: bool = False
    """A turn ended, or something was asked, after `read_seq`."""
    activity: Activity | None = None
    last_turn: EndedTurn | None = None
    children_running: int = 0
    git: GitState | None = None
    """Of its folder, where that is in a repository."""


class NewSessionAnswer(Struct, frozen=True):
    session_id: str
    session: Session


class SessionList(Struct, frozen=True):
    sessions: list[Session]
    next_cursor: str | None


# --- messages and turns -------------------------------------------------------------------------------------------------------


class NewPart(Struct, frozen=True, omit_defaults=True):
    type: Literal["text", "image", "audio", "file"]
    text: str | None = None
    ref: Annotated[str, Meta(max_length=1024)] | None = None
    mime_type: Short | None = None
    name: Annotated[str, Meta(max_length=1024)] | None = None

    def __post_init__(self) -> None:
        if self.type == "text" and self.text is None:
            raise ValueError("A part of type `text` needs its `text`")
        if self.type != "text" and self.ref is None:
            raise ValueError(f"A part of type `{self.type}` needs a `ref`: upload the file first, its answer names the ref")


class PostMessage(Struct, frozen=True):
    parts: Annotated[Sequence[NewPart], Meta(min_length=1, max_length=1000)]
    role: Short = "user"
    auto_run: bool | None = None
    delivery: Delivery | None = None
    client_message_id: Key | None = None
    draft_rev: int | None = None


class Accepted(Struct, frozen=True):
    message_id: str
    turn_id: str | None
    delivered: Delivered
    item_id: str | None = None


class EditItem(Struct, frozen=True):
    parts: Annotated[Sequence[NewPart], Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    before: Short | UnsetType | None = UNSET
    """The item that this one comes before; `null` moves it to the end."""


class CompactRequest(Struct, frozen=True):
    instructions: Annotated[str, Meta(max_length=4_000)] | None = None
    """What the summary is to keep; takes the scope `approve`."""


class CompactAccepted(Struct, frozen=True):
    """It is being done: `context_compacted` says when, or a notice `not_compacted` why not."""


class CancelTurn(Struct, frozen=True):
    turn_id: Short | None = None
    keep_queue: bool = True


class TurnRef(Struct, frozen=True):
    turn_id: str | None


class StartedTurn(Struct, frozen=True):
    turn_id: str


# --- asking -------------------------------------------------------------------------------------------------------------------


class ApprovalAnswer(Struct, frozen=True, kw_only=True):
    action: Action | None = None
    scope: Scope | None = None
    option_id: Short | None = None
    """Decides action and scope, and beats them."""
    reason: Annotated[str, Meta(max_length=4000)] | None = None
    input: Any = UNSET
    """Changed arguments, an edited plan, patch or budget."""
    client_answer_id: Key | None = None
    always: bool = False
    """The same as the scope `session`."""

    def __post_init__(self) -> None:
        if self.action is None and self.option_id is None:
            raise ValueError("An answer needs an `action` (`approve` or `deny`) or an `option_id`")


class CallAnswer(ApprovalAnswer, frozen=True, kw_only=True):
    turn_id: Short
    tool_call_id: Short


class BatchAnswer(ApprovalAnswer, frozen=True, kw_only=True):
    approval_id: Short


class BatchAnswers(Struct, frozen=True):
    answers: Annotated[Sequence[BatchAnswer], Meta(max_length=1000)]


class ApprovalOutcome(Struct, frozen=True):
    approval_id: str
    outcome: str
    by: str
    at: str


class BatchResult(Struct, frozen=True, omit_defaults=True):
    approval_id: str
    outcome: str | None = None
    by: str | None = None
    at: str | None = None
    status: int | None = None
    code: str | None = None


class BatchResults(Struct, frozen=True):
    results: list[BatchResult]


class QuestionAnswer(Struct, frozen=True):
    answers: dict[str, Answer] | None = None
    agent_decides: bool = False
    declined: bool = False
    reason: Annotated[str, Meta(max_length=4000)] | None = None
    client_answer_id: Key | None = None

    def __post_init__(self) -> None:
        if (self.answers is not None) + self.agent_decides + self.declined != 1:
            raise ValueError('Send one of `answers`, `"agent_decides": true` and `"declined": true`')


class QuestionOutcome(Struct, frozen=True):
    question_id: str
    cause: AnswerCause
    by: str
    at: str
    answers: dict[str, Any] | None = None


class NewRule(Struct, frozen=True):
    decision: Literal["allow", "ask", "deny"]
    workspace: Annotated[str, Meta(min_length=1, max_length=4096)]
    tool: Short | None = None
    kind: CallKind | None = None
    path: Annotated[str, Meta(max_length=4096)] | None = None
    command: Annotated[str, Meta(max_length=16_384)] | None = None
    domain: Short | None = None
    exact: bool = False


class RuleInfo(Struct, frozen=True):
    decision: Literal["allow", "ask", "deny"]
    id: str | None = None
    tool: str | None = None
    kind: CallKind | None = None
    path: str | None = None
    command: str | None = None
    domain: str | None = None
    exact: bool = False
    files: dict[str, str] | None = None
    """Trust in a folder's verify commands: the files that they rest on, by their hashes."""
    unconfined: bool = False
    turn_id: str | None = None
    workspace: str | None = None


class RuleList(Struct, frozen=True):
    rules: list[RuleInfo]


class ExplainRule(Struct, frozen=True):
    tool: Short
    input: Any
    workspace: Annotated[str, Meta(min_length=1, max_length=4096)]


class Uncovered(Struct, frozen=True):
    """A part of the call that no rule allows, and why none does."""

    text: str
    why: str


class Explained(Struct, frozen=True):
    decision: Literal["allow", "ask", "deny"]
    by: str
    uncovered: list[Uncovered] | None = None


# --- reading ------------------------------------------------------------------------------------------------------------------


class Transcript(Struct, frozen=True):
    as_of_seq: int
    entries: list[dict[str, Any]]
    open: dict[str, Any]
    earlier: Any
    later: Any


class ExportedFile(Struct, frozen=True):
    mime_type: str
    sha256: str
    data: str
    """In base64."""


class Export(Struct, frozen=True):
    """With `format=json`. `format=html` gives a page around it."""

    format: Literal[1]
    session: Session
    events: list[LoggedEvent]
    files: dict[str, ExportedFile]
    """By ref."""


class Hit(Struct, frozen=True):
    """One place where it stands: `before`, `match` and `after` are pieces of one text, by code points."""

    session_id: str
    session_title: str | None
    message_id: str | None
    seq: int
    role: str
    ts: str
    before: str
    match: str
    after: str


class Found(Struct, frozen=True):
    hits: list[Hit]
    """The newest first."""
    next_cursor: str | None
    complete: bool
    """Everything that was said had been taken in; where not, ask again later."""


class LoggedEvent(Struct, frozen=True):
    v: int
    seq: int
    ts: str
    session_id: str
    turn_id: str | None
    type: str
    data: dict[str, Any]


class Events(Struct, frozen=True):
    events: list[LoggedEvent]
    next_after: int
    head_seq: int


class Output(Struct, frozen=True):
    text: str
    offset: int
    next_offset: int
    total: int


class ChangedFile(Struct, frozen=True):
    path: str
    change: str
    diff: str | None = None
    stale: bool = False


class Changes(Struct, frozen=True):
    files: list[ChangedFile]


class JobInfo(Struct, frozen=True):
    """A command that outlives its call, until it ends, is ended, or the session or the daemon ends."""

    id: str
    session_id: str
    call_id: str
    command: str
    pid: int
    started_at: str
    running: bool
    status: int | None
    """Once it has ended by itself: its exit status; negative: the signal."""
    output: str
    """The beginning and the end of what it printed."""


class JobList(Struct, frozen=True):
    jobs: list[JobInfo]


class UndoTurn(Struct, frozen=True):
    preview: bool = False
    """Only say what would be done."""
    redo: bool = False
    """Do again what was undone."""
    paths: Annotated[list[str], Meta(max_length=10_000)] | None = None
    """Only these files; absent: all."""


class PutBack(Struct, frozen=True):
    path: str
    action: Literal["restored", "deleted", "recreated"]
    diff: str


class Conflict(Struct, frozen=True):
    path: str
    reason: str


class Undone(Struct, frozen=True):
    files: list[PutBack]
    conflicts: list[Conflict]
    """Files that are left as they are, and why."""


class Context(Struct, frozen=True):
    request: dict[str, Any]
    """The body as it was sent, field for field."""
    categories: tuple[ContextCategory, ...]


class NewAttachment(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    data: bytes
    """Base64."""
    mime_type: Short = "application/octet-stream"


class Attachment(Struct, frozen=True):
    ref: str
    mime_type: str
    name: str
    size: int
    sha256: str


class AgentInfo(Struct, frozen=True):
    name: str
    backend: str
    title: str
    ready: bool
    capabilities: Capabilities
    reason: str | None = None
    """Why it is not ready."""
    fix: str | None = None
    """The line that makes it ready."""
    models: Any = None
    modes: Any = None


class AgentList(Struct, frozen=True):
    agents: list[AgentInfo]


class ModelInfo(Struct, frozen=True):
    name: str
    base_url: str | None
    model: str | None
    found: Any = None
    adopt: str | None = None
    missing: str | None = None
    fix: str | None = None


class ModelList(Struct, frozen=True):
    models: list[ModelInfo]


class ToolInfo(Struct, frozen=True):
    name: str


class FailedTool(Struct, frozen=True):
    name: str
    source: str
    reason: str


class ToolList(Struct, frozen=True):
    tools: list[ToolInfo]
    failed: list[FailedTool] = []
    """A person's own tools that did not load."""


class Settings(Struct, frozen=True):
    values: dict[str, Any]
    origins: dict[str, str]
    """By dotted key: file, env, default or flag."""
    schema: dict[str, Any]
    """JSON Schema over the dotted keys; `readOnly` is what is changed in the file alone."""
    sandbox: dict[str, str | None]
    """`variant`: what holds the commands that are let run; `null`: nothing, and `reason` says why."""


class SettingsPatch(Struct, frozen=True, forbid_unknown_fields=True):
    values: dict[str, Any]
    """By dotted key, or as tables; `null` takes a value out of the file."""


class ChangedSettings(Settings, frozen=True):
    restart_needed: list[str]
    """What changed in the file; a daemon reads it when it starts."""


class TreeEntry(Struct, frozen=True):
    path: str
    kind: str
    size: int | None = None


class Tree(Struct, frozen=True):
    entries: list[TreeEntry]
    truncated: bool


class NamedFile(Struct, frozen=True):
    path: str
    kind: Literal["file", "folder"]


class Files(Struct, frozen=True):
    files: list[NamedFile]
    """The likeliest first."""
    truncated: bool


class WorkspaceInfo(Struct, frozen=True):
    path: str
    name: str
    sessions: int
    last_used_at: str | None
    trusted: bool
    """Its own commands, such as those that verify, may run unasked."""
    git: GitState | None = None


class WorkspaceList(Struct, frozen=True):
    workspaces: list[WorkspaceInfo]
    """The latest first."""


class Folder(Struct, frozen=True):
    name: str
    git: bool


class Folders(Struct, frozen=True):
    path: str
    parent: str | None
    folders: list[Folder]
    truncated: bool


def sent(changes: msgspec.Struct) -> dict[str, Any]:
    """Only the fields that the client sent, as plain values."""
    builtins: dict[str, Any] = msgspec.to_builtins(changes)
    return builtins
