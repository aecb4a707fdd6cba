"""Our loop, made when its first turn comes: with all that it asks and shows it is a tenth of a start, and no prompt waits for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaver.backends.base import Ask, Past, Prompt, Tell
    from palaver.backends.loop import LoopBackend


class Late:
    def __init__(self, make: Callable[[], LoopBackend]) -> None:
        self._make = make

    @cached_property
    def loop(self) -> LoopBackend:
        return self._make()

    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        await self.loop.take_turn(prompt, tell, ask)

    async def compact(self, past: Past) -> None:
        await self.loop.compact(past)
