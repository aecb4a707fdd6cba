"""What of a session can be searched for, and where in a text it was found.

Texts are compared as `folded` has them: in any case, and one code point for one, so that a place in the folded text is the same place
in the text itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from palaver.wire import events as e
from palaver.wire.codec import decode_event
from palaver.wire.values import Message, Part

MOST = 262_144
"""Code points of one passage that can be found."""
BEFORE, AFTER = 60, 120
"""Code points around what was found."""

_TYPES = tuple(
    b'"type":"%b"' % name
    for name in (b"message_added", b"model_output_completed", b"tool_call_started", b"tool_call_completed", b"files_changed")
)
_HEAD = 400
"""Bytes of a line in which its type stands."""


class Passage(NamedTuple):
    """One text that can be found."""

    seq: int
    ts: str
    message_id: str | None
    """None where the line does not say: that of its call, else the message before it."""
    call_id: str | None
    role: str
    text: str


class Excerpt(NamedTuple):
    before: str
    match: str
    after: str


def passages(lines: Iterable[bytes]) -> Iterator[Passage]:
    """What these lines of a log say, their numbers and times with it."""
    for line in lines:
        if line.startswith(b"{") and any(name in line[:_HEAD] for name in _TYPES):
            try:
                passage = _passage(decode_event(line))
            except msgspec.DecodeError:
                continue  # of a version to come: what it says cannot be known
            if passage:
                yield passage


def _passage(recorded: e.Recorded) -> Passage | None:
    seq, ts = recorded.seq, recorded.ts
    match recorded.data:
        case e.MessageAdded(message=message) | e.ModelOutputCompleted(message=message):
            text = _message(message)
            return Passage(seq, ts, message.id, None, message.role, text[:MOST]) if text else None
        case e.ToolCallStarted(tool_call=call, title=title, locations=locations, message_id=message_id):
            text = "\n".join(dict.fromkeys([title, call.name, *_strings(call.input), *(one.path for one in locations)]))
            return Passage(seq, ts, message_id, call.id, "tool", text[:MOST])
        case e.ToolCallCompleted(tool_call=call, tool_result=result):
            said = [*_texts(result.parts), *([result.error.message] if result.error else [])]
            return Passage(seq, ts, None, call.id, "tool", "\n".join(dict.fromkeys(said))[:MOST]) if said else None
        case e.FilesChanged(files=files):
            return Passage(seq, ts, None, None, "tool", "\n".join(file.path for file in files)[:MOST]) if files else None
        case _:
            return None


def _message(message: Message) -> str:
    return "\n".join(_texts(message.parts))


def _texts(parts: Iterable[Part]) -> list[str]:
    """Thinking is not what anybody said; of a file its name can be found."""
    return [text for part in parts if part.type != "thinking" and (text := part.text or part.name)]


def _strings(value: Any) -> Iterator[str]:
    value = msgspec.to_builtins(value)
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def folded(text: str) -> str:
    """In lower case, as many code points as before."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter whose small one is two
        lower = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
    return lower.replace("\u03c2", "\u03c3").replace("\0", " ")  # a last sigma is a sigma


def words(query: str) -> list[str]:
    """What all has to be in a text that is found, folded; the longest first."""
    return sorted(dict.fromkeys(folded(query).split()), key=len, reverse=True)


def excerpt(query: str, text: str) -> Excerpt | None:
    """Where the query stands in a text, else its first word of those that all stand in it; None where one does not."""
    within = folded(text)
    wanted = folded(query).strip()
    place = within.find(wanted)
    if place < 0:
        each = wanted.split()
        if any(word not in within for word in each):
            return None
        place, wanted = min((within.find(word), word) for word in each)
    end = place + len(wanted)
    return Excerpt(text[max(0, place - BEFORE) : place], text[place:end], text[end : end + AFTER])
