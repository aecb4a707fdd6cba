"""What clients read and follow, the files of a session, and what there is to choose from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from palaver.context.kept import sent
from palaver.engine.actor import Actor
from palaver.engine.feed import AllBatch
from palaver.engine.follow import Batch, Straight
from palaver.engine.parts import Parts, check_writable, plain
from palaver.engine.session import Session
from palaver.engine.watching import Watcher
from palaver.errors import Invalid, Refused
from palaver.views.pages import PageIndex, page
from palaver.wire import events as e
from palaver.wire.values import CallRef, ToolCall

ATTACHMENT_LIMIT = 25 * 1024 * 1024
SPANS = 256
"""Calls of which it is remembered where they stand in their logs."""


class EventsPage(NamedTuple):
    lines: list[bytes]
    next_after: int
    head_seq: int


class OpenedFile(NamedTuple):
    path: Path
    name: str
    mime_type: str
    size: int


class Reading(Parts):
    _past: tuple[str, int, PageIndex] | None = None
    """The one page of the past that was looked at last: session, number and index."""

    # --- reading ------------------------------------------------------------------------------------------------------------

    async def transcript(
        self, session_id: str, *, before: str | None, after: str | None, around: str | None, limit: int, at: int | None = None
    ) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            pages = session.pages if at is None else await self._pages_at(session, at)
            plan = pages.plan(before=before, after=after, around=around, limit=limit)
            log = [recorded async for recorded in self.recorded(session, plan.from_seq - 1, plan.to_seq)]
            for seq in plan.later:
                log += [recorded async for recorded in self.recorded(session, seq - 1, seq)]
            return dict(page(plan, log))

    async def _pages_at(self, session: Session, seq: int) -> PageIndex:
        """The pages of the past: as they were when the session had so many events."""
        _check_cursor(seq, session.safe.seq)
        if self._past is None or self._past[:2] != (session.id, seq):
            pages = PageIndex()
            async for recorded in self.recorded(session, up_to=seq):
                pages.note(recorded)
            self._past = (session.id, seq, pages)
        return self._past[2]

    async def search(self, q: str, *, session: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        if not q.strip():
            raise Invalid("Say what to search for.", path="q")
        if session is not None:
            await self.sessions.get(session)
        return await self.sessions.search(q, session=session, limit=limit, cursor=cursor)

    async def events(self, session_id: str, after: int, limit: int, until: int | None = None) -> EventsPage:
        async with self.sessions.using(session_id) as session:
            head = session.safe.seq
            _check_cursor(after, head)
            lines: list[bytes] = []
            last = min(head, after + limit, head if until is None else until)
            while after + len(lines) < last and (more := await self.log.read(session.key, after + len(lines), up_to=last)):
                lines += more
            return EventsPage(lines, after + len(lines), head)

    async def follow(
        self, session_id: str, after: int, *, tail: bool = False, straight: Straight | None = None
    ) -> AsyncGenerator[Batch, None]:
        session = await self.sessions.get(session_id)
        _check_cursor(after, session.safe.seq)
        following = session.follow(after, tail=tail, straight=straight)
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
                "approvals": [{"session_id": session.id, **plain(ask.approval)} for session, ask in asks if ask.approval],
                "questions": [{"session_id": session.id, **plain(ask.question)} for session, ask in asks if ask.question],
                "parts": [],
            },
        }

    async def exists(self, session_id: str) -> None:
        """Raises `Refused("not_found")`."""
        await self.sessions.get(session_id)

    def watcher(self) -> Watcher:
        return self.sessions.watch.join()

    def follow_all(self, after: int | None) -> AsyncGenerator[AllBatch, None]:
        return self.sessions.feed.follow(after)

    async def call_output(self, session_id: str, call_id: str, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """The logged output of one stream of a call, by code points."""
        texts: list[str] = []
        async with self.sessions.using(session_id) as session:
            first, last = await self._span(session, call_id)
            async for recorded in self.recorded(session, first - 1, last):
                match recorded.data:
                    case e.ToolOutputDelta(tool_call_id=id, stream=of) if id == call_id and of == stream:
                        texts.append(recorded.data.text)
        whole = "".join(texts)
        text = whole[offset : offset + limit]
        return {"text": text, "offset": offset, "next_offset": offset + len(text), "total": len(whole)}

    async def _span(self, session: Session, call_id: str) -> tuple[int, int]:
        """The numbers of a call's first and last event; those of a call that has ended are remembered for its next page."""
        key = f"{session.id}/{call_id}"
        if (known := self._spans.get(key)) is not None:
            return known
        first = 0
        async for recorded in self.recorded(session):
            match recorded.data:
                case e.ToolCallStarted(tool_call=ToolCall(id=id)) if id == call_id:
                    first = recorded.seq
                case e.ToolCallCompleted(tool_call=CallRef(id=id)) if id == call_id:
                    self._spans[key] = first, recorded.seq
                    if len(self._spans) > SPANS:
                        del self._spans[next(iter(self._spans))]
                    return first, recorded.seq
        if not first:
            raise Refused("not_found", f"This session has no call {call_id}.")
        return first, session.safe.seq

    async def context(self, session_id: str, turn: str | None, step: str | None) -> dict[str, Any]:
        """A request as it was sent: of that step, else the turn's last one, else the session's."""
        async with self.sessions.using(session_id) as session:
            usage = await self._usage_of(session, turn, step)
            body = await sent(usage.request_ref or "", lambda ref: self.blobs.read_blob(session.id, ref))
            return {"request": body, "categories": usage.categories or ()}

    async def _usage_of(self, session: Session, turn: str | None, step: str | None) -> e.ContextUsage:
        """The latest record of a request that fits. Reads the turn's events; all of them where only a step is named."""
        turn_id = turn or (session.safe.last_turn_id if step is None else None)
        span = session.pages.events_of(turn_id) if turn_id else (1, session.safe.seq)
        first, last = span or (1, 0)
        found = None
        async for recorded in self.recorded(session, first - 1, last):
            match recorded.data:
                case e.ContextUsage(step_id=step_id, request_ref=ref) as usage if ref and step in (None, step_id):
                    found = usage
        if found is None:
            what = f"step {step}" if step else f"turn {turn}" if turn else "session"
            raise Refused("not_found", f"No request of this {what} was kept: no model was asked there.")
        return found

    async def put_attachment(self, session_id: str, name: str, mime_type: str, chunks: AsyncIterator[bytes]) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
            stored = await self.blobs.put(session.id, "attachments", name, chunks, limit=ATTACHMENT_LIMIT)
            kept = stored.ref.partition("/")[2]
            return {"ref": stored.ref, "mime_type": mime_type, "name": kept, "size": stored.size, "sha256": stored.sha256}

    async def files(self, session_id: str) -> list[str]:
        """The refs of all files of a session."""
        session = await self.sessions.get(session_id)
        return [ref for place in ("attachments", "artifacts") for ref, _ in await self.blobs.list_blobs(session.id, place)]

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
        return {"agents": await self.agents_.listed()}

    async def models(self) -> dict[str, Any]:
        return {"models": await self.models_()}

    async def settings(self) -> dict[str, Any]:
        return {**self.settings_(), "sandbox": (await self.sandbox()).told}

    async def change_settings(self, values: dict[str, Any], actor: Actor) -> dict[str, Any]:
        """What runs keeps the settings that it was started with."""
        async with self._changing_settings:
            changed = await asyncio.to_thread(self.change_settings_, values)
        return {**await self.settings(), "restart_needed": changed}

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
            "failed": [plain(broken) for broken in self.calls.tools.broken()],
        }


def _check_cursor(after: int, head: int) -> None:
    if after > head:
        raise Refused("cursor_ahead", f"The session has {head} events, and {after} is beyond them.", oldest_seq=1, head_seq=head)
    if after < 0:
        raise Refused("cursor_gone", f"{after} is below the oldest event.", oldest_seq=1, head_seq=head)
