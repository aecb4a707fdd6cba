"""Ids: a prefix that names the kind, then 26 characters that sort by time.

An id is made at the edge and handed to `decide`; nothing in `core` invents one. Where one command may need several
(a cancelled turn turns its unread messages into queue items), they are derived from the one fresh id it brought.
"""

from __future__ import annotations

import random
import time
from typing import NewType

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
StepId = NewType("StepId", str)
MessageId = NewType("MessageId", str)
PartId = NewType("PartId", str)
CallId = NewType("CallId", str)
AskId = NewType("AskId", str)
"""An approval (`appr_`) or a question (`ques_`)."""
ItemId = NewType("ItemId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_PLACES = range(120, -10, -10)


def fresh() -> str:
    """26 characters of 5 bits: 48 bits of milliseconds, then 82 random ones. Sorts by time, never repeats.

    Nothing rests on an id being hard to guess, so that the system is not asked for each one's bits.
    """
    number = (time.time_ns() // 1_000_000 << 82) | random.getrandbits(82)
    return "".join([_PAIRS[number >> place & 1023] for place in _PLACES])


def new_id(prefix: str) -> str:
    """`new_id("turn")` is `turn_01j…`."""
    return f"{prefix}_{fresh()}"


def derived(prefix: str, base: str, number: int) -> str:
    """The `number`th id that a command made out of the one fresh id it brought."""
    return f"{prefix}_{base}{number:02d}"


def ask_id(prefix: str, session_id: SessionId) -> AskId:
    """The id of an approval or a question; it names its session too, so that an answer finds it without a search."""
    return AskId(f"{new_id(prefix)}{session_id.removeprefix('sess_')}")


def session_of(id: str) -> SessionId:
    """The session that an approval's or a question's id names; one that is not there if it is no such id."""
    return SessionId(f"sess_{id.partition('_')[2][26:]}")
