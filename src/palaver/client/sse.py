"""Server-sent events from bytes, in whatever pieces the network brings them.

Lines end at LF alone: JSON may hold U+2028, U+0085 or a form feed, which `str.splitlines` would take for the end of a line.
"""

from __future__ import annotations

from typing import NamedTuple

from palaver.errors import Failed

_MAX_FRAME = 64 * 1024 * 1024


class Frame(NamedTuple):
    event: str
    """Empty for a frame without an `event:` line."""
    id: str | None
    data: bytes


class FrameReader:
    """Keeps what is not yet a whole line. `retry_s` is what the server last asked for."""

    def __init__(self) -> None:
        self.retry_s: float | None = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._event = ""
        self._id: str | None = None
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames that `piece` completes. Raises `Failed("bad_stream")` for a line that never ends."""
        last = piece.rfind(b"\n")
        if last < 0:
            self._hold(piece)
            return []
        lines = b"".join((*self._pieces, piece[:last])).split(b"\n")
        self._pieces, self._held = [], 0
        self._hold(piece[last + 1 :])
        return [frame for line in lines if (frame := self._take(line.removesuffix(b"\r"))) is not None]

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > _MAX_FRAME:
            raise Failed("bad_stream", "The daemon sent a line over 64 MiB. Check that the address is a Palaver daemon's.")
        if piece:
            self._pieces.append(piece)

    def _take(self, line: bytes) -> Frame | None:
        if not line:
            return self._end()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit():
                self.retry_s = int(value) / 1000
            case _:
                pass  # a comment (the name is empty) or a field of a later standard: skipped, as the standard says
        return None

    def _end(self) -> Frame | None:
        frame = Frame(self._event, self._id, b"\n".join(self._data)) if self._data else None
        self._event, self._id, self._data = "", None, []
        return frame
