"""Makes room in a long history: its older part becomes a summary, which is an event; the log keeps the original."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from palaver.backends.pins import Pins
from palaver.context.compaction import KEPT, LONGEST, SUMMARY, Cut, cut_of, request_for, summary_of
from palaver.context.fitting import total
from palaver.errors import ModelFailed
from palaver.models.base import Finish, Model, ModelMessage, TextPiece
from palaver.models.tokens import estimate
from palaver.wire.commands import Fact
from palaver.wire.events import ContextCompacted, Notice
from palaver.wire.values import Cost, Usage

_UNKNOWN = 100_000
"""Tokens that a request for a summary may have where nothing is known of the window."""
_WORTH = 0.15
"""Of the room: less than that is not worth a summary, unless a person asks for one."""

Cause = Literal["near_limit", "overflow", "requested"]


@dataclass(frozen=True)
class Summary:
    text: str
    written_by: Literal["model", "rules"]
    usage: Usage | None = None


Summarize = Callable[[Model, Cut, Pins, int, int, str | None], Awaitable[Summary]]
"""`await summarize(model, cut, pins, window, room, instructions)`: what stands in the place of the cut, in at most `room` tokens."""


async def summarized(model: Model, cut: Cut, pins: Pins, window: int, room: int, instructions: str | None) -> Summary:
    """The model's own words and what is pinned; where it fails, what is pinned alone."""
    text, usage = "", None
    asked = request_for(cut.covered, int(window * 0.7), max(60, int(room * 0.35)), instructions)
    try:
        async with aclosing(model.stream(asked)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextPiece(kind="text", text=more):
                        text += more
                    case Finish(usage=used):
                        usage = used
    except ModelFailed:
        text = ""  # half a summary is none: what the log says by itself stays
    pinned = pins.text(room // 2 if text.strip() else room)
    return Summary(summary_of(text, pinned, room), "model" if text.strip() else "rules", usage)


@dataclass
class Compactor:
    """Of one session's history."""

    model: Model
    window: int | None
    """Tokens that the model takes, as far as that is known."""
    tell: Callable[[Fact], Awaitable[None]]
    cost_of: Callable[[str, Usage], Cost | None]
    summarize: Summarize = summarized

    async def compact(
        self, history: Sequence[ModelMessage], pins: Pins, room: int | None, cause: Cause, instructions: str | None = None
    ) -> bool:
        """Says whether anything was covered. `room` is what the history may take, None where nobody knows."""
        before = total(history)
        room = before if room is None else min(room, before) if cause != "near_limit" else room
        cut = cut_of(history, int(room * KEPT))
        if cut is None or (cause == "near_limit" and total(cut.covered) < room * _WORTH):
            return False
        most = max(120, min(LONGEST, int(room * SUMMARY)))
        summary = await self.summarize(self.model, cut, pins, self.window or _UNKNOWN, most, instructions)
        await self.tell(
            ContextCompacted(
                summary=summary.text,
                from_seq=cut.covered[0].unit,
                to_seq=cut.to_seq,
                tokens_before=before,
                tokens_after=before - total(cut.covered) + estimate(summary.text),
                cause=cause,
                written_by=summary.written_by,
                usage=summary.usage,
                cost=self.cost_of(self.model.name, summary.usage) if summary.usage else None,
            )
        )
        return True


def not_compacted(why: str) -> Notice:
    """Ends a compaction that was asked for, and was not done."""
    return Notice(level="info", code="not_compacted", text=f"The history was not compacted: {why}")


__all__ = ["Cause", "Compactor", "Summarize", "Summary", "not_compacted", "summarized"]
