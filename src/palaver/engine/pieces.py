"""Pieces of the tail on their ways: to the log as a command, to a reader as a frame."""

from __future__ import annotations

from palaver.engine.tail import Piece, Writing
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.codec import encode_frame, encode_progress
from palaver.wire.ids import CallId, MessageId, PartId, SessionId
from palaver.wire.values import Stream, ToolInputProgress


def as_command(piece: Piece) -> c.AddText | c.AddOutput:
    """What brings it into the log."""
    id, name = piece.key
    if piece.kind is None:
        return c.AddOutput(turn_id=piece.turn_id, tool_call_id=CallId(id), stream=_stream(name), offset=piece.offset, text=piece.text)
    return c.AddText(
        turn_id=piece.turn_id, message_id=MessageId(id), part_id=PartId(name), kind=piece.kind, offset=piece.offset, text=piece.text
    )


def place_of(piece: Piece | Writing) -> tuple[object, ...]:
    """Equal for readers who are given the same."""
    return (piece.key, piece.chars) if isinstance(piece, Writing) else (piece.key, piece.offset, len(piece.text))


def as_frame(session_id: SessionId, ts: str, piece: Piece | Writing) -> bytes:
    """What a reader of the tail is given."""
    if isinstance(piece, Writing):
        progress = ToolInputProgress(piece.message_id, piece.step_id, piece.name, piece.chars)
        return encode_progress(session_id, piece.turn_id, ts, progress)
    return encode_frame(session_id, piece.turn_id, ts, _delta(piece))


def _delta(piece: Piece) -> e.ModelOutputDelta | e.ToolOutputDelta:
    id, name = piece.key
    if piece.kind is None:
        return e.ToolOutputDelta(tool_call_id=CallId(id), stream=_stream(name), offset=piece.offset, text=piece.text)
    return e.ModelOutputDelta(message_id=MessageId(id), part_id=PartId(name), kind=piece.kind, offset=piece.offset, text=piece.text)


def _stream(name: str) -> Stream:
    return "stdout" if name == "stdout" else "stderr" if name == "stderr" else "output"
