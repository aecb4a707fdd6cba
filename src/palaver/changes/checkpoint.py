"""Checkpoints of one workspace: what its files were when a turn began to write, and what the turn made of them.

The store keeps one picture of the workspace, brought up to date by each look. While a turn is open, whatever a look finds changed is noted
for it with what was there before; so a turn costs what changed in it, not what there is. What is found changed while no turn is open is
nobody's. Where turns of two sessions are open in one workspace at once, a change counts for both: who made it is not to be seen.

A turn stays open in the store until it is ended there, over a crash too. All of this blocks on the disk and is called from a thread.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from palaver.changes import below
from palaver.changes.below import Version
from palaver.changes.scan import Entry, TooLate, scan
from palaver.changes.store import LIMIT, Store, Touched

BEGIN_S = 3.0
"""Seconds that a call may wait for the checkpoint before it."""


class Checkpoints:
    """Of one workspace. Used by one thread at a time."""

    def __init__(
        self,
        root: Path,
        store: Path,
        *,
        hidden: Sequence[Path] = (),
        clock_ns: Callable[[], int] = time.time_ns,
        limit: int = LIMIT,
    ) -> None:
        self.root = root
        self.store = Store(store, limit=limit)
        self._hidden = hidden
        self._clock_ns = clock_ns

    def close(self) -> None:
        self.store.close()

    def begin(self, turn_id: str, session_id: str, writes: Collection[str] = (), *, seconds: float = BEGIN_S) -> None:
        """Take the checkpoint of a turn, unless it has one.

        Raises `TooMany`, `TooLate` (what was seen by then is kept, so that the next try comes further), and `OSError` where the workspace
        is not to be opened. `writes`: paths that the next call names; they are kept though a rule ignores them.
        """
        until = time.monotonic() + seconds
        with self.store.transaction():
            if not self.store.knows(turn_id):
                rules = self._look(lambda: time.monotonic() > until)
                if rules is not None:
                    self.store.begin(turn_id, session_id, rules)
            if writes:
                self._keep_also(writes)
        if not self.store.knows(turn_id):
            raise TooLate

    def forget(self, session_id: str) -> None:
        """Nothing of this session is wanted any more."""
        with self.store.transaction():
            self.store.forget(session_id)

    @property
    def holds(self) -> bool:
        """Whether a turn is open."""
        return bool(self.store.open_turns())

    def knows(self, turn_id: str) -> bool:
        return self.store.knows(turn_id)

    def so_far(self, turn_id: str) -> list[Touched]:
        """What a turn has changed, ended or not."""
        if all(turn.turn_id != turn_id for turn in self.store.open_turns()):
            return self.store.touched(turn_id)
        with self.store.transaction():
            self._look()
        files = self.store.files()
        left = [Touched(path, before, _version(files.get(path))) for path, before, _ in self.store.touched(turn_id)]
        return [one for one in left if one.before != one.after]

    def now(self, path: str) -> Version | None:
        """What stands there at this moment; something that equals nothing where it cannot be looked at."""
        root = below.open_root(self.root)
        try:
            return below.now(root, path)[0]
        except OSError:
            return Version("other", 0, -1)
        finally:
            os.close(root)

    def end(self, turn_id: str, session_id: str) -> list[Touched]:
        """What the turn changed, by path. Ending it again gives the same; one that never began changed nothing. Raises as `begin`."""
        with self.store.transaction():
            if all(turn.turn_id != turn_id for turn in self.store.open_turns()):
                return self.store.touched(turn_id)
            self._look()
            ended = self.store.end(turn_id, session_id, self.store.files())
            if not self.store.open_turns():
                self.store.rest()
            return ended

    def look(self, *, seconds: float = BEGIN_S) -> tuple[str, Mapping[str, object]]:
        """A hash of every path, its permissions and its content, as they are now, and what stands under each. Raises as `begin`."""
        until = time.monotonic() + seconds
        with self.store.transaction():
            whole = self._look(lambda: time.monotonic() > until) is not None
            files = self.store.files()
            if not self.store.open_turns():
                self.store.rest()
        if not whole:
            raise TooLate
        total = sha256()
        for path, entry in sorted(files.items()):
            seen = entry.version
            total.update(f"{path}\0{seen.kind} {seen.mode:o} {seen.size} {seen.stamp}\0".encode("utf-8", "surrogateescape") + seen.hash)
        return total.hexdigest(), {path: entry.version for path, entry in files.items()}

    def made(self, session_id: str) -> frozenset[str]:
        """The paths that turns of a session have changed, the one that runs too."""
        return frozenset(self.store.made(session_id))

    def seen(self, paths: Collection[str]) -> None:
        """What stands there now is nobody's change: an undo put it there."""
        root = below.open_root(self.root)
        try:
            self.store.see({path: self._entry(root, path) for path in paths})
        finally:
            os.close(root)

    def _look(self, late: Callable[[], bool] = lambda: False) -> Mapping[str, str] | None:
        """Bring the picture up to date; gives the rules that the look went by. None: it was `late`, and the picture is not whole."""
        known, turns = self.store.files(), self.store.open_turns()
        before = dict[str, str]()
        for turn in turns:
            for folder, text in turn.rules.items():
                before[folder] = f"{before[folder]}\n{text}" if folder in before else text
        found = scan(
            self.root,
            known,
            self.store.keep,
            now_ns=self._clock_ns(),
            hidden=self._hidden,
            also=self.store.watched(),
            before=before,
            forget=not turns,
            late=late,
        )
        self.store.see(found.changed)
        differs = [path for path, entry in found.changed.items() if _version(known.get(path)) != _version(entry)]
        for turn in turns:
            self.store.touch(turn.turn_id, {path: _version(known.get(path)) for path in differs})
        return found.rules if found.whole else None

    def _keep_also(self, paths: Collection[str]) -> None:
        known = self.store.files()
        root = below.open_root(self.root)
        try:
            entries = {path: self._entry(root, path) for path in paths if path not in known}
        finally:
            os.close(root)
        self.store.see({path: entry for path, entry in entries.items() if entry is not None})
        nothing = {path: None for path, entry in entries.items() if entry is None}
        for turn in self.store.open_turns():
            self.store.touch(turn.turn_id, nothing)

    def _entry(self, root: int, path: str) -> Entry | None:
        try:
            seen, data, found = below.now(root, path)
        except OSError:
            return None
        if seen is None or found is None:
            return None
        if data is not None:
            self.store.keep(seen.hash, data)
        return Entry(seen, () if stat.S_ISREG(found.st_mode) else below.stamp(found))


def _version(entry: Entry | None) -> Version | None:
    return None if entry is None else entry.version


__all__ = ["Checkpoints"]
