"""What a client sees of a workspace's changes: the files of a turn or a session with their diffs, and what an undo would do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from palaver.changes.checkpoint import Checkpoints
from palaver.changes.diffs import Change, Kind, changes, diff_of
from palaver.changes.store import Touched
from palaver.changes.undo import Intent, Planned, Step, plan, told
from palaver.tools.paths import plain


class ChangedFile(msgspec.Struct, frozen=True):
    """One changed file, and the diff that an event names by reference."""

    path: str
    change: Kind
    added: int
    removed: int
    origin: str | None
    diff: str


def changed_files(checkpoints: Checkpoints, touched: Sequence[Touched]) -> list[ChangedFile]:
    content = checkpoints.store.content
    found = []
    for change in changes(touched, content):
        diff = diff_of(change, content)
        origin = None if change.origin is None else plain(change.origin)
        found.append(ChangedFile(plain(change.path), change.change, diff.added, diff.removed, origin, diff.text))
    return found


def of_turn(checkpoints: Checkpoints, turn_id: str) -> list[dict[str, Any]] | None:
    """None where nothing is kept of the turn. Of a turn that runs: what it has changed so far."""
    return _shown(checkpoints, checkpoints.so_far(turn_id)) if checkpoints.knows(turn_id) else None


def of_session(checkpoints: Checkpoints, session_id: str) -> list[dict[str, Any]]:
    return _shown(checkpoints, checkpoints.store.net(session_id))


def _shown(checkpoints: Checkpoints, touched: Sequence[Touched]) -> list[dict[str, Any]]:
    return [
        {
            "path": plain(change.path),
            "change": change.change,
            "diff": diff_of(change, checkpoints.store.content).text,
            "stale": _is_stale(checkpoints, change),
        }
        for change in changes(touched, checkpoints.store.content)
    ]


def _is_stale(checkpoints: Checkpoints, change: Change) -> bool:
    """Whether the file is no longer as it was left."""
    back = change.origin is not None and checkpoints.now(change.origin) is not None
    return back or checkpoints.now(change.path) != change.after


# --- undo ---------------------------------------------------------------------------------------------------------------------


def planned(checkpoints: Checkpoints, turn_id: str, redo: bool, paths: Collection[str] | None) -> Planned | None:
    """What an undo of these paths, or of all, would do; None where nothing is kept of the turn."""
    if not checkpoints.knows(turn_id):
        return None
    touched = checkpoints.store.touched(turn_id)
    if paths is None:
        return plan(checkpoints, touched, redo=redo, paths=None)
    wanted = {path for path, _, _ in touched if plain(path) in paths}
    for change in changes(touched, checkpoints.store.content):
        if change.origin is not None and wanted & {change.path, change.origin}:  # a renamed file is one file
            wanted |= {change.path, change.origin}
    above = {one.path for one in touched if _is_folder(one) and any(path.startswith(f"{one.path}/") for path in wanted)}
    return plan(checkpoints, touched, redo=redo, paths=wanted | above)


def _is_folder(touched: Touched) -> bool:
    return all(side is None or side.kind == "folder" for side in (touched.before, touched.after))


def undo_shown(checkpoints: Checkpoints, planned: Planned) -> dict[str, Any]:
    return {
        "files": [{"path": plain(step.name), "action": step.action, "diff": _step_diff(checkpoints, step)} for step in told(planned.steps)],
        "conflicts": [{"path": plain(path), "reason": reason} for path, reason in planned.conflicts],
    }


def _step_diff(checkpoints: Checkpoints, step: Step) -> str:
    return diff_of(Change(step.name, "modified", step.expected, step.wanted), checkpoints.store.content).text


def intend(checkpoints: Checkpoints, undo_id: str, session_id: str, intent: Intent) -> None:
    """Written down before the first file is touched."""
    with checkpoints.store.transaction():
        checkpoints.store.intend(undo_id, session_id, msgspec.msgpack.encode(intent))


def intended(checkpoints: Checkpoints, session_id: str) -> list[tuple[str, Intent]]:
    """Undos that began and did not come to their end."""
    return [(id, msgspec.msgpack.decode(data, type=Intent)) for id, data in checkpoints.store.intended(session_id)]


def settle(checkpoints: Checkpoints, undo_id: str, session_id: str, done: Sequence[Step]) -> None:
    """It is done and told: from now on the session has left these files so."""
    with checkpoints.store.transaction():
        checkpoints.store.leave(session_id, [Touched(step.name, step.expected, step.wanted) for step in done])
        checkpoints.store.done([undo_id])


__all__ = ["ChangedFile", "changed_files", "intend", "intended", "of_session", "of_turn", "planned", "settle", "undo_shown"]
