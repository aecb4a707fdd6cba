"""A history that is too long for its window, made to fit: texts are shortened, the longest first, and a call stays with its result.

Pure: the same messages and the same room give the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from palaver.models.base import ModelCall, ModelMessage
from palaver.wire.values import Part

_LEAST = 60
"""Tokens that stay of a text, however little room there is."""
_CHARACTERS = 2.5
"""Of a token, where a text is cut: few, so that what is left is not more than was meant."""


def total(messages: Sequence[ModelMessage]) -> int:
    return sum(message.tokens for message in messages)


def fitted(messages: Sequence[ModelMessage], room: int) -> Sequence[ModelMessage]:
    """The same messages in at most `room` tokens, as they are where they fit. Results go before what was said, the last message last.

    Where even their shortest forms do not fit, the oldest units are left out, with a note in their place.
    """
    if total(messages) <= room:
        return messages
    messages = _capped(messages, room, [place for place, message in enumerate(messages) if message.role == "tool"])
    if total(messages) > room:
        messages = _capped(messages, room, range(len(messages) - 1))
    if total(messages) > room:
        messages = _capped(messages, room, range(len(messages)))
    return messages if total(messages) <= room else _without_the_oldest(messages, room)


def _capped(messages: Sequence[ModelMessage], room: int, places: Sequence[int]) -> Sequence[ModelMessage]:
    """No message at these places is longer than the largest length with which all fit."""
    sizes = sorted(messages[place].tokens for place in places)
    left = room - (total(messages) - sum(sizes))
    cap = _LEAST
    for index, size in enumerate(sizes):
        share = left // (len(sizes) - index)
        if size > share:
            cap = max(_LEAST, share)
            break
        left -= size
    else:
        return messages
    chosen = set(places)
    return [shortened(message, cap) if place in chosen else message for place, message in enumerate(messages)]


def shortened(message: ModelMessage, tokens: int) -> ModelMessage:
    """Its texts and the texts in its calls' arguments, so that it takes about so many tokens."""
    if message.tokens <= tokens:
        return message
    cut = message
    texts = sum(1 for part in message.parts if part.text) + len(message.calls)
    for share in (1.0, 0.6, 0.3):
        each = int(max(tokens, _LEAST) * share * _CHARACTERS) // max(1, texts)
        parts = tuple(_cut(part, each) for part in message.parts)
        calls = tuple(_cut_call(call, each) for call in message.calls)
        cut = replace(message, parts=parts, calls=calls, thinking="", reasoning=None)
        if cut.tokens <= tokens:
            break
    return cut


def _cut(part: Part, most: int) -> Part:
    text = part.text or ""
    return part if len(text) <= most else msgspec.structs.replace(part, text=_head_and_tail(text, most))


def _head_and_tail(text: str, most: int) -> str:
    """The note counts too: where there is hardly any room, it is all there is."""
    head, tail = max(0, most - 60) * 2 // 3, max(0, most - 60) // 3
    note = f"[… {len(text) - head - tail} characters left out]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}" if head else note


def _cut_call(call: ModelCall, most: int) -> ModelCall:
    """Still a JSON object, with the same keys where they fit."""
    if len(call.arguments) <= most:
        return call
    arguments = msgspec.json.decode(call.arguments)
    cut = msgspec.json.encode(_cut_value(arguments, max(20, most // max(1, len(arguments)) - 10))).decode()
    return ModelCall(call.id, call.name, cut if len(cut) <= 2 * most + 80 else '{"left_out":"too long"}')


def _cut_value(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else _head_and_tail(value, most)
    if isinstance(value, dict):
        return {key: _cut_value(inner, most) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut_value(inner, most) for inner in value]
    return value


def _without_the_oldest(messages: Sequence[ModelMessage], room: int) -> Sequence[ModelMessage]:
    units = in_units(messages)
    while len(units) > 1 and sum(map(total, units)) > room - 30:
        units = units[1:]
    note = ModelMessage("user", (Part("text", text="[Earlier messages are left out here: they do not fit.]"),))
    return [note, *(message for unit in units for message in unit)]


def in_units(messages: Sequence[ModelMessage]) -> list[list[ModelMessage]]:
    """What belongs together: an answer with its calls and their results, or the messages of one moment."""
    units = list[list[ModelMessage]]()
    for message in messages:
        if not units or units[-1][0].unit != message.unit:
            units.append([])
        units[-1].append(message)
    return units


__all__ = ["fitted", "in_units", "shortened", "total"]
