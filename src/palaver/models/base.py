"""A request to a model and the pieces of its answer, whatever serves it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec

from palaver.models.media import Takes
from palaver.models.tokens import FILE, MESSAGE, estimate
from palaver.tools.base import ToolDefinition
from palaver.wire.ids import CallId
from palaver.wire.values import Part, Reasoning, ToolCall, Usage


@dataclass(frozen=True)
class ModelCall:
    """A call as the model's history has it; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelMessage:
    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]
    """Text parts mostly; of image, audio and file parts `media` has the content."""
    calls: tuple[ModelCall, ...] = ()
    call_id: str | None = None
    """Of a tool message: which call it answers."""
    ok: bool = True
    """Of a tool message: the call succeeded."""
    code: str | None = None
    """Of a tool message: the code of its error. Of one of the user's role: what it is, where no person wrote it."""
    reasoning: Reasoning | None = None
    """Of an assistant's message: how its thinking came."""
    thinking: str = ""
    """Its text."""
    media: Mapping[str, bytes] = field(default_factory=dict)
    """By `ref`: the files that the parts name, as far as they are there."""
    unit: int = field(default=0, compare=False)
    """Messages of one number belong together: a call is not parted from its result. It grows along the history."""
    touched: tuple[str, ...] = ()
    """Of an assistant's message: the paths that its calls were about, as their locations name them."""

    @cached_property
    def plain(self) -> bool:
        """It is all here: no media belong to it, and no text of it is continued in a file."""
        return all(part.type in ("text", "thinking") and not (part.truncated and part.ref) for part in self.parts)

    @cached_property
    def memo(self) -> dict[str, bytes]:
        """What a service is told of it, made once: a conversation is sent again with every step."""
        return {}

    @cached_property
    def tokens(self) -> int:
        """About what it takes of a context window."""
        calls = sum(estimate(call.arguments) + estimate(call.name) + 8 for call in self.calls)
        thinking = estimate(self.thinking) if self.thinking else 0
        return MESSAGE + calls + thinking + sum(estimate(part.text) if part.text else FILE if part.ref else 0 for part in self.parts)

    @property
    def text(self) -> str:
        return "".join(part.text or "" for part in self.parts if part.type == "text")


@dataclass(frozen=True)
class ModelTool:
    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    messages: tuple[ModelMessage, ...]
    tools: tuple[ModelTool, ...]


@dataclass(frozen=True)
class TextPiece:
    kind: Literal["text", "thinking"]
    text: str


@dataclass(frozen=True)
class CallPiece:
    """A fragment of a call: `id` and `name` come with the first one, `arguments` adds up."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True)
class Finish:
    """The last piece. `reason` is the provider's word in ours: end_turn, tool_calls, max_tokens or refusal."""

    reason: Literal["end_turn", "tool_calls", "max_tokens", "refusal"]
    usage: Usage | None = None
    reasoning: Reasoning | None = None
    """How the thinking came, where it must be given back in the next request."""


Piece = TextPiece | CallPiece | Finish


class Model(Protocol):
    name: str
    provider: str
    takes: Takes
    """What it can be shown beside text."""
    context_window: int | None
    """Tokens of a request and its answer together, where the settings say so."""
    max_output: int | None

    def body(self, request: ModelRequest) -> bytes:
        """The request as the service gets it: a JSON object with `messages`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """The answer, piece by piece. Raises `ModelFailed`; closing the generator ends the request at once."""
        ...


def to_model_tools(definitions: Iterable[ToolDefinition]) -> list[ModelTool]:
    return [ModelTool(d.name, d.description, msgspec.json.decode(d.input_schema_json, type=dict[str, Any])) for d in definitions]


def from_model_call(call: ModelCall, call_id: str | None = None) -> ToolCall:
    """Ours of theirs, under the id that is given, else under theirs.

    Arguments that are no JSON object stay as text: the call then fails as `invalid_arguments`.
    """
    call_id = call_id or call.id
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ToolCall(CallId(call_id), call.name, {}, input_raw=call.arguments)
    if not isinstance(arguments, dict):
        return ToolCall(CallId(call_id), call.name, {}, input_raw=call.arguments)
    return ToolCall(CallId(call_id), call.name, arguments)
