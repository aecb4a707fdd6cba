"""What turns do to the files of their workspaces: when a checkpoint is taken, what a turn's end says of it, and undo.

A checkpoint that cannot be taken stops nobody: the turn goes on, and a notice says that its changes are not kept. Everything that touches
the disk runs in a thread, one job at a time for each workspace.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from palaver.engine.session import Session
from palaver.errors import DiskFailed, Refused, ToolFailed
from palaver.log.threads import in_thread
from palaver.tools.base import Look
from palaver.tools.folder_state import look_from_outside
from palaver.tools.paths import plain
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.codec import decode_event
from palaver.wire.ids import SessionId, TurnId, fresh
from palaver.wire.values import FileChange, FileRef, UndoneFile

if TYPE_CHECKING:  # imported late: no start waits for a database
    from palaver.changes.checkpoint import Checkpoints
    from palaver.changes.report import ChangedFile
    from palaver.changes.undo import Intent, Planned, Step

UNTRACKED = "changes_untracked"
"""The code of the notice that a turn's changes are not kept."""
MOST_BYTES = 40 * 1024
"""Of the list of files in one event; those beyond are counted."""
DIFFS_S = 1.0
"""Seconds that a turn's end spends on writing diffs down; what has none by then is shown by `GET …/changes` all the same."""
END_S = 1.2
"""The same for all of it, where the turn was cancelled and somebody waits for its end."""

T = TypeVar("T")
Put = Callable[[SessionId, str, str, bytes], Awaitable[FileRef]]


