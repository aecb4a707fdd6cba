"""Our request, as the JSON body of a Chat Completions request. Pure: golden bodies hold it.

Thinking goes back only in the form in which it came, and only to the model that it came from: DeepSeek and Kimi need theirs on every
answer, OpenRouter its details with signatures, others refuse either (`Echo`). Arguments that are no JSON object are
sent as an empty one, because some servers parse them and refuse the whole request; the call's result says what was wrong.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.models.base import ModelCall, ModelMessage, ModelRequest, ModelTool
from palaver.models.media import NOTHING, TEXT_LIMIT, Takes, kind_of, name_of, not_taken
from palaver.wire.values import Part

Echo = Literal["auto", "none", "reasoning_content"]
"""What goes back: what came as `reasoning_details` or `reasoning_content`; nothing; or always `reasoning_content`, if need be empty."""


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct, omit_defaults=True):
    id: str
    type: Literal["function"]
    function: _Function
    extra_content: Any = None


class _Text(msgspec.Struct):
    type: Literal["text"]
    text: str


class _Url(msgspec.Struct):
    url: str


class _Image(msgspec.Struct):
    type: Literal["image_url"]
    image_url: _Url


class _Sound(msgspec.Struct):
    data: str
    format: str


class _Audio(msgspec.Struct):
    type: Literal["input_audio"]
    input_audio: _Sound


class _Data(msgspec.Struct):
    filename: str
    file_data: str


class _File(msgspec.Struct):
    type: Literal["file"]
    file: _Data


_Content = _Text | _Image | _Audio | _File


class _Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: str | list[_Content] | None
    tool_calls: list[_Call] = []
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning_details: tuple[Any, ...] = ()


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
    takes: Takes = NOTHING,
    max_output: int | None = None,
    max_output_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    name: str = "",
    echo: Echo = "auto",
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """The whole body. `tools` is False for a model that cannot call them: what others called is told in words. A file that it does
    not take is named, and that it is not shown.
    `name` is our name of the model, under which its thinking was kept; `extra` is added as it is.
    """
    messages = request.messages if tools else _in_words(request.messages)
    body = _Body(
        model,
        [msgspec.Raw(told) for told in _all_told(messages, _Manner(name, echo, takes)) if told],
        True,
        _StreamOptions(True),
        [_tool(tool) for tool in request.tools] if tools else [],
    )
    if max_output is not None:
        setattr(body, max_output_field, max_output)
    encoded = _encoder.encode(body)
    return encoded[:-1] + b"," + _encoder.encode(extra)[1:] if extra else encoded


def _in_words(messages: Iterable[ModelMessage]) -> Iterator[ModelMessage]:
    """Without a call: each as a line of the message that made it, the results of a batch as one message of the user's role."""
    names: dict[str, str] = {}
    given: list[ModelMessage] = []
    for message in messages:
        if message.role == "tool":
            given.append(message)
            continue
        if given:
            yield _given(given, names)
            given = []
        names.update({call.id: call.name for call in message.calls})
        called = "".join(f"\n[Called `{call.name}` with {call.arguments}]" for call in message.calls)
        yield replace(message, parts=(*message.parts, Part("text", text=called)), calls=()) if called else message
    if given:
        yield _given(given, names)


def _given(results: Iterable[ModelMessage], names: Mapping[str, str]) -> ModelMessage:
    parts: list[Part] = []
    media: dict[str, bytes] = {}
    for result in results:
        parts += [Part("text", text=f"[Not from the person: what `{names.get(result.call_id or '', 'a tool')}` gave]\n"), *result.parts]
        parts.append(Part("text", text="\n"))
        media |= result.media
    return ModelMessage("user", tuple(parts), media=media)


class _Manner(NamedTuple):
    """How the messages are told, as far as that differs between models."""

    name: str
    echo: Echo
    takes: Takes


def _all_told(messages: Iterable[ModelMessage], manner: _Manner) -> Iterator[bytes]:
    """What tools gave to look at follows their batch in a message of the user's role: a tool message holds text only."""
    seen: list[_Content] = []
    for message in messages:
        if message.role != "tool" and seen:
            yield _shown_by_tools(seen)
            seen = []
        yield _told(message, manner)
        if message.role == "tool" and not message.plain:
            seen += [shown for part in message.parts if not isinstance(shown := _part(part, message, manner), _Text)]
    if seen:
        yield _shown_by_tools(seen)


