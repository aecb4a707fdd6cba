"""Palaver's own model loop: ask the model, have its calls run, ask again, until it calls nothing.

Everything it knows it reads from the log, so a turn that is resumed is no special case: first the calls that have no result, then the
next request. An answer without calls ends the turn, unless files changed and the check of them failed: then the model hears of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import msgspec

from palaver.backends.base import Ask, Past, Prompt, Tell
from palaver.backends.checked import NOT_VERIFIED, Checked
from palaver.backends.compacting import not_compacted
from palaver.backends.history import EMPTY_ANSWER
from palaver.backends.progress import Progress
from palaver.backends.requests import Requests, TurnRequests
from palaver.errors import LimitReached, ModelFailed
from palaver.models.base import (
    CallPiece,
    Finish,
    Model,
    ModelCall,
    ModelMessage,
    TextPiece,
    from_model_call,
)
from palaver.models.media import NOT_TAKEN, refused
from palaver.tools.base import ToolKind
from palaver.tools.folder_state import look_at
from palaver.tools.verify_commands import find_commands
from palaver.wire.commands import BeginOutput, BeginStep, CompleteOutput, NoteFact
from palaver.wire.events import ModelFallback, ModelResolved, Notice
from palaver.wire.ids import CallId, MessageId, PartId, StepId, new_id
from palaver.wire.values import Author, Budget, CallError, Cost, Message, Part, Reasoning, TextKind, ToolCall, Usage

TRIES = 3
BACKOFF = 0.5
LONGEST_WAIT = 60.0
"""Seconds: a service that asks for more is not waited for."""
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
    require_clean: bool = False
    """A check counts only on what the session made."""


@dataclass(frozen=True)
class Limits:
    """Where a turn ends although the model would go on."""

    steps: int = 200
    same_call: int = 5
    """Identical calls with identical results, nothing new between them."""
    cost: float | None = None
    """In the currency of the prices."""
    seconds: float | None = None
    """Looked at here only where a person is asked; else it stops whatever runs, for every backend (`engine/work.py`)."""
    ask: bool = False
    """Steps, cost and time ask the person for more instead of ending the turn."""


@dataclass
class LoopBackend:
    find_model: Callable[[str | None], Model]
    """The model of that name; raises `Refused` with the choices when there is none."""
    now: Callable[[], str]
    requests: Requests
    limits: Limits = Limits()
    checks: Checks = Checks()
    fallback_of: Callable[[str], str | None] = lambda _: None
    """The name of the model that answers where that one cannot."""
    cost_of: Callable[[str, Usage], Cost | None] = lambda _, __: None

    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        model = self.find_model(prompt.model)
        asked = Asked(model, {model.name})
        await ask.open()
        requests = self.requests.of(prompt, tell)
        if prompt.steps == 0:
            tell.soon(NoteFact(turn_id=prompt.turn_id, fact=ModelResolved(model=model.name, provider=model.provider)))
        steps = prompt.steps
        if steps > 0 and (outcome := await prompt.checked()).outcome is not None and not self._is_fed_back(outcome):
            return
        before = UNKNOWN if steps > 0 else None
        acted, cut, nudged = steps > 0, False, False
        while True:
            await self._check_limits(prompt, ask, steps)
            steps += 1
            step_id = StepId(new_id("step"))
            tell.soon(BeginStep(turn_id=prompt.turn_id, step_id=step_id))
            answer = await self._answer(asked, prompt, tell, requests, step_id)
            if answer.calls and answer.cut_off:
                await ask(answer.calls, answer.id, step_id, refused=_cut_off())
                if cut:
                    raise ModelFailed("truncated", "The model's calls were cut off twice by its output limit. Ask for smaller steps.")
                cut = True
            elif answer.calls:
                if before is None and self.checks.auto and _may_change_files(answer.calls, prompt):
                    before = (await look_at(prompt.reach)).hash
                await ask(answer.calls, answer.id, step_id)
                acted, cut = True, False
            elif answer.is_empty and not nudged:
                await tell(NoteFact(turn_id=prompt.turn_id, fact=_nothing_said()))  # the next request says it
                nudged = True
            elif answer.is_empty and not acted:
                raise ModelFailed(
                    "empty_answer", "The model answered with nothing, twice. Send the message again, or choose another model."
                )
            elif not await self._goes_on(prompt, tell, ask, before):
                return

    async def compact(self, past: Past) -> None:
        """Between turns, because a person asked for it."""
        model = self.find_model(past.model)
        compactor = self.requests.compactor(model, past.tell)
        history = await past.recall()
        if not await compactor.compact(history, await past.pins(), None, "requested", past.wish.instructions):
            await past.tell(not_compacted("it is short already."))

    async def _check_limits(self, prompt: Prompt, ask: Ask, steps: int) -> None:
        """Before each step. Raises `LimitReached`, unless a person is to be asked and gives more."""
        while (reached := self._reached(await prompt.progress(), prompt.cost(), steps)) is not None:
            code, said, more = reached
            if more is None or not self.limits.ask or (await prompt.progress()).declined:
                raise LimitReached(code, f"{said} Send a message to let it go on.")
            await ask.more(said, more)

    def _reached(self, progress: Progress, cost: Cost | None, steps: int) -> tuple[str, str, Budget | None] | None:
        """Which limit the turn has met, in words, and what would let it go on for as long again."""
        limits, given = self.limits, progress.more
        if steps >= limits.steps + (given.steps or 0):
            return "step_limit", f"The turn took {steps} steps.", Budget(steps=limits.steps)
        if progress.same >= limits.same_call:
            said = f"The turn made the same call of {progress.name} {progress.same} times, and its result was the same each time."
            return "no_progress", said, None
        if limits.cost is not None and cost is not None and cost.amount >= limits.cost + (given.cost or 0):
            said = f"The turn has cost {cost.amount:.4g} {cost.currency}; its limit is {limits.cost + (given.cost or 0):g}."
            return "cost_limit", said, Budget(cost=limits.cost)
        if limits.ask and limits.seconds is not None:
            worked = progress.worked_s(self.now())
            if worked >= limits.seconds + (given.seconds or 0):
                return "time_limit", f"The turn has worked for {worked:.0f} s.", Budget(seconds=limits.seconds)
        return None

    async def _goes_on(self, prompt: Prompt, tell: Tell, ask: Ask, before: str | None) -> bool:
        """Check the work, if there is any since the last check; says whether the model hears of a failure and takes another step."""
        checked = await prompt.checked()
        if not (self.checks.auto and checked.touched) or (await look_at(prompt.reach)).hash in (before, checked.hash):
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

    async def _answer(self, asked: Asked, prompt: Prompt, tell: Tell, requests: TurnRequests, step_id: StepId) -> Answer:
        """One step's answer, told as it comes. While nothing of it was visible, a model that failed has its fallback asked instead."""
        answer = Answer(prompt, tell, step_id)
        while True:
            try:
                try:
                    await self._tried(asked, requests, step_id, answer)
                finally:
                    await requests.kept()
                break
            except ModelFailed as failed:
                other = None if answer.visible else self.fallback_of(asked.model.name)
                if other is None or other in asked.names:
                    raise
                tell.soon(
                    NoteFact(turn_id=prompt.turn_id, fact=ModelFallback(preferred=asked.model.name, actual=other, reason=failed.message))
                )
                asked.turn_to(self.find_model(other))
        answer.complete(self.now(), lambda usage: self.cost_of(asked.model.name, usage))
        return answer

    async def _tried(self, asked: Asked, requests: TurnRequests, step_id: StepId, answer: Answer) -> None:
        """Fill the answer. A request that fails is made again while nothing of it was visible, if that can help. Raises `ModelFailed`."""
        tries = 0
        while True:
            try:
                request = await requests.next(asked.model, step_id)
                for text in asked.unseen(request.messages):
                    answer.tell.soon(NoteFact(turn_id=answer.prompt.turn_id, fact=Notice(level="warning", code=NOT_TAKEN, text=text)))
                async with aclosing(asked.model.stream(request)) as pieces:
                    async for piece in pieces:
                        answer.take(piece)
                return
            except ModelFailed as failed:
                if not answer.visible and requests.too_long(asked.model, step_id, failed):
                    continue
                tries += 1
                if answer.visible or not failed.retryable or tries == TRIES or (failed.retry_after or 0) > LONGEST_WAIT:
                    raise
                await asyncio.sleep(failed.retry_after or BACKOFF * 2**tries * (0.5 + random.random() / 2))


