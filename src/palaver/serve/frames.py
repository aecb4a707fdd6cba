"""Control frames: what a stream says about itself. The envelope of an event, never stored, without a `seq`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palaver.serve.times import timestamp
from palaver.wire.codec import VERSION

WIRE = "palaver.wire"
"""Under `extensions` of a scope: the connection itself, for the pieces of a stream."""

Control = Literal["hello", "caught_up", "gap", "deleted", "session_changed", "session_removed", "draft_changed", "notify"]


def control(kind: Control, session_id: str | None, data: Mapping[str, Any] | msgspec.Raw, now: float) -> bytes:
    envelope = {"v": VERSION, "ts": timestamp(now), "session_id": session_id, "turn_id": None, "type": kind, "data": data}
    return msgspec.json.encode(envelope)


def as_sse(kind: Control, frame: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode("ascii"), frame)
