"""Sessions, their messages and turns, and their queue, as clients change them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from palaver.core import queue
from palaver.core.fork import cut_after, forked
from palaver.core.state import QUEUE_LIMIT, State
from palaver.engine import big
from palaver.engine.actor import Actor
from palaver.engine.agents import MODES
from palaver.engine.keeping import Local
from palaver.engine.parts import Parts, check_open, check_writable, narrow, no_sandbox, plain
from palaver.engine.session import Session
from palaver.errors import DiskFailed, Invalid, Refused
from palaver.log.index import Row
from palaver.models.media import HEAD, NOT_TAKEN, refused
from palaver.views.session import queue_object
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire import requests as r
from palaver.wire.codec import decode_event
from palaver.wire.ids import ItemId, MessageId, PartId, SessionId, TurnId, derived, fresh, new_id
from palaver.wire.values import Author, ForkedFrom, Message, Part, Refs, SessionInfo

PROMPT_LIMIT = 40 * 1024
"""Bytes of a system prompt: it is part of one event with all that a session is."""


class Talking(Parts):
    # --- sessions -----------------------------------------------------------------------------------------------------------

    async def create(self, new: r.NewSession, actor: Actor) -> dict[str, Any]:
        agent = self.agents_.get(new.agent)
        await self.agents_.choose(new.model)
        model = self.agents_.model(agent, new.model)
        mode = self.agents_.check_mode(new.mode or agent.mode)
        self.may_set_mode(mode, actor)
        await self.caution_of(mode, actor)
        path = await self.workspace_path(new.workspace_path, actor)
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
            capabilities=self.agents_.capabilities(agent, model),
            title_set=new.title is not None,
            available_modes=MODES,
            available_models=self.agents_.choices(),
        )
        first = e.Recorded(1, info.created_at, info.id, None, e.SessionCreated(session=info))
        return self.sessions.shown(await self.sessions.create([first]))

    async def get(self, session_id: str) -> dict[str, Any]:
        session = await self.sessions.get(session_id)
        await self.sessions.git.known([session.safe.created.workspace_path])
        return self.sessions.shown(session)

    async def list(self, **query: Any) -> dict[str, Any]:
        if query.get("workspace"):
            query["workspace"] = os.path.realpath(query["workspace"])
        rows, cursor = await self.sessions.find(**query)
        await self.sessions.git.known(row.workspace_path for row in rows)
        return {"sessions": [self._row(row) for row in rows], "next_cursor": cursor}

    def _row(self, row: Row) -> msgspec.Raw:
        """As it is kept, and what git says of its folder now."""
        git = self.sessions.git.of(row.workspace_path)
        return msgspec.Raw(b'{"git":%b,%b' % (msgspec.json.encode(git), row.summary[1:]) if git else row.summary)

    async def patch(self, session_id: str, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
            await self.agents_.choose(changes.get("model"))
            wanted = self._checked(session, changes, actor)
            info = session.ahead.created  # what was decided before this, on disk or not
            different = {name: value for name, value in wanted.items() if getattr(info, name) != value}
            caution = await self.caution_of(different.get("mode", ""), actor)
            if different:
                await session.send(c.UpdateSession(changes=different))
                if caution is not None:
                    await session.send(c.NoteFact(turn_id=None, fact=no_sandbox(caution)))
            else:
                await session.settled()
            return self.sessions.shown(session)

    def _checked(self, session: Session, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        wanted = dict(changes)
        if "mode" in wanted:
            wanted["mode"] = self.agents_.check_mode(wanted["mode"])
            self.may_set_mode(wanted["mode"], actor)
        if "model" in wanted:
            agent = self.agents_.get(session.safe.created.agent)
            wanted["model"] = self.agents_.model(agent, wanted["model"])
            wanted["capabilities"] = self.agents_.capabilities(agent, wanted["model"])
            wanted["available_models"] = self.agents_.choices()
        if "title" in wanted:
            wanted["title_set"] = wanted["title"] is not None
        _check_prompt(wanted.get("system_prompt"))
        if wanted.get("delivery") == "auto":
            wanted["delivery"] = self.agents_.delivery
        return wanted

    async def delete(self, session_id: str, actor: Actor) -> None:
        async with self.sessions.using(session_id) as session:
            session.closing = True
            try:
                if not session.read_only:
                    await self._emptied(session, actor)
                await self.sessions.remove(session)
            finally:
                session.closing = session.deleted

    async def close(self, session_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
            session.closing = True
            try:
                await session.mark()
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
            lines = [line async for line in self.lines(session)]
            source, now = session.safe.created, self.clock.now()
            info = msgspec.structs.replace(
                source,
                id=SessionId(new_id("sess")),
                created_at=now,
                archived=False,
                forked_from=ForkedFrom(source.id, MessageId(at_message_id) if at_message_id else None),
                parent_session_id=None,
            )
            copies = await asyncio.to_thread(_forked, lines, MessageId(at_message_id) if at_message_id else None, info, now)
            await self.sessions.make_ready(info.id)
            await self._copy_files(session, info.id)  # before the log that names them
            return self.sessions.shown(await self.sessions.create(copies))

    async def _copy_files(self, session: Session, target: SessionId) -> None:
        folder = self.sessions.folder.session_folder(session.id)
        places = ["attachments", *(f"artifacts/{path.name}" for path in sorted(folder.glob("artifacts/*")))]
        for place in places:
            for ref, _ in await self.blobs.list_blobs(session.id, place):
                await self.blobs.copy(session.id, ref, target)

    async def mark_read(self, session_id: str, seq: int) -> None:
        async with self.sessions.using(session_id) as session:
            check_open(session)
            local = self.sessions.local(session.id)
            if seq > session.safe.seq:
                raise Invalid(f"The session has {session.safe.seq} events. Send a seq that is not beyond them.", path="seq")
            if seq > local.read_seq:
                await self.sessions.save_local(session, msgspec.structs.replace(local, read_seq=seq))

    async def get_draft(self, session_id: str) -> dict[str, Any]:
        session = await self.sessions.get(session_id)
        return _draft(self.sessions.local(session.id))

    async def put_draft(self, session_id: str, draft: dict[str, Any], actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_open(session)
            local = self.sessions.local(session.id)
            if draft["rev"] != local.rev:
                raise Refused(
                    "draft_conflict", "The draft was changed elsewhere. Take the stored one, or write over its rev.", **_draft(local)
                )
            changed = msgspec.structs.replace(local, text=draft["text"], attachments=draft["attachments"], rev=local.rev + 1)
            await self.sessions.save_local(session, changed)
            self.sessions.watch.draft(session.id, _draft(changed), draft.get("client") or actor.name)
            return {"rev": changed.rev}

    # --- messages and turns -------------------------------------------------------------------------------------------------

    async def add_message(self, session_id: str, post: r.PostMessage, actor: Actor) -> dict[str, Any]:
        if post.role != "user":
            raise Refused("role_not_allowed", f"A client sends messages of the role 'user', not {post.role!r}.")
        async with self.sessions.using(session_id) as session:
            await self._check_refs(session, post.parts)
            base = fresh()  # the message, its turn and its queue item are of different kinds: one will do for all
            parts = _parts(post.parts, base)
            message = Message(
                MessageId(f"msg_{base}"),
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
                    turn_id=TurnId(f"turn_{base}"),
                    item_id=ItemId(f"item_{base}"),
                    delivery=post.delivery or "auto",
                    auto_run=session.safe.created.auto_run if post.auto_run is None else post.auto_run,
                    scope=narrow(actor),
                    fingerprint=_fingerprint(parts) if post.client_message_id else None,
                    refs=refs,
                )
            )
            if post.draft_rev is not None:
                with suppress(DiskFailed):  # the message is accepted; its draft stays
                    await self._clear_draft(session, post.draft_rev, actor)
            return plain(reply)

    async def _clear_draft(self, session: Session, rev: int, actor: Actor) -> None:
        local = self.sessions.local(session.id)
        if local.rev == rev:
            cleared = msgspec.structs.replace(local, text="", attachments=[], rev=rev + 1)
            await self.sessions.save_local(session, cleared)
            self.sessions.watch.draft(session.id, _draft(cleared), actor.name)

    async def _check_refs(self, session: Session, parts: Any) -> None:
        """Whether each file is there, and its model can be shown it. Raises `Refused`."""
        info = session.ahead.created
        takes = self.agents_.takes(info.model) if info.backend == "loop" else None
        for part in parts:
            if part.ref is None:
                continue
            try:
                head = await asyncio.to_thread(self._head_of, session.id, part.ref)
            except Refused as missing:
                raise Refused("unknown_attachment", f"This session has no attachment {part.ref!r}. Upload it here first.") from missing
            if takes is not None and part.type in ("image", "audio", "file"):
                said = refused(info.model or "", Part(part.type, ref=part.ref, name=part.name), head, takes)
                if said is not None:
                    raise Refused(NOT_TAKEN, said, ref=part.ref)

    def _head_of(self, session_id: SessionId, ref: str) -> bytes:
        with self.blobs.open_blob(session_id, ref) as file:
            return file.read(HEAD)

    async def _cut(self, session: Session, message: Message) -> tuple[Message, Refs | None]:
        """As its event will have it, which beside it may list the whole queue. Raises `Invalid` for what no file can make smaller."""
        room = big.LIMIT - 2048 - queue.ENTRY * len(session.ahead.queue)
        if session.ahead.turn is not None:  # unread, it may come back as an item of a queue that is full by then
            room = min(room, queue.ROOM - queue.ENTRY * QUEUE_LIMIT)
        shown, refs = await big.cut_message(message, self.store(session), room)
        if len(msgspec.json.encode(shown)) > room:
            raise Invalid("The message has too many parts of text. Put them into one, or into a file.", path="parts")
        return shown, refs

    async def cancel(self, session_id: str, turn_id: str | None, keep_queue: bool, actor: Actor) -> dict[str, Any]:
        command = c.CancelTurn(by=actor.name, fresh=fresh(), turn_id=TurnId(turn_id) if turn_id else None, keep_queue=keep_queue)
        async with self.sessions.using(session_id) as session:
            try:
                reply = await session.send(command)
            except DiskFailed:
                session.stop_at_once(command)  # what cannot be written yet is done all the same
                raise
            return plain(reply)

    async def retry(self, session_id: str, turn_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            reply = await session.send(c.RetryTurn(turn_id=TurnId(turn_id), new_turn_id=TurnId(new_id("turn")), scope=narrow(actor)))
            return plain(reply)

    async def compact(self, session_id: str, instructions: str | None, actor: Actor) -> dict[str, Any]:
        """Have the history made shorter. What it is to keep is an instruction to the model, which takes the scope `approve`."""
        if instructions and not actor.may_approve:
            raise Refused("scope", "Instructions for a compaction take a token with the scope approve.", needed="approve")
        async with self.sessions.using(session_id) as session:
            if session.safe.created.backend != "loop":
                raise Refused("not_supported", "This session's agent keeps its history itself. Ask it for a compaction in a message.")
            await session.send(c.RequestCompaction(by=actor.name, instructions=instructions or None))
            return {}

    # --- the queue ----------------------------------------------------------------------------------------------------------

    async def queue(self, session_id: str) -> dict[str, Any]:
        return queue_object((await self.sessions.get(session_id)).safe)

    async def _change_queue(self, session_id: str, command: c.AnyCommand) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            await session.send(command)
            return queue_object(session.safe)

    async def edit_item(self, session_id: str, item_id: str, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
            parts, refs = None, None
            if "parts" in changes:
                given = msgspec.convert(changes["parts"], list[r.NewPart])
                await self._check_refs(session, given)
                message = msgspec.structs.replace(queue.find(session.ahead, ItemId(item_id)).message, parts=_parts(given, fresh()))
                message, refs = await self._cut(session, message)
                parts = message.parts
            command = c.EditItem(
                item_id=ItemId(item_id),
                parts=parts,
                refs=refs,
                message_id=MessageId(new_id("msg")),
                before=changes.get("before", msgspec.UNSET),
                scope=narrow(actor),
            )
            await session.send(command)
            return queue_object(session.safe)

    async def remove_item(self, session_id: str, item_id: str, actor: Actor) -> None:
        await self._change_queue(session_id, c.RemoveItem(item_id=ItemId(item_id)))

    async def promote_item(self, session_id: str, item_id: str, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            command = c.PromoteItem(item_id=ItemId(item_id), turn_id=TurnId(new_id("turn")), scope=narrow(actor), by=actor.name)
            reply = await session.send(command)
            return plain(reply)

    async def pause_queue(self, session_id: str, actor: Actor) -> dict[str, Any]:
        return await self._change_queue(session_id, c.PauseQueue())

    async def resume_queue(self, session_id: str, actor: Actor) -> dict[str, Any]:
        return await self._change_queue(session_id, c.ResumeQueue())


def _forked(lines: Sequence[bytes], at_message_id: MessageId | None, info: SessionInfo, now: str) -> list[e.Recorded]:
    """In a thread: a long past takes a while, and others go on meanwhile."""
    return forked(cut_after(map(decode_event, lines), at_message_id), info, now, fresh())


def _is_past(turn_id: TurnId, state: State) -> bool:
    return state.turn is None or state.turn.id != turn_id


def _check_prompt(prompt: str | None) -> None:
    if prompt is not None and len(msgspec.json.encode(prompt)) > PROMPT_LIMIT:
        raise Invalid(
            f"A system prompt has at most {PROMPT_LIMIT} bytes. Put what is longer into a file of the workspace.", path="system_prompt"
        )


def _draft(local: Local) -> dict[str, Any]:
    return {"text": local.text, "attachments": local.attachments, "rev": local.rev}


def _parts(given: Any, base: str) -> tuple[Part, ...]:
    return tuple(
        [
            Part(part.type, PartId(derived("part", base, number)), part.text, part.ref, part.mime_type, part.name)
            for number, part in enumerate(given)
        ]
    )


def _fingerprint(parts: tuple[Part, ...]) -> str:
    """The same parts give the same one, whatever ids they got."""
    told = [(part.type, part.text, part.ref, part.mime_type, part.name) for part in parts]
    return sha256(msgspec.json.encode(told)).hexdigest()[:32]
