"""What a reader of a session gets: the log's lines, then the tail, again and again.

A batch is one wake-up's worth. Readers at the same place share it, so its bytes are made once however many they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field


class Bell:
    """Wakes everybody who waits. A reader notes `rings` before it looks, so that no ring is missed in between."""

    def __init__(self) -> None:
        self.rings = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        self.rings += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, rings: int) -> None:
        """Returns when it has rung since it had rung `rings` times."""
        if self.rings != rings:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        except BaseException:  # whoever waited went away before it rang
            self._waiting.discard(future)
            raise


@dataclass
class Batch:
    first: int
    """The number of the first line."""
    lines: Sequence[bytes] = ()
    pieces: Sequence[bytes] = ()
    """Envelopes without a number: text in flight."""
    caught_up: int | None = None
    """Set once, on the batch that reaches the head as it was when following began."""
    deleted: bool = False
    _sse: bytes | None = field(default=None, repr=False)

    def sse(self) -> bytes:
        """Lines as numbered events, then the pieces, ready to be written."""
        if self._sse is None:
            lines = [b"id: %d\ndata: %b\n\n" % (seq, line) for seq, line in enumerate(self.lines, self.first)]
            self._sse = b"".join([*lines, *(b"data: %b\n\n" % piece for piece in self.pieces)])
        return self._sse
