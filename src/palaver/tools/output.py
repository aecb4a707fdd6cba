"""What a program printed, kept three ways: streamed as it comes, head and tail for the model, whole for the artifact."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from palaver.wire.values import Stream

SHOWN = 30_000
"""Characters of a result that a model gets."""
STREAMED = 256 * 1024
"""Bytes of one call's output that are logged and streamed; the rest goes to its artifact alone (DESIGN.md 4)."""
KEPT = 64 * 1024 * 1024


class Clip:
    """Text of any length as its head and its tail."""

    def __init__(self, limit: int = SHOWN) -> None:
        self._half = limit // 2
        self._limit = limit
        self._head = ""
        self._tail = ""
        self.length = 0

    def add(self, text: str) -> None:
        self.length += len(text)
        room = self._half - len(self._head)
        self._head += text[:room]
        if room < len(text):
            self._tail = (self._tail + text[max(room, 0) :])[-(self._limit - self._half) :]

    @property
    def left_out(self) -> int:
        return self.length - len(self._head) - len(self._tail)

    def text(self, note: str = "") -> str:
        """The whole, or head, `note` and tail."""
        return self._head + self._tail if self.left_out == 0 else f"{self._head}{note}{self._tail}"


class Output:
    """The output of one call. `take` is a `Sink`: it says when there is more than is kept of any call."""

    def __init__(self, stream: Callable[[Stream, str], None], *, kept: int = KEPT) -> None:
        self._stream = stream
        self._most = kept
        self._room = STREAMED
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr", "output")}
        self.whole = bytearray()
        self.clip = Clip()
        self.full = False

    def take(self, stream: Stream, data: bytes) -> bool:
        room = self._most - len(self.whole)
        self.whole += data[:room]
        self._add(stream, self._decoders[stream].decode(data[:room]))
        self.full = self.full or len(data) > room
        return not self.full

    def finish(self) -> None:
        """Let out what a stream ended in the middle of."""
        for stream in ("stdout", "stderr"):
            self._add(stream, self._decoders[stream].decode(b"", True))

    def _add(self, stream: Stream, text: str) -> None:
        if not text:
            return
        self.clip.add(text)
        if self._room > 0:
            piece = text if len(text) * 4 <= self._room else text.encode()[: self._room].decode("utf-8", "ignore")
            self._room = self._room - len(piece.encode()) if len(piece) == len(text) else 0
            self._stream(stream, piece)


__all__ = ["KEPT", "SHOWN", "STREAMED", "Clip", "Output"]