def _may_change_files(calls: Sequence[ToolCall], prompt: Prompt) -> bool:
    changing = {tool.name for tool in prompt.tools if tool.kind in (ToolKind.WRITE, ToolKind.EXEC)}
    return any(call.name in changing for call in calls)


def _cut_off() -> CallError:
    text = (
        "The answer was cut off by the model's output limit while it made these calls, so none of them was run. "
        "Make them again in smaller steps: fewer calls at once, shorter arguments."
    )
    return CallError("tool_skipped", text)


def _nothing_said() -> Notice:
    text = "The last answer was empty. Go on with the next call, or say what was done and what was found."
    return Notice(level="info", code=EMPTY_ANSWER, text=text)


def _nothing_to_check_with() -> Notice:
    text = (
        "Files changed and nothing checked them: this workspace names no verify commands. Write a line `verify: COMMAND` into AGENTS.md, "
        "give the Makefile a target `test`, or set `commands` under [verify] in the settings."
    )
    return Notice(level="info", code=NOT_VERIFIED, text=text)


def _with_our_ids(reasoning: Reasoning | None, calls: Mapping[int, ToolCall]) -> Reasoning | None:
    """What came with a call is kept under the call's id."""
    if reasoning is None or not reasoning.calls:
        return reasoning
    return msgspec.structs.replace(reasoning, calls={calls[int(place)].id: extra for place, extra in reasoning.calls.items()})


