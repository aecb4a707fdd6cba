"""Palaver's own model loop: ask the model, have its calls run, ask again, until it calls nothing.

Everything it knows it reads from the log, so a turn that is resumed is no special case: first the calls that have no result, then the
next request. An answer without calls ends the turn, unless files changed and the check of them failed: then the model hears of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from palaver.backends.base import Ask, Prompt, Tell
from palaver.backends.checked import NOT_VERIFIED, Checked
from palaver.errors import LimitReached, ModelFailed
from palaver.models.base import (
    CallPiece,
    Finish,
    Model,
    ModelCall,
    ModelMessage,
    ModelRequest,
    TextPiece,
    from_model_call,
    to_model_tools,
)
from palaver.tools.base import ToolKind
from palaver.tools.folder_state import hash_of, look
from palaver.tools.verify_commands import find_commands
from palaver.wire.commands import BeginOutput, BeginStep, CompleteOutput, NoteFact
from palaver.wire.events import ModelResolved, Notice
from palaver.wire.ids import CallId, MessageId, PartId, StepId, new_id
from palaver.wire.values import Author, Message, Part, TextKind, ToolCall, Usage

TRIES = 3
BACKOFF = 0.5
LONGEST_WAIT = 60.0
UNKNOWN = ""
"""Of a workspace whose look nobody took: it is no hash, so that everything is a change."""


@dataclass(frozen=True)
class Checks:
    """Whether and how a turn that changed files checks its work by itself."""

    auto: bool = True
    attempts: int = 2
    """Failures that one turn's model is told of."""
    commands: Callable[[Path], tuple[str, ...]] = find_commands
    """Those of a workspace; may read files."""


@dataclass
class LoopBackend:
    find_model: Callable[[str | None], Model]
    """The model of that name; raises `Refused` with the choices when there is none."""
    now: Callable[[], str]
    step_limit: int = 200
    checks: Checks = Checks()

    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        model = self.find_model(prompt.model)
        await ask.open()
        if prompt.steps == 0:
            tell.soon(NoteFact(turn_id=prompt.turn_id, fact=ModelResolved(model=model.name, provider=model.provider)))
        steps = prompt.steps
        if steps > 0 and (outcome := await prompt.checked()).outcome is not None and not self._is_fed_back(outcome):
            return
        before = UNKNOWN if steps > 0 else None
        while True:
            if steps >= self.step_limit:
                raise LimitReached("step_limit", f"The turn took {self.step_limit} steps. Send a message to let it go on.")
            steps += 1
            step_id = StepId(new_id("step"))
            tell.soon(BeginStep(turn_id=prompt.turn_id, step_id=step_id))
            answer = await self._answer(model, prompt, tell, step_id)
            if answer.calls:
                if before is None and self.checks.auto and _may_change_files(answer.calls, prompt):
                    before = await _look(prompt.workspace)
                await ask(answer.calls, answer.id, step_id)
            elif not await self._goes_on(prompt, tell, ask, before):
                return

    async def _goes_on(self, prompt: Prompt, tell: Tell, ask: Ask, before: str | None) -> bool:
        """Check the work, if there is any since the last check; says whether the model hears of a failure and takes another step."""
        checked = await prompt.checked()
        if not (self.checks.auto and checked.touched) or await _look(prompt.workspace) in (before, checked.hash):
            return False
        commands = await asyncio.to_thread(self.checks.commands, prompt.workspace)
        if not commands:
            if not checked.noticed:
                tell.soon(NoteFact(turn_id=prompt.turn_id, fact=_nothing_to_check_with()))
            return False
        await ask.own(ToolCall(CallId(new_id("call")), "verify", {"commands": list(commands)}))
        return self._is_fed_back(await prompt.checked())

    def _is_fed_back(self, checked: Checked) -> bool:
        """A check that ran and failed, a bounded number of times. What was denied, or could not run, is nothing that the model can mend."""
        error = checked.outcome.error if checked.outcome is not None else None
        return error is not None and error.code in ("tool_error", "tool_timeout") and checked.attempts <= self.checks.attempts

    async def _answer(self, model: Model, prompt: Prompt, tell: Tell, step_id: StepId) -> Answer:
        """One step's answer, told as it comes. A request that fails is made again while nothing of it was visible."""
        request = ModelRequest(
            (*_instructions(prompt), *await prompt.recall()),
            tuple(to_model_tools(tool for tool in prompt.tools if prompt.mode != "plan" or tool.kind in (ToolKind.READ, ToolKind.ASK))),
        )
        for attempt in range(1, TRIES + 1):
            answer = Answer(prompt, tell, step_id)
            try:
                async with aclosing(model.stream(request)) as pieces:
                    async for piece in pieces:
                        answer.take(piece)
                answer.complete(self.now())
                return answer
            except ModelFailed as failed:
                if answer.visible or not failed.retryable or attempt == TRIES:
                    raise
                await asyncio.sleep(min(LONGEST_WAIT, failed.retry_after or BACKOFF * 2**attempt * (0.5 + random.random() / 2)))
        raise AssertionError("the last try returns or raises")


