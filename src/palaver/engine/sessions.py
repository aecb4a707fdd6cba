"""Every session of the daemon: loaded when somebody needs it, recovered before anybody sees it, out of memory when it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from palaver.core.apply import apply
from palaver.core.state import State
from palaver.engine.keeping import Keeping, Local
from palaver.engine.recover import interrupt, recover
from palaver.engine.session import Session
from palaver.errors import DiskFailed, Refused
from palaver.tools.processes import Found, end_marked
from palaver.views.pages import PageIndex
from palaver.wire import events as e
from palaver.wire.codec import encode_event
from palaver.wire.ids import SessionId, session_of

RECOVERY_S = 10.0
ATTENDED_S = 10.0
"""After a client's last request: one that asks again and again is there, though it follows nothing."""
FEW = 100
"""Events that are folded at once; a longer past, which only a fork has, goes to a thread."""


@dataclass
class Sessions(Keeping):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.attended_s = ATTENDED_S
        self.asked_at = -ATTENDED_S
        """When a client last asked for anything of a session, or for the inbox."""
        self.calls.is_attended = self.is_attended
        self._recovered = asyncio.Event()
        self._unrecovered: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

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
        await self.searching.stop()
        await self.git.stop()
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

    async def _end(self, session: Session) -> None:
        await session.stop()
        if session.id in self._unrecovered:
            return  # what the last run left of it may still run: the next start looks first
        if session.safe.turn is not None and not session.safe.only_waits:
            try:
                async with asyncio.timeout(5):
                    await interrupt(session, self.calls, self.clock, "shutdown")
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
        self._count_child(session, runs=session.safe.turn is not None)
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
        folding = partial(_folded, first, session.pages)
        lines, state = folding() if len(first) < FEW else await asyncio.to_thread(folding)
        await asyncio.shield(self.log.append(session.key, 0, lines))
        self.reached("session.logged")
        session.start_with(state)
        self._locals[session.id] = Local()
        await self.folder.write_session_json(session.id, self._session_json(session))
        self._loaded[session.id] = asyncio.ensure_future(_already(session))
        await self._loaded[session.id]
        if len(first) > 1:  # the past that a fork copies is no news
            await self.save_local(session, Local(read_seq=state.seq))
        self._heard(session, [(1, lines[0])])

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
        await self.calls.changes.forget(session)
        self._changed.discard(session)
        self.index.delete(session.id)
        await self.said.forget(session.id)
        await self.log.close(session.key)
        self.feed.publish([session.id])
        self.watch.removed(session.id)
        self._count_child(session, runs=False)
        self._marked.discard(session.id)
        self.folder.clear_open(session.id)
        await self.folder.empty_trash()

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

    def is_attended(self, session: Session) -> bool:
        """Whether somebody could answer an ask: a stream is open, or a client asked for something just now."""
        open_streams = session.followers or self.watch.is_watched or self.feed.is_followed
        return bool(open_streams) or self.clock.ticks() - self.asked_at < self.attended_s

    def using(self, session_id: str) -> Using:
        """The session, kept in memory meanwhile."""
        return Using(self, session_id)


class Using:
    """A class and no generator: every request passes here, and a generator costs several times as much."""

    __slots__ = ("_id", "_session", "_sessions")

    def __init__(self, sessions: Sessions, session_id: str) -> None:
        self._sessions, self._id = sessions, session_id

    async def __aenter__(self) -> Session:
        self._sessions.asked_at = self._sessions.clock.ticks()
        session = await self._sessions.get(self._id)
        session.followers += 1
        self._session = session
        return session

    async def __aexit__(self, *_: object) -> None:
        self._session.followers -= 1


def _folded(first: Sequence[e.Recorded], pages: PageIndex) -> tuple[list[bytes], State]:
    """The lines of a log and what they come to; the pages note them."""
    state = State()
    for recorded in first:
        state = apply(state, recorded)
        pages.note(recorded)
    return [encode_event(recorded) for recorded in first], state


async def _already(session: Session) -> Session:
    return session


def _unknown(session_id: str) -> Refused:
    return Refused("not_found", f"There is no session {session_id}. GET /v1/sessions lists those that there are.")
