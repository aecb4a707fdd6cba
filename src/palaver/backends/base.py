"""Who answers a turn: one method. A backend translates, and reports what happens; it decides nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from palaver.backends.checked import Checked
from palaver.backends.pins import Pins
from palaver.backends.progress import Progress
from palaver.context.compaction import Wish
from palaver.models.base import ModelMessage
from palaver.tools.base import ToolContext, ToolDefinition
from palaver.wire.commands import AnyCommand, Fact
from palaver.wire.ids import MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import Budget, CallError, Cost, Mode, TextKind, ToolCall


class Tell(Protocol):
    """Reports what happened."""

    async def __call__(self, report: AnyCommand) -> None:
        """Returns when the disk has it. Raises `Refused` when the turn goes no further: let that pass."""

    def soon(self, report: AnyCommand) -> None:
        """The same without waiting: in order, before whatever is told next."""

    def text(self, message_id: MessageId, part_id: PartId, kind: TextKind, text: str) -> None:
        """A piece of an open message: to whoever watches at once, to the log soon. Never waits."""

    def writes_call(self, message_id: MessageId, step_id: StepId, name: str, chars: int) -> None:
        """How much of a call's input the model has written: to whoever watches, never to the log."""


class Ask(Protocol):
    """Has calls decided, approved and run."""

    async def __call__(self, calls: Sequence[ToolCall], message_id: MessageId, step_id: StepId, refused: CallError | None = None) -> None:
        """Opens the calls of one message and returns when each of them has its result: with `refused` that one, and none is run."""

    async def own(self, call: ToolCall) -> None:
        """The same for a call that no message holds: the daemon makes it by itself. It is approved once, or not at all."""

    async def more(self, reason: str, budget: Budget) -> None:
        """Asks the person for more than the limits allow; returns when they have answered. The answer is in the turn's `Progress`."""

    async def open(self) -> bool:
        """Waits for the calls that an earlier life of this turn left open; says whether there were any."""


class Recall(Protocol):
    """What the model has been told so far, from the log."""

    def __call__(self) -> Awaitable[Sequence[ModelMessage]]: ...


class Keep(Protocol):
    """Keeps a file of this turn beside the log."""

    async def __call__(self, name: str, data: bytes) -> str:
        """On disk when it returns; gives its ref."""
        ...


class RecallChecks(Protocol):
    """What the log says about checks of the session's work."""

    def __call__(self) -> Awaitable[Checked]: ...


class RecallPins(Protocol):
    """What of the conversation no summary may lose."""

    def __call__(self) -> Awaitable[Pins]: ...


class RecallProgress(Protocol):
    """What the log says about the turn: whether it gets anywhere."""

    def __call__(self) -> Awaitable[Progress]: ...


@dataclass(frozen=True)
class Prompt:
    """A turn as it begins, or goes on. Everything else stands in the log."""

    session_id: SessionId
    turn_id: TurnId
    workspace: Path
    agent: str
    mode: Callable[[], Mode]
    """As it is now: a person may change it while the turn runs."""
    model: str | None
    system_prompt: str | None
    steps: int
    """Steps that the turn has taken already."""
    tools: Sequence[ToolDefinition]
    recall: Recall
    pins: RecallPins
    wish: Callable[[], Wish | None]
    """Of the history, as far as somebody has asked for it."""
    checked: RecallChecks
    reach: ToolContext
    """What reading the workspace for the model may touch: as much as a tool."""
    keep: Keep
    progress: RecallProgress
    cost: Callable[[], Cost | None]
    """Of the turn so far; None where the model has no price."""


@dataclass(frozen=True)
class Past:
    """A conversation between two turns, for whoever makes its history shorter."""

    model: str | None
    recall: Recall
    pins: RecallPins
    wish: Wish
    tell: Callable[[Fact], Awaitable[None]]


class Compacts(Protocol):
    """A backend whose history is ours to shorten."""

    async def compact(self, past: Past) -> None:
        """Tells of `context_compacted`, or of a notice `not_compacted`: one of them ends the wish. Raises `Failed`, `Refused`."""


class Backend(Protocol):
    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        """Return: done. Raise `Failed`: failed. Cancelled: stop, and let the cancellation pass."""
