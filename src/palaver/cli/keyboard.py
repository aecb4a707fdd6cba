"""Lines that a person types while something else is printed.

A thread reads the terminal: a loop's own reader would make the terminal non-blocking, and with it the stdout that is the same
terminal. It reads the descriptor itself, so that an exit never waits for a lock on `sys.stdin`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import threading


class Keyboard:
    """`await keyboard.line()` gives the next line, None at the end of input. For one loop."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="keyboard", daemon=True).start()

    async def line(self) -> str | None:
        return await self._lines.get()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        held = ""
        while True:
            try:
                piece = os.read(self._descriptor, 4096)
            except OSError:
                piece = b""  # the terminal went away: the end of input
            held += decoder.decode(piece, final=not piece)
            *lines, held = held.split("\n")
            if not piece and held:
                lines.append(held)
            try:
                for line in lines:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
                if not piece:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, None)
            except RuntimeError:
                return  # the loop has ended: nobody reads lines any more
            if not piece:
                return
