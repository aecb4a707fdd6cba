"""Does what is due: takes turns, runs tools, waits for deadlines, ends cancelled turns.

This is where bugs of tools and backends end: one of them costs its call or its turn, never the daemon and never another session.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from traceback import print_exc
from typing import TYPE_CHECKING, assert_never

from palaver.core.due import AwaitDeadline, CompactHistory, EndTurn, RunTool, TakeTurn, Work
from palaver.core.state import Ask, State, Turn
from palaver.engine import big
from palaver.engine.calls import Calls
from palaver.engine.changes import END_S
from palaver.engine.clock import Clock, milliseconds
from palaver.engine.session import Session
from palaver.engine.tail import Writing
from palaver.errors import DiskFailed, Failed, LimitReached, Refused, ToolFailed
from palaver.tools.ask_user import answer_text, default_of
from palaver.tools.base import Tool
from palaver.wire import commands as c
from palaver.wire.events import Notice
from palaver.wire.ids import CallId, MessageId, PartId, StepId, TurnId, fresh
from palaver.wire.values import (
    Answer,
    AnswerCause,
    Budget,
    CallError,
    Cost,
    ErrorInfo,
    Mode,
    Part,
    StopReason,
    TextKind,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:  # what a turn needs is imported with the first one: a prompt is taken sooner
    from palaver.backends.base import Backend, Compacts, Prompt
    from palaver.backends.checked import Checked
    from palaver.backends.pins import Pins
    from palaver.backends.progress import Progress
    from palaver.context.compaction import Wish
    from palaver.models.base import ModelMessage


@dataclass
class Works:
    backends: Mapping[str, Backend]
    calls: Calls
    clock: Clock
    reached: Callable[[str], None]
    seconds: float | None = None
    """How long a turn may work; what it waits for a person alone does not count."""
    compacts: Mapping[str, Compacts] = field(default_factory=dict)
    """The backends whose history can be made shorter."""

    async def __call__(self, session: Session, work: Work) -> None:
        try:
            match work:
                case TakeTurn():
                    await self._take_turn(session)
                case RunTool(turn_id=turn_id, call_id=call_id):
                    await self._run_tool(session, turn_id, call_id)
                case AwaitDeadline(ask_id=ask_id, deadline=deadline):
                    await asyncio.sleep(max(0.0, self.clock.until(deadline)))
                    await expire(session, ask_id, self.clock)
                case EndTurn():
                    await self._end_turn(session, work)
                case CompactHistory():
                    await self._compact(session)
                case _:
                    assert_never(work)
        except Refused:
            return  # what it worked on has ended meanwhile

    # --- a turn ---------------------------------------------------------------------------------------------------------------

    async def _take_turn(self, session: Session) -> None:
        turn = session.safe.turn
        if turn is None:
            return
        teller = Teller(session)
        error: ErrorInfo | None = None
        stop: StopReason
        try:
            await self.calls.tools.ready()
            backend = self.backends.get(turn.backend)
            if backend is None:
                raise Failed("backend_missing", f"The backend {turn.backend!r} is not there. Choose another agent.")
            async with self._in_time(session, turn):
                await backend.take_turn(self._prompt(session, turn), teller, Asker(session, self.calls))
            stop = teller.stop_reason
        except Refused as refused:
            if session.ahead.turn is None or session.ahead.turn.ending:
                return  # cancelled, or over
            error, stop = ErrorInfo(refused.code, refused.message), "error"
        except LimitReached as limit:
            error, stop = ErrorInfo(limit.code, limit.message), "limit"
        except Failed as failed:
            error, stop = ErrorInfo(failed.code, failed.message), "error"
        except Exception as bug:  # of a backend: its turn ends, and nothing else
            print_exc(file=sys.stderr)
            error, stop = ErrorInfo("internal", f"The backend {turn.backend} broke: {type(bug).__name__}: {bug}"), "error"
        changes = await self.calls.changes.ended(session, turn.id)
        await session.report(
            c.FinishTurn(
                turn_id=turn.id,
                outcome="failed" if error else "completed",
                stop_reason=stop,
                fresh=fresh(),
                at=self.clock.now(),
                duration_ms=self._since(turn.started_at),
                error=error,
                changes=changes,
            )
        )

    @asynccontextmanager
    async def _in_time(self, session: Session, turn: Turn) -> AsyncIterator[None]:
        """Ends what is inside when the turn has worked for as long as it may. Raises `LimitReached`."""
        if self.seconds is None:
            yield
            return
        worked = (await session.history()).progress.worked_s(self.clock.now()) if turn.steps else 0.0
        timer = asyncio.timeout(None)
        try:
            async with timer:
                watch = asyncio.create_task(_time_up(session, self.seconds - worked, timer))
                try:
                    yield
                finally:
                    watch.cancel()
        except TimeoutError as error:
            if not timer.expired():
                raise
            text = f"The turn has worked for {self.seconds:g} s, as long as it may. Send a message to let it go on."
            raise LimitReached("time_limit", text) from error

    def _prompt(self, session: Session, turn: Turn) -> Prompt:
        from palaver.backends.base import Prompt
        from palaver.context.compaction import Wish

        info = session.safe.created

        def mode() -> Mode:
            return session.safe.created.mode  # type: ignore[return-value]  # checked when it was set

        async def recall() -> Sequence[ModelMessage]:
            if session.ahead.waiting is not session.safe.waiting:
                await session.told()  # a message that this step reads: it is part of the history once the disk has that
            return await self._recall(session)

        async def pins() -> Pins:
            return (await session.history()).pins

        def wish() -> Wish | None:
            return Wish(session.safe.compaction.instructions) if session.safe.compaction else None

        async def checked() -> Checked:
            return (await session.history()).checked

        async def progress() -> Progress:
            return (await session.history()).progress

        def cost() -> Cost | None:
            return (session.ahead.turn or turn).cost

        async def keep(name: str, data: bytes) -> str:
            return (await session.kept(lambda: self.calls.files.put(session.id, f"artifacts/{turn.id}", name, data))).ref

        return Prompt(
            session_id=session.id,
            turn_id=turn.id,
            workspace=Path(info.workspace_path),
            agent=turn.agent,
            mode=mode,
            model=turn.model,
            system_prompt=info.system_prompt,
            steps=turn.steps,
            tools=self.calls.offered(turn.agent),
            recall=recall,
            pins=pins,
            wish=wish,
            checked=checked,
            progress=progress,
            cost=cost,
            reach=self.calls.context(session, turn.id, CallId("")),
            keep=keep,
        )

    async def _whole(self, session: Session, message: ModelMessage) -> ModelMessage:
        parts = await big.whole_parts(message.parts, lambda ref: self.calls.files.load(session.id, ref))
        media = {}
        for ref in {part.ref for part in parts if part.type != "text" and part.ref}:
            with suppress(Refused):  # a file that is gone is named, and the model told so
                media[ref] = await self.calls.files.load(session.id, ref)
        return replace(message, parts=parts, media=media)

    async def _compact(self, session: Session) -> None:
        """The history is made shorter between two turns."""
        from palaver.backends.base import Past
        from palaver.backends.compacting import not_compacted
        from palaver.context.compaction import Wish

        info, wanted = session.safe.created, session.safe.compaction
        if wanted is None:
            return

        async def tell(fact: c.Fact) -> None:
            await session.report(c.NoteFact(turn_id=None, fact=fact))

        async def pins() -> Pins:
            return (await session.history()).pins

        past = Past(info.model, partial(self._recall, session), pins, Wish(wanted.instructions), tell)
        try:
            await self.compacts[info.backend].compact(past)
        except (Refused, Failed) as error:
            await tell(not_compacted(error.message))
        except Exception as bug:  # of a backend: the wish ends, and nothing else
            print_exc(file=sys.stderr)
            await tell(not_compacted(f"{type(bug).__name__}: {bug}"))

    async def _recall(self, session: Session) -> Sequence[ModelMessage]:
        told = (await session.history()).messages(closing=True)
        return [message if message.plain else await self._whole(session, message) for message in told]

    async def _end_turn(self, session: Session, work: EndTurn) -> None:
        await session.others_stopped(work)
        turn = session.safe.turn
        if turn is None:
            return
        self.reached("cancel.stopped")
        changes = await self.calls.changes.ended(session, turn.id, END_S)
        duration = self._since(turn.started_at)
        end = c.EndCancelled(turn_id=turn.id, fresh=fresh(), at=self.clock.now(), duration_ms=duration, changes=changes)
        await session.report(end)

    def _since(self, moment: str) -> int:
        return milliseconds(-self.clock.until(moment))

    # --- a call ---------------------------------------------------------------------------------------------------------------

    async def _run_tool(self, session: Session, turn_id: TurnId, call_id: CallId) -> None:
        call = session.safe.turn.calls[call_id] if session.safe.turn else None
        if call is None:
            return
        if call.state == "running":
            await self._give_up(session, turn_id, call_id)
            return
        try:
            whole = await self.calls.whole(session, call.tool_call, call.refs)
        except (Refused, DiskFailed) as error:
            text = f"The call did not start: its input could not be read. {error.message}"
            result = ToolResult(call_id, False, (Part("text", text=text),), error=CallError("tool_error", text))
            await session.report(c.CompleteCall(turn_id=turn_id, result=result, duration_ms=0))
            return
        tool = self.calls.tools.find(whole.name)
        if call.shown is not None and await self._changed_since(session, turn_id, tool, whole, call.shown):
            return
        started = self.clock.ticks()
        await self.calls.checkpoint(session, turn_id, tool, whole)
        await session.report(c.BeginCall(turn_id=turn_id, tool_call_id=call_id))
        self.reached("call.running")
        result = await self._invoked(session, turn_id, tool, whole, approved=call.ask is not None, shown=call.shown)
        self.reached("call.done")
        shown, refs = await session.kept(lambda: self.calls.cut_result(session, turn_id, result))
        await session.report(
            c.CompleteCall(turn_id=turn_id, result=shown, duration_ms=milliseconds(self.clock.ticks() - started), refs=refs)
        )

    async def _give_up(self, session: Session, turn_id: TurnId, call_id: CallId) -> None:
        """A call whose task broke off after it had begun: what it did is not known, and nothing is run twice."""
        error = CallError("tool_interrupted", "The call was interrupted: it broke off while it ran, outcome unknown.")
        result = ToolResult(call_id, False, (Part("text", text=error.message),), error=error)
        await session.report(c.CompleteCall(turn_id=turn_id, result=result, duration_ms=0))

    async def _invoked(
        self, session: Session, turn_id: TurnId, tool: Tool, call: ToolCall, *, approved: bool, shown: str | None
    ) -> ToolResult:
        try:
            allowed = await self.calls.allowed(session, tool, call, approved=approved)
            return await tool.invoke(self.calls.context(session, turn_id, call.id, allowed, granted=approved, approved=shown), call)
        except ToolFailed as failed:
            error = CallError(failed.code, failed.message)
        except Exception as bug:  # of a tool: its call ends, and nothing else
            print_exc(file=sys.stderr)
            error = CallError("tool_error", f"The tool {call.name} broke: {type(bug).__name__}: {bug}")
        return ToolResult(call.id, False, (Part("text", text=error.message),), error=error)

    async def _changed_since(self, session: Session, turn_id: TurnId, tool: Tool, call: ToolCall, shown: str) -> bool:
        """An approved change goes only onto what it was shown for: where the diff would be another one by now, it is asked again."""
        try:
            description, verdict = await self.calls.judged(session, tool, call)
        except ToolFailed:
            return False  # the call itself says what is wrong
        diff = description.preview.diff or ""
        if shown in (diff, sha256(diff.encode()).hexdigest()) or verdict.decision == "allow":
            return False
        if verdict.decision == "ask":
            approval = await self.calls.approval_of(session, turn_id, description, verdict)
            await session.report(c.AskAgain(turn_id=turn_id, tool_call_id=call.id, approval=approval))
            return True
        text = verdict.reason or f"Denied by {verdict.by}."
        result = ToolResult(call.id, False, (Part("text", text=text),), error=CallError("tool_denied", text))
        await session.report(c.CompleteCall(turn_id=turn_id, result=result, duration_ms=0))
        return True


@dataclass
class Teller:
    """`Tell` of one turn."""

    session: Session
    stop_reason: StopReason = "end_turn"

    async def __call__(self, report: c.AnyCommand) -> None:
        self._note(report)
        await self.session.report(report)

    def soon(self, report: c.AnyCommand) -> None:
        self._note(report)
        self.session.report_soon(report)

    def text(self, message_id: MessageId, part_id: PartId, kind: TextKind, text: str) -> None:
        turn = self.session.ahead.turn
        if turn is not None:
            self.session.text(turn.id, message_id, part_id, kind, text)

    def writes_call(self, message_id: MessageId, step_id: StepId, name: str, chars: int) -> None:
        turn = self.session.ahead.turn
        if turn is not None:
            self.session.writes_call(Writing(turn.id, message_id, step_id, name, chars))

    def _note(self, report: c.AnyCommand) -> None:
        if isinstance(report, c.CompleteOutput):
            match report.stop_reason:
                case "max_tokens" | "refusal":
                    self.stop_reason = report.stop_reason
                case _:
                    self.stop_reason = "end_turn"


@dataclass
class Asker:
    """`Ask` of one turn."""

    session: Session
    calls: Calls

    async def __call__(self, calls: Sequence[ToolCall], message_id: MessageId, step_id: StepId, refused: CallError | None = None) -> None:
        await self._run(calls, message_id, step_id, refused)

    async def own(self, call: ToolCall) -> None:
        await self.session.told()
        turn = self.session.safe.turn
        if turn is None:
            raise Refused("turn_over", "The turn is not running.")
        opened = await self.session.kept(lambda: self.calls.opened(self.session, [call], None, None))
        if any(one.approval is not None for one in opened) and not self.calls.is_attended(self.session):
            await self.session.report(c.NoteFact(turn_id=turn.id, fact=_nobody_to_ask(call)))
            return
        await self.session.report(c.StartCalls(turn_id=turn.id, calls=opened))
        await self.open()

    async def _run(
        self, calls: Sequence[ToolCall], message_id: MessageId | None, step_id: StepId | None, refused: CallError | None = None
    ) -> None:
        await self.session.told()  # the message that holds the calls, or comes before them
        turn = self.session.safe.turn
        if turn is None:
            raise Refused("turn_over", "The turn is not running.")
        opened = await self.session.kept(lambda: self.calls.opened(self.session, calls, message_id, step_id, refused))
        await self.session.report(c.StartCalls(turn_id=turn.id, calls=opened))
        await self.open()

    async def more(self, reason: str, budget: Budget) -> None:
        turn = self.session.safe.turn
        if turn is None:
            raise Refused("turn_over", "The turn is not running.")
        approval = self.calls.for_more(self.session.id, reason, budget)
        await self.session.report(c.RequestApproval(turn_id=turn.id, approval=approval))
        await self.session.until(lambda state: approval.id not in state.asks)

    async def open(self) -> bool:
        def answered(state: State) -> bool:
            return state.turn is None or not state.turn.calls

        there = not answered(self.session.safe)
        await self.session.until(answered)
        return there


def _nobody_to_ask(call: ToolCall) -> Notice:
    from palaver.backends.checked import NOT_VERIFIED

    text = f"Not verified: nobody was there to be asked whether {call.name} may run. Send a message when you are, or set the mode."
    return Notice(level="warning", code=NOT_VERIFIED, text=text)


async def _time_up(session: Session, left: float, timer: asyncio.Timeout) -> None:
    """Lets the timer go off once the turn has worked for so many seconds."""
    loop = asyncio.get_running_loop()
    while left > 0:
        await session.until(lambda state: not state.only_waits)
        began = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await session.until(lambda state: state.only_waits)
        left -= loop.time() - began
    timer.reschedule(loop.time())


async def expire(session: Session, ask_id: str, clock: Clock) -> None:
    """The deadline of an ask has passed: its call hears so. Raises `Refused` when it was answered meanwhile."""
    ask = next((ask for ask in session.safe.asks.values() if ask.id == ask_id), None)
    if ask is None:
        return
    if ask.approval is not None:
        await session.report(c.AnswerApproval(approval_id=ask.id, action="deny", by="deadline", at=clock.now(), cause="expired"))
        return
    defaults = _defaults(ask)
    await session.report(question_answer(ask, "default" if defaults else "expired", "deadline", clock.now(), defaults))


def _defaults(ask: Ask) -> dict[str, Answer] | None:
    """The stated defaults, if every question has one."""
    assert ask.question is not None
    if any(question.default is None for question in ask.question.questions):
        return None
    return {question.id: default_of(question) for question in ask.question.questions}


def question_answer(
    ask: Ask,
    cause: AnswerCause,
    by: str,
    at: str,
    answers: dict[str, Answer] | None,
    *,
    reason: str | None = None,
    client_answer_id: str | None = None,
) -> c.AnswerQuestion:
    """The answer with what the model will read of it."""
    assert ask.question is not None
    text = answer_text(ask.question.questions, answers, cause)
    if reason:
        text = f"{text}\n{reason}"
    ok = cause in ("user", "agent_decides", "declined", "default")
    error = None if ok else CallError("tool_timeout", text)
    result = ToolResult(ask.call_id or CallId(""), ok, (Part("text", text=text),), error=error)
    return c.AnswerQuestion(
        question_id=ask.id,
        cause=cause,
        by=by,
        at=at,
        result=result,
        answers=answers,
        reason=reason,
        client_answer_id=client_answer_id,
    )
