"""A file's lines while hunks are applied to them, and the diff of what came of it. Bytes in, bytes out; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import NamedTuple

from palaver.errors import ToolFailed
from palaver.tools.patch import NO_NEWLINE, Hunk, PatchLine

MAX_LINES = 1_000_000
_MAX_WORK = 200_000_000
"""Hunks times lines: more is refused rather than waited for."""
_FUZZY_LINES = 100_000


class Line(NamedTuple):
    body: bytes
    end: bytes
    origin: int
    """Which line of the file as it was; -1 for a new one."""


class Text:
    """A file's lines while hunks are applied to it."""

    def __init__(self, data: bytes, label: str) -> None:
        self._label = label
        self._bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        raw = data.removeprefix(self._bom).split(b"\n")
        self._open_end = raw[-1] != b""
        if not self._open_end:
            raw.pop()
        if len(raw) > MAX_LINES:
            raise ToolFailed(f"{label} has {len(raw)} lines, more than the {MAX_LINES} that can be patched. Use shell.")
        returns = sum(line.endswith(b"\r") for line in raw)
        self._usual_end = b"\r\n" if returns * 2 > len(raw) else b"\n"
        self._bodies = [line.removesuffix(b"\r") for line in raw]
        self._ends = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in raw]
        if self._open_end:  # what the last line would end with, had it an end
            self._bodies[-1], self._ends[-1] = raw[-1], self._usual_end
        self._origins = list(range(len(raw)))
        self._lines_before = self._bodies[:]
        """As the file was, for hunks that name a line which an earlier hunk has changed."""

    @staticmethod
    def fresh(data: bytes, label: str) -> Text:
        """A file that was not there: every line is new."""
        text = Text(data, label)
        text._origins = [-1] * len(text._origins)
        return text

    def data(self) -> bytes:
        ends = [*self._ends]
        if ends and self._open_end:
            ends[-1] = b""
        return self._bom + b"".join(part for pair in zip(self._bodies, ends, strict=True) for part in pair)

    def apply(self, hunks: Sequence[Hunk]) -> None:
        """All of them, in the order of the file. Raises `ToolFailed` that says which one does not fit, and what is there instead."""
        if len(hunks) * len(self._bodies) > _MAX_WORK:
            raise ToolFailed(f"{len(hunks)} hunks for the {len(self._bodies)} lines of {self._label} are too much at once. Send fewer.")
        cursor = drift = 0
        for number, hunk in enumerate(hunks, 1):
            name = f"hunk {number} of {len(hunks)}" if len(hunks) > 1 else "the hunk"
            if hunk.whole and self._replace_inside(hunk):
                continue
            start = self._find(hunk, name, cursor, drift)
            if hunk.line is not None:
                drift = start + 1 - hunk.line
            added = self._put(hunk, start)
            drift += added - len(hunk.old)
            cursor = 0 if hunk.whole else start + added

    def _put(self, hunk: Hunk, start: int) -> int:
        """Replace what a hunk found; how many lines there are instead. Lines that it keeps stay as they are, byte by byte."""
        at = start
        lines: list[Line] = []
        end = self._ends[max(start - 1, 0)] if self._ends else self._usual_end
        for op, text in hunk.lines:
            if op == "+":
                lines.append(Line(text.encode(), end, -1))
                continue
            if op == " ":
                lines.append(Line(self._bodies[at], self._ends[at], self._origins[at]))
            end = self._ends[at]  # a new line ends like the one it replaces or follows
            at += 1
        self._splice(start, at, lines)
        if hunk.open_end is not None:
            self._open_end = hunk.open_end
        return len(lines)

    def _splice(self, start: int, stop: int, lines: Sequence[Line]) -> None:
        self._bodies[start:stop] = [line.body for line in lines]
        self._ends[start:stop] = [line.end for line in lines]
        self._origins[start:stop] = [line.origin for line in lines]

    def _find(self, hunk: Hunk, name: str, cursor: int, drift: int) -> int:
        start = self._below(hunk.anchors, name, cursor)
        old = [text.encode() for text in hunk.old]
        if not old:
            return self._insertion(hunk, start, drift)
        levels: list[Callable[[bytes], bytes]] = [_exact, _without_blanks, _without_typography]
        for same in levels[: 3 if len(self._bodies) <= _FUZZY_LINES else 1]:
            places = self._places(old, same, start)
            if not places and hunk.anchors and start > 0:
                places = [place for place in self._places(old, same, start - 1) if place == start - 1]
            if not places and cursor < start and len(above := self._places(old, same, cursor)) == 1:
                places = above  # the line that it is under stands once more, further down
            if places:
                return self._choose(hunk, name, places, drift)
        raise ToolFailed(self._conflict(hunk, name, cursor))

    def _below(self, anchors: Sequence[str], name: str, cursor: int) -> int:
        """Where to look from: below the lines that the hunk is under. One that the hunks before have passed, or changed, still holds."""
        for anchor in anchors:
            wanted = anchor.encode()
            stripped = [body.strip() for body in self._bodies]
            found = _first(stripped, wanted, cursor)
            if found is not None:
                cursor = found + 1
            elif _first(stripped, wanted, 0) is None and _first([body.strip() for body in self._lines_before], wanted, 0) is None:
                raise ToolFailed(f"{self._label}: {name} is under `@@ {anchor}`, but no line has that. Name one that is there.")
        return cursor

    def _insertion(self, hunk: Hunk, start: int, drift: int) -> int:
        if hunk.anchors:
            return start
        if hunk.line is not None:
            return max(0, min(hunk.line - 1 + drift, len(self._bodies)))
        return len(self._bodies)

    def _places(self, old: Sequence[bytes], same: Callable[[bytes], bytes], start: int) -> list[int]:
        """Where the lines stand from `start` on, one after the other."""
        bodies = self._bodies if same is _exact else [same(body) for body in self._bodies]
        wanted = [same(line) for line in old]
        places: list[int] = []
        at = start
        while len(places) < 1_000:
            try:
                at = bodies.index(wanted[0], at, max(at, len(bodies) - len(wanted) + 1))
            except ValueError:
                break
            if bodies[at : at + len(wanted)] == wanted:
                places.append(at)
            at += 1
        return places

    def _choose(self, hunk: Hunk, name: str, places: Sequence[int], drift: int) -> int:
        if hunk.at_end:
            return places[-1]
        if hunk.line is not None and hunk.line - 1 + drift in places:
            return hunk.line - 1 + drift
        if len(places) == 1 or hunk.anchors:
            return places[0]
        numbers = ", ".join(str(place + 1) for place in places[:5]) + (" and more" if len(places) > 5 else "")
        raise ToolFailed(f"{self._label}: {name} fits at lines {numbers}. Give it more lines around the change, to fit only one.")

    def _replace_inside(self, hunk: Hunk) -> bool:
        """Search and replace inside lines, where the text is there once and no whole lines are it."""
        old = "\n".join(hunk.old).encode()
        if self._places([text.encode() for text in hunk.old], _exact, 0):
            return False
        joined = b"\n".join(self._bodies)
        if joined.count(old) != 1 or not old.strip():
            if joined.count(old) > 1:
                raise ToolFailed(f"{self._label}: the searched text is there {joined.count(old)} times. Give the whole lines around it.")
            return False
        at = joined.index(old)
        first = joined.count(b"\n", 0, at)
        last = joined.count(b"\n", 0, at + len(old))
        line_start = joined.rfind(b"\n", 0, at) + 1
        line_stop = joined.find(b"\n", at + len(old))
        rest = joined[at + len(old) :] if line_stop < 0 else joined[at + len(old) : line_stop]
        replaced = joined[line_start:at] + "\n".join(hunk.new).encode() + rest
        end = self._ends[first]
        self._splice(first, last + 1, [Line(body, end, -1) for body in replaced.split(b"\n")])
        return True

    def _conflict(self, hunk: Hunk, name: str, cursor: int) -> str:
        wanted = "\n".join(f"    | {text[:200]}" for text in hunk.old[:12])
        more = "\n    | …" if len(hunk.old) > 12 else ""
        earlier = cursor > 0 and self._places([text.encode() for text in hunk.old], _exact, 0)
        if earlier:
            return f"{self._label}: {name} stands at line {earlier[0] + 1}, above the hunk before it. Put the hunks in file order."
        return f"{self._label}: {name} does not fit. These lines are not there as they stand:\n{wanted}{more}\n{self._nearest(hunk)}"

    def _nearest(self, hunk: Hunk) -> str:
        at = self._best_place(hunk.old)
        if at is None:
            return "Nothing in the file looks like them. Read it again, then send the patch with its lines."
        shown = range(max(0, at - 1), min(len(self._bodies), at + min(len(hunk.old), 12) + 1))
        rows = "\n".join(f"{number + 1:>6}| {self._bodies[number].decode('utf-8', 'replace')[:200]}" for number in shown)
        return f"The nearest lines of the file are:\n{rows}\nSend the patch with the lines as they are there, indentation too."

    def _best_place(self, old: Sequence[str]) -> int | None:
        """Where most of the lines stand at their distance from each other, blanks around them aside."""
        votes: dict[int, int] = {}
        places: dict[bytes, list[int]] = {}
        for number, body in enumerate(self._bodies[:_FUZZY_LINES]):
            if (stripped := body.strip()) and len(found := places.setdefault(stripped, [])) < 100:
                found.append(number)
        for distance, text in enumerate(old):
            for number in places.get(text.encode().strip(), ()):
                votes[number - distance] = votes.get(number - distance, 0) + 1
        if votes:
            return max(0, max(votes, key=lambda place: (votes[place], -place)))
        first = next((text.strip() for text in old if text.strip()), None)
        if first is None:
            return None
        names = {stripped.decode("utf-8", "replace")[:400]: found[0] for stripped, found in list(places.items())[:5_000]}
        close = get_close_matches(first[:400], names, n=1)
        return names[close[0]] if close else None

    def diff_ops(self, before: bytes | None) -> list[PatchLine]:
        """Every line as kept, removed or added since `before`, which this text began with."""
        old = Text(before or b"", self._label)
        ops: list[PatchLine] = []
        passed = 0
        for number, body in enumerate(self._bodies):
            origin = self._origins[number]
            text = body.decode("utf-8", "replace") + self._mark_at(number)
            if origin < 0:
                ops.append(PatchLine("+", text))
                continue
            ops += old._removed(passed, origin)
            passed = origin + 1
            if old._mark_at(origin) == self._mark_at(number):
                ops.append(PatchLine(" ", text))
            else:
                ops += [*old._removed(origin, passed), PatchLine("+", text)]
        return list(_removed_first(ops + old._removed(passed, len(old._bodies))))

    def all_removed(self) -> list[PatchLine]:
        return self._removed(0, len(self._bodies))

    def _removed(self, start: int, stop: int) -> list[PatchLine]:
        return [PatchLine("-", self._bodies[number].decode("utf-8", "replace") + self._mark_at(number)) for number in range(start, stop)]

    def _mark_at(self, number: int) -> str:
        return f"\n{NO_NEWLINE}" if self._open_end and number == len(self._bodies) - 1 else ""


