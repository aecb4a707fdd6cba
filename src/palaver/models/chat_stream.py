"""A Chat Completions stream, translated: the data of its events to our pieces. Pure, so every oddity is a table.

- What a provider leaves out is made up or done without: `[DONE]`, ids, indexes, the usage. What is no chunk at all is `bad_chunk`.
- A character whose two UTF-16 halves come in two deltas arrives as one; a half that stays alone becomes U+FFFD.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from palaver.errors import ModelFailed
from palaver.models.base import CallPiece, Finish, Piece, TextPiece
from palaver.models.chat_errors import bad_chunk, clean, provider_error
from palaver.wire.values import Reasoning, TextKind, Usage

_Form = Literal["reasoning_details", "reasoning_content", "reasoning"]
_FORMS: tuple[_Form, ...] = ("reasoning", "reasoning_content", "reasoning_details")
"""From what says least to what says most."""
_OPEN, _CLOSE = "<think>", "</think>"


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    """Mistral's thinking models send a list of parts."""
    reasoning_details: list[dict[str, Any]] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None

    def thinking(self) -> str | None:
        """The first of the three forms that says something: gateways send the same words in two of them."""
        if self.reasoning_details:
            text = "".join(_said(detail) for detail in self.reasoning_details)
            if text:
                return text
        return self.reasoning or self.reasoning_content

    def form(self) -> _Form | None:
        if self.reasoning_details:
            return "reasoning_details"
        return "reasoning_content" if self.reasoning_content else "reasoning" if self.reasoning else None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None

    def ours(self) -> Usage:
        cached, reasoning = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            input_tokens=self.prompt_tokens or 0,
            output_tokens=self.completion_tokens or 0,
            cached_tokens=cached.cached_tokens if cached else None,
            reasoning_tokens=reasoning.reasoning_tokens if reasoning else None,
        )


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk)


class Answer:
    """One answer as it comes: `take` the data of each event, then `end`."""

    def __init__(self, new_call_id: Callable[[], str], model: str = "") -> None:
        """`model` is our name of it, for what it must be given back."""
        self._model = model
        self._form: _Form | None = None
        self._details = _Details()
        self._calls = _Calls(new_call_id)
        self._tags = _ThinkTags()
        self._halves = _Halves()
        self._reason: str | None = None
        self._usage: Usage | None = None
        self.done = False
        """The provider said `[DONE]`."""

    @property
    def complete(self) -> bool:
        """The provider said that it is through, so nothing that is missing now was part of the answer."""
        return self.done or self._reason is not None

    def take(self, data: bytes) -> list[Piece]:
        """The pieces of one event. Raises `ModelFailed`: `bad_chunk`, or what the provider says went wrong."""
        try:
            chunk = _chunks.decode(data)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            if data.strip() == b"[DONE]":
                self.done = True
                return []
            chunk = self._decode_leniently(data)
        if chunk.error:
            raise provider_error(chunk.error)
        if chunk.usage is not None:
            self._usage = chunk.usage.ours()
        pieces: list[Piece] = []
        for choice in (chunk.choices or ())[:1]:
            self._reason = choice.finish_reason or self._reason
            if choice.delta is not None:
                self._add(choice.delta, pieces)
        return pieces

    def take_all(self, events: Iterable[bytes]) -> Iterator[Piece]:
        """The pieces of events that came together: text that goes on is one piece. Raises like `take`, after what came before."""
        run: list[TextPiece] = []
        try:
            for data in events:
                for piece in self.take(data):
                    if run and not (isinstance(piece, TextPiece) and piece.kind == run[0].kind):
                        yield _one(run)
                        run = []
                    if isinstance(piece, TextPiece):
                        run.append(piece)
                    else:
                        yield piece
        except ModelFailed:
            if run:
                yield _one(run)
            raise
        if run:
            yield _one(run)

    def end(self) -> list[Piece]:
        """What was held back, then the `Finish`. Call it once, after the last event. Raises `ModelFailed` if that event said so."""
        pieces: list[Piece] = list(self._tags.end())
        pieces += self._calls.end()
        pieces += self._halves.end()
        return [*pieces, Finish(self._finish_reason(), self._usage, self._reasoning())]

    def _add(self, delta: _Delta, pieces: list[Piece]) -> None:
        if form := delta.form():
            self._thought(delta, form, pieces)
        if isinstance(delta.content, str):
            pieces += self._tags.feed(delta.content)
        for part in delta.content if isinstance(delta.content, list) else ():
            pieces += _part(part)
        if delta.refusal:
            pieces.append(TextPiece("text", delta.refusal))
        if delta.tool_calls:
            pieces += self._calls.feed(delta.tool_calls)
        if self._halves.busy:
            pieces[:] = self._halves.join(pieces)

    def _thought(self, delta: _Delta, form: _Form, pieces: list[Piece]) -> None:
        if self._form is None or _FORMS.index(form) > _FORMS.index(self._form):
            self._form = form
        if delta.reasoning_details:
            self._details.add(delta.reasoning_details)
        if thinking := delta.thinking():
            pieces.append(TextPiece("thinking", thinking))

    def _reasoning(self) -> Reasoning | None:
        extras = self._calls.extras()
        return Reasoning(self._model, self._form, self._details.whole(), extras) if self._form or extras else None

    def _decode_leniently(self, data: bytes) -> _Chunk:
        """msgspec takes no lone half of a character; the standard library does, and from then on every text is looked at.

        Numbers that came as text, or with a point, are taken here too.
        """
        try:
            chunk = msgspec.convert(json.loads(data.decode("utf-8", "surrogatepass")), _Chunk, strict=False)
        except (ValueError, RecursionError) as error:
            raise bad_chunk(str(error), data) from error
        self._halves.busy = True
        return chunk

    def _finish_reason(self) -> Literal["end_turn", "tool_calls", "max_tokens", "refusal"]:
        match self._reason:
            case "length" | "max_tokens":
                return "max_tokens"
            case "content_filter" | "refusal":
                return "refusal"
            case "error" | "insufficient_system_resource":
                raise ModelFailed("model_failed", "The model's service broke its answer off with an error. Try again.", retryable=True)
            case _:  # `stop` with calls in it is common, and so is no reason at all
                return "tool_calls" if self._calls.seen else "end_turn"


