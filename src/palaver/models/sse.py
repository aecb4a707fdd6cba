"""Server-sent events, read: bytes in whatever pieces they come, to the data of each event.

Bytes are split on LF alone. A split like `str.splitlines` would cut JSON at U+2028 and U+0085.
"""

from __future__ import annotations

from palaver.models.chat_errors import bad_chunk

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes that one event may have: more is a provider that has lost its line ends."""


class EventSplitter:
    """Cuts a byte stream into the data of its server-sent events, whatever the sizes of the reads."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        """A line whose end has not come yet."""
        self._data: list[bytes] = []
        """The `data` lines of an event whose blank line has not come yet."""
        self._size = 0
        """Of both."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that this chunk ends. Raises `ModelFailed` when an event grows beyond the limit."""
        if self._size == 0 and chunk.startswith(b"data:") and chunk.endswith(b"\n\n") and chunk.find(b"\n") == len(chunk) - 2:
            return [chunk[5:-2]]  # one event in one read: how nearly all of them come
        *lines, rest = chunk.split(b"\n")
        if lines and self._partial:
            lines[0] = b"".join((*self._partial, lines[0]))
            self._partial = []
            self._size = sum(map(len, self._data))
        ended = [data for line in lines if (data := self._line(line)) is not None]
        if rest:
            self._partial.append(rest)
            self._size += len(rest)
        if self._size > EVENT_LIMIT:
            raise bad_chunk("an event without an end", b"\n".join((*self._data, *self._partial))[:200])
        return ended

    def end(self) -> list[bytes]:
        """What the stream's end leaves: an event whose blank line never came."""
        return self.feed(b"\n\n") if self._size else []

    def _line(self, line: bytes) -> bytes | None:
        line = line.removesuffix(b"\r")
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            self._size += len(line)
        elif not line and self._data:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return data
        return None
