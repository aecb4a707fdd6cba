"""What is kept of sessions beside their logs: who is in memory, marks in `open/`, rows of the list, `session.json` and `local.json`.

All of it but the marks and the drafts is a cache. A sweep brings it up to date, takes marks away and lets idle sessions leave memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from palaver.engine.calls import Calls
from palaver.engine.clock import Clock
from palaver.engine.feed import Feed
from palaver.engine.git_states import GitStates
from palaver.engine.searching import Searching
from palaver.engine.session import Session, Surroundings, Worker
from palaver.engine.watching import Watch
from palaver.errors import DiskFailed
from palaver.log import Log
from palaver.log.folders import DataFolder
from palaver.log.index import Row, SessionIndex
from palaver.log.search import SearchIndex
from palaver.tools.processes import Marks
from palaver.views import search
from palaver.views.session import listed, session_object
from palaver.wire.ids import CallId, SessionId

IDLE_S = 60.0
"""A session that nobody watches and that does nothing leaves memory after this time."""
SWEEP_S = 1.0


class Local(msgspec.Struct, omit_defaults=True):
    """What belongs to a session and is no event: the read mark and the draft."""

    read_seq: int = 0
    text: str = ""
    attachments: list[Any] = []
    rev: int = 0


@dataclass
class Keeping:
    log: Log
    folder: DataFolder
    clock: Clock
    calls: Calls
    work: Worker
    marks: Marks
    reached: Callable[[str], None]
    idle_s: float = IDLE_S
    index: SessionIndex = field(init=False)
    feed: Feed = field(init=False)

    def __post_init__(self) -> None:
        self._loaded: dict[str, asyncio.Task[Session]] = {}
        self._locals: dict[str, Local] = {}
        self._changed: set[Session] = set()
        self._marked: set[str] = set()
        self._children: dict[str, set[str]] = {}
        """The children of a session that run now, by its id."""
        self.watch = Watch(lambda session: listed(self.shown(session)), lambda session_id: self.local(session_id).read_seq)
        self.index = SessionIndex(self.folder.root / "index.sqlite", self._all_rows)
        self.said = SearchIndex(self.index, lambda session_id: self.folder.session_folder(session_id) / "events.ndjson", search)
        self.searching = Searching(self.said)
        self.git = GitStates(lambda: self.calls.environment(CallId("git")), self._git_changed, self.clock.ticks)
        self.around = Surroundings(self.log, self.clock, self.work, self._mark, self._heard, self.reached)

    # --- in memory ---------------------------------------------------------------------------------------------------------------

    def _read_local(self, session_id: str) -> Local:
        data = self.folder.read_local_json(session_id)
        try:
            return msgspec.json.decode(data, type=Local) if data else Local()
        except msgspec.DecodeError:
            return Local()

    def _in_memory(self) -> Iterator[Session]:
        for task in self._loaded.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                yield task.result()

    # --- the sweep ---------------------------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self._tidy()
            except DiskFailed as error:
                self.calls.complain(f"Tidying up failed, and is tried again: {error}")

    async def _tidy(self) -> None:
        """Bring the list and `session.json` up to date, take marks away and let idle sessions go."""
        for session in list(self._changed):
            self._changed.discard(session)
            self._put_row(session)
            if session.deleted or session.read_only:
                continue
            try:
                await self.folder.write_session_json(session.id, self._session_json(session), durable=False)
            except DiskFailed as error:  # it is tried again; the others do not wait for it
                self._changed.add(session)
                self.calls.complain(f"Tidying up failed, and is tried again: {error}")
        quiet = [session for session in self._in_memory() if self._quiet(session)]
        at = {session.id: session.safe.seq for session in quiet}
        if quiet:
            await self.index.flush()
        for session in quiet:
            if self._quiet(session) and session.safe.seq == at[session.id]:
                self._unmark(session)
        for session in list(self._in_memory()):
            if self._may_go(session):
                await self._leave(session)

    def _may_go(self, session: Session) -> bool:
        """Nobody needs it in memory. A queue that waits keeps its mark, and needs nobody to wait."""
        unmarked = session.id not in self._marked or bool(session.safe.queue)
        return session.may_leave and unmarked and session not in self._changed and self.clock.ticks() - session.touched > self.idle_s

    def _quiet(self, session: Session) -> bool:
        """Its mark can go: nothing is open, and its newest row is in the list."""
        quiet = session.may_leave and not session.safe.queue and session not in self._changed
        return quiet and session.id in self._marked and self.clock.ticks() - session.touched > SWEEP_S

    async def _leave(self, session: Session) -> None:
        await session.checkpoint()
        if session.may_leave and session.id in self._loaded:
            del self._loaded[session.id]
            self._locals.pop(session.id, None)
            self.calls.forget(session.id)
            await self.log.close(session.key)

    async def _keep_rows(self) -> None:
        """The list and `session.json` as the logs now are. Raises `DiskFailed`."""
        for session in list(self._in_memory()):
            self._put_row(session)
            if not session.deleted and not session.read_only:
                await self.folder.write_session_json(session.id, self._session_json(session), durable=False)
        await self.index.flush()

    # --- marks, rows and what clients call local ----------------------------------------------------------------------------------

    async def _mark(self, session_id: SessionId) -> None:
        await self.folder.mark_open(session_id)
        self._marked.add(session_id)

    def _unmark(self, session: Session) -> None:
        session.marked = False
        self._marked.discard(session.id)
        self.folder.clear_open(session.id)

    def _heard(self, session: Session, lines: Sequence[tuple[int, bytes]]) -> None:
        self._changed.add(session)
        self.feed.publish([line for _, line in lines])
        if session.safe.turn is None:
            self.git.spoil(session.safe.created.workspace_path)
        self._count_child(session, runs=session.safe.turn is not None)
        self.watch.changed(session, lines[0][0])

    def _git_changed(self, folder: str) -> None:
        for session in self._in_memory():
            if session.safe.created.workspace_path == folder:
                self.watch.changed(session)

    def _count_child(self, session: Session, *, runs: bool) -> None:
        """A parent's row says how many of its children run."""
        parent = session.safe.created.parent_session_id
        if parent is None:
            return
        children = self._children.setdefault(parent, set())
        if (session.id in children) == runs:
            return
        (children.add if runs else children.discard)(session.id)
        if not children:
            del self._children[parent]
        for other in self._in_memory():
            if other.id == parent:
                self._changed.add(other)
                self.watch.changed(other)

    def _put_row(self, session: Session) -> None:
        if session.deleted:
            return
        state, info = session.safe, session.safe.created
        self.index.put(
            Row(
                info.id,
                state.updated_at,
                state.status,
                info.workspace_path,
                info.title,
                info.archived,
                info.parent_session_id,
                state.last_turn_id,
                state.seq,
                msgspec.json.encode(listed(self._kept(session))),
            )
        )

    async def find(self, **query: Any) -> tuple[list[Row], str | None]:
        self._put_rows()
        return await self.index.page(**query)

    async def uses(self) -> dict[str, tuple[int, str]]:
        """How many sessions work in each folder, and when one of them last changed."""
        self._put_rows()
        return await self.index.workspaces()

    async def search(self, query: str, *, session: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        self._put_rows()
        return await self.searching.search(query, session=session, limit=limit, cursor=cursor)

    def _put_rows(self) -> None:
        for session in self._changed:
            self._put_row(session)

    def _all_rows(self) -> Iterator[Row]:
        """From the files alone, in a thread, when the index must be made again."""
        for session_id in self.folder.session_ids():
            data = self.folder.read_session_json(session_id)
            if data is None:
                continue
            try:
                shown = msgspec.json.decode(data, type=dict[str, Any])
                yield Row(
                    shown["id"],
                    shown["updated_at"],
                    shown["status"],
                    shown["workspace_path"],
                    shown.get("title"),
                    bool(shown.get("archived")),
                    shown.get("parent_session_id"),
                    shown.get("last_turn_id"),
                    shown["head_seq"],
                    msgspec.json.encode(listed(shown)),
                )
            except (msgspec.DecodeError, KeyError):
                continue  # a cache that a power cut emptied: the session is listed when it is next opened

    def shown(self, session: Session) -> dict[str, Any]:
        git = self.git.of(session.safe.created.workspace_path)
        return {**self._kept(session), "git": git} if git else self._kept(session)

    def _kept(self, session: Session) -> dict[str, Any]:
        """What is true of the session itself, wherever it works."""
        shown = session_object(
            session.safe, read_seq=self.local(session.id).read_seq, children_running=len(self._children.get(session.id, ()))
        )
        return {**shown, "read_only": session.read_only} if session.read_only else shown

    def _session_json(self, session: Session) -> bytes:
        return msgspec.json.encode(self._kept(session))

    def local(self, session_id: str) -> Local:
        return self._locals.setdefault(session_id, Local())

    async def save_local(self, session: Session, local: Local) -> None:
        before, self._locals[session.id] = self.local(session.id), local
        try:
            await self.folder.write_local_json(session.id, msgspec.json.encode(local))
        except DiskFailed:
            if self._locals.get(session.id) is local:
                self._locals[session.id] = before
            raise
        self._changed.add(session)
        if local.read_seq != before.read_seq:
            self._put_row(session)  # at once: no marker would make a start read it again
            self.watch.changed(session)
