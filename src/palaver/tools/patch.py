"""Patches as data: three ways to write one. `patch_text.py` applies them.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from palaver.tools.arguments import refuse

NO_NEWLINE = "\\ No newline at end of file"

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
            if not at_end and line != NO_NEWLINE:
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
        if any(line.rstrip() == "=" * width for line in lines[middle + 1 : end]):
            raise refuse(f"The block of {path} has `{'=' * width}` more than once. Use longer marks of one length throughout.")
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


__all__ = ["NO_NEWLINE", "FilePatch", "Hunk", "PatchLine", "parse"]
