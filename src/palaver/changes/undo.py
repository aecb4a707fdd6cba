"""Undo: putting files back, where they still are as the turn left them. Redo is the same with the sides swapped.

Each file is put whole into its place (a new one beside it, then one rename), or not at all. What is to be done is written down before
the first file is touched, so that an undo which was cut off is known, can be finished, and is told as what it became.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from palaver.changes import below
from palaver.changes.below import TEMPORARY, Version
from palaver.changes.checkpoint import Checkpoints
from palaver.changes.store import Touched

Action = Literal["restored", "deleted", "recreated"]


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One path: what has to stand there for it to be done, and what stands there then."""

    path: bytes
    expected: Version | None
    wanted: Version | None

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)

    @property
    def action(self) -> Action:
        return "deleted" if self.wanted is None else "recreated" if self.expected is None else "restored"

    @property
    def is_file(self) -> bool:
        return any(side is not None and side.kind != "folder" for side in (self.expected, self.wanted))


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """An undo that has begun: enough to finish it, and to tell of it."""

    turn_id: str
    by: str
    redo: bool
    seq: int
    """The last event of the session's log when it began: a `turn_undone` after it tells of this one."""
    steps: tuple[Step, ...]


class Conflict(NamedTuple):
    path: str
    reason: str


class Planned(NamedTuple):
    steps: list[Step]
    """What can be done, in an order in which it can be."""
    conflicts: list[Conflict]


def plan(checkpoints: Checkpoints, touched: Sequence[Touched], *, redo: bool, paths: Collection[str] | None) -> Planned:
    """What an undo would do now, and what it would leave. Blocks on the disk."""
    steps, conflicts = list[Step](), list[Conflict]()
    root = below.open_root(checkpoints.root)
    try:
        for path, before, after in touched:
            if paths is not None and path not in paths:
                continue
            step = Step(os.fsencode(path), before if redo else after, after if redo else before)
            why = _hinders(checkpoints, root, step)
            if why is None:
                steps.append(step)
            elif why and step.is_file:
                conflicts.append(Conflict(path, why))
    finally:
        os.close(root)
    return _with_only_copies_left(steps, conflicts, {os.fsencode(conflict.path) for conflict in conflicts}, touched, redo)


def _with_only_copies_left(
    steps: Sequence[Step], conflicts: Sequence[Conflict], left: Collection[bytes], touched: Sequence[Touched], redo: bool
) -> Planned:
    """What a file that is left should have become stays where the turn moved it: nothing else in the folder holds it."""
    homeless = dict[bytes, str]()
    for path, before, after in touched:
        wanted = after if redo else before
        if os.fsencode(path) in left and wanted is not None and wanted.kind == "file" and wanted.size and wanted.hash:
            homeless[wanted.hash] = path
    moved = [step for step in steps if step.wanted is None and step.expected is not None and step.expected.hash in homeless]
    said = [
        Conflict(step.name, f"It holds what {homeless[step.expected.hash]} was, which is not put back.") for step in moved if step.expected
    ]
    return Planned(sorted((step for step in steps if step not in moved), key=_order), [*conflicts, *said])


def _order(step: Step) -> tuple[int, int, bytes]:
    """Folders first and outermost, then files, then what goes away, folders last and innermost."""
    depth = step.path.count(b"/")
    if step.wanted is not None and step.wanted.kind == "folder":
        return 0, depth, step.path
    if step.wanted is not None:
        return 2, depth, step.path
    return (1 if step.is_file else 3), -depth, step.path


def _hinders(checkpoints: Checkpoints, root: int, step: Step) -> str | None:
    """Why a step cannot be done; empty where it is done already; None where nothing hinders it."""
    try:
        now, _, _ = below.now(root, step.name)
    except OSError as error:
        return f"It cannot be looked at: {error.strerror or error}."
    if now == step.wanted:
        return ""
    if now != step.expected:
        return _changed(step, now)
    if step.wanted is not None and step.wanted.kind == "other":
        return "It was no regular file, and nothing of it was kept."
    if (wanted := _not_kept(checkpoints, step.wanted)) is not None:
        return wanted
    if (expected := _not_kept(checkpoints, step.expected)) is not None:
        return f"{expected} It would be gone for good."
    return None