def _shown_by_tools(seen: list[_Content]) -> bytes:
    return _encoder.encode(_Message("user", [_Text("text", "[Not from the person: what the tools gave to look at.]"), *seen]))


def _told(message: ModelMessage, manner: _Manner) -> bytes:
    """Empty for one that says nothing. What takes no file to tell is encoded once."""
    kept = f"chat_completions {manner.echo} {manner.name}"
    told = message.memo.get(kept)
    if told is None:
        told = _encoder.encode(_message(message, manner)) if _says_something(message) else b""
        if message.plain:
            message.memo[kept] = told
    return told


def _says_something(message: ModelMessage) -> bool:
    """An assistant message that was stopped before its first word is left out: providers refuse empty ones."""
    return message.role != "assistant" or bool(message.calls or message.text)


def _message(message: ModelMessage, manner: _Manner) -> _Message:
    told = _Message(
        message.role,
        _content(message, manner),
        [_Call(call.id, "function", _Function(call.name, _arguments(call))) for call in message.calls],
        message.call_id,
    )
    if message.role == "assistant" and manner.echo != "none":
        own = message.reasoning if message.reasoning is not None and message.reasoning.model == manner.name else None
        if manner.echo == "reasoning_content":
            told.reasoning_content = message.thinking if own else ""
        elif own is not None and own.form == "reasoning_details":
            told.reasoning_details = own.details
        elif own is not None and own.form == "reasoning_content":
            told.reasoning_content = message.thinking
        for call in told.tool_calls if own is not None else ():
            call.extra_content = own.calls.get(call.id) if own is not None else None
    return told


def _content(message: ModelMessage, manner: _Manner) -> str | list[_Content] | None:
    """A plain string wherever there is only text: not every server reads lists, and for tools hardly any does."""
    if message.role == "assistant":
        return message.text or None
    parts = [_part(part, message, manner) for part in message.parts if part.type != "thinking"]
    if message.role == "tool":
        parts = [part if isinstance(part, _Text) else _Text("text", "[It is shown after these results.]") for part in parts]
    if any(not isinstance(part, _Text) for part in parts):
        return parts
    return "".join(part.text for part in parts if isinstance(part, _Text))


def _part(part: Part, message: ModelMessage, manner: _Manner) -> _Content:
    if part.type == "text":
        return _Text("text", part.text or "")
    data = message.media.get(part.ref or "")
    if (why := not_taken(part, data, manner.takes)) is not None or data is None:
        return _Text("text", f"\n[{name_of(part)} was attached here and is not shown: {why}.]\n")
    kind = kind_of(data)
    if kind.sort == "text":
        return _Text("text", _inlined(part, data))
    encoded = base64.b64encode(data).decode("ascii")
    match kind.sort:
        case "audio":
            return _Audio("input_audio", _Sound(encoded, "wav" if kind.mime_type == "audio/wav" else "mp3"))
        case "document":
            return _File("file", _Data(name_of(part), f"data:{kind.mime_type};base64,{encoded}"))
        case _:
            return _Image("image_url", _Url(f"data:{kind.mime_type};base64,{encoded}"))


def _inlined(part: Part, data: bytes) -> str:
    """The file between two lines that no file is likely to hold; of a long one the beginning, and where the rest is."""
    text = data[:TEXT_LIMIT].decode("utf-8", "ignore")
    cut = f"\n[The first {TEXT_LIMIT} of {len(data)} bytes. Read the rest with read_file: {part.ref}]" if len(data) > TEXT_LIMIT else ""
    return f"\n[The attached file {name_of(part)}:]\n{text}{cut}\n[The end of {name_of(part)}.]\n"


def _arguments(call: ModelCall) -> str:
    try:
        readable = isinstance(msgspec.json.decode(call.arguments), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        readable = False
    return call.arguments if readable else "{}"


def _tool(tool: ModelTool) -> _Tool:
    return _Tool("function", _ToolFunction(tool.name, tool.description, tool.schema))