@dataclass
class Asked:
    """Whom this turn asks: the chosen model, from its failure on its fallback."""

    model: Model
    names: set[str]
    """All that were asked: none is fallen back to twice."""

    _noted: set[str] = field(default_factory=set)

    def turn_to(self, model: Model) -> None:
        self.model = model
        self.names.add(model.name)

    def unseen(self, messages: Sequence[ModelMessage]) -> Iterator[str]:
        """Of the files that no model has answered yet: which this one is not shown, and why. Each is told of once."""
        for message in takewhile(lambda message: message.role != "assistant", reversed(messages)):
            for part in message.parts if not message.plain else ():
                data = message.media.get(part.ref or "")
                text = refused(self.model.name, part, data, self.model.takes) if part.type in ("image", "audio", "file") else None
                if text is not None and text not in self._noted:
                    self._noted.add(text)
                    yield text


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

    @property
    def cut_off(self) -> bool:
        return self._finish is not None and self._finish.reason == "max_tokens"

    @property
    def is_empty(self) -> bool:
        """It says nothing and calls nothing, and was not refused."""
        said = any(isinstance(part, _Text) and part.kind == "text" and "".join(part.pieces).strip() for part in self._parts)
        return not (said or self.calls or (self._finish is not None and self._finish.reason == "refusal"))

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
        call = self._fragments[piece.index]
        self.tell.writes_call(self.id, self.step_id, call.name, len(call.arguments))

    def complete(self, at: str, cost_of: Callable[[Usage], Cost | None]) -> None:
        self._begin()
        calls = {index: from_model_call(call, CallId(new_id("call"))) for index, call in sorted(self._fragments.items())}
        self.calls = list(calls.values())
        parts = tuple(part.done() if isinstance(part, _Text) else Part("tool_call", id=PartId(calls[part].id)) for part in self._parts)
        finish = self._finish or Finish("end_turn", Usage(0, 0))
        message = Message(
            self.id,
            "assistant",
            parts,
            at,
            Author("agent", self.prompt.agent),
            tool_calls=tuple(self.calls),
            reasoning=_with_our_ids(finish.reasoning, calls),
        )
        cost = cost_of(finish.usage) if finish.usage else None
        completed = CompleteOutput(turn_id=self.prompt.turn_id, message=message, stop_reason=finish.reason, usage=finish.usage, cost=cost)
        self.tell.soon(completed)  # the calls follow, or the turn's end, and wait for both
