"""The nouns that events and commands are made of. `API.md` pins their names; a field is only ever added, with a default.

Absent means unknown or unchanged, `null` means none: optional fields are left out of the JSON while they hold their default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from palaver.wire.ids import CallId, ItemId, MessageId, PartId, SessionId, StepId, TurnId

Role = Literal["user", "assistant", "system", "tool"]
PartType = Literal["text", "thinking", "image", "audio", "file", "tool_call"]
Delivery = Literal["auto", "queue", "steer", "interrupt"]
Delivered = Literal["started", "queued", "steered", "interrupting", "stored"]
CallKind = Literal["read", "write", "exec", "network", "delegate", "ask"]
RunBy = Literal["daemon", "backend"]
Stream = Literal["stdout", "stderr", "output"]
TextKind = Literal["text", "thinking"]
Mode = Literal["plan", "ask", "edit", "auto"]
Scope = Literal["once", "session", "workspace"]
Action = Literal["approve", "deny"]
Status = Literal["active", "waiting_approval", "failed", "completed", "canceled"]
Outcome = Literal["completed", "failed", "cancelled", "interrupted"]
StopReason = Literal["end_turn", "max_tokens", "refusal", "limit", "cancelled", "interrupted", "error"]
Trigger = Literal["user", "queue", "steer", "retry", "exchange", "callback", "answer", "subagent", "mission"]
CancelCause = Literal["user_cancel", "superseded", "parent"]
EndCause = Literal["user_cancel", "superseded", "parent", "shutdown", "crash"]
Subject = Literal["tool", "plan", "review", "budget", "login", "trust"]
DenyCause = Literal["user", "policy", "expired", "cancelled"]
AnswerCause = Literal["user", "agent_decides", "declined", "default", "expired", "cancelled"]


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A noun: compared by what it holds, never changed."""


# --- messages -----------------------------------------------------------------------------------------------------------------


class Part(Value, frozen=True):
    type: PartType
    id: PartId | None = None
    """Given by the daemon; a client need not send one. A part of type `tool_call` has the call's id."""
    text: str | None = None
    ref: str | None = None
    mime_type: str | None = None
    name: str | None = None
    truncated: bool = False
    """The rest of the text is in the file that the event's `refs` names."""


class ToolCall(Value, frozen=True):
    id: CallId
    name: str
    input: Any
    """An object, or what the model sent if that was none (`input_raw` then has its words)."""
    input_raw: str | None = None


class ToolInputProgress(Value, frozen=True):
    """A call that is being written: a frame of the tail, never an event."""

    message_id: MessageId
    step_id: StepId
    name: str
    chars: int
    """Code points of its input so far."""


class CallRef(Value, frozen=True):
    id: CallId
    name: str


class Author(Value, frozen=True):
    kind: Literal["user", "agent", "system", "mission"]
    name: str | None = None


class Reasoning(Value, frozen=True):
    """How a provider gave the thinking of a message, since some must be given it back in that very form."""

    model: str
    """Our name of the model: only that one is given it back."""
    form: Literal["reasoning_details", "reasoning_content", "reasoning"] | None = None
    details: tuple[Any, ...] = ()
    """Of `reasoning_details`: what came, signatures and encrypted parts too. The text of the other forms is the thinking parts'."""
    calls: dict[str, Any] = {}
    """By call: the `extra_content` that came with it, such as Google's signature of the thought behind it."""


class Message(Value, frozen=True):
    id: MessageId
    role: Role
    parts: tuple[Part, ...]
    created_at: str
    author: Author
    tool_calls: tuple[ToolCall, ...] = ()
    via: str | None = None
    interrupted: bool = False
    client_message_id: str | None = None
    reasoning: Reasoning | None = None


# --- calls --------------------------------------------------------------------------------------------------------------------


class FileRef(Value, frozen=True):
    """A file of the session that holds what was too big for its event."""

    ref: str
    size: int
    sha256: str


Refs = dict[str, FileRef]
"""By JSON pointer into the value (or the event's `data`) that they belong to: the string there is only the first 2 KiB."""


class CallError(Value, frozen=True):
    code: str
    message: str


class ToolResult(Value, frozen=True):
    id: CallId
    ok: bool
    parts: tuple[Part, ...]
    artifacts: tuple[str, ...] = ()
    error: CallError | None = None
    truncated: bool = False


class Location(Value, frozen=True):
    path: str
    line: int | None = None


