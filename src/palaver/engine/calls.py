"""A tool call between the model and its effect: what it would do, what the policy says, and what it may use."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from traceback import print_exc

import msgspec

from palaver import policy
from palaver.engine import big
from palaver.engine.changes import Changes
from palaver.engine.clock import Clock
from palaver.engine.session import Session
from palaver.engine.workspaces import Workspace, Workspaces
from palaver.errors import DiskFailed, Refused, ToolFailed
from palaver.policy import ApprovalPolicy, Case, PatchReviewPolicy, Verdict
from palaver.tools.base import Description, Tool, ToolContext, ToolDefinition, ToolKind, ToolRegistry
from palaver.tools.jobs import BackgroundJobs
from palaver.wire import commands as c
from palaver.wire.ids import AskId, CallId, MessageId, SessionId, StepId, TurnId, ask_id
from palaver.wire.values import (
    Answer,
    Budget,
    CallError,
    CallKind,
    FileRef,
    Mode,
    Option,
    Preview,
    Question,
    Refs,
    Rule,
    Stream,
    ToolCall,
    ToolResult,
)

LOGGED_OUTPUT = 256 * 1024
"""Bytes of one call's output that are logged and streamed; the rest is in its artifact alone."""
PREVIEW_LIMIT = INPUT_LIMIT = 20 * 1024
NAME_LIMIT = 200
"""Characters of a tool's name: models make up names, and no tool has such a long one."""


@dataclass(frozen=True)
class Files:
    """Files of a session, as calls need them."""

    put: Callable[[SessionId, str, str, bytes], Awaitable[FileRef]]
    """`await put(session_id, "artifacts/turn_…", name, data)`; on disk when it returns."""
    load: Callable[[SessionId, str], Awaitable[bytes]]
    shown: Callable[[SessionId], tuple[Path, ...]]
    """The session's own folders that a tool may read."""