def _part(part: dict[str, Any]) -> list[Piece]:
    """`{type: text, text}`, or `{type: thinking, thinking: [{text}]}`."""
    inner = part.get("thinking")
    if isinstance(inner, list):
        return [TextPiece("thinking", text) for one in inner if isinstance(one, dict) and (text := _said(one))]
    return [TextPiece("text", text)] if (text := _said(part)) else []


def _one(run: list[TextPiece]) -> TextPiece:
    return run[0] if len(run) == 1 else TextPiece(run[0].kind, "".join([piece.text for piece in run]))


class _Details:
    """Puts the fragments of `reasoning_details` together: what is given back must be what would have come without a stream."""

    def __init__(self) -> None:
        self._found: list[tuple[dict[str, Any], list[dict[str, str]]]] = []
        """Each with its texts, piece by piece."""

    def add(self, fragments: Iterable[dict[str, Any]]) -> None:
        for fragment in fragments:
            last, texts = self._found[-1] if self._found else ({}, [])
            if _continues(last, fragment):
                last.update({key: value for key, value in fragment.items() if value is not None})
                texts.append(_texts(fragment))
            elif all(fragment != whole for whole, _ in self._found):
                self._found.append((dict(fragment), [_texts(fragment)]))

    def whole(self) -> tuple[dict[str, Any], ...]:
        return tuple({**detail, **_joined(texts)} for detail, texts in self._found)


def _continues(last: dict[str, Any], fragment: dict[str, Any]) -> bool:
    same = all(last.get(key) == fragment.get(key) for key in ("type", "index"))
    return same and fragment.get("type") in ("reasoning.text", "reasoning.summary")


def _texts(detail: dict[str, Any]) -> dict[str, str]:
    return {key: text for key in ("text", "summary") if isinstance(text := detail.get(key), str)}


def _said(detail: dict[str, Any]) -> str:
    texts = _texts(detail)
    return texts.get("text") or texts.get("summary") or ""


def _joined(texts: list[dict[str, str]]) -> dict[str, str]:
    return {key: clean("".join(text.get(key, "") for text in texts)) for key in ("text", "summary") if any(key in text for text in texts)}


