"""Text in flight: what a model or a tool has said beyond what the disk has.

Each open part or stream is one buffer. The log gets it in larger pieces (`flush`), readers who asked for it see it at once. A buffer
keeps its text until the disk has it, so that a failed write loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from palaver.wire.ids import CallId, MessageId, PartId, StepId, TurnId
from palaver.wire.values import Stream, TextKind

PIECE = 4096
"""Code points in a buffer that are worth a line of the log without waiting longer."""
MOST = 8192
"""Code points of one line of the log: they fit whatever they are, since JSON needs at most six bytes for one."""
WAIT = 0.25
"""Seconds after which any text goes to the log."""

Key = tuple[str, str]
"""What a text belongs to: message and part, or call and stream."""


@dataclass
class Buffer:
    turn_id: TurnId
    key: Key
    kind: TextKind | None
    """None for the output of a call."""
    safe: int = 0
    """Code points that the disk has."""
    sent: int = 0
    """Code points that are on their way to the disk, or there."""
    end: int = 0
    _text: str = ""
    _new: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self._new.append(text)
        self.end += len(text)

    def beyond(self, offset: int) -> str:
        """The text from `offset` on; it must not lie before what the disk has."""
        if self._new:
            self._text += "".join(self._new)
            self._new.clear()
        return self._text[offset - self.safe :]

    def confirm(self, offset: int) -> None:
        self.beyond(self.safe)
        self._text = self._text[offset - self.safe :]
        self.safe = offset


@dataclass(frozen=True)
class Piece:
    """Text of one buffer from `offset` on: for the log, or for a reader."""

    turn_id: TurnId
    key: Key
    kind: TextKind | None
    offset: int
    text: str


@dataclass(frozen=True)
class Writing:
    """A call that a model is writing: how far it is, and nothing of it."""

    turn_id: TurnId
    message_id: MessageId
    step_id: StepId
    name: str
    chars: int

    @property
    def key(self) -> Key:
        return (self.message_id, "")


class Tail:
    def __init__(self) -> None:
        self._buffers: dict[Key, Buffer] = {}
        self._writing: Writing | None = None

    def __bool__(self) -> bool:
        return bool(self._buffers) or self._writing is not None

    def writes(self, writing: Writing) -> None:
        self._writing = writing

    def text(self, turn_id: TurnId, message_id: MessageId, part_id: PartId, kind: TextKind, text: str) -> int:
        return self._add(turn_id, (message_id, part_id), kind, text)

    def output(self, turn_id: TurnId, call_id: CallId, stream: Stream, text: str) -> int:
        return self._add(turn_id, (call_id, stream), None, text)

    def _add(self, turn_id: TurnId, key: Key, kind: TextKind | None, text: str) -> int:
        """Returns how much is waiting for the log in this buffer."""
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = Buffer(turn_id, key, kind)
        buffer.add(text)
        return buffer.end - buffer.sent

    def unsent(self) -> Iterator[Piece]:
        """What the log should have now, in the order in which the buffers were opened."""
        for buffer in self._buffers.values():
            if buffer.end > buffer.sent:
                offset, text = buffer.sent, buffer.beyond(buffer.sent)
                for start in range(0, len(text), MOST):
                    yield Piece(buffer.turn_id, buffer.key, buffer.kind, offset + start, text[start : start + MOST])

    def sent(self, piece: Piece) -> None:
        """It is on its way to the disk."""
        self._buffers[piece.key].sent = piece.offset + len(piece.text)

    def confirm(self, key: Key, offset: int) -> None:
        """The disk has this text up to `offset`."""
        buffer = self._buffers.get(key)
        if buffer is not None and offset > buffer.safe:
            buffer.confirm(offset)

    def left(self, key: Key) -> bool:
        """Whether there is text of this part, or stream, beyond what the disk has."""
        buffer = self._buffers.get(key)
        return buffer is not None and buffer.end > buffer.safe

    def unconfirmed(self) -> None:
        """What was on its way did not arrive."""
        for buffer in self._buffers.values():
            buffer.sent = buffer.safe

    def close(self, id: str) -> None:
        """The message, or the call, is complete on disk."""
        for key in [key for key in self._buffers if key[0] == id]:
            del self._buffers[key]
        if self._writing is not None and self._writing.message_id == id:
            self._writing = None

    def clear(self) -> None:
        self._buffers.clear()
        self._writing = None

    def beyond(self, seen: dict[Key, int], begun: Callable[[str], bool]) -> list[Piece | Writing]:
        """What a reader who has all logged events has not been sent yet, of messages and calls whose begin is one of these.

        Notes in `seen` that it will have been sent.
        """
        pieces: list[Piece | Writing] = []
        writing = self._writing
        for key in [key for key in seen if key not in self._buffers and not (writing and key == writing.key)]:
            del seen[key]
        for key, buffer in self._buffers.items():
            start = max(seen.get(key, 0), buffer.safe)
            if buffer.end > start and begun(key[0]):
                pieces.append(Piece(buffer.turn_id, key, buffer.kind, start, buffer.beyond(start)))
                seen[key] = buffer.end
        if writing is not None and seen.get(writing.key) != writing.chars and begun(writing.message_id):
            pieces.append(writing)
            seen[writing.key] = writing.chars
        return pieces