@dataclass
class Calls:
    tools: ToolRegistry
    files: Files
    workspaces: Workspaces
    clock: Clock
    environment: Callable[[CallId], Mapping[str, str]]
    changes: Changes
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    review: PatchReviewPolicy = field(default_factory=PatchReviewPolicy)
    protected: tuple[Path, ...] = ()
    deadline_s: float | None = None
    per_minute: int = 120
    guarded: Callable[[Path], Sequence[str]] = lambda workspace: ()
    """More guarded paths of a workspace than those that are known by name. Blocks on the disk."""
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    tools_of: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By agent: the tools that its definition names. One that is not here has all."""
    end_jobs: Callable[[SessionId], Awaitable[None]] | None = None
    """Ends the background jobs of a session."""
    is_attended: Callable[[Session], bool] = lambda session: True
    """Whether anybody is there who could answer."""
    _recent: dict[SessionId, deque[float]] = field(default_factory=dict)

    def complain(self, text: str) -> None:
        """To the person who started the daemon; there is no client that this belongs to."""
        print(text, file=sys.stderr, flush=True)

    def offered(self, agent: str | None = None) -> Sequence[ToolDefinition]:
        """All tools, or those that an agent has."""
        named = self.tools_of.get(agent) if agent is not None else None
        return [tool for tool in self.tools.definitions() if named is None or tool.name in named]

    # --- before ---------------------------------------------------------------------------------------------------------------

    async def opened(
        self,
        session: Session,
        calls: Sequence[ToolCall],
        message_id: MessageId | None,
        step_id: StepId | None,
        refused: CallError | None = None,
    ) -> tuple[c.NewCall, ...]:
        """Each call with what was decided about it. Whatever is wrong with a call becomes its result, never an exception.

        Without a message they are the daemon's own: approved for once, or not at all.
        """
        if refused is not None:
            return tuple([await self._refused(session, call, message_id, step_id, refused) for call in calls])
        return _last_plan_alone([await self._opened(session, call, message_id, step_id) for call in calls])

    async def _refused(
        self, session: Session, call: ToolCall, message_id: MessageId | None, step_id: StepId | None, error: CallError
    ) -> c.NewCall:
        """A call of a batch that was cut off: it gets its result, and is judged and counted by nobody."""
        assert session.safe.turn is not None
        shown, refs = await self._cut_input(session, session.safe.turn.id, call)
        return c.NewCall(
            tool_call=shown,
            kind=self._kind(call),
            title=shown.name,
            message_id=message_id,
            step_id=step_id,
            refs=refs,
            error=error,
            truncated=True,
        )

    async def _opened(self, session: Session, call: ToolCall, message_id: MessageId | None, step_id: StepId | None) -> c.NewCall:
        turn = session.safe.turn
        assert turn is not None  # a turn that asks is running
        shown, refs = await self._cut_input(session, turn.id, call)
        error: CallError | None
        try:
            self._limit_rate(session.id)
            tool = self.tools.find(call.name)
            if message_id is not None:
                self._check_agent_has(turn.agent, call.name)
            if shown.input_raw is not None and call.input_raw is None:
                raise ToolFailed(f"The arguments of {call.name} hold too many values. Send fewer.", code="invalid_arguments")
            description, verdict = await self.judged(session, tool, call)
        except ToolFailed as failed:
            error = CallError(failed.code, big.head(failed.message))
            return c.NewCall(
                tool_call=shown, kind=self._kind(call), title=shown.name, message_id=message_id, step_id=step_id, refs=refs, error=error
            )
        if description.input is not None and description.input != call.input:
            shown, refs = await self._cut_input(session, turn.id, ToolCall(call.id, call.name, dict(description.input)))
        if message_id is None and verdict.subject != "trust":
            verdict = replace(verdict, options=tuple(option for option in verdict.options if option.scope == "once"))
        approval, error, inquiry = None, None, None
        if verdict.decision == "deny":
            error = CallError("tool_denied", verdict.reason or f"Denied by {verdict.by}.")
        elif verdict.decision == "ask":
            approval = await self.approval_of(session, turn.id, description, verdict)
        elif description.questions:
            inquiry = await self._inquiry(session, turn.id, description)
        return c.NewCall(
            tool_call=shown,
            kind=_kind(tool.definition()),
            title=description.title,
            locations=description.locations,
            message_id=message_id,
            step_id=step_id,
            refs=refs,
            approval=approval,
            inquiry=inquiry,
            error=error,
            plan=description.plan if approval is not None and approval.subject == "plan" else None,
        )

    async def _inquiry(self, session: Session, turn_id: TurnId, description: Description) -> c.Inquiry:
        raw, refs = await big.cut(msgspec.to_builtins(description.questions), self._store(session.id, turn_id, "question"), INPUT_LIMIT)
        questions = description.questions if refs is None else msgspec.convert(raw, tuple[Question, ...])
        deadline = self.clock.at(self.deadline_s) if self.deadline_s else None
        return c.Inquiry(id=ask_id("ques", session.id), questions=questions, deadline=deadline, refs=refs)

    async def approval_of(self, session: Session, turn_id: TurnId, description: Description, verdict: Verdict) -> c.Approval:
        preview, refs = await big.cut_struct(description.preview, self._store(session.id, turn_id, "preview"), PREVIEW_LIMIT)
        return c.Approval(
            id=ask_id("appr", session.id),
            subject=verdict.subject,
            preview=preview,
            options=verdict.options,
            reason=" ".join(filter(None, (verdict.reason, description.caution))) or None,
            deadline=self.clock.at(self.deadline_s) if self.deadline_s else None,
            refs=refs,
        )

    def for_more(self, session_id: SessionId, reason: str, budget: Budget) -> c.Approval:
        """What a person is asked when a turn has met a limit."""
        amount = (
            next(f"{value:g} {name}" for name in ("steps", "seconds") if (value := getattr(budget, name))) if budget.cost is None else ""
        )
        label = f"Let it go on for {amount} more" if amount else f"Let it cost {budget.cost:g} more"
        return c.Approval(
            id=ask_id("appr", session_id),
            subject="budget",
            preview=Preview(),
            options=(Option("more", "approve", "once", label), Option("deny", "deny", "once", "End the turn")),
            reason=reason,
            deadline=self.clock.at(self.deadline_s) if self.deadline_s else None,
            budget=budget,
        )

    async def judged(self, session: Session, tool: Tool, call: ToolCall) -> tuple[Description, Verdict]:
        """What the call would do, and the one policy decision about it. Raises `ToolFailed` for input that makes no sense."""
        if call.input_raw is not None:
            raise ToolFailed(f"The arguments of {call.name} are not a JSON object: {call.input_raw[:200]!r}", code="invalid_arguments")
        info, turn = session.safe.created, session.safe.turn
        workspace = await self.workspaces.get(info.workspace_path)
        context = self.context(session, turn.id if turn else TurnId(""), call.id)
        description, guarded = await asyncio.to_thread(lambda: (_described(tool, context, call), self.guarded(context.workspace)))
        mode: Mode = info.mode  # type: ignore[assignment]  # checked when it was set
        if turn is not None and turn.narrow:
            mode = policy.narrowed(mode, "ask")
        case = self._case(tool.definition(), call, description, context, workspace, mode, session.safe.grants)
        return description, policy.judge(replace(case, guarded=guarded, turn_id=turn.id if turn else None))

    async def case_for(self, workspace: Workspace, call: ToolCall, mode: str) -> Case:
        """The case of a call that nobody has made: what `explain` explains. Raises `ToolFailed`."""
        context = ToolContext(Path(workspace.path), "", "", call.id, {}, lambda stream, text: None, _no_artifact, hidden=self.protected)
        tool = self.tools.find(call.name)
        description = await asyncio.to_thread(_described, tool, context, call)
        return self._case(tool.definition(), call, description, context, workspace, mode, ())  # type: ignore[arg-type]  # a mode

    def _case(
        self,
        definition: ToolDefinition,
        call: ToolCall,
        description: Description,
        context: ToolContext,
        workspace: Workspace,
        mode: Mode,
        grants: Sequence[Rule],
    ) -> Case:
        return Case(
            tool=definition.name,
            kind=_kind(definition),
            description=description,
            workspace=str(context.workspace),
            mode=mode,
            approval=self.approval,
            session_rules=grants,
            workspace_rules=workspace.rules,
            review=self.review,
            protected=tuple(map(str, self.protected)),
            shown=tuple(map(str, context.shown)),
            requires_approval=definition.requires_approval,
            home=str(Path.home()),
            cwd=call.input.get("cwd") if isinstance(call.input, dict) and isinstance(call.input.get("cwd"), str) else None,
        )

    def _check_agent_has(self, agent: str, name: str) -> None:
        """Raises `ToolFailed` for a tool that the agent's definition leaves out. What the daemon does by itself is not the agent's."""
        named = self.tools_of.get(agent)
        if named is not None and name not in named:
            raise ToolFailed(f"The agent {agent} has no tool {name!r}. Use one of: {', '.join(sorted(named))}.", code="unknown_tool")

    def forget(self, session_id: SessionId) -> None:
        """The session left memory, or is gone."""
        self._recent.pop(session_id, None)

    def _limit_rate(self, session_id: SessionId) -> None:
        now, recent = self.clock.ticks(), self._recent.setdefault(session_id, deque())
        while recent and recent[0] < now - 60:
            recent.popleft()
        if len(recent) >= self.per_minute:
            raise ToolFailed(
                f"More than {self.per_minute} tool calls in a minute. Wait, or do the same with fewer calls.", code="rate_limit_tools"
            )
        recent.append(now)

    def _kind(self, call: ToolCall) -> CallKind:
        try:
            return _kind(self.tools.find(call.name).definition())
        except ToolFailed:
            return "exec"  # unknown: shown as what needs the most care

    async def checkpoint(self, session: Session, turn_id: TurnId, tool: Tool, call: ToolCall) -> None:
        """Before the effect of a call that may write or execute: what the turn changes from here on is known at its end."""
        kind = tool.definition().kind
        if kind in (ToolKind.READ, ToolKind.ASK):
            return
        writes: tuple[str, ...] = ()
        if kind is ToolKind.WRITE:
            with suppress(ToolFailed):  # the call itself says what is wrong
                writes = (await asyncio.to_thread(_described, tool, self.context(session, turn_id, call.id), call)).writes
        await self.changes.begin(session, turn_id, self.environment(call.id), writes)

    # --- during ---------------------------------------------------------------------------------------------------------------

    async def allowed(self, session: Session, tool: Tool, call: ToolCall, *, approved: bool) -> tuple[Path, ...]:
        """What outside of the workspace the call may touch: what rules and grants name, and what its own approval showed."""
        info = session.safe.created
        workspace = await self.workspaces.get(info.workspace_path)
        rules = (*self.approval.rules, *workspace.rules, *session.safe.grants)
        named = policy.named_paths(rules, info.workspace_path, str(Path.home()))
        if approved:
            context = self.context(session, TurnId(""), call.id)
            described = await asyncio.to_thread(_described, tool, context, call)
            named = (*named, *described.writes, *described.reads)
        return tuple(map(Path, named))

    def context(
        self,
        session: Session,
        turn_id: TurnId,
        call_id: CallId,
        allowed: tuple[Path, ...] = (),
        *,
        granted: bool = False,
        approved: str | None = None,
    ) -> ToolContext:
        logged = 0

        def output(stream: Stream, text: str) -> None:
            nonlocal logged
            if logged < LOGGED_OUTPUT:
                text = text[: LOGGED_OUTPUT - logged]
                logged += len(text) if text.isascii() else len(text.encode())
                session.output(turn_id, call_id, stream, text)

        async def artifact(name: str, data: bytes, mime_type: str) -> str:
            return (await self.files.put(session.id, f"artifacts/{turn_id}", name, data)).ref

        def note(fact: c.Fact) -> None:
            with suppress(Refused):  # the turn was cancelled: nothing of it is told any more
                session.report_soon(c.NoteFact(turn_id=turn_id, fact=fact))

        return ToolContext(
            workspace=Path(session.safe.created.workspace_path),
            session_id=session.id,
            turn_id=turn_id,
            call_id=call_id,
            env=self.environment(call_id),
            output=output,
            artifact=artifact,
            hidden=self.protected,
            shown=self.files.shown(session.id),
            allowed=allowed,
            look=partial(self.changes.look, session),
            granted=granted,
            approved=approved,
            note=note,
        )

    async def whole(self, session: Session, call: ToolCall, refs: Refs | None) -> ToolCall:
        """The call with its whole input."""
        if not refs:
            return call
        return ToolCall(
            call.id, call.name, await big.restored(call.input, refs, lambda ref: self.files.load(session.id, ref)), call.input_raw
        )

    async def cut_answer(self, session: Session, turn_id: TurnId, command: c.AnswerQuestion) -> c.AnswerQuestion:
        """An answer in many words, as its events will have it; the model reads the whole."""
        raw, refs = await big.cut(msgspec.to_builtins(command.answers), self._store(session.id, turn_id, "answer"), INPUT_LIMIT)
        answers = command.answers if refs is None else msgspec.convert(raw, dict[str, Answer])
        result, result_refs = await self.cut_result(session, turn_id, command.result)
        return msgspec.structs.replace(command, answers=answers, refs=refs, result=result, result_refs=result_refs)

    async def cut_result(self, session: Session, turn_id: TurnId, result: ToolResult) -> tuple[ToolResult, Refs | None]:
        return await big.cut_result(result, self._store(session.id, turn_id, "result"))

    async def _cut_input(self, session: Session, turn_id: TurnId, call: ToolCall) -> tuple[ToolCall, Refs | None]:
        raw, refs = await big.cut(call.input, self._store(session.id, turn_id, "input"), INPUT_LIMIT)
        words, name = call.input_raw, call.name[:NAME_LIMIT]
        if len(json := msgspec.json.encode(raw)) > big.LIMIT:  # made of too many small values
            raw, refs, words = {}, None, json.decode()
        return ToolCall(call.id, name, raw, words and big.head(words)), refs

    def _store(self, session_id: SessionId, turn_id: TurnId, name: str) -> big.Store:
        async def store(data: bytes) -> FileRef:
            return await self.files.put(session_id, f"artifacts/{turn_id}", f"{name}.txt", data)

        return store

    # --- again ----------------------------------------------------------------------------------------------------------------

    async def settle_by_rules(self, session: Session, by: str = "policy") -> int:
        """Decide the open asks once more, after a grant or a rule has appeared; says how many it settled."""
        settled = 0
        for ask in list(session.safe.asks.values()):
            if ask.approval is None or ask.approval.tool_call is None or ask.approval.subject not in ("tool", "review", "trust"):
                continue
            call = session.safe.turn.calls.get(ask.approval.tool_call.id) if session.safe.turn else None
            if call is None:
                continue
            try:
                whole = await self.whole(session, call.tool_call, call.refs)
                _, verdict = await self.judged(session, self.tools.find(call.tool_call.name), whole)
            except (ToolFailed, DiskFailed, Refused):
                continue  # it cannot be described any more, or its file is gone: the person decides
            if verdict.decision != "ask":
                action = "approve" if verdict.decision == "allow" else "deny"
                settled += await self._settle(session, ask.id, action, by, verdict)
        return settled

    async def _settle(self, session: Session, ask_id: AskId, action: str, by: str, verdict: Verdict) -> int:
        try:
            await session.report(
                c.AnswerApproval(
                    approval_id=ask_id,
                    action="approve" if action == "approve" else "deny",
                    by=by,
                    at=self.clock.now(),
                    reason=verdict.by if action == "approve" else verdict.reason,
                    cause="policy",
                )
            )
        except Refused:
            return 0  # somebody answered meanwhile
        return 1


def _last_plan_alone(calls: Sequence[c.NewCall]) -> tuple[c.NewCall, ...]:
    """Of several plans in one batch only the last is handed in: a session has one in the inbox."""
    plans = [call.tool_call.id for call in calls if call.plan is not None]
    error = CallError("tool_skipped", "A later call of the same answer hands in another plan, so this one was not shown.")
    return tuple(
        msgspec.structs.replace(call, approval=None, plan=None, error=error) if call.tool_call.id in plans[:-1] else call for call in calls
    )


async def _no_artifact(name: str, data: bytes, mime_type: str) -> str:
    raise ToolFailed("Nothing is kept while a call is only described.")


def _described(tool: Tool, context: ToolContext, call: ToolCall) -> Description:
    if not hasattr(tool, "describe"):
        return Description(call.name)
    try:
        return tool.describe(context, call)
    except ToolFailed:
        raise
    except Exception as error:  # a bug in a tool ends its call and nothing else
        print_exc(file=sys.stderr)
        raise ToolFailed(f"The tool {call.name} failed to describe the call: {error}") from error


def _kind(definition: ToolDefinition) -> CallKind:
    return definition.kind.value
