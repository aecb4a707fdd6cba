"""What clients ask about changed files: those of a turn, those of a session, and that a turn be undone."""

from __future__ import annotations

from typing import Any

from palaver.engine.actor import Actor
from palaver.engine.parts import Parts, check_writable
from palaver.engine.session import Session
from palaver.errors import Refused
from palaver.wire import events as e
from palaver.wire.requests import UndoTurn

GONE = "Nothing is kept of what was there before: the turn is too old, or its checkpoint could not be taken."


class Changing(Parts):
    async def turn_changes(self, session_id: str, turn_id: str) -> dict[str, Any]:
        """As they are kept; else what the log says of them, with the diffs that were written down then."""
        async with self.sessions.using(session_id) as session:
            span = _span(session, turn_id)
            files = await self.calls.changes.of_turn(session, turn_id)
            return {"files": await self._logged(session, span) if files is None else files}

    async def session_changes(self, session_id: str) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            return {"files": await self.calls.changes.of_session(session)}

    async def _logged(self, session: Session, span: tuple[int, int]) -> list[dict[str, Any]]:
        files: list[dict[str, Any]] = []
        async for recorded in self.recorded(session, span[0] - 1, span[1]):
            if isinstance(recorded.data, e.FilesChanged):
                files = [
                    {
                        "path": file.path,
                        "change": file.change,
                        "diff": None if file.diff_ref is None else await self._diff(session, file.diff_ref),
                        "stale": False,
                    }
                    for file in recorded.data.files
                ]
        return files

    async def _diff(self, session: Session, ref: str) -> str | None:
        try:
            return (await self.blobs.read_blob(session.id, ref)).decode("utf-8", "replace")
        except Refused:
            return None  # a copy of a session need not have every file

    async def undo_turn(self, session_id: str, turn_id: str, wanted: UndoTurn, actor: Actor) -> dict[str, Any]:
        async with self.sessions.using(session_id) as session:
            span = _span(session, turn_id)
            check_writable(session)
            if not wanted.preview:
                await session.mark()  # an undo that is cut off is finished by the next start
            paths = None if wanted.paths is None else frozenset(wanted.paths)
            done = await self.calls.changes.undo(session, turn_id, by=actor.name, redo=wanted.redo, paths=paths, preview=wanted.preview)
            if done is not None:
                return done
            told = [file["path"] for file in await self._logged(session, span)]
            return {"files": [], "conflicts": [{"path": path, "reason": GONE} for path in told if paths is None or path in paths]}


def _span(session: Session, turn_id: str) -> tuple[int, int]:
    span = session.pages.events_of(turn_id)
    if span is None:
        raise Refused("not_found", f"This session has no turn {turn_id}.")
    return span