class Usage(Value, frozen=True):
    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False
    """The service told none, so some of it was counted here, about."""

    def plus(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            estimated=self.estimated or other.estimated,
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


class Cost(Value, frozen=True):
    amount: float
    currency: str


def added(a: Cost | None, b: Cost | None) -> Cost | None:
    """The sum; what has no price adds nothing."""
    return a or b if a is None or b is None else Cost(a.amount + b.amount, a.currency)


class ErrorInfo(Value, frozen=True):
    code: str
    message: str


class Counts(Value, frozen=True):
    steps: int
    tool_calls: int


# --- asking -------------------------------------------------------------------------------------------------------------------


class Rule(Value, frozen=True):
    """What is allowed, asked or denied; every field that is given must match."""

    decision: Literal["allow", "ask", "deny"]
    id: str | None = None
    tool: str | None = None
    kind: CallKind | None = None
    path: str | None = None
    command: str | None = None
    domain: str | None = None
    exact: bool = False
    """`command` is the whole line, not a prefix of its words."""
    files: dict[str, str] | None = None
    """Trust in commands that a folder names itself: it holds while these files have these hashes, and a sandbox holds what runs."""
    unconfined: bool = False
    """Such trust holds without a sandbox too."""
    turn_id: TurnId | None = None
    """Such trust was given where no sandbox held: without one it holds in this turn alone."""


class Option(Value, frozen=True):
    id: str
    action: Action
    scope: Scope
    label: str
    rule: Rule | None = None
    mode: Mode | None = None
    """Of a plan's approval: the mode that the session goes on in."""


class Preview(Value, frozen=True):
    command: str | None = None
    diff: str | None = None
    paths: tuple[str, ...] | None = None
    network: str | None = None


class Budget(Value, frozen=True):
    """How much more a turn may take, beyond what it had."""

    steps: int | None = None
    cost: float | None = None
    seconds: float | None = None


class QuestionOption(Value, frozen=True):
    label: str
    description: str | None = None
    preview: str | None = None


class Question(Value, frozen=True):
    id: str
    header: str
    text: str
    type: Literal["choice", "text", "number", "integer", "boolean", "url"]
    options: tuple[QuestionOption, ...]
    multiple: bool
    free_text: bool
    required: bool | None = None
    default: Any = None


class Answer(Value, frozen=True, omit_defaults=False):
    selected: tuple[str, ...] = ()
    text: str | msgspec.UnsetType = msgspec.UNSET
    value: Any = msgspec.UNSET


# --- sessions -----------------------------------------------------------------------------------------------------------------


class Choice(Value, frozen=True):
    id: str
    name: str
    description: str | None = None


class SlashCommand(Value, frozen=True):
    name: str
    description: str | None = None
    input_hint: str | None = None


class Capabilities(Value, frozen=True, omit_defaults=False):
    steer: bool
    resume: bool
    load: bool
    modes: bool
    models: bool
    commands: bool
    vision: bool
    tools: bool
    approvals: bool
    on_deny: Literal["continues", "ends_turn", "cancels"]
    compact: bool = False
    undo: bool = False


class ForkedFrom(Value, frozen=True):
    session_id: SessionId
    message_id: MessageId | None = None


class SessionInfo(Value, frozen=True, omit_defaults=False):
    """What `session_created` says and `session_updated` changes: the facts of a session that a person or its agent chose."""

    id: SessionId
    created_at: str
    workspace_path: str
    system_prompt: str | None
    auto_run: bool
    title: str | None
    agent: str
    backend: str
    model: str | None
    mode: str
    delivery: str
    capabilities: Capabilities
    archived: bool = False
    title_set: bool = False
    """Somebody chose the title: the first message no longer gives it."""
    available_modes: tuple[Choice, ...] = ()
    available_models: tuple[Choice, ...] = ()
    available_commands: tuple[SlashCommand, ...] = ()
    parent_session_id: SessionId | None = None
    forked_from: ForkedFrom | None = None


class QueueEntry(Value, frozen=True):
    """One item as `queue_changed` writes it: `message` only where the item is new or was edited in this event."""

    id: ItemId
    turn_id: TurnId
    delivery: str
    message_id: MessageId
    paused: bool
    message: Message | None = None
    scope: str | None = None
    """`prompt` where the token that sent or edited it may not approve."""
    fingerprint: str | None = None


class PlanItem(Value, frozen=True):
    id: str
    text: str
    status: Literal["pending", "in_progress", "done", "dropped"]


class Plan(Value, frozen=True):
    id: str
    status: Literal["planned", "approved", "executing", "completed", "rejected"]
    items: tuple[PlanItem, ...]
    text: str | None = None


class FileChange(Value, frozen=True):
    path: str
    change: Literal["added", "modified", "deleted", "renamed"]
    added: int
    removed: int
    diff_ref: str | None = None
    renamed_from: str | None = None


class UndoneFile(Value, frozen=True):
    path: str
    action: Literal["restored", "deleted", "recreated"]


class CommandRun(Value, frozen=True):
    command: str
    exit_code: int | None
    duration_ms: int
    artifact: str | None = None


class ContextCategory(Value, frozen=True):
    name: Literal["instructions", "files", "tool_results", "conversation"]
    tokens: int


class Peer(Value, frozen=True):
    agent: str
    session_id: SessionId
