"""A folder with files, and its checkpoints, for tests."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from palaver.changes.checkpoint import Checkpoints
from palaver.changes.diffs import Change, changes, diff_of
from palaver.changes.undo import Planned, Step, perform, plan

Tree = dict[str, tuple[str, int, bytes]]


@dataclass
class Work:
    """One workspace with its store beside it."""

    folder: Path
    checkpoints: Checkpoints = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "ws").mkdir(parents=True)
        self.root = self.folder / "ws"
        self.reopen()

    def reopen(self, limit: int = 1 << 30) -> None:
        """As after a crash: what was not committed is lost."""
        hidden = (self.folder / "ws" / "secret",)
        self.checkpoints = Checkpoints(self.root, self.folder / "data" / "changes.sqlite", hidden=hidden, limit=limit)

    def write(self, path: str, data: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def begin(self, turn: str = "t1", session: str = "s", *writes: str) -> None:
        self.checkpoints.begin(turn, session, writes)

    def end(self, turn: str = "t1", session: str = "s") -> dict[str, str]:
        """What the turn did, by path: the kind of change."""
        return {change.path: change.change for change in self.changes(turn, session)}

    def changes(self, turn: str = "t1", session: str = "s") -> list[Change]:
        return changes(self.checkpoints.end(turn, session), self.checkpoints.store.content)

    def diffs(self, turn: str = "t1") -> dict[str, str]:
        return {change.path: diff_of(change, self.checkpoints.store.content).text for change in self.changes(turn)}

    def planned(self, turn: str = "t1", *, redo: bool = False, paths: list[str] | None = None) -> Planned:
        return plan(self.checkpoints, self.checkpoints.store.touched(turn), redo=redo, paths=paths)

    def undo(self, turn: str = "t1", *, redo: bool = False, paths: list[str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
        """What was done to which file, and which were left for which reason."""
        steps, conflicts = self.planned(turn, redo=redo, paths=paths)
        done = perform(self.checkpoints, steps, "undo_1")
        return actions(done), dict(conflicts)

    def tree(self) -> Tree:
        """Every path with what it is: nothing that matters about a workspace is left out."""
        found: Tree = {}
        for place, folders, files in os.walk(self.root):
            for name in [*folders, *files]:
                path = Path(place, name)
                mode = path.lstat().st_mode
                content = os.fsencode(os.readlink(path)) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else b""
                found[str(path.relative_to(self.root))] = (stat.filemode(mode)[0], 0 if stat.S_ISLNK(mode) else mode & 0o777, content)
        return found


def actions(steps: list[Step]) -> dict[str, str]:
    return {step.name: step.action for step in steps if step.is_file}