@dataclass
class _Place:
    """One workspace in use."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    checkpoints: Checkpoints | None = None


@dataclass
class Changes:
    data: Path
    """The data folder."""
    put: Put
    hidden: tuple[Path, ...]
    reached: Callable[[str], None]
    _places: dict[str, _Place] = field(default_factory=dict)

    # --- a turn ---------------------------------------------------------------------------------------------------------------

    async def begin(self, session: Session, turn_id: TurnId, env: Mapping[str, str], writes: Sequence[str] = ()) -> None:
        """Before a call that may write or execute: the turn's checkpoint is on disk when this returns, if it can be taken.

        `env`: where git is, to ask which ignored files it tracks all the same. `writes`: absolute paths that the call names.
        """
        workspace = session.safe.created.workspace_path
        try:
            also = [path for path in map(partial(_inside, workspace), writes) if path is not None]
            if not await self._do(workspace, lambda checkpoints: checkpoints.knows(turn_id)):
                also += await _tracked(Path(workspace), env)
            await self._do(workspace, lambda checkpoints: checkpoints.begin(turn_id, session.id, also))
        except _Untracked as reason:
            text = f"What this turn changes is not kept and cannot be undone: {reason}"
            if not session.untracked_told:
                session.untracked_told = True
                with suppress(Refused):  # cancelled meanwhile
                    session.report_soon(c.NoteFact(turn_id=turn_id, fact=e.Notice(level="warning", code=UNTRACKED, text=text)))

    async def ended(self, session: Session, turn_id: TurnId, within_s: float | None = None) -> e.FilesChanged | None:
        """What the turn changed, for its end; None for nothing, and where it takes longer than `within_s`. Never raises."""
        task = asyncio.ensure_future(self._ended(session, turn_id))
        await asyncio.wait([task], timeout=within_s)
        return task.result() if task.done() else None

    async def _ended(self, session: Session, turn_id: TurnId) -> e.FilesChanged | None:
        workspace = session.safe.created.workspace_path
        if not self._path(workspace).exists():
            return None  # nothing ever began to write here
        from palaver.changes.report import changed_files

        try:
            found = await self._do(workspace, lambda checkpoints: changed_files(checkpoints, checkpoints.end(turn_id, session.id)))
            return await self._files_changed(session, turn_id, found) if found else None
        except (_Untracked, DiskFailed):
            return None

    async def _files_changed(self, session: Session, turn_id: TurnId, found: Sequence[ChangedFile]) -> e.FilesChanged:
        deadline = time.monotonic() + DIFFS_S
        files, size = list[FileChange](), 0
        for one in found:
            size += len(msgspec.json.encode(one.path)) + 240
            if size > MOST_BYTES:
                break
            ref = await self._kept(session, turn_id, one) if time.monotonic() < deadline else None
            files.append(FileChange(one.path, one.change, one.added, one.removed, ref, one.origin))
        return e.FilesChanged(files=tuple(files), truncated_count=len(found) - len(files))

    async def _kept(self, session: Session, turn_id: TurnId, one: ChangedFile) -> str:
        name = one.path.rpartition("/")[2]
        return (await self.put(session.id, f"artifacts/{turn_id}", f"{name}.diff", one.diff.encode())).ref

    # --- reading --------------------------------------------------------------------------------------------------------------

    async def look(self, session: Session) -> Look:
        """How the workspace is now: by content, or from outside where there are no checkpoints of it."""
        workspace = session.safe.created.workspace_path
        try:
            return await self._do(workspace, lambda checkpoints: Look(*checkpoints.look(), checkpoints.made(session.id)))
        except _Untracked:
            return await in_thread(lambda: look_from_outside(Path(workspace)))

    async def of_turn(self, session: Session, turn_id: str) -> list[dict[str, Any]] | None:
        """The files that a turn changed, with their diffs; None where nothing is kept of it."""
        from palaver.changes.report import of_turn

        return await self._shown(session, lambda checkpoints: of_turn(checkpoints, turn_id))

    async def of_session(self, session: Session) -> list[dict[str, Any]]:
        """What the session's turns made of what they found, in all."""
        from palaver.changes.report import of_session

        return await self._shown(session, lambda checkpoints: of_session(checkpoints, session.id)) or []

    async def _shown(self, session: Session, work: Callable[[Checkpoints], T]) -> T | None:
        workspace = session.safe.created.workspace_path
        if not self._path(workspace).exists():
            return None
        try:
            return await self._do(workspace, work)
        except _Untracked:
            return None

    # --- undo -----------------------------------------------------------------------------------------------------------------

    async def undo(
        self, session: Session, turn_id: str, *, by: str, redo: bool, paths: Collection[str] | None, preview: bool
    ) -> dict[str, Any] | None:
        """Do it, or say what it would do. None where nothing is kept of the turn. Raises `Refused("turn_running")`, `DiskFailed`."""
        from palaver.changes.report import planned, undo_shown

        if not self._path(session.safe.created.workspace_path).exists():
            return None
        try:
            async with self._place(session.safe.created.workspace_path) as checkpoints:
                _check_idle(session)  # one may have started while this waited
                plan = await in_thread(lambda: planned(checkpoints, turn_id, redo, paths))
                if plan is None:
                    return None
                shown = await in_thread(lambda: undo_shown(checkpoints, plan))
                if not preview and plan.steps:
                    done = await self._perform(session, checkpoints, plan, turn_id, by, redo)
                    left = [file["path"] for file in shown["files"] if file["path"] not in done]
                    shown["files"] = [file for file in shown["files"] if file["path"] in done]
                    shown["conflicts"] += [{"path": path, "reason": "It was changed meanwhile."} for path in left]
                return shown
        except _Untracked as reason:
            raise DiskFailed(f"The files cannot be put back: {reason}") from reason

    async def _perform(self, session: Session, checkpoints: Checkpoints, plan: Planned, turn_id: str, by: str, redo: bool) -> set[str]:
        """Whole, though the caller gives up."""
        from palaver.changes.report import intend
        from palaver.changes.undo import Intent

        undo_id = f"undo_{fresh()}"
        intent = Intent(turn_id=turn_id, by=by, redo=redo, seq=session.safe.seq, steps=tuple(plan.steps))
        await in_thread(lambda: intend(checkpoints, undo_id, session.id, intent))
        self.reached("undo.intended")
        finishing = asyncio.ensure_future(self._finish(session, checkpoints, undo_id, intent))
        try:
            return await asyncio.shield(finishing)
        except asyncio.CancelledError:
            await finishing
            raise

    async def _finish(self, session: Session, checkpoints: Checkpoints, undo_id: str, intent: Intent) -> set[str]:
        """Do what was intended and is not done yet; the log says what came of it. Gives the paths of the files that it names."""
        from palaver.changes.report import settle
        from palaver.changes.undo import perform, told

        done = await in_thread(lambda: perform(checkpoints, intent.steps, undo_id))
        self.reached("undo.performed")
        files = list(told(done))
        if files:
            await session.report(c.NoteFact(turn_id=None, fact=_undone(intent, files)))
        self.reached("undo.logged")
        await in_thread(lambda: settle(checkpoints, undo_id, session.id, done))
        return {plain(step.name) for step in files}

    async def finish_undos(self, session: Session) -> None:
        """At a start: undos that were cut off are finished, and the log says what became of them."""
        workspace = session.safe.created.workspace_path
        if not self._path(workspace).exists():
            return
        with suppress(_Untracked):
            async with self._place(workspace) as checkpoints:
                await self._finish_all(session, checkpoints)

    async def _finish_all(self, session: Session, checkpoints: Checkpoints) -> None:
        from palaver.changes.report import intended, settle

        for undo_id, intent in await in_thread(lambda: intended(checkpoints, session.id)):
            if await self._was_told(session, intent):
                await in_thread(partial(settle, checkpoints, undo_id, session.id, intent.steps))
            else:
                await self._finish(session, checkpoints, undo_id, intent)

    async def _was_told(self, session: Session, intent: Intent) -> bool:
        after = intent.seq
        while lines := await session.around.log.read(session.key, after, up_to=session.safe.seq):
            for line in lines:
                match decode_event(line).data:
                    case e.TurnUndone(turn_id=turn_id, redo=redo) if (turn_id, redo) == (intent.turn_id, intent.redo):
                        return True
            after += len(lines)
        return False

    async def forget(self, session: Session) -> None:
        """The session is gone: so is what was kept for it."""
        await self._shown(session, lambda checkpoints: checkpoints.forget(session.id))

    # --- workspaces -----------------------------------------------------------------------------------------------------------

    def _path(self, workspace: str) -> Path:
        return self.data / "workspaces" / sha256(workspace.encode(errors="surrogateescape")).hexdigest()[:32] / "changes.sqlite"

    async def _do(self, workspace: str, work: Callable[[Checkpoints], T]) -> T:
        """Raises `_Untracked`."""
        async with self._place(workspace) as checkpoints:
            return await in_thread(lambda: work(checkpoints))

    @asynccontextmanager
    async def _place(self, workspace: str) -> AsyncIterator[Checkpoints]:
        """The workspace's checkpoints, for one user at a time. Open while somebody uses them or waits to. Raises `_Untracked`."""
        from palaver.changes.scan import TooLate, TooMany

        place = self._places.setdefault(workspace, _Place())
        place.users += 1
        try:
            async with place.lock:
                if place.checkpoints is None:
                    place.checkpoints = await in_thread(partial(_opened, Path(workspace), self._path(workspace), self.hidden))
                try:
                    yield place.checkpoints
                finally:
                    if place.users == 1:
                        place.checkpoints = await in_thread(partial(_let_go, place.checkpoints))
        except TooMany as error:
            raise _Untracked("The folder has too many files. Work in a smaller one.") from error
        except TooLate as error:
            raise _Untracked("The folder is too large to be looked at in time. The next turn goes on from there.") from error
        except _broken() as error:
            raise _Untracked(f"{error}. Look at the disk and at the folder's permissions.") from error
        finally:
            place.users -= 1
            if place.users == 0 and place.checkpoints is None:
                self._places.pop(workspace, None)

    def close(self) -> None:
        for place in self._places.values():
            if place.checkpoints is not None:
                place.checkpoints.close()
        self._places.clear()


