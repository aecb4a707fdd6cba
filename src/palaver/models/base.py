"""A request to a model and the pieces of its answer, whatever serves it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec

from palaver.tools.base import ToolDefinition
from palaver.wire.ids import CallId
from palaver.wire.values import Part, ToolCall, Usage


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
    """Text parts mostly; image, audio and file parts carry a `ref` that the loop has loaded into `media`."""
    calls: tuple[ModelCall, ...] = ()
    call_id: str | None = None
    """Of a tool message: which call it answers."""
    ok: bool = True
    """Of a tool message: the call succeeded."""

    @cached_property
    def plain(self) -> bool:
        """It is all here: no media belong to it, and no text of it is continued in a file."""
        return all(part.type in ("text", "thinking") and not (part.truncated and part.ref) for part in self.parts)

    @cached_property
    def memo(self) -> dict[str, bytes]:
        """What a service is told of it, made once: a conversation is sent again with every step."""
        return {}

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
    media: Mapping[str, bytes] = field(default_factory=dict)
    """By `ref`: the files that the parts name, as far as the model can be shown them."""


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


Piece = TextPiece | CallPiece | Finish


class Model(Protocol):
    name: str
    provider: str

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
