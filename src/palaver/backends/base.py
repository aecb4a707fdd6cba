"""Who answers a turn: one method. A backend translates, and reports what happens; it decides nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from palaver.backends.checked import Checked
from palaver.models.base import ModelMessage
from palaver.tools.base import ToolDefinition
from palaver.wire.commands import AnyCommand
from palaver.wire.ids import MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import Mode, TextKind, ToolCall


class Tell(Protocol):
    """Reports what happened."""

    async def __call__(self, report: AnyCommand) -> None:
        """Returns when the disk has it. Raises `Refused` when the turn goes no further: let that pass."""

    def soon(self, report: AnyCommand) -> None:
        """The same without waiting: in order, before whatever is told next."""

    def text(self, message_id: MessageId, part_id: PartId, kind: TextKind, text: str) -> None:
        """A piece of an open message: to whoever watches at once, to the log soon. Never waits."""


class Ask(Protocol):
    """Has calls decided, approved and run."""

    async def __call__(self, calls: Sequence[ToolCall], message_id: MessageId, step_id: StepId) -> None:
        """Opens the calls of one message and returns when each of them has its result."""

    async def own(self, call: ToolCall) -> None:
        """The same for a call that no message holds: the daemon makes it by itself. It is approved once, or not at all."""

    async def open(self) -> bool:
        """Waits for the calls that an earlier life of this turn left open; says whether there were any."""


class Recall(Protocol):
    """What the model has been told so far, from the log."""

    def __call__(self) -> Awaitable[Sequence[ModelMessage]]: ...


class RecallChecks(Protocol):
    """What the log says about checks of the session's work."""

    def __call__(self) -> Awaitable[Checked]: ...


@dataclass(frozen=True)
class Prompt:
    """A turn as it begins, or goes on. Everything else stands in the log."""

    session_id: SessionId
    turn_id: TurnId
    workspace: Path
    agent: str
    mode: Mode
    model: str | None
    system_prompt: str | None
    steps: int
    """Steps that the turn has taken already."""
    tools: Sequence[ToolDefinition]
    recall: Recall
    checked: RecallChecks


class Backend(Protocol):
    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        """Return: done. Raise `Failed`: failed. Cancelled: stop, and let the cancellation pass."""
