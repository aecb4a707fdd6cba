"""One look at all files of a workspace: only what differs from the last look is read.

What is ignored is not looked into: what `.gitignore` files say (those above the workspace up to its repository's root, and
`.git/info/exclude`, too), and the folders of `ignored.ALWAYS`. A path that is known is looked at all the same, so that nothing seems to
vanish when a rule appears; and while turns are open, what the rules left out when they began stays left out, so that nothing seems to
appear when a rule goes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from palaver.changes.below import TEMPORARY, Version, folder_of, look, open_folder, open_root, stamp, version
from palaver.changes.ignored import ALWAYS, Ignored
from palaver.tools.git import find_repository

MAX_ENTRIES = 200_000
"""A folder of more is no workspace whose changes are kept."""
_DEPTH = 200
_RULES = ".gitignore"
_MOST_RULES = 1 << 20
_YOUNG_NS = 20_000_000
"""A file that changed this short before it was read may change again without a new time."""
_COARSE_NS = 2_000_000_000
"""The same on a disk that keeps whole seconds."""
_SYSTEM = ("/proc", "/sys", "/dev")

Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One path as it was last seen."""

    version: Version
    stamp: Stamp
    """Empty: it has to be read again next time, whatever it looks like."""


class TooMany(Exception):
    """The folder has more files than are looked at."""


class TooLate(Exception):
    """The look took longer than it may. What it had found by then is true, and spares the next look that much."""


@dataclass
class Found:
    """What a look found that differs from what is known."""

    changed: dict[str, Entry | None] = field(default_factory=dict)
    """None: it is gone. An entry with the version that is known has only another stamp."""
    rules: dict[str, str] = field(default_factory=dict)
    """The text of each `.gitignore`, by its folder."""
    whole: bool = True
    """Everything was looked at."""


Keep = Callable[[bytes, bytes], None]
"""Takes a hash and the bytes behind it."""


def scan(
    root: Path,
    known: Mapping[str, Entry],
    keep: Keep,
    *,
    now_ns: int,
    hidden: Collection[Path] = (),
    also: Collection[str] = (),
    before: Mapping[str, str] | None = None,
    forget: bool = False,
    most: int = MAX_ENTRIES,
    late: Callable[[], bool] = lambda: False,
) -> Found:
    """Blocks on the disk. Raises `TooMany`, and `OSError` where the workspace itself cannot be opened.

    `late`: asked at each folder; where it says so, `Found.whole` is false and what was not come to is not there. `also`: paths that are
    looked at though a rule may leave them out. `before`: the rules of an earlier look that go on counting. `forget`: known paths that a
    rule leaves out by now are let go.
    """
    at = open_root(root)
    try:
        walk = _Walk(at, known, keep, now_ns, most, late, frozenset(_identities(hidden)), _earlier(root, before))
        _add_rules_above(walk.rules, root)
        try:
            walk.folder(at, "", 0)
            walk.rest(also, forget=forget)
        except TooLate:
            walk.found.whole = False
        return walk.found
    finally:
        os.close(at)


