"""Patches as data: three ways to write one, one way to apply it, on bytes and without I/O.

The first line tells the form:

- `*** Begin Patch`: sections `*** Add File: PATH` (lines with +), `*** Delete File: PATH`, `*** Update File: PATH` with an optional
  `*** Move to: PATH` and hunks of lines that start with a blank, `-` or `+`. A line `@@ TEXT` before a hunk names a line above it, such
  as the function it is in; `*** End of File` ties a hunk to the end. The last line is `*** End Patch`.
- `--- ` or `diff --git`: a unified diff, git's headers for new, deleted, renamed and executable files included. Where the line numbers
  are wrong, the lines decide.
- `<<<<<<< SEARCH PATH`, the lines to find, `=======`, the lines to put there, `>>>>>>> REPLACE`; any number of such blocks. What is
  searched must be there exactly once. Nothing to find means a new file. Where the text itself has such marks, use longer ones of
  one length throughout (`<<<<<<<<`, `========`, `>>>>>>>>`).

A hunk's lines must be in the file as they stand; blanks at line ends and typographic look-alikes (quotes, dashes, no-break spaces) are let
be. Indentation is never guessed. Where a hunk fits more than one place it is refused. Line ends, a byte order mark and a missing last
newline stay as they were; lines that a hunk keeps keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import Literal, NamedTuple

from palaver.errors import ToolFailed
from palaver.tools.arguments import refuse

MAX_LINES = 1_000_000
_MAX_WORK = 200_000_000
"""Hunks times lines: more is refused rather than waited for."""
_FUZZY_LINES = 100_000
_NO_NEWLINE = "\\ No newline at end of file"

Op = Literal[" ", "-", "+"]


class PatchLine(NamedTuple):
    op: Op
    text: str


@dataclass(frozen=True)
class Hunk:
    lines: tuple[PatchLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines that stand above it, outermost first."""
    line: int | None = None
    """Where its header says it starts, from 1."""
    at_end: bool = False
    open_end: bool | None = None
    """Whether the file has no last newline afterwards, where the patch says so."""
    whole: bool = False
    """Search and replace: looked for in the whole file, also inside a line."""

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.op != "+"]

    @property
    def new(self) -> list[str]:
        return [line.text for line in self.lines if line.op != "-"]


@dataclass(frozen=True)
class FilePatch:
    """What a patch wants of one file."""

    path: str
    kind: Literal["add", "update", "delete"]
    hunks: tuple[Hunk, ...] = ()
    content: bytes = b""
    move_to: str | None = None
    executable: bool | None = None


def parse(patch: str) -> list[FilePatch]:
    """Raises `ToolFailed("invalid_arguments")` where the text is none of the three forms, or is cut off."""
    lines = [line.removesuffix("\r") for line in patch.strip("\n").split("\n")]
    first = lines[0].strip()
    if first == "*** Begin Patch":
        return _Sections(lines).parse()
    if first.startswith(("--- ", "diff --git ")):
        return _Unified(lines).parse()
    if re.match(r"<{7,} SEARCH ", first):
        return list(_blocks(lines))
    raise refuse(
        "The patch starts with none of `*** Begin Patch`, `--- PATH`, `diff --git` and `<<<<<<< SEARCH PATH`. Start it with one of them, "
        "and put nothing before it."
    )


# --- *** Begin Patch ----------------------------------------------------------------------------------------------------------