def _first(lines: Sequence[bytes], wanted: bytes, start: int) -> int | None:
    """The first line from there on that is this, else that has it in it."""
    whole = next((at for at in range(start, len(lines)) if lines[at] == wanted), None)
    return whole if whole is not None else next((at for at in range(start, len(lines)) if wanted in lines[at]), None)


def _removed_first(ops: Sequence[PatchLine]) -> Iterator[PatchLine]:
    for kept, run in groupby(ops, lambda line: line.op == " "):
        lines = [*run]
        yield from lines if kept else sorted(lines, key=lambda line: line.op == "+")


def _exact(line: bytes) -> bytes:
    return line


def _without_blanks(line: bytes) -> bytes:
    return line.rstrip()


_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " "),
    }
)


def _without_typography(line: bytes) -> bytes:
    return line.decode("utf-8", "replace").translate(_LOOK_ALIKES).rstrip().encode()


# --- showing ------------------------------------------------------------------------------------------------------------------

_CONTEXT = 3


def unified_diff(old_path: str | None, new_path: str | None, ops: Sequence[PatchLine]) -> str:
    """The change of one file as people read it. None stands for a file that is not there."""
    head = [f"--- {'/dev/null' if old_path is None else 'a/' + old_path}", f"+++ {'/dev/null' if new_path is None else 'b/' + new_path}"]
    hunks = [_shown_hunk(ops, start, stop, before) for start, stop, before in _spans(ops)]
    return "".join(line + "\n" for line in [*head, *hunks])