class _Walk:
    def __init__(
        self,
        root: int,
        known: Mapping[str, Entry],
        keep: Keep,
        now_ns: int,
        most: int,
        late: Callable[[], bool],
        hidden: frozenset[tuple[int, int]],
        before: Ignored | None,
    ) -> None:
        self.found = Found()
        self.rules = Ignored()
        self._root, self._known, self._keep, self._now, self._most = root, known, keep, now_ns, most
        self._late, self._hidden, self._before = late, hidden, before
        self._seen: set[str] = set()

    def folder(self, at: int, path: str, depth: int) -> None:
        if self._late():
            raise TooLate
        with os.scandir(at) as listing:
            names = sorted((entry.name, entry) for entry in listing)
        if any(name == _RULES for name, _ in names):
            self._add_rules(at, path)
        below, rules, before, seen = path and path + "/", self.rules, self._before, self._seen
        known, changed = self._known, self._changed
        for name, entry in names:
            whole = below + name
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            if name.startswith(TEMPORARY) or (is_folder and (name in ALWAYS or (found.st_dev, found.st_ino) in self._hidden)):
                continue
            if not rules.empty and whole != _RULES and rules.leaves_out(whole, is_folder):
                continue
            old = known.get(whole)
            if old is None and before is not None and before.leaves_out(whole, is_folder):
                continue
            seen.add(whole)
            if len(seen) > self._most:
                raise TooMany
            if old is None or old.stamp != stamp(found):
                changed(at, name, whole, found, old)
            if is_folder and depth < _DEPTH:
                self._into(at, name, whole, depth)

    def _into(self, at: int, name: str, path: str, depth: int) -> None:
        try:
            below = open_folder(at, name)
        except OSError:
            return  # it went away, became a link, or is closed to us
        try:
            self.folder(below, path, depth + 1)
        except PermissionError:
            return
        finally:
            os.close(below)

    def rest(self, also: Collection[str], *, forget: bool) -> None:
        """What is known and the walk did not come to: a rule leaves it out by now, or it is gone."""
        for path in sorted((self._known.keys() | set(also)) - self._seen):
            if ((forget and self._left_out(path)) or not self._is_there(path)) and path in self._known:
                self.found.changed[path] = None

    def _left_out(self, path: str) -> bool:
        names = path.split("/")
        whole = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
        return any(self.rules.leaves_out(part, part != path or self._known[path].version.kind == "folder") for part in whole)

    def _is_there(self, path: str) -> bool:
        old, name = self._known.get(path), path.rpartition("/")[2]
        try:
            with folder_of(self._root, path) as at:
                found = look(at, name)
                if found is not None and (old is None or old.stamp != stamp(found)):
                    self._changed(at, name, path, found, old)
                return found is not None
        except OSError:
            return False  # a part of the way is gone, or is a link by now: so is what was there

    def _changed(self, at: int, name: str, path: str, found: os.stat_result, old: Entry | None) -> None:
        try:
            seen, data = version(at, name, found)
        except FileNotFoundError:
            return  # the next look says what became of it
        except OSError:
            seen, data = Version("other", 0, 0, stamp=stamp(found)), None  # closed to us
        if data is not None and (old is None or old.version.hash != seen.hash):
            self._keep(seen.hash, data)
        self.found.changed[path] = Entry(seen, () if self._young(found) else stamp(found))

    def _young(self, found: os.stat_result) -> bool:
        newest = max(found.st_mtime_ns, found.st_ctime_ns)
        return stat.S_ISREG(found.st_mode) and newest > self._now - (_YOUNG_NS if newest % 1_000_000_000 else _COARSE_NS)

    def _add_rules(self, at: int, path: str) -> None:
        if text := _rules_in(at):
            self.rules.add(path, text)
            self.found.rules[path] = text


def _rules_in(at: int) -> str:
    try:
        file = os.open(_RULES, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return ""
    with os.fdopen(file, "rb") as opened:
        return opened.read(_MOST_RULES).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(file).st_mode) else ""


def _earlier(root: Path, before: Mapping[str, str] | None) -> Ignored | None:
    if not before:
        return None
    rules = Ignored()
    for folder, text in before.items():
        rules.add(folder, text)
    return rules


def _add_rules_above(rules: Ignored, root: Path) -> None:
    repository = find_repository(root)
    if repository is None:
        return
    rules.add_above(repository.prefix, _text(repository.common / "info" / "exclude"))
    if not repository.prefix:
        return
    names = repository.prefix.rstrip("/").split("/")
    for depth in range(len(names)):
        folder = repository.root.joinpath(*names[:depth])
        try:
            at = open_root(folder)
        except OSError:
            continue
        try:
            rules.add_above("/".join(names[depth:]) + "/", _rules_in(at))
        finally:
            os.close(at)


def _text(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(file, "rb") as opened:
        return opened.read(_MOST_RULES).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(file).st_mode) else ""


def _identities(hidden: Collection[Path]) -> list[tuple[int, int]]:
    identities = []
    for folder in (*hidden, *map(Path, _SYSTEM)):
        try:
            found = os.stat(folder)
        except OSError:
            continue
        identities.append((found.st_dev, found.st_ino))
    return identities


__all__ = ["MAX_ENTRIES", "Entry", "Found", "Stamp", "TooLate", "TooMany", "scan"]