class _Sections:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [*lines]
        while self._lines and not self._lines[-1].strip():
            self._lines.pop()
        if self._lines[-1].strip() != "*** End Patch":
            raise refuse("The patch has no last line `*** End Patch`: it may be cut off. Send it whole.")
        self._at = 1

    def parse(self) -> list[FilePatch]:
        patches = []
        while self._at < len(self._lines) - 1:
            line = self._next()
            if line.startswith("*** Add File: "):
                patches.append(self._add(_path(line, "*** Add File: ")))
            elif line.startswith("*** Delete File: "):
                patches.append(FilePatch(_path(line, "*** Delete File: "), "delete"))
            elif line.startswith("*** Update File: "):
                patches.append(self._update(_path(line, "*** Update File: ")))
            elif line.strip():
                raise refuse(f"Line {self._at} of the patch is {line[:80]!r}, where `*** Update File: PATH` or the like was expected.")
        return _some(patches)

    def _next(self) -> str:
        line = self._lines[self._at]
        self._at += 1
        return line

    @property
    def _inside(self) -> bool:
        if self._at >= len(self._lines) - 1:
            return False
        line = self._lines[self._at]
        return not line.startswith(("*** Add File: ", "*** Delete File: ", "*** Update File: "))

    def _add(self, path: str) -> FilePatch:
        content = []
        while self._inside:
            line = self._next()
            if not line.startswith("+"):
                raise refuse(f"Line {self._at} of the patch, in the new file {path}, starts without +. Start each of its lines with it.")
            content.append(line[1:] + "\n")
        return FilePatch(path, "add", content="".join(content).encode())

    def _update(self, path: str) -> FilePatch:
        move_to = None
        if self._inside and self._lines[self._at].startswith("*** Move to: "):
            move_to = _path(self._next(), "*** Move to: ")
        hunks = []
        while self._inside:
            hunks.append(self._hunk(path))
        kept = tuple(hunk for hunk in hunks if hunk.lines)
        if not kept and move_to is None:
            raise refuse(f"The section of {path} has no hunk. Give the lines to change, each with a blank, - or + before it.")
        return FilePatch(path, "update", kept, move_to=move_to)

    def _hunk(self, path: str) -> Hunk:
        anchors: list[str] = []
        number: int | None = None
        while self._inside and self._lines[self._at].startswith("@@"):
            heading = self._next()
            if header := _HEADER.match(heading):
                number = int(header[1])
            elif anchor := heading.removeprefix("@@").removesuffix("@@").strip():
                anchors.append(anchor)
        lines: list[PatchLine] = []
        at_end = False
        while self._inside and not self._lines[self._at].startswith("@@") and not at_end:
            line = self._next()
            at_end = line.strip() == "*** End of File"
            if not at_end and line != _NO_NEWLINE:
                lines.append(_patch_line(line, f"line {self._at} of the patch, in {path},"))
        return Hunk(tuple(lines), tuple(anchors), number, at_end)


def _path(line: str, prefix: str) -> str:
    path = line.removeprefix(prefix).strip()
    if not path:
        raise refuse(f"The patch has {line.strip()!r} without a path. Name the file.")
    return path


def _patch_line(line: str, where: str) -> PatchLine:
    if not line:
        return PatchLine(" ", "")  # an empty line whose blank was trimmed on the way
    match line[0]:
        case " " | "-" | "+" as op:
            return PatchLine(op, line[1:])
        case _:
            raise refuse(f"{where} is {line[:80]!r}, which starts with none of blank, - and +. Start each line of a hunk with one of them.")


def _some(patches: list[FilePatch]) -> list[FilePatch]:
    if not patches:
        raise refuse("The patch changes nothing. Give it at least one file.")
    return patches


# --- unified diffs ------------------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_UNSUPPORTED = ("GIT binary patch", "Binary files ", "copy from ")


