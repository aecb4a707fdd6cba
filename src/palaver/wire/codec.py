"""Bytes to values and back. An event is encoded once, when it is appended; log, SSE and WebSocket share those bytes.

A type that this version does not know decodes to `UnknownEvent` with its bytes, so that it can be served unchanged; a field that
it does not know is skipped. `v` counts major versions: a log that says more than `VERSION` opens read-only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palaver.wire.events import EVENT_TYPES, TYPE_NAMES, AnyEvent, Event, Recorded, UnknownEvent
from palaver.wire.ids import SessionId, TurnId
from palaver.wire.values import ToolInputProgress

VERSION = 1

encoder = msgspec.json.Encoder()
encode = encoder.encode


class Head(msgspec.Struct, frozen=True):
    """An envelope whose `data` is still bytes: enough to route it."""

    type: str
    seq: int = 0
    ts: str = ""
    session_id: str = ""
    turn_id: str | None = None
    v: int = VERSION
    data: msgspec.Raw = msgspec.Raw(b"{}")


_heads = msgspec.json.Decoder(Head)
_events: dict[str, msgspec.json.Decoder[Any]] = {}
"""By type, each made when it is first needed: all of them cost a start three milliseconds."""


class _Line(msgspec.Struct):
    """The envelope's fields in their order on the wire."""

    v: int
    seq: int
    ts: str
    session_id: str
    turn_id: str | None
    type: str
    data: Event


def encode_event(recorded: Recorded) -> bytes:
    """One line of the log, without its line end."""
    data = recorded.data
    if isinstance(data, UnknownEvent):
        return data.raw
    return encode(_Line(recorded.v, recorded.seq, recorded.ts, recorded.session_id, recorded.turn_id, TYPE_NAMES[type(data)], data))


def encode_frame(session_id: str, turn_id: str | None, ts: str, data: Event) -> bytes:
    """The same envelope without a `seq`: a piece of the tail, which is provisional."""
    return encode({"v": VERSION, "ts": ts, "session_id": session_id, "turn_id": turn_id, "type": TYPE_NAMES[type(data)], "data": data})


def encode_progress(session_id: str, turn_id: str, ts: str, data: ToolInputProgress) -> bytes:
    """The same for what is no event and never becomes one."""
    return encode({"v": VERSION, "ts": ts, "session_id": session_id, "turn_id": turn_id, "type": "tool_input_progress", "data": data})


def decode_head(line: bytes) -> Head:
    return _heads.decode(line)


def decode_event(line: bytes) -> Recorded:
    """Raises `msgspec.DecodeError` when the line is no envelope, or when it breaks the shape of a type that we know."""
    head = _heads.decode(line)
    decoder = _events.get(head.type) or _decoder(head.type)
    data: AnyEvent = UnknownEvent(raw=bytes(line)) if decoder is None else decoder.decode(head.data)
    turn_id = None if head.turn_id is None else TurnId(head.turn_id)
    return Recorded(head.seq, head.ts, SessionId(head.session_id), turn_id, data, head.v)


def _decoder(type_name: str) -> msgspec.json.Decoder[Any] | None:
    struct = EVENT_TYPES.get(type_name)
    if struct is None:
        return None
    made = _events[type_name] = msgspec.json.Decoder(struct)
    return made