def _not_kept(checkpoints: Checkpoints, version: Version | None) -> str | None:
    if version is None or version.kind not in ("file", "link") or checkpoints.store.content(version.hash) is not None:
        return None
    return f"Its {version.size} bytes were not kept: files over 16 MiB and what is over 1 GiB in all are not."


def _changed(step: Step, now: Version | None) -> str:
    if now is None:
        return "It has been deleted since."
    if step.expected is None:
        return "Something else stands there by now."
    return "It has been changed since."


def perform(checkpoints: Checkpoints, steps: Sequence[Step], undo_id: str) -> list[Step]:
    """Do what still can be done; gives the steps after which the path is as wanted. May be called again after it was cut off."""
    root = below.open_root(checkpoints.root)
    done = list[Step]()
    try:
        _tidy(root, steps, undo_id)
        for number, step in enumerate(steps):
            if _do(checkpoints, root, step, f"{TEMPORARY}{undo_id}-{number}.tmp"):
                done.append(step)
    finally:
        os.close(root)
    with checkpoints.store.transaction():
        checkpoints.seen([step.name for step in steps])
    return done


def _tidy(root: int, steps: Sequence[Step], undo_id: str) -> None:
    """What an earlier try left beside its files."""
    for number, step in enumerate(steps):
        with suppress(OSError), below.folder_of(root, step.name) as at:
            os.unlink(f"{TEMPORARY}{undo_id}-{number}.tmp", dir_fd=at)


def _do(checkpoints: Checkpoints, root: int, step: Step, temporary: str) -> bool:
    try:
        why = _hinders(checkpoints, root, step)
        if why is not None:
            return why == ""
        with below.folder_of(root, step.name) as at:
            _put(checkpoints, at, step, temporary)
        return True
    except OSError:
        return False  # it was changed meanwhile, or is closed to us: it stays as it is


def _put(checkpoints: Checkpoints, at: int, step: Step, temporary: str) -> None:
    name, wanted = step.name.rpartition("/")[2], step.wanted
    if wanted is None:
        _check(at, name, step)
        (os.unlink if step.expected is None or step.expected.kind != "folder" else os.rmdir)(name, dir_fd=at)
    elif wanted.kind == "folder":
        _make_folder(at, name, step, wanted.mode)
    else:
        data = checkpoints.store.content(wanted.hash)
        assert data is not None  # the plan has asked
        with _staged(at, temporary, wanted, data):
            _check(at, name, step)
            if step.expected is not None and step.expected.kind == "folder":
                os.rmdir(name, dir_fd=at)
            os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    os.fsync(at)


def _check(at: int, name: str, step: Step) -> None:
    """The last look before the name changes hands."""
    found = below.look(at, name)
    now = None if found is None else below.version(at, name, found)[0]
    if now != step.expected:
        raise OSError("changed meanwhile")


def _make_folder(at: int, name: str, step: Step, mode: int) -> None:
    if step.expected is not None and step.expected.kind != "folder":
        _check(at, name, step)
        os.unlink(name, dir_fd=at)
    if step.expected is None or step.expected.kind != "folder":
        os.mkdir(name, dir_fd=at)
    folder = below.open_folder(at, name)
    try:
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


class _staged:
    """The new file beside the old one, synced; gone again if it was not put into its place."""

    def __init__(self, at: int, temporary: str, wanted: Version, data: bytes) -> None:
        self._at, self._temporary, self._wanted, self._data = at, temporary, wanted, data

    def __enter__(self) -> None:
        if self._wanted.kind == "link":
            os.symlink(os.fsdecode(self._data), self._temporary, dir_fd=self._at)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._temporary, flags, 0o600, dir_fd=self._at)
        with os.fdopen(file, "wb") as opened:
            opened.write(self._data)
            opened.flush()
            os.fchmod(file, self._wanted.mode)
            os.fsync(file)

    def __exit__(self, *_: object) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._at)


def told(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps that people hear of: files, by path."""
    yield from sorted((step for step in steps if step.is_file), key=lambda step: step.path)


__all__ = ["Action", "Conflict", "Intent", "Planned", "Step", "perform", "plan", "told"]