class _Unified:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def parse(self) -> list[FilePatch]:
        patches = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git ") or self._at_names():
                patches.append(self._file())
            elif line.startswith("@@"):
                raise refuse(f"Line {self._at + 1} of the patch is a hunk without a file. Put `--- PATH` and `+++ PATH` before it.")
            else:
                self._at += 1  # what git or a mail has between files
        return _some(patches)

    def _at_names(self) -> bool:
        following = self._lines[self._at : self._at + 2]
        return len(following) == 2 and following[0].startswith("--- ") and following[1].startswith("+++ ")

    def _file(self) -> FilePatch:
        facts = self._git_facts()
        if self._at_names():
            facts["old"] = _name(self._lines[self._at][4:])
            facts["new"] = _name(self._lines[self._at + 1][4:])
            self._at += 2
        if "old" not in facts:
            raise refuse(f"Line {self._at} of the patch names no file. Write `--- a/PATH` and `+++ b/PATH`.")
        old, new = _without_prefix(facts["old"], facts["new"])
        hunks = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            hunks.append(self._hunk(new or old))
        return _file_patch(facts, old, new, tuple(hunks))

    def _git_facts(self) -> dict[str, str]:
        """What the lines between `diff --git` and `---` say."""
        facts: dict[str, str] = {}
        if not self._lines[self._at].startswith("diff --git "):
            return facts
        if both := re.fullmatch(r"diff --git (a/.+) (b/.+)", self._lines[self._at]):
            facts["old"], facts["new"] = both[1], both[2]
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(("diff --git ", "@@")) or self._at_names():
                break
            if line.startswith(_UNSUPPORTED):
                raise refuse(f"The patch has {line[:60]!r}, which is not supported. Use shell for binary files and copies.")
            for key in ("rename from", "rename to", "new file mode", "deleted file mode", "new mode"):
                if line.startswith(key + " "):
                    facts[key] = line[len(key) + 1 :]
            self._at += 1
        if "rename from" in facts and "rename to" in facts:
            facts["old"], facts["new"] = "a/" + _name(facts["rename from"]), "b/" + _name(facts["rename to"])
        return facts

    def _ends_hunk(self) -> bool:
        """Whether this is no line of a hunk: the next file's names, a mail's signature, or a blank line with nothing of it below."""
        line = self._lines[self._at]
        if line:
            return self._at_names() or line == "-- " or line[0] not in " +-\\"
        below = next((line for line in self._lines[self._at :] if line), "")
        return not below.startswith((" ", "+", "-")) or below.startswith("--- ")

    def _hunk(self, path: str) -> Hunk:
        header = _HEADER.match(self._lines[self._at])
        self._at += 1
        number = int(header[1]) if header else None
        old_left = int(header[2] or 1) if header else 0
        new_left = int(header[4] or 1) if header else 0
        lines: list[PatchLine] = []
        open_end: bool | None = None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            counted = old_left > 0 or new_left > 0  # models miscount: more lines are taken than the header says
            if line.startswith(("@@", "diff --git ")) or (not counted and self._ends_hunk()):
                break
            self._at += 1
            if line.startswith("\\"):
                open_end = bool(lines) and lines[-1].op != "-"
                continue
            taken = _patch_line(line, f"line {self._at} of the patch, in {path},")
            old_left -= taken.op != "+"
            new_left -= taken.op != "-"
            lines.append(taken)
        if number is not None and not any(line.op != "+" for line in lines):
            number += 1  # `-N,0` inserts after line N
        return Hunk(tuple(lines), line=number, open_end=open_end)


def _file_patch(facts: dict[str, str], old: str, new: str, hunks: tuple[Hunk, ...]) -> FilePatch:
    mode = facts.get("new file mode") or facts.get("new mode")
    if mode is not None and not mode.startswith("100"):
        raise refuse(f"The patch makes {new or old} a link or a submodule (mode {mode}), which is not supported. Use shell.")
    executable = None if mode is None else mode.endswith("755")
    if not old or "new file mode" in facts:
        texts = [line.text for hunk in hunks for line in hunk.lines if line.op == "+"]
        open_end = any(hunk.open_end for hunk in hunks)
        content = "\n".join(texts) + ("" if open_end or not texts else "\n")
        return FilePatch(new, "add", content=content.encode(), executable=executable)
    if not new or "deleted file mode" in facts:
        return FilePatch(old, "delete", hunks)
    if not hunks and old == new and executable is None:
        raise refuse(f"The patch has no hunk for {new}. Give the lines to change, under a line `@@ -1,3 +1,4 @@`.")
    return FilePatch(old, "update", hunks, move_to=new if new != old else None, executable=executable)


