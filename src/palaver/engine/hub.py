"""What clients can ask of the daemon, one method each. A method checks, makes ids and times, sends a command and shows the result.

Nothing is decided here: what a command makes happen stands in `core`, who may send it in `serve`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from palaver.core import queue
from palaver.core.decide import choose
from palaver.core.fork import cut_after, forked
from palaver.core.state import Ask, State
from palaver.engine import big
from palaver.engine.actor import Actor
from palaver.engine.agents import MODES, Agents
from palaver.engine.answers import check_answers
from palaver.engine.calls import Calls
from palaver.engine.clock import Clock
from palaver.engine.feed import AllBatch, Feed
from palaver.engine.follow import Batch
from palaver.engine.session import Session
from palaver.engine.sessions import Local, Sessions
from palaver.engine.tree import tree
from palaver.engine.work import question_answer
from palaver.engine.workspaces import Workspace, Workspaces
from palaver.errors import DiskFailed, Invalid, Refused, ToolFailed
from palaver.log import Log
from palaver.log.blobs import Blobs
from palaver.policy import check_rule, explain
from palaver.views.pages import page
from palaver.views.session import inbox_item, queue_object
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire import requests as r
from palaver.wire.codec import decode_event
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, PartId, SessionId, TurnId, fresh, new_id
from palaver.wire.values import Author, FileRef, ForkedFrom, Message, Part, Refs, Rule, SessionInfo, ToolCall, ToolResult

ATTACHMENT_LIMIT = 25 * 1024 * 1024
NARROW = "prompt"
PROMPT_LIMIT = 40 * 1024
"""Bytes of a system prompt: it is part of one event with all that a session is."""
QUEUE_ENTRY = 200
"""Bytes of an item in `queue_changed`, without its message."""


class EventsPage(NamedTuple):
    lines: list[bytes]
    next_after: int
    head_seq: int


class OpenedFile(NamedTuple):
    path: Path
    name: str
    mime_type: str
    size: int


@dataclass
class Hub:
    sessions: Sessions
    workspaces: Workspaces
    calls: Calls
    agents_: Agents
    blobs: Blobs
    log: Log
    clock: Clock
    epoch: str
    version: str
    models_: Callable[[], list[Any]]
    settings_: Callable[[], dict[str, Any]]
    change_settings_: Callable[[dict[str, Any]], list[str]]
    """Writes values into the settings file and gives the keys that changed. Waits for the disk."""
    private: tuple[Path, ...]
    """Folders that no workspace of a lesser token may hold or lie in."""

    def __post_init__(self) -> None:
        self.sessions.feed = Feed(self._hello_all)
        self._answering: dict[str, asyncio.Lock] = {}
        self._changing_settings = asyncio.Lock()

    # --- sessions -----------------------------------------------------------------------------------------------------------

    async def create(self, new: r.NewSession, actor: Actor) -> dict[str, Any]:
        agent = self.agents_.get(new.agent)
        model = self.agents_.model(agent, new.model)
        mode = self.agents_.check_mode(new.mode or agent.mode)
        self._may_set_mode(mode, actor)
        path = await self._workspace_path(new.workspace_path, actor)
        _check_prompt(new.system_prompt)
        info = SessionInfo(
            id=SessionId(new_id("sess")),
            created_at=self.clock.now(),
            workspace_path=path,
            system_prompt=new.system_prompt if new.system_prompt is not None else agent.prompt,
            auto_run=new.auto_run,
            title=new.title,
            agent=agent.name,
            backend=agent.backend,
            model=model,
            mode=mode,
            delivery=self.agents_.delivery if new.delivery in (None, "auto") else new.delivery,
            capabilities=agent.capabilities,
            title_set=new.title is not None,
            available_modes=MODES,
            available_models=self.agents_.choices(),
        )
        first = e.Recorded(1, info.created_at, info.id, None, e.SessionCreated(session=info))
        return self.sessions.shown(await self.sessions.create([first]))

    def _may_set_mode(self, mode: str, actor: Actor) -> None:
        if mode not in (self.agents_.mode, "plan", "ask") and not actor.may_approve:
            raise Refused("scope", f"Setting the mode {mode!r} takes a token with the scope approve.", needed="approve")

    async def _workspace_path(self, given: str, actor: Actor, field: str = "workspace_path") -> str:
        """The folder as it is on disk. A token that may not approve works only where one that may has worked before."""
        path = os.path.realpath(os.path.expanduser(given))
        if "\0" in given or not os.path.isabs(os.path.expanduser(given)) or not await asyncio.to_thread(os.path.isdir, path):
            raise Invalid(f"{given!r} is not a folder of this machine. Give the absolute path of one.", path=field)
        workspace = await self.workspaces.get(path)
        if actor.may_approve:
            await workspace.use(actor.name)
        elif not workspace.used or any(Path(path) == own or own.is_relative_to(path) for own in self.private):
            raise Refused(
                "scope", f"This token works only in folders that a token with the scope approve has used: {path}", needed="approve"
            )
        return path

    async def get(self, session_id: str) -> dict[str, Any]:
        return self.sessions.shown(await self.sessions.get(session_id))

    async def list(self, **query: Any) -> dict[str, Any]:
        if query.get("workspace"):
            query["workspace"] = os.path.realpath(query["workspace"])
        rows, cursor = await self.sessions.find(**query)
        return {"sessions": [msgspec.Raw(row.summary) for row in rows], "next_cursor": cursor}

    async def patch(self, session_id: str, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            _check_writable(session)
            wanted = self._checked(session, changes, actor)
            info = session.safe.created
            different = {name: value for name, value in wanted.items() if getattr(info, name) != value}
            if different:
                await session.send(c.UpdateSession(changes=different))
            return self.sessions.shown(session)

    def _checked(self, session: Session, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        wanted = dict(changes)
        if "mode" in wanted:
            wanted["mode"] = self.agents_.check_mode(wanted["mode"])
            self._may_set_mode(wanted["mode"], actor)
        if "model" in wanted:
            wanted["model"] = self.agents_.model(self.agents_.get(session.safe.created.agent), wanted["model"])
        if "title" in wanted:
            wanted["title_set"] = wanted["title"] is not None
        _check_prompt(wanted.get("system_prompt"))
        if wanted.get("delivery") == "auto":
            wanted["delivery"] = self.agents_.delivery
        return wanted

    async def delete(self, session_id: str, actor: Actor) -> None:
        async with self.sessions.using(session_id) as session:
            session.closing = True
            if not session.read_only:
                await self._emptied(session, actor)
            await self.sessions.remove(session)

    async def close(self, session_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            _check_writable(session)
            session.closing = True
            try:
                await self._emptied(session, actor)
                await session.submit(c.CloseSession(by=actor.name))
            finally:
                session.closing = False
            return self.sessions.shown(session)

    async def _emptied(self, session: Session, actor: Actor) -> None:
        """Cancel until nothing runs and nothing waits to run, background jobs neither."""
        while (turn := session.ahead.turn) is not None:
            await session.submit(c.CancelTurn(by=actor.name, fresh=fresh(), keep_queue=False))
            await session.until(partial(_is_past, turn.id))
        if self.calls.end_jobs is not None:
            await self.calls.end_jobs(session.id)

    async def fork(self, session_id: str, at_message_id: str | None, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            await session.settled()
            log = [recorded async for recorded in self._recorded(session)]
            taken = cut_after(log, MessageId(at_message_id) if at_message_id else None)
            source, now = session.safe.created, self.clock.now()
            info = msgspec.structs.replace(
                source,
                id=SessionId(new_id("sess")),
                created_at=now,
                archived=False,
                forked_from=ForkedFrom(source.id, MessageId(at_message_id) if at_message_id else None),
                parent_session_id=None,
            )
            copies = forked(taken, info, now, fresh())
            await self.sessions.make_ready(info.id)
            await self._copy_files(session, info.id)  # before the log that names them
            return self.sessions.shown(await self.sessions.create(copies))

    async def _recorded(self, session: Session, after: int = 0, up_to: int | None = None) -> AsyncIterator[e.Recorded]:
        last = session.safe.seq if up_to is None else up_to
        while after < last and (lines := await self.log.read(session.key, after, up_to=last)):
            for line in lines:
                yield decode_event(line)
            after += len(lines)

    async def _copy_files(self, session: Session, target: SessionId) -> None:
        folder = self.sessions.folder.session_folder(session.id)
        places = ["attachments", *(f"artifacts/{path.name}" for path in sorted(folder.glob("artifacts/*")))]
        for place in places:
            for ref, _ in await self.blobs.list_blobs(session.id, place):
                await self.blobs.copy(session.id, ref, target)

    async def mark_read(self, session_id: str, seq: int) -> None:
        async with self.sessions.using(session_id) as session:
            _check_open(session)
            local = self.sessions.local(session.id)
            if seq > session.safe.seq:
                raise Invalid(f"The session has {session.safe.seq} events. Send a seq that is not beyond them.", path="seq")
            if seq > local.read_seq:
                await self.sessions.save_local(session, msgspec.structs.replace(local, read_seq=seq))

    async def get_draft(self, session_id: str) -> dict[str, Any]:
        session = await self.sessions.get(session_id)
        return _draft(self.sessions.local(session.id))

    async def put_draft(self, session_id: str, draft: dict[str, Any]) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            _check_open(session)
            local = self.sessions.local(session.id)
            if draft["rev"] != local.rev:
                raise Refused(
                    "draft_conflict", "The draft was changed elsewhere. Take the stored one, or write over its rev.", **_draft(local)
                )
            changed = msgspec.structs.replace(local, text=draft["text"], attachments=draft["attachments"], rev=local.rev + 1)
            await self.sessions.save_local(session, changed)
            return {"rev": changed.rev}

    # --- messages and turns -------------------------------------------------------------------------------------------------

    async def add_message(self, session_id: str, post: r.PostMessage, actor: Actor) -> dict[str, Any]:
        if post.role != "user":
            raise Refused("role_not_allowed", f"A client sends messages of the role 'user', not {post.role!r}.")
        async with self.sessions.using(session_id) as session:
            await self._check_refs(session, post.parts)
            parts = _parts(post.parts)
            message = Message(
                MessageId(new_id("msg")),
                "user",
                parts,
                self.clock.now(),
                Author("user", None if actor.name == "user" else actor.name),
                client_message_id=post.client_message_id,
            )
            shown, refs = await self._cut(session, message)
            reply = await session.send(
                c.AddMessage(
                    message=shown,
                    turn_id=TurnId(new_id("turn")),
                    item_id=ItemId(new_id("item")),
                    delivery=post.delivery or "auto",
                    auto_run=session.safe.created.auto_run if post.auto_run is None else post.auto_run,
                    scope=_narrow(actor),
                    fingerprint=_fingerprint(parts) if post.client_message_id else None,
                    refs=refs,
                )
            )
            if post.draft_rev is not None:
                await self._clear_draft(session, post.draft_rev)
            return _plain(reply)

    async def _clear_draft(self, session: Session, rev: int) -> None:
        local = self.sessions.local(session.id)
        if local.rev == rev:
            await self.sessions.save_local(session, msgspec.structs.replace(local, text="", attachments=[], rev=rev + 1))

    async def _check_refs(self, session: Session, parts: Any) -> None:
        for part in parts:
            if part.ref is not None:
                try:
                    (await asyncio.to_thread(self.blobs.open_blob, session.id, part.ref)).close()
                except Refused as missing:
                    raise Refused("unknown_attachment", f"This session has no attachment {part.ref!r}. Upload it here first.") from missing

    async def _cut(self, session: Session, message: Message) -> tuple[Message, Refs | None]:
        """As its event will have it, which beside it may list the whole queue. Raises `Invalid` for what no file can make smaller."""
        room = big.LIMIT - 2048 - QUEUE_ENTRY * len(session.ahead.queue)
        shown, refs = await big.cut_message(message, self._store(session), room)
        if len(msgspec.json.encode(shown)) > room:
            raise Invalid("The message has too many parts of text. Put them into one, or into a file.", path="parts")
        return shown, refs

    def _store(self, session: Session) -> big.Store:
        async def store(data: bytes) -> FileRef:
            return await self.calls.files.put(session.id, "attachments", "message.txt", data)

        return store

    async def cancel(self, session_id: str, turn_id: str | None, keep_queue: bool, actor: Actor) -> dict[str, Any]:
        command = c.CancelTurn(by=actor.name, fresh=fresh(), turn_id=TurnId(turn_id) if turn_id else None, keep_queue=keep_queue)
        async with self.sessions.using(session_id) as session:
            try:
                reply = await session.send(command)
            except DiskFailed:
                session.stop_at_once(command)  # what cannot be written yet is done all the same
                raise
            return _plain(reply)

    async def retry(self, session_id: str, turn_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            reply = await session.send(c.RetryTurn(turn_id=TurnId(turn_id), new_turn_id=TurnId(new_id("turn")), scope=_narrow(actor)))
            return _plain(reply)

    # --- the queue ----------------------------------------------------------------------------------------------------------

    async def queue(self, session_id: str) -> dict[str, Any]:
        return queue_object((await self.sessions.get(session_id)).safe)

    async def _change_queue(self, session_id: str, command: c.AnyCommand) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            await session.send(command)
            return queue_object(session.safe)

    async def edit_item(self, session_id: str, item_id: str, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            _check_writable(session)
            parts, refs = None, None
            if "parts" in changes:
                given = msgspec.convert(changes["parts"], list[r.NewPart])
                await self._check_refs(session, given)
                message = msgspec.structs.replace(queue.find(session.ahead, ItemId(item_id)).message, parts=_parts(given))
                message, refs = await self._cut(session, message)
                parts = message.parts
            command = c.EditItem(
                item_id=ItemId(item_id),
                parts=parts,
                refs=refs,
                message_id=MessageId(new_id("msg")),
                before=changes.get("before", msgspec.UNSET),
                scope=_narrow(actor),
            )
            await session.send(command)
            return queue_object(session.safe)

    async def remove_item(self, session_id: str, item_id: str, actor: Actor) -> None:
        await self._change_queue(session_id, c.RemoveItem(item_id=ItemId(item_id)))

    async def promote_item(self, session_id: str, item_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            command = c.PromoteItem(item_id=ItemId(item_id), turn_id=TurnId(new_id("turn")), scope=_narrow(actor), by=actor.name)
            reply = await session.send(command)
            return _plain(reply)

    async def pause_queue(self, session_id: str, actor: Actor) -> dict[str, Any]:
        return await self._change_queue(session_id, c.PauseQueue())

    async def resume_queue(self, session_id: str, actor: Actor) -> dict[str, Any]:
        return await self._change_queue(session_id, c.ResumeQueue())

    # --- asking -------------------------------------------------------------------------------------------------------------

    async def inbox(self) -> dict[str, Any]:
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
            _check_writable(session)
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
        async for recorded in self._recorded(session):
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
        lock = self._answering.setdefault(ask_id, asyncio.Lock())
        try:
            async with lock:
                return await self._answer_now(session, ask_id, answer, actor)
        finally:
            if not lock.locked():
                self._answering.pop(ask_id, None)

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
        self.sessions.reached("answer.begun")
        written = await self._grant(session, ask, command)
        try:
            reply = await session.send(command)
        except (Refused, DiskFailed):
            if written is not None:
                await written[0].remove_rule(written[1], actor.name)
            raise
        self.sessions.reached("answer.logged")
        await self._settle_siblings(session, written[0] if written else None)
        return _settled(session, ask_id, reply)

    async def _with_input(self, session: Session, ask: Ask | None, command: c.AnswerApproval, given: Any) -> c.AnswerApproval:
        """Changed input is decided again from the first step; what a rule denies cannot be approved."""
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
        shown, refs = await big.cut(given, self._store(session), 20 * 1024)
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
                if other is not session:
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
        path = await self._workspace_path(new.workspace, actor, field="workspace")
        rule = Rule(
            decision=new.decision, tool=new.tool, kind=new.kind, path=new.path, command=new.command, domain=new.domain, exact=new.exact
        )
        check_rule(rule)
        workspace = await self.workspaces.get(path)
        kept = await workspace.add_rule(rule, actor.name)
        for session in self.sessions.in_workspace(path):
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
            return explain(await self.calls.case_for(workspace, call, self.agents_.mode))
        except ToolFailed as failed:
            raise Invalid(failed.message, path="tool" if failed.code == "unknown_tool" else "input") from failed

    # --- reading ------------------------------------------------------------------------------------------------------------

    async def transcript(self, session_id: str, *, before: str | None, after: str | None, around: str | None, limit: int) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            plan = session.pages.plan(before=before, after=after, around=around, limit=limit)
            log = [recorded async for recorded in self._recorded(session, plan.from_seq - 1, plan.to_seq)]
            for seq in plan.later:
                log += [recorded async for recorded in self._recorded(session, seq - 1, seq)]
            return dict(page(plan, log))

    async def events(self, session_id: str, after: int, limit: int) -> EventsPage:
        async with self.sessions.using(session_id) as session:
            head = session.safe.seq
            _check_cursor(after, head)
            lines: list[bytes] = []
            last = min(head, after + limit)
            while after + len(lines) < last and (more := await self.log.read(session.key, after + len(lines), up_to=last)):
                lines += more
            return EventsPage(lines, after + len(lines), head)

    async def follow(self, session_id: str, after: int, *, tail: bool = False) -> AsyncGenerator[Batch, None]:
        session = await self.sessions.get(session_id)
        _check_cursor(after, session.safe.seq)
        following = session.follow(after, tail=tail)
        try:
            async for batch in following:
                yield batch
        finally:
            await following.aclose()

    async def hello(self, session_id: str) -> dict[str, Any]:
        session = await self.sessions.get(session_id)
        return {
            "epoch": self.epoch,
            "version": self.version,
            "head_seq": session.safe.seq,
            "session": self.sessions.shown(session),
            "open": session.pages.open.to_page(),
        }

    async def _hello_all(self) -> dict[str, Any]:
        await self.sessions.recovered()
        asks = [(session, ask) for session in self.sessions.open_asks() for ask in session.safe.asks.values()]
        return {
            "epoch": self.epoch,
            "version": self.version,
            "session": None,
            "open": {
                "approvals": [{"session_id": session.id, **_plain(ask.approval)} for session, ask in asks if ask.approval],
                "questions": [{"session_id": session.id, **_plain(ask.question)} for session, ask in asks if ask.question],
                "parts": [],
            },
        }

    def follow_all(self, after: int | None) -> AsyncGenerator[AllBatch, None]:
        return self.sessions.feed.follow(after)

    async def call_output(self, session_id: str, call_id: str, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """The logged output of one stream of a call, by code points."""
        texts: list[str] = []
        seen = False
        async with self.sessions.using(session_id) as session:
            async for recorded in self._recorded(session):
                match recorded.data:
                    case e.ToolCallStarted(tool_call=ToolCall(id=id)) if id == call_id:
                        seen = True
                    case e.ToolOutputDelta(tool_call_id=id, stream=of) if id == call_id and of == stream:
                        texts.append(recorded.data.text)
        if not seen:
            raise Refused("not_found", f"This session has no call {call_id}.")
        whole = "".join(texts)
        text = whole[offset : offset + limit]
        return {"text": text, "offset": offset, "next_offset": offset + len(text), "total": len(whole)}

    async def turn_changes(self, session_id: str, turn_id: str) -> dict[str, Any]:
        """What the log says that a turn changed."""
        async with self.sessions.using(session_id) as session:
            span = session.pages.events_of(turn_id)
            if span is None:
                raise Refused("not_found", f"This session has no turn {turn_id}.")
            files: list[dict[str, Any]] = []
            async for recorded in self._recorded(session, span[0] - 1, span[1]):
                if isinstance(recorded.data, e.FilesChanged):
                    files = [{"path": file.path, "change": file.change, "diff": None, "stale": False} for file in recorded.data.files]
            return {"files": files}

    async def context(self, session_id: str, turn: str | None, step: str | None) -> dict[str, Any]:
        raise Refused("not_found", "Requests are not kept yet.")

    async def put_attachment(self, session_id: str, name: str, mime_type: str, chunks: AsyncIterator[bytes]) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            _check_writable(session)
            stored = await self.blobs.put(session.id, "attachments", name, chunks, limit=ATTACHMENT_LIMIT)
            kept = stored.ref.partition("/")[2]
            return {"ref": stored.ref, "mime_type": mime_type, "name": kept, "size": stored.size, "sha256": stored.sha256}

    async def open_file(self, session_id: str, ref: str) -> OpenedFile:
        session = await self.sessions.get(session_id)

        def look() -> int:
            with self.blobs.open_blob(session.id, ref) as file:
                return os.fstat(file.fileno()).st_size

        size = await asyncio.to_thread(look)
        path = self.sessions.folder.session_folder(session.id) / ref
        return OpenedFile(path, path.name, "", size)

    # --- what there is ------------------------------------------------------------------------------------------------------

    async def agents(self) -> dict[str, Any]:
        return {"agents": self.agents_.listed()}

    async def models(self) -> dict[str, Any]:
        return {"models": self.models_()}

    async def settings(self) -> dict[str, Any]:
        return self.settings_()

    async def change_settings(self, values: dict[str, Any], actor: Actor) -> dict[str, Any]:
        """What runs keeps the settings that it was started with."""
        async with self._changing_settings:
            changed = await asyncio.to_thread(self.change_settings_, values)
        return {**self.settings_(), "restart_needed": changed}

    async def tools(self) -> dict[str, Any]:
        definitions = self.calls.offered()
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "kind": tool.kind.value,
                    "requires_approval": tool.requires_approval,
                    "input_schema": msgspec.Raw(tool.input_schema_json),
                }
                for tool in definitions
            ],
            "failed": [_plain(broken) for broken in self.calls.tools.broken()],
        }

    async def workspace_tree(self, path: str, depth: int) -> dict[str, Any]:
        real = Path(os.path.realpath(path))
        known = any(one.used and real.is_relative_to(one.path) for one in await self.workspaces.all())
        if not known or any(real.is_relative_to(own) for own in self.calls.protected):
            raise Refused("workspace_unknown", f"No session works in {path}. Create one there first.")
        return await asyncio.to_thread(tree, real, depth)


# --- small checks ---------------------------------------------------------------------------------------------------------------


def _is_past(turn_id: TurnId, state: State) -> bool:
    return state.turn is None or state.turn.id != turn_id


def _check_open(session: Session) -> None:
    if session.safe.closed:
        raise Refused("session_closed", "This session is closed. Fork it to go on from here.")


def _check_prompt(prompt: str | None) -> None:
    if prompt is not None and len(msgspec.json.encode(prompt)) > PROMPT_LIMIT:
        raise Invalid(
            f"A system prompt has at most {PROMPT_LIMIT} bytes. Put what is longer into a file of the workspace.", path="system_prompt"
        )


def _check_writable(session: Session) -> None:
    _check_open(session)
    if session.read_only:
        raise Refused("read_only", f"This session can only be read: {session.read_only}")


def _check_cursor(after: int, head: int) -> None:
    if after > head:
        raise Refused("cursor_ahead", f"The session has {head} events, and {after} is beyond them.", oldest_seq=1, head_seq=head)
    if after < 0:
        raise Refused("cursor_gone", f"{after} is below the oldest event.", oldest_seq=1, head_seq=head)


def _narrow(actor: Actor) -> str | None:
    return None if actor.may_approve else NARROW


def _settled(session: Session, ask_id: AskId, reply: c.Reply | None) -> dict[str, Any]:
    """How the ask ended, as it is recorded: the same for the first answer and for every repetition of it."""
    kept = session.safe.settled.get(ask_id)
    return _plain((kept.approval or kept.question) if kept else reply)


def _draft(local: Local) -> dict[str, Any]:
    return {"text": local.text, "attachments": local.attachments, "rev": local.rev}


def _rule(rule: Rule, workspace: str) -> dict[str, Any]:
    return {**_plain(rule), "workspace": workspace}


def _plain(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _parts(given: Any) -> tuple[Part, ...]:
    return tuple(Part(part.type, PartId(new_id("part")), part.text, part.ref, part.mime_type, part.name) for part in given)


def _fingerprint(parts: tuple[Part, ...]) -> str:
    """The same parts give the same one, whatever ids they got."""
    told = [(part.type, part.text, part.ref, part.mime_type, part.name) for part in parts]
    return sha256(msgspec.json.encode(told)).hexdigest()[:32]
