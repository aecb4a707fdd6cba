"""What waits for a person, how it is answered, and the rules that answer for them."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

import msgspec

from palaver import policy
from palaver.core.decide import choose
from palaver.core.state import Ask
from palaver.engine import big
from palaver.engine.actor import Actor
from palaver.engine.answers import check_answers
from palaver.engine.parts import Parts, check_writable, no_sandbox, plain
from palaver.engine.session import Session
from palaver.engine.work import question_answer
from palaver.engine.workspaces import Workspace
from palaver.errors import DiskFailed, Invalid, Refused, ToolFailed
from palaver.views.session import inbox_item
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire import requests as r
from palaver.wire.ids import AskId, CallId, TurnId
from palaver.wire.values import Budget, Rule, ToolCall, ToolResult


class Asking(Parts):
    # --- asking -------------------------------------------------------------------------------------------------------------

    async def inbox(self) -> dict[str, Any]:
        self.sessions.asked_at = self.clock.ticks()
        await self.sessions.recovered()
        asks = [(session.safe, ask) for session in self.sessions.open_asks() for ask in session.safe.asks.values()]
        asks.sort(key=lambda one: (one[1].requested_at, one[0].id, one[1].seq))  # those of one batch as the model made its calls
        return {"items": [inbox_item(state, ask) for state, ask in asks], "as_of": self.clock.now()}

    async def _session_of(self, kind: str, ask_id: str) -> str:
        session = await self.sessions.find_asker(ask_id)
        if session is None:
            raise Refused("not_found", f"There is no {kind} {ask_id}.")
        return session.id

    async def approve_call(
        self, session_id: str, turn_id: str, tool_call_id: str, answer: r.ApprovalAnswer, actor: Actor
    ) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
            asks = [(ask.id, ask.turn_id) for ask in session.safe.asks.values() if ask.call_id == tool_call_id and ask.approval]
            asked = asks[0] if asks else await self._settled_for(session, CallId(tool_call_id))
            if asked is None:
                raise Refused("not_found", f"No approval was asked for the call {tool_call_id}.")
            if asked[1] != turn_id:
                raise Refused("wrong_turn", f"The call {tool_call_id} is of the turn {asked[1]}, not {turn_id}.")
            return await self._answer(session, asked[0], answer, actor)

    async def _settled_for(self, session: Session, call_id: CallId) -> tuple[AskId, TurnId] | None:
        """The newest approval of a call that is no longer asked, and its turn: a second answer hears what the first one was."""
        found: tuple[AskId, TurnId] | None = None
        async for recorded in self.recorded(session):
            match recorded.data:
                case e.ApprovalRequested(tool_call=ToolCall(id=id), approval_id=ask_id) if id == call_id and recorded.turn_id:
                    found = ask_id, recorded.turn_id
        return found

    async def answer_approval(self, approval_id: str, answer: r.ApprovalAnswer, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(await self._session_of("approval", approval_id)) as session:
            return await self._answer(session, AskId(approval_id), answer, actor)

    async def _answer(self, session: Session, ask_id: AskId, answer: r.ApprovalAnswer, actor: Actor) -> dict[str, Any]:
        """Whole, though the caller gives up: grant, answer, and what the grant settles."""
        return await asyncio.shield(self._answer_in_turn(session, ask_id, answer, actor))

    async def _answer_in_turn(self, session: Session, ask_id: AskId, answer: r.ApprovalAnswer, actor: Actor) -> dict[str, Any]:
        """One answer at a time: while a wider grant is being written, other answers to the same ask wait for it."""
        async with self._answering.setdefault(ask_id, asyncio.Lock()):
            return await self._answer_now(session, ask_id, answer, actor)

    async def _answer_now(self, session: Session, ask_id: AskId, answer: r.ApprovalAnswer, actor: Actor) -> dict[str, Any]:
        command = c.AnswerApproval(
            approval_id=ask_id,
            action=answer.action or "approve",
            by=actor.name,
            at=self.clock.now(),
            scope="session" if answer.always and answer.scope is None else answer.scope or "once",
            option_id=answer.option_id,
            reason=answer.reason,
            client_answer_id=answer.client_answer_id,
        )
        ask = session.safe.asks.get(ask_id)
        if answer.input is not msgspec.UNSET and answer.input is not None:
            command = await self._with_input(session, ask, command, answer.input)
        chosen = choose(ask.approval, command) if ask is not None and ask.approval is not None else None
        caution = None
        if chosen is not None and chosen.mode is not None:
            self.may_set_mode(chosen.mode, actor)
            caution = await self.caution_of(chosen.mode, actor)
        _check_trust(ask, command, actor)
        self.sessions.reached("answer.begun")
        written = await self._grant(session, ask, command)
        try:
            reply = await session.send(command)
        except Refused:  # a cancel came first
            if written is not None:
                await session.kept(partial(written[0].remove_rule, written[1], actor.name))
            raise
        except DiskFailed:
            if written is not None:  # withdrawn as soon as the disk takes it
                session.later(session.kept(partial(written[0].remove_rule, written[1], actor.name)))
            raise
        self.sessions.reached("answer.logged")
        if caution is not None:
            await session.send(c.NoteFact(turn_id=None, fact=no_sandbox(caution)))
        await self._settle_siblings(session, written[0] if written else None)
        return _settled(session, ask_id, reply)

    async def _with_input(self, session: Session, ask: Ask | None, command: c.AnswerApproval, given: Any) -> c.AnswerApproval:
        """Changed input is decided again from the first step; what a rule denies cannot be approved."""
        if ask is not None and ask.approval is not None and ask.approval.subject == "budget":
            return msgspec.structs.replace(command, input=plain(_budget(given)))
        call = ask.approval.tool_call if ask and ask.approval else None
        if call is None:
            return command
        changed = ToolCall(call.id, call.name, given)
        try:
            _, verdict = await self.calls.judged(session, self.calls.tools.find(call.name), changed)
        except ToolFailed as failed:
            raise Invalid(failed.message, path="input") from failed
        if verdict.decision == "deny":
            raise Refused("denied_by_rule", f"The changed input is denied by {verdict.by}. The approval stays open.")
        shown, refs = await big.cut(given, self.store(session), 20 * 1024)
        return msgspec.structs.replace(command, input=shown, input_refs=refs)

    async def _grant(self, session: Session, ask: Ask | None, command: c.AnswerApproval) -> tuple[Workspace, str] | None:
        """A grant for the workspace is in the workspace's log before the answer is in the session's."""
        if ask is None or ask.approval is None or command.input is not None:
            return None
        option = choose(ask.approval, command)
        if option is None or option.action != "approve" or option.scope != "workspace" or option.rule is None:
            return None
        workspace = await self.workspaces.get(session.safe.created.workspace_path)
        rule = await workspace.add_rule(option.rule, command.by, command.approval_id)
        assert rule.id is not None
        self.sessions.reached("answer.granted")
        return workspace, rule.id

    async def _settle_siblings(self, session: Session, workspace: Workspace | None) -> None:
        """A new grant decides the asks that it covers: of this session, or of every session in the workspace."""
        if session.safe.asks and (session.safe.grants or workspace):
            await self.calls.settle_by_rules(session)
        if workspace is not None:
            for other in self.sessions.in_workspace(workspace.path):
                if other is not session and not other.read_only:
                    await self.calls.settle_by_rules(other)

    async def answer_question(self, question_id: str, answer: r.QuestionAnswer, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(await self._session_of("question", question_id)) as session:
            ask = session.safe.asks.get(AskId(question_id))
            now = self.clock.now()
            self.sessions.reached("answer.begun")
            if ask is None or ask.question is None:
                empty = c.AnswerQuestion(
                    question_id=AskId(question_id),
                    cause="user",
                    by=actor.name,
                    at=now,
                    result=ToolResult(CallId(""), True, ()),
                    client_answer_id=answer.client_answer_id,
                )
                reply = await session.send(empty)
            else:
                cause: Any = "agent_decides" if answer.agent_decides else "declined" if answer.declined else "user"
                if answer.answers is not None:
                    check_answers(ask.question, answer.answers)
                command = question_answer(
                    ask, cause, actor.name, now, answer.answers, reason=answer.reason, client_answer_id=answer.client_answer_id
                )
                reply = await session.send(await self.calls.cut_answer(session, ask.turn_id or TurnId(ask.id), command))
            self.sessions.reached("answer.logged")
            return _settled(session, AskId(question_id), reply)

    # --- rules --------------------------------------------------------------------------------------------------------------

    async def rules(self, workspace: str | None) -> dict[str, Any]:
        found = [await self.workspaces.get(os.path.realpath(workspace))] if workspace else await self.workspaces.all()
        return {"rules": [_rule(rule, one.path) for one in found for rule in one.rules]}

    async def add_rule(self, new: r.NewRule, actor: Actor) -> dict[str, Any]:
        path = await self.workspace_path(new.workspace, actor, field="workspace")
        rule = Rule(
            decision=new.decision, tool=new.tool, kind=new.kind, path=new.path, command=new.command, domain=new.domain, exact=new.exact
        )
        policy.check_rule(rule)
        workspace = await self.workspaces.get(path)
        kept = await workspace.add_rule(rule, actor.name)
        for session in self.sessions.in_workspace(path):
            if not session.read_only:
                await self.calls.settle_by_rules(session)
        return _rule(kept, path)

    async def remove_rule(self, rule_id: str, actor: Actor) -> None:
        for workspace in await self.workspaces.all():
            if any(rule.id == rule_id for rule in workspace.rules):
                return await workspace.remove_rule(rule_id, actor.name)
        raise Refused("not_found", f"There is no rule {rule_id}.")

    async def explain_rule(self, question: r.ExplainRule) -> dict[str, Any]:
        workspace = await self.workspaces.get(os.path.realpath(question.workspace))
        call = ToolCall(CallId("call_explained"), question.tool, question.input)
        try:
            return policy.explain(await self.calls.case_for(workspace, call, self.agents_.mode))
        except ToolFailed as failed:
            raise Invalid(failed.message, path="tool" if failed.code == "unknown_tool" else "input") from failed


def _budget(given: Any) -> Budget:
    """`{steps?, cost?, seconds?}` as a person gives it. Raises `Invalid`."""
    try:
        budget = msgspec.convert(given, Budget)
    except msgspec.ValidationError as error:
        raise Invalid(f"{error}. Send {{steps?, cost?, seconds?}}.", path="input") from error
    amounts = [amount for amount in (budget.steps, budget.cost, budget.seconds) if amount is not None]
    if not amounts or set(given) - {"steps", "cost", "seconds"} or not all(0 < amount < 1e9 for amount in amounts):
        raise Invalid("A budget says how much more in one of steps, cost and seconds, each above 0.", path="input")
    return budget


def _check_trust(ask: Ask | None, command: c.AnswerApproval, actor: Actor) -> None:
    """To run a folder's own commands once is an approval; to remember that is trust, and takes `admin` (SECURITY.md 2)."""
    if ask is None or ask.approval is None or ask.approval.subject != "trust":
        return
    option = choose(ask.approval, command)
    if option is not None and option.rule is not None and "admin" not in actor.scopes:
        raise Refused("scope", "Trusting a folder's verify commands takes a token with the scope admin. Run them once.", needed="admin")


def _settled(session: Session, ask_id: AskId, reply: c.Reply | None) -> dict[str, Any]:
    """How the ask ended, as it is recorded: the same for the first answer and for every repetition of it."""
    kept = session.safe.settled.get(ask_id)
    return plain((kept.approval or kept.question) if kept else reply)


def _rule(rule: Rule, workspace: str) -> dict[str, Any]:
    return {**plain(rule), "workspace": workspace}