def _name(text: str) -> str:
    """A path of a header: without its time, and without git's quotes."""
    name = text.split("\t", 1)[0].strip()
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    escapes = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
    parts = re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", name[1:-1])
    decoded = (
        bytes([int(octal, 8) & 255]) if octal else escapes.get(char, char.encode()) if char else plain.encode()
        for octal, char, plain in parts
    )
    return b"".join(decoded).decode("utf-8", "replace")


def _without_prefix(old: str, new: str) -> tuple[str, str]:
    """Without git's `a/` and `b/`, where both sides have them; `""` for /dev/null."""
    bare_old = "" if old == "/dev/null" else old
    bare_new = "" if new == "/dev/null" else new
    if (not bare_old or bare_old.startswith("a/")) and (not bare_new or bare_new.startswith("b/")):
        return bare_old[2:], bare_new[2:]
    return bare_old, bare_new


# --- search and replace -------------------------------------------------------------------------------------------------------


def _blocks(lines: Sequence[str]) -> Iterator[FilePatch]:
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        opening = re.match(r"(<{7,}) SEARCH (.+)$", lines[at].strip())
        if opening is None:
            raise refuse(f"Line {at + 1} of the patch is {lines[at][:80]!r}, where `<<<<<<< SEARCH PATH` was expected.")
        width, path = len(opening[1]), opening[2].strip()
        middle = _mark(lines, at + 1, "=" * width, path)
        end = _mark(lines, middle + 1, ">" * width + " REPLACE", path)
        yield _block(path, lines[at + 1 : middle], lines[middle + 1 : end])
        at = end + 1


def _mark(lines: Sequence[str], start: int, mark: str, path: str) -> int:
    for at in range(start, len(lines)):
        if lines[at].rstrip() == mark:
            return at
    raise refuse(f"The block of {path} has no line `{mark}`: it may be cut off. Send the patch whole.")


def _block(path: str, old: Sequence[str], new: Sequence[str]) -> FilePatch:
    if not old:
        return FilePatch(path, "add", content="".join(line + "\n" for line in new).encode())
    lines = [*(PatchLine("-", text) for text in old), *(PatchLine("+", text) for text in new)]
    return FilePatch(path, "update", (Hunk(tuple(lines), whole=True),))


# --- applying -----------------------------------------------------------------------------------------------------------------


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
        end = self._ends[min(start, len(self._ends) - 1)] if self._ends else self._usual_end
        for op, text in hunk.lines:
            if op == "+":
                lines.append(Line(text.encode(), end, -1))
                continue
            if op == " ":
                lines.append(Line(self._bodies[at], self._ends[at], self._origins[at]))
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
            if places:
                return self._choose(hunk, name, places, drift)
        raise ToolFailed(self._conflict(hunk, name, cursor))

    def _below(self, anchors: Sequence[str], name: str, cursor: int) -> int:
        for anchor in anchors:
            wanted = anchor.encode()
            stripped = [body.strip() for body in self._bodies[cursor:]]
            found = next((at for at, body in enumerate(stripped) if body == wanted), None)
            if found is None:
                found = next((at for at, body in enumerate(stripped) if wanted in body), None)
            if found is None:
                below = f" below line {cursor}" if cursor else ""
                raise ToolFailed(f"{self._label}: {name} is under `@@ {anchor}`, but no line{below} has that. Name one that is there.")
            cursor += found + 1
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
        return f"\n{_NO_NEWLINE}" if self._open_end and number == len(self._bodies) - 1 else ""


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


__all__ = ["FilePatch", "Hunk", "PatchLine", "Text", "counts", "parse", "unified_diff"]