def _instructions(prompt: Prompt) -> tuple[ModelMessage, ...]:
    text = prompt.system_prompt or (
        "You are a coding agent. You work in one folder of the person's machine, with the tools that you are offered. "
        "Paths are relative to that folder. Say briefly what you do and what you found."
    )
    return (ModelMessage("system", (Part("text", text=text),)),)


def _may_change_files(calls: Sequence[ToolCall], prompt: Prompt) -> bool:
    changing = {tool.name for tool in prompt.tools if tool.kind in (ToolKind.WRITE, ToolKind.EXEC)}
    return any(call.name in changing for call in calls)


async def _look(workspace: Path) -> str:
    return hash_of(await asyncio.to_thread(look, workspace))


def _nothing_to_check_with() -> Notice:
    text = (
        "Files changed and nothing checked them: this workspace names no verify commands. Write a line `verify: COMMAND` into AGENTS.md, "
        "give the Makefile a target `test`, or set `commands` under [verify] in the settings."
    )
    return Notice(level="info", code=NOT_VERIFIED, text=text)


@dataclass
class _Text:
    id: PartId
    kind: TextKind
    pieces: list[str] = field(default_factory=list)

    def done(self) -> Part:
        return Part(self.kind, id=self.id, text="".join(self.pieces))


@dataclass
class Answer:
    """The message of one step as its pieces come in."""

    prompt: Prompt
    tell: Tell
    step_id: StepId
    id: MessageId = field(default_factory=lambda: MessageId(new_id("msg")))
    visible: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    _parts: list[_Text | int] = field(default_factory=list)
    """In the order in which they began; a call by its index."""
    _fragments: dict[int, ModelCall] = field(default_factory=dict)
    _finish: Finish | None = None

    def take(self, piece: TextPiece | CallPiece | Finish) -> None:
        match piece:
            case TextPiece(kind=kind, text=text):
                if text:
                    self._said(kind, text)
            case CallPiece():
                self._called(piece)
            case Finish():
                self._finish = piece

    def _said(self, kind: TextKind, text: str) -> None:
        part = self._parts[-1] if self._parts else None
        if not isinstance(part, _Text) or part.kind != kind:
            self._begin()
            part = _Text(PartId(new_id("part")), kind)
            self._parts.append(part)
        part.pieces.append(text)
        self.tell.text(self.id, part.id, kind, text)

    def _begin(self) -> None:
        if not self.visible:
            self.visible = True
            self.tell.soon(BeginOutput(turn_id=self.prompt.turn_id, message_id=self.id, step_id=self.step_id))

    def _called(self, piece: CallPiece) -> None:
        self._begin()
        old = self._fragments.get(piece.index)
        if old is None:
            self._parts.append(piece.index)
        self._fragments[piece.index] = ModelCall(
            piece.id or (old.id if old else ""),
            piece.name or (old.name if old else ""),
            (old.arguments if old else "") + piece.arguments,
        )

    def complete(self, at: str) -> None:
        self._begin()
        calls = {index: from_model_call(call, CallId(new_id("call"))) for index, call in sorted(self._fragments.items())}
        self.calls = list(calls.values())
        parts = tuple(part.done() if isinstance(part, _Text) else Part("tool_call", id=PartId(calls[part].id)) for part in self._parts)
        message = Message(self.id, "assistant", parts, at, Author("agent", self.prompt.agent), tool_calls=tuple(self.calls))
        reason, usage = (self._finish.reason, self._finish.usage) if self._finish else ("end_turn", Usage(0, 0))
        completed = CompleteOutput(turn_id=self.prompt.turn_id, message=message, stop_reason=reason, usage=usage)
        self.tell.soon(completed)  # the calls follow, or the turn's end, and wait for both