class _Calls:
    """Puts the fragments of each call in one place, with an id and a name in front."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._open: dict[int, _OpenCall] = {}
        """By the provider's index: the call that its fragments go to."""
        self._all: list[_OpenCall] = []
        self.seen = 0

    def feed(self, fragments: Iterable[_CallDelta]) -> list[Piece]:
        return [piece for fragment in fragments if (piece := self._fragment(fragment)) is not None]

    def end(self) -> list[Piece]:
        """A call that never had a name is told all the same: it gets its error like any unknown tool."""
        return [CallPiece(call.index, call.id, "", call.held) for call in self._open.values() if call.name is None]

    def extras(self) -> dict[str, Any]:
        """By the place of the call, as its pieces name it."""
        return {str(call.index): call.extra for call in self._all if call.extra is not None}

    def _fragment(self, fragment: _CallDelta) -> Piece | None:
        function = fragment.function or _Function()
        call = self._find(fragment, function)
        call.extra = fragment.extra_content or call.extra
        arguments = function.arguments or ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        if call.name is not None:
            return CallPiece(call.index, None, None, arguments) if arguments else None
        if not function.name:
            call.held += arguments
            return None
        call.name = function.name
        return CallPiece(call.index, call.id, call.name, call.held + arguments)

    def _find(self, fragment: _CallDelta, function: _Function) -> _OpenCall:
        place = fragment.index
        if place is None:  # without an index: a fragment with an id or a name of its own begins a call
            begins = not self._open or bool(fragment.id or function.name)
            place = len(self._open) if begins else max(self._open)
        call = self._open.get(place)
        if call is not None and function.name and fragment.id and call.given_id and fragment.id != call.given_id:
            call = None  # some give every call of a batch the same index
        if call is None:
            call = self._open[place] = _OpenCall(self.seen, fragment.id, fragment.id or self._new_call_id())
            self._all.append(call)
            self.seen += 1
        return call


class _OpenCall:
    def __init__(self, index: int, given_id: str | None, id: str) -> None:
        self.index = index
        self.given_id = given_id
        self.id = id
        self.name: str | None = None
        self.extra: Any = None
        self.held = ""
        """Arguments that came before the name."""


class _ThinkTags:
    """Takes a `<think>` part at the start of an answer for what it is, however it is split.

    Only at the start: an answer that speaks of the tag later, in code for example, is left as it is.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "text"] = "start"
        self._held = ""
        self._closed = False

    def feed(self, text: str) -> list[Piece]:
        if self._state == "text":
            return [TextPiece("text", text)]
        pieces: list[Piece] = []
        while text:
            text = self._thinking(text, pieces) if self._state == "thinking" else self._start(text, pieces)
        return pieces

    def end(self) -> list[Piece]:
        held, self._held = self._held, ""
        if self._state == "start" and self._closed:
            held = held.lstrip()
        return [TextPiece("thinking" if self._state == "thinking" else "text", held)] if held else []

    def _start(self, text: str, pieces: list[Piece]) -> str:
        """Decide what the answer begins with; returns what is left to look at."""
        text, self._held = self._held + text, ""
        body = text.lstrip()
        if body.startswith(_OPEN):
            self._state = "thinking"
            return body[len(_OPEN) :]
        if _OPEN.startswith(body):
            self._held = text
            return ""
        self._state = "text"
        pieces.append(TextPiece("text", body if self._closed else text))
        return ""

    def _thinking(self, text: str, pieces: list[Piece]) -> str:
        text, self._held = self._held + text, ""
        thinking, tag, rest = text.partition(_CLOSE)
        if tag:
            self._state, self._closed = "start", True
        else:
            keep = _overlap(text, _CLOSE)
            thinking, self._held = text[: len(text) - keep], text[len(text) - keep :]
        if thinking:
            pieces.append(TextPiece("thinking", thinking))
        return rest


def _overlap(text: str, tag: str) -> int:
    """How much of the end of `text` may be the beginning of `tag`."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


class _Halves:
    """Joins the two UTF-16 halves of a character that came in two deltas of the same part. Works only once one was seen."""

    def __init__(self) -> None:
        self.busy = False
        self._held: dict[TextKind | int, str] = {}

    def join(self, pieces: Iterable[Piece]) -> list[Piece]:
        return [joined for piece in pieces if (joined := self._joined(piece)) is not None]

    def end(self) -> list[Piece]:
        """Halves whose other half never came."""
        return [CallPiece(key, None, None, "\ufffd") if isinstance(key, int) else TextPiece(key, "\ufffd") for key in self._held]

    def _joined(self, piece: Piece) -> Piece | None:
        match piece:
            case TextPiece(kind=kind, text=text):
                whole = self._whole(kind, text)
                return TextPiece(kind, whole) if whole else None
            case CallPiece(index=index, id=call_id, name=name, arguments=arguments):
                return CallPiece(index, call_id and clean(call_id), name and clean(name), self._whole(index, arguments))
            case Finish():
                return piece

    def _whole(self, key: TextKind | int, text: str) -> str:
        text = self._held.pop(key, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held[key] = text[:-1], text[-1]
        return clean(text)
