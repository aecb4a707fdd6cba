"""Every session of the daemon: loaded when somebody needs it, recovered before anybody sees it, out of memory when it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from palaver.core.apply import apply
from palaver.core.state import State
from palaver.engine.calls import Calls
from palaver.engine.clock import Clock
from palaver.engine.feed import Feed
from palaver.engine.recover import interrupt, recover
from palaver.engine.session import Session, Surroundings, Worker
from palaver.errors import DiskFailed, Refused
from palaver.log import Log
from palaver.log.folders import DataFolder
from palaver.log.index import Row, SessionIndex
from palaver.tools.processes import Found, Marks, end_marked
from palaver.views.session import listed, session_object
from palaver.wire import events as e
from palaver.wire.codec import encode_event
from palaver.wire.ids import SessionId, session_of

IDLE_S = 60.0
"""A session that nobody watches and that does nothing leaves memory after this time."""
SWEEP_S = 1.0
RECOVERY_S = 10.0


class Local(msgspec.Struct, omit_defaults=True):
    """What belongs to a session and is no event: the read mark and the draft."""

    read_seq: int = 0
    text: str = ""
    attachments: list[Any] = []
    rev: int = 0


@dataclass
class Sessions:
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
        self._recovered = asyncio.Event()
        self._unrecovered: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.index = SessionIndex(self.folder.root / "index.sqlite", self._all_rows)
        self.around = Surroundings(self.log, self.clock, self.work, self._mark, self._heard, self.reached)

    # --- the daemon's life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look at what the last run left open. Requests for those sessions wait for it, all others do not."""
        self._unrecovered = {name: asyncio.Event() for name in self.folder.open_sessions()}
        self._marked = set(self._unrecovered)
        self._tasks = [asyncio.ensure_future(self._recover_all()), asyncio.ensure_future(self._sweep())]

    async def recovered(self) -> None:
        """Returns when every session that was left open is ready, or has had the time to be: a full disk holds up nobody for good."""
        try:
            async with asyncio.timeout(RECOVERY_S):
                await self._recovered.wait()
        except TimeoutError:
            self._recovered.set()  # once: nobody after this waits again

    async def stop(self) -> None:
        """End running turns as interrupted, leave open those that only wait, and leave whole logs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(session) for session in list(self._in_memory())))
        try:
            await self._keep_rows()
        except DiskFailed:
            return  # caches; the markers stay
        finally:
            await self.index.close()
        for session in self._in_memory():
            if session.safe.idle and not session.safe.queue:
                self._unmark(session)

    async def _keep_rows(self) -> None:
        """The list and `session.json` as the logs now are. Raises `DiskFailed`."""
        for session in list(self._in_memory()):
            self._put_row(session)
            if not session.deleted and not session.read_only:
                await self.folder.write_session_json(session.id, self._session_json(session), durable=False)
        await self.index.flush()

    async def _end(self, session: Session) -> None:
        await session.stop()
        if session.id in self._unrecovered:
            return  # what the last run left of it may still run: the next start looks first
        if session.safe.turn is not None and not session.safe.only_waits:
            try:
                async with asyncio.timeout(5):
                    await interrupt(session, self.clock, "shutdown")
            except TimeoutError:
                pass  # the disk does not take it: the next start ends the turn
        await session.checkpoint()

    async def _recover_all(self) -> None:
        opened = await asyncio.gather(*map(self._open_again, sorted(self._unrecovered)), return_exceptions=True)
        for bug in (one for one in opened if isinstance(one, BaseException)):
            self.calls.complain(f"A session could not be opened: {bug!r}")
        found = [session for session in opened if isinstance(session, Session)]
        await self._end_left_processes(found)
        self.reached("recovery.begun")
        for session, failed in zip(found, await asyncio.gather(*map(self._recover, found), return_exceptions=True), strict=True):
            if failed is not None:  # one session's log that makes no sense costs that session, not the others
                session.read_only = f"It could not be recovered: {failed!r}"
                self.calls.complain(f"The session {session.id} could not be recovered; it can only be read: {failed!r}")
        for ready in self._unrecovered.values():
            ready.set()
        self._unrecovered = {}
        self._recovered.set()
        await self.folder.empty_trash()

    async def _open_again(self, name: str) -> Session | None:
        try:
            return await self._open(name)
        except Refused:  # it was deleted, or never came to be
            await self._forget(name)
        except (DiskFailed, msgspec.DecodeError) as error:
            self.calls.complain(f"The session {name} could not be opened: {error}")
        return None

    async def _forget(self, name: str) -> None:
        self.index.delete(name)
        try:
            await self.index.flush()
            self.folder.clear_open(name)
        except DiskFailed as error:
            self.calls.complain(f"The marker of {name} stays for the next start: {error}")

    async def _recover(self, session: Session) -> None:
        await recover(session, self.calls, self.clock)
        self._changed.add(session)
        session.begin()
        if ready := self._unrecovered.pop(session.id, None):
            ready.set()

    async def _end_left_processes(self, sessions: Sequence[Session]) -> None:
        """End what the calls of the last run left behind, before their results are reported."""
        calls = {id for session in sessions if session.safe.turn for id in session.safe.turn.calls}

        def ends(found: Found) -> bool:
            return found.run != self.marks.run and (found.call_id in calls or found.call_id.startswith("job_"))

        await end_marked(self.marks, ends)

    # --- finding one ------------------------------------------------------------------------------------------------------------

    async def get(self, session_id: str) -> Session:
        """The session, loaded and recovered. Raises `Refused("not_found")`."""
        if ready := self._unrecovered.get(session_id):
            try:
                async with asyncio.timeout(RECOVERY_S):
                    await ready.wait()
            except TimeoutError:
                raise DiskFailed("What the last run left open cannot be written down yet. Check the disk, then try again.") from None
        return await self._open(session_id)

    async def _open(self, session_id: str) -> Session:
        task = self._loaded.get(session_id)
        if task is None:
            self.folder.session_folder(session_id)  # refuses what is no session's name
            task = self._loaded[session_id] = asyncio.ensure_future(self._load(session_id))
            task.add_done_callback(lambda done: self._forget_failed(session_id, done))
        return task.result() if task.done() else await asyncio.shield(task)

    def _forget_failed(self, session_id: str, task: asyncio.Task[Session]) -> None:
        if (task.cancelled() or task.exception()) and self._loaded.get(session_id) is task:
            del self._loaded[session_id]

    async def _load(self, session_id: str) -> Session:
        session = Session(SessionId(session_id), self.around)
        try:
            opened = await self.log.open(session.key)
        except Refused as error:
            raise _unknown(session_id) from error
        if opened.head == 0:
            await self.log.close(session.key)
            raise _unknown(session_id)
        await session.load(opened)
        self._locals[session_id] = self._read_local(session_id)
        if session_id not in self._unrecovered and not session.safe.idle:
            await self._recover_late(session)
        return session

    async def _recover_late(self, session: Session) -> None:
        """What the start has not looked at: a folder that was copied here, or a log that could not be opened then."""
        await self._mark(session.id)
        await self._end_left_processes([session])
        await self._recover(session)

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

    # --- new ones ---------------------------------------------------------------------------------------------------------------

    async def create(self, first: Sequence[e.Recorded]) -> Session:
        """A session whose log begins with these events; its `session.json` is on disk when this returns."""
        session_id = first[0].session_id
        session = Session(session_id, self.around)
        await self.make_ready(session_id)
        try:
            await self._create(session, first)
        except DiskFailed:
            await self.log.close(session.key)
            with suppress(DiskFailed, Refused):  # it was never answered: no start shall find it
                await self.folder.remove_session(session_id)
            raise
        return session

    async def _create(self, session: Session, first: Sequence[e.Recorded]) -> None:
        lines = [encode_event(recorded) for recorded in first]
        await asyncio.shield(self.log.append(session.key, 0, lines))
        self.reached("session.logged")
        state = State()
        for recorded in first:
            state = apply(state, recorded)
            session.pages.note(recorded)
        session.start_with(state)
        self._locals[session.id] = Local()
        await self.folder.write_session_json(session.id, self._session_json(session))
        self._loaded[session.id] = asyncio.ensure_future(_already(session))
        await self._loaded[session.id]
        self._heard(session, [(1, lines[0])])  # the past that a fork copies is no news

    async def make_ready(self, session_id: SessionId) -> None:
        """An empty log in a folder of its own; a start that finds it so forgets it."""
        await self._mark(session_id)
        await self.log.open(f"sessions/{session_id}", create=True)

    # --- leaving ----------------------------------------------------------------------------------------------------------------

    async def remove(self, session: Session) -> None:
        """Take the session away for good. Nothing of it runs any more."""
        await self.folder.remove_session(session.id)  # first: where that fails, the session stays as it is
        await session.stop()
        session.delete()
        self._loaded.pop(session.id, None)
        self._locals.pop(session.id, None)
        self.calls.forget(session.id)
        self._changed.discard(session)
        self.index.delete(session.id)
        await self.log.close(session.key)
        self.feed.publish([session.id])
        self._marked.discard(session.id)
        self.folder.clear_open(session.id)
        await self.folder.empty_trash()

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
                msgspec.json.encode(listed(self.shown(session))),
            )
        )

    async def find(self, **query: Any) -> tuple[list[Row], str | None]:
        for session in self._changed:
            self._put_row(session)
        return await self.index.page(**query)

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
        shown = session_object(session.safe, read_seq=self.local(session.id).read_seq)
        return {**shown, "read_only": session.read_only} if session.read_only else shown

    def _session_json(self, session: Session) -> bytes:
        return msgspec.json.encode(self.shown(session))

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

    def open_asks(self) -> Iterator[Session]:
        return (session for session in self._in_memory() if session.safe.asks)

    async def find_asker(self, ask_id: str) -> Session | None:
        """The session that an approval or a question is of, by its id."""
        try:
            session = await self.get(session_of(ask_id))
        except Refused:
            return None
        return session if ask_id in session.safe.asks or ask_id in session.safe.settled else None

    def in_workspace(self, path: str) -> list[Session]:
        return [session for session in self.open_asks() if session.safe.created.workspace_path == path]

    def using(self, session_id: str) -> Using:
        """The session, kept in memory meanwhile."""
        return Using(self, session_id)


class Using:
    """A class and no generator: every request passes here, and a generator costs several times as much."""

    __slots__ = ("_id", "_session", "_sessions")

    def __init__(self, sessions: Sessions, session_id: str) -> None:
        self._sessions, self._id = sessions, session_id

    async def __aenter__(self) -> Session:
        session = await self._sessions.get(self._id)
        session.followers += 1
        self._session = session
        return session

    async def __aexit__(self, *_: object) -> None:
        self._session.followers -= 1


async def _already(session: Session) -> Session:
    return session


def _unknown(session_id: str) -> Refused:
    return Refused("not_found", f"There is no session {session_id}. GET /v1/sessions lists those that there are.")