def counts(ops: Sequence[PatchLine]) -> tuple[int, int]:
    """Lines added, lines removed."""
    return sum(op == "+" for op, _ in ops), sum(op == "-" for op, _ in ops)


def _spans(ops: Sequence[PatchLine]) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Runs of changes with their context, and how many old and new lines come before each."""
    changed = [number for number, (op, _) in enumerate(ops) if op != " "]
    if not changed:
        return
    runs = [[changed[0], changed[0]]]
    for number in changed[1:]:
        if number - runs[-1][1] <= 2 * _CONTEXT:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    old = new = seen = 0
    for first, last in runs:
        start, stop = max(0, first - _CONTEXT), min(len(ops), last + _CONTEXT + 1)
        for op, _ in ops[seen:start]:
            old += op != "+"
            new += op != "-"
        seen = start
        yield start, stop, (old, new)


def _shown_hunk(ops: Sequence[PatchLine], start: int, stop: int, before: tuple[int, int]) -> str:
    lines = ops[start:stop]
    old = sum(op != "+" for op, _ in lines)
    new = sum(op != "-" for op, _ in lines)
    header = f"@@ -{_range(before[0], old)} +{_range(before[1], new)} @@"
    return "\n".join([header, *(op + text for op, text in lines)])


def _range(before: int, count: int) -> str:
    return f"{before + 1 if count else before},{count}"


__all__ = ["Text", "counts", "unified_diff"]
