"""What a reader of a session gets: the log's lines, then the tail, again and again.

A batch is one wake-up's worth. Readers at the same place share it, so its bytes are made once however many they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Take = Callable[[], bool]
"""Does for a reader that sleeps what it would do if it were woken. False: it has to be woken."""


class Straight(Protocol):
    """The short way to a reader that has everything: what comes next is handed over without waking its task."""

    def has_room(self) -> bool:
        """Whether `give` may be called now."""

    def give(self, batch: Batch) -> None: ...


class Bell:
    """Wakes everybody who waits. A reader notes `rings` before it looks, so that no ring is missed in between."""

    def __init__(self) -> None:
        self.rings = 0
        self._waiting: dict[asyncio.Future[None], Take | None] = {}

    def ring(self) -> None:
        self.rings += 1
        for future, take in list(self._waiting.items()):
            del self._waiting[future]
            if future.done():
                continue
            try:
                asleep = take is not None and take()
            except Exception as error:  # its own reader hears of it; those behind it are woken all the same
                future.set_exception(error)
                continue
            if asleep:
                self._waiting[future] = take
            else:
                future.set_result(None)

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    async def wait(self, rings: int, take: Take | None = None) -> None:
        """Returns when it has rung since it had rung `rings` times. At a ring for which `take` is true it sleeps on."""
        if self.rings != rings:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = take
        try:
            await future
        except BaseException:  # whoever waited went away before it rang
            self._waiting.pop(future, None)
            raise


@dataclass(slots=True)
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
        if self._sse is None and len(self.lines) == 1 and not self.pieces:  # one event as it happens: what most batches are
            self._sse = b"id: %d\ndata: %b\n\n" % (self.first, self.lines[0])
        elif self._sse is None:
            lines = [b"id: %d\ndata: %b\n\n" % (seq, line) for seq, line in enumerate(self.lines, self.first)]
            self._sse = b"".join([*lines, *(b"data: %b\n\n" % piece for piece in self.pieces)])
        return self._sse
