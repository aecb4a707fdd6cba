"""What clients read and follow, the files of a session, and what there is to choose from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from palaver.engine.actor import Actor
from palaver.engine.feed import AllBatch
from palaver.engine.follow import Batch, Straight
from palaver.engine.parts import Parts, check_writable, plain
from palaver.engine.tree import tree
from palaver.errors import Refused
from palaver.views.pages import page
from palaver.wire import events as e
from palaver.wire.values import ToolCall

ATTACHMENT_LIMIT = 25 * 1024 * 1024


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
    # --- reading ------------------------------------------------------------------------------------------------------------

    async def transcript(self, session_id: str, *, before: str | None, after: str | None, around: str | None, limit: int) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            plan = session.pages.plan(before=before, after=after, around=around, limit=limit)
            log = [recorded async for recorded in self.recorded(session, plan.from_seq - 1, plan.to_seq)]
            for seq in plan.later:
                log += [recorded async for recorded in self.recorded(session, seq - 1, seq)]
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

    def follow_all(self, after: int | None) -> AsyncGenerator[AllBatch, None]:
        return self.sessions.feed.follow(after)

    async def call_output(self, session_id: str, call_id: str, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """The logged output of one stream of a call, by code points."""
        texts: list[str] = []
        seen = False
        async with self.sessions.using(session_id) as session:
            async for recorded in self.recorded(session):
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
            async for recorded in self.recorded(session, span[0] - 1, span[1]):
                if isinstance(recorded.data, e.FilesChanged):
                    files = [{"path": file.path, "change": file.change, "diff": None, "stale": False} for file in recorded.data.files]
            return {"files": files}

    async def context(self, session_id: str, turn: str | None, step: str | None) -> dict[str, Any]:
        raise Refused("not_found", "Requests are not kept yet.")

    async def put_attachment(self, session_id: str, name: str, mime_type: str, chunks: AsyncIterator[bytes]) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            check_writable(session)
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
            "failed": [plain(broken) for broken in self.calls.tools.broken()],
        }

    async def workspace_tree(self, path: str, depth: int) -> dict[str, Any]:
        real = Path(os.path.realpath(path))
        known = any(one.used and real.is_relative_to(one.path) for one in await self.workspaces.all())
        if not known or any(real.is_relative_to(own) for own in self.calls.protected):
            raise Refused("workspace_unknown", f"No session works in {path}. Create one there first.")
        return await asyncio.to_thread(tree, real, depth)


def _check_cursor(after: int, head: int) -> None:
    if after > head:
        raise Refused("cursor_ahead", f"The session has {head} events, and {after} is beyond them.", oldest_seq=1, head_seq=head)
    if after < 0:
        raise Refused("cursor_gone", f"{after} is below the oldest event.", oldest_seq=1, head_seq=head)