class _Untracked(Exception):
    """Why there are no checkpoints of this workspace."""


def _broken() -> tuple[type[Exception], ...]:
    import sqlite3

    return OSError, sqlite3.Error


def _opened(root: Path, path: Path, hidden: tuple[Path, ...]) -> Checkpoints:
    """A store that makes no sense any more is put aside: it holds what could be undone, and a new one can be."""
    import sqlite3

    from palaver.changes.checkpoint import Checkpoints

    try:
        return Checkpoints(root, path, hidden=hidden)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        os.replace(path, path.with_suffix(".broken"))
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        return Checkpoints(root, path, hidden=hidden)


def _let_go(checkpoints: Checkpoints) -> Checkpoints | None:
    """Closed, unless a turn is open."""
    if checkpoints.holds:
        return checkpoints
    checkpoints.close()
    return None


async def _tracked(workspace: Path, env: Mapping[str, str]) -> list[str]:
    from palaver.tools.git import git_tracked_though_ignored

    try:
        return [path for path in await git_tracked_though_ignored(workspace, env) if path]
    except ToolFailed:
        return []  # no git, or a repository that is damaged: the rules alone say what counts


def _inside(workspace: str, path: str) -> str | None:
    """As it is called below the workspace; None for what is elsewhere, and for what `.git` holds."""
    try:
        below = Path(path).relative_to(os.path.realpath(workspace)).as_posix()
    except ValueError:
        return None
    return None if below == "." or ".git" in below.split("/") else below


def _check_idle(session: Session) -> None:
    if session.ahead.turn is not None:
        raise Refused("turn_running", "A turn is running. Wait for its end, or cancel it, before its files are put back.")


def _undone(intent: Intent, files: Sequence[Step]) -> e.TurnUndone:
    told = tuple(_fitting(UndoneFile(plain(step.name), step.action) for step in files))
    return e.TurnUndone(turn_id=TurnId(intent.turn_id), by=intent.by, redo=intent.redo, files=told, truncated_count=len(files) - len(told))


def _fitting(files: Iterator[UndoneFile]) -> Iterator[UndoneFile]:
    size = 0
    for file in files:
        size += len(msgspec.json.encode(file)) + 1
        if size > MOST_BYTES:
            return
        yield file


__all__ = ["UNTRACKED", "Changes"]
