"""What became of a turn's files, as people read it: which were renamed, and a diff of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from palaver.changes.below import Version
from palaver.changes.store import Touched
from palaver.tools.patch import NO_NEWLINE, PatchLine
from palaver.tools.patch_text import counts, unified_diff
from palaver.tools.paths import plain

MAX_DIFF = 1 << 20
"""Characters of one diff; what is longer is cut and says so."""
_MOST_WORK = 25_000_000
"""Lines before times lines after: more is told as one replaced piece."""
_ALIKE = 0.5
_MOST_PAIRS = 400
_MOST_COMPARED = 256 * 1024

Content = Callable[[bytes], bytes | None]
"""What is behind a hash; None where it is not kept."""
Kind = Literal["added", "modified", "deleted", "renamed"]


class Change(NamedTuple):
    """One file of a report. `path` is where it is now, or was."""

    path: str
    change: Kind
    before: Version | None
    after: Version | None
    origin: str | None = None


def changes(touched: Sequence[Touched], content: Content) -> list[Change]:
    """By path. Folders are not told of: what is in them is."""
    files = [(path, _file(before), _file(after)) for path, before, after in touched]
    files = [one for one in files if one[1] != one[2]]
    gone = [(path, before) for path, before, after in files if before is not None and after is None]
    come = [(path, after) for path, before, after in files if before is None and after is not None]
    renamed = {new: (old, before) for old, before, new in _renames(gone, come, content)}
    origins = {old for old, _ in renamed.values()}
    found = list[Change]()
    for path, before, after in files:
        if path in renamed:
            origin, was = renamed[path]
            found.append(Change(path, "renamed", was, after, origin))
        elif path not in origins:
            kind: Kind = "added" if before is None else "deleted" if after is None else "modified"
            found.append(Change(path, kind, before, after))
    return found


def _file(version: Version | None) -> Version | None:
    return None if version is None or version.kind == "folder" else version


def _renames(
    gone: Sequence[tuple[str, Version]], come: Sequence[tuple[str, Version]], content: Content
) -> Iterator[tuple[str, Version, str]]:
    """Pairs of a file that is gone and one that came: equal ones first, then those that are alike in half of their lines."""
    left, right = dict(gone), dict(come)
    for old, before in gone:
        same = [new for new, after in right.items() if before.hash and after.hash == before.hash and after.kind == before.kind]
        if same and before.size:
            best = min(same, key=lambda new: (new.rpartition("/")[2] != old.rpartition("/")[2], new))
            yield old, left.pop(old), best
            del right[best]
    if len(left) * len(right) > _MOST_PAIRS:
        return
    scores = sorted(_scores(left, right, content), reverse=True)
    for _, old, new in scores:
        if old in left and new in right:
            yield old, left.pop(old), new
            del right[new]


def _scores(left: dict[str, Version], right: dict[str, Version], content: Content) -> Iterator[tuple[float, str, str]]:
    lines = {version.hash: found for version in (*left.values(), *right.values()) if (found := _lines_of(version, content))}
    for old, before in left.items():
        for new, after in right.items():
            if (a := lines.get(before.hash)) and (b := lines.get(after.hash)) and before.kind == after.kind == "file":
                score = 2 * _weight(a & b) / max(1, _weight(a) + _weight(b))
                if score >= _ALIKE:
                    yield score, old, new


def _weight(lines: Counter[bytes]) -> int:
    return sum(len(line) * times for line, times in lines.items())


def _lines_of(version: Version, content: Content) -> Counter[bytes] | None:
    data = content(version.hash) if version.hash and version.size <= _MOST_COMPARED else None
    return Counter(data.split(b"\n")) if data and b"\0" not in data[:8_000] else None


class Diff(NamedTuple):
    text: str
    added: int
    removed: int


def diff_of(change: Change, content: Content) -> Diff:
    """The diff of one file. What is binary, too large or no longer kept is said instead."""
    return _diff(plain(change.origin or change.path), plain(change.path), change.before, change.after, content)


def _diff(old: str, new: str, before: Version | None, after: Version | None, content: Content) -> Diff:
    head = f"rename from {old}\nrename to {new}\n" if old != new else ""
    if before is not None and after is not None and _mode(before) != _mode(after):
        head += f"old mode {_mode(before)}\nnew mode {_mode(after)}\n"
    elif before is None and after is not None and _mode(after) != "100644":
        head += f"new file mode {_mode(after)}\n"
    if before is not None and after is not None and before.hash == after.hash and before.hash:
        return Diff(head, 0, 0)
    texts = [_text(version, content) for version in (before, after)]
    names = (None if before is None else old, None if after is None else new)
    why = next((said for said in texts if isinstance(said, str)), None)
    if why is not None:
        sides = [("a/" + names[0]) if names[0] else "/dev/null", ("b/" + names[1]) if names[1] else "/dev/null"]
        return Diff(f"{head}--- {sides[0]}\n+++ {sides[1]}\n[{why}]\n", 0, 0)
    a, b = (said if isinstance(said, bytes) else b"" for said in texts)
    ops = _ops(a, b)
    text = head + unified_diff(*names, ops)
    if len(text) > MAX_DIFF:
        text = text[:MAX_DIFF] + f"\n[… {len(text) - MAX_DIFF} characters left out]\n"
    return Diff(text, *counts(ops))


def _mode(version: Version) -> str:
    return "120000" if version.kind == "link" else f"100{version.mode:o}" if version.kind == "file" else "160000"


def _text(version: Version | None, content: Content) -> bytes | str:
    """The bytes to compare, or in words why there are none."""
    if version is None:
        return b""
    if version.kind == "other":
        return "no regular file: not read"
    data = content(version.hash) if version.hash else None
    if data is None:
        return f"{version.size} bytes, of which none are kept"
    return "binary" if b"\0" in data[:8_000] else data


def _ops(before: bytes, after: bytes) -> list[PatchLine]:
    a, b = _lines(before), _lines(after)
    start = 0
    while start < len(a) and start < len(b) and a[start] == b[start]:
        start += 1
    end = 0
    while end < len(a) - start and end < len(b) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    ops = [PatchLine(" ", line) for line in a[:start]]
    ops += _middle(a[start : len(a) - end], b[start : len(b) - end])
    return ops + [PatchLine(" ", line) for line in a[len(a) - end :]]


def _middle(a: Sequence[str], b: Sequence[str]) -> list[PatchLine]:
    if not a or not b or len(a) * len(b) > _MOST_WORK:
        return [*(PatchLine("-", line) for line in a), *(PatchLine("+", line) for line in b)]
    ops = list[PatchLine]()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b).get_opcodes():
        if tag == "equal":
            ops += (PatchLine(" ", line) for line in a[i1:i2])
        else:
            ops += (PatchLine("-", line) for line in a[i1:i2])
            ops += (PatchLine("+", line) for line in b[j1:j2])
    return ops


def _lines(data: bytes) -> list[str]:
    """Lines as a diff shows them: the last one says so where it has no end."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1]:
        lines[-1] += f"\n{NO_NEWLINE}"
    else:
        lines.pop()
    return lines


__all__ = ["MAX_DIFF", "Change", "Content", "Diff", "changes", "diff_of"]
