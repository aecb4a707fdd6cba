"""Our request, as the JSON body of a Chat Completions request. Pure: golden bodies hold it.

Thinking is not sent back: what the common servers do with it differs, and none needs it. Arguments that are no JSON object are
sent as an empty one, because some servers parse them and refuse the whole request; the call's result says what was wrong.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from palaver.models.base import ModelCall, ModelMessage, ModelRequest, ModelTool
from palaver.wire.values import Part

Media = Callable[[str], bytes | None]
"""`media(ref)` is a file's content, or None where it is not at hand."""


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    type: Literal["function"]
    function: _Function


class _Text(msgspec.Struct):
    type: Literal["text"]
    text: str


class _Url(msgspec.Struct):
    url: str


class _Image(msgspec.Struct):
    type: Literal["image_url"]
    image_url: _Url


class _Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: str | list[_Text | _Image] | None
    tool_calls: list[_Call] = []
    tool_call_id: str | None = None


class _ToolFunction(msgspec.Struct):
    name: str
    description: str
    parameters: dict[str, Any]


class _Tool(msgspec.Struct):
    type: Literal["function"]
    function: _ToolFunction


class _StreamOptions(msgspec.Struct):
    include_usage: bool


class _Body(msgspec.Struct, omit_defaults=True):
    model: str
    messages: list[msgspec.Raw]
    stream: bool
    stream_options: _StreamOptions
    tools: list[_Tool] = []
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


_encoder = msgspec.json.Encoder()


def to_body(
    request: ModelRequest,
    model: str,
    *,
    tools: bool = True,
    media: Media | None = None,
    max_output: int | None = None,
    max_output_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
) -> bytes:
    """The whole body. `tools` is False for a model that cannot call them, `media` None for one that sees no images: they are named."""
    body = _Body(
        model,
        [msgspec.Raw(told) for message in request.messages if (told := _told(message, media))],
        True,
        _StreamOptions(True),
        [_tool(tool) for tool in request.tools] if tools else [],
    )
    if max_output is not None:
        setattr(body, max_output_field, max_output)
    return _encoder.encode(body)


def _told(message: ModelMessage, media: Media | None) -> bytes:
    """Empty for one that says nothing. What takes no file to tell is encoded once."""
    told = message.memo.get("chat_completions")
    if told is None:
        told = _encoder.encode(_message(message, media)) if _says_something(message) else b""
        if message.plain:
            message.memo["chat_completions"] = told
    return told


def _says_something(message: ModelMessage) -> bool:
    """An assistant message that was stopped before its first word is left out: providers refuse empty ones."""
    return message.role != "assistant" or bool(message.calls or message.text)


def _message(message: ModelMessage, media: Media | None) -> _Message:
    return _Message(
        message.role,
        _content(message, media),
        [_Call(call.id, "function", _Function(call.name, _arguments(call))) for call in message.calls],
        message.call_id,
    )


def _content(message: ModelMessage, media: Media | None) -> str | list[_Text | _Image] | None:
    """A plain string wherever there is only text: not every server reads lists, and for tools hardly any does."""
    if message.role == "assistant":
        return message.text or None
    parts = [_part(part, media if message.role == "user" else None) for part in message.parts if part.type != "thinking"]
    if any(isinstance(part, _Image) for part in parts):
        return parts
    return "".join(part.text for part in parts if isinstance(part, _Text))


def _part(part: Part, media: Media | None) -> _Text | _Image:
    if part.type == "text":
        return _Text("text", part.text or "")
    data = media(part.ref) if media is not None and part.ref is not None and part.type == "image" else None
    if data is None:
        return _Text("text", f"[{part.type}: {part.name or part.ref or 'without a name'}]")
    encoded = base64.b64encode(data).decode("ascii")
    return _Image("image_url", _Url(f"data:{part.mime_type or 'image/png'};base64,{encoded}"))


def _arguments(call: ModelCall) -> str:
    try:
        readable = isinstance(msgspec.json.decode(call.arguments), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        readable = False
    return call.arguments if readable else "{}"


def _tool(tool: ModelTool) -> _Tool:
    return _Tool("function", _ToolFunction(tool.name, tool.description, tool.schema))
