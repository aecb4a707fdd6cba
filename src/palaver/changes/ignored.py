"""What `.gitignore` files leave out, by git's rules. Pure: text in, answers out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ALWAYS = frozenset((".git", "node_modules", ".venv", "__pycache__"))
"""Names of folders that are left out whatever the rules say: they belong to tools, and change without anybody's work having changed."""


class _Pattern(NamedTuple):
    regex: str
    again: bool
    """It begins with `!`: what it matches is not left out."""
    folders: bool
    """It ends with `/`: only folders match."""
    by_name: bool
    """It has no other `/`: it is about the name alone, at any depth."""


class _Group(NamedTuple):
    """Patterns that follow each other and say the same, as one expression each for names and for paths."""

    again: bool
    file_name: re.Pattern[str] | None
    file_path: re.Pattern[str] | None
    folder_name: re.Pattern[str] | None
    folder_path: re.Pattern[str] | None

    def matches(self, path: str, name: str, folder: bool) -> bool:
        of_name, of_path = (self.folder_name, self.folder_path) if folder else (self.file_name, self.file_path)
        return (of_name is not None and of_name.fullmatch(name) is not None) or (
            of_path is not None and of_path.fullmatch(path) is not None
        )


class Ignored:
    """The rules of a tree: those of each folder are added when the walk comes to it. A deeper file wins, then the later line."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[_Group, ...]] = {}
        self._above: list[tuple[str, tuple[_Group, ...]]] = []

    def add(self, folder: str, text: str) -> None:
        """`folder`: `""` for the root of the tree, else `a/b`."""
        if groups := tuple(_groups(text)):
            self._groups[folder] = groups

    def add_above(self, prefix: str, text: str) -> None:
        """The rules of a folder above the root, the outermost first; `prefix` is the root as seen from there: `a/b/`."""
        if groups := tuple(_groups(text)):
            self._above.append((prefix, groups))

    @property
    def empty(self) -> bool:
        return not (self._groups or self._above)

    def leaves_out(self, path: str, folder: bool) -> bool:
        """Whether `path` (`a/b/name`) is left out, given that the folders above it are not."""
        name = path.rsplit("/", 1)[-1]
        at = path
        while at:
            at = at.rpartition("/")[0]
            if groups := self._groups.get(at):
                said = _said(groups, path[len(at) + 1 :] if at else path, name, folder)
                if said is not None:
                    return said
        for prefix, groups in reversed(self._above):
            said = _said(groups, prefix + path, name, folder)
            if said is not None:
                return said
        return False


def _said(groups: Sequence[_Group], path: str, name: str, folder: bool) -> bool | None:
    for group in reversed(groups):
        if group.matches(path, name, folder):
            return not group.again
    return None


def _groups(text: str) -> Iterator[_Group]:
    waiting: list[_Pattern] = []
    for line in text.split("\n"):
        pattern = _pattern(line)
        if pattern is None:
            continue
        if waiting and waiting[0].again != pattern.again:
            yield _group(waiting)
            waiting = []
        waiting.append(pattern)
    if waiting:
        yield _group(waiting)


def _group(patterns: Sequence[_Pattern]) -> _Group:
    def one(folder: bool, by_name: bool) -> re.Pattern[str] | None:
        regexes = [pattern.regex for pattern in patterns if pattern.by_name == by_name and (folder or not pattern.folders)]
        return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL) if regexes else None

    return _Group(patterns[0].again, one(False, True), one(False, False), one(True, True), one(True, False))


def _pattern(line: str) -> _Pattern | None:
    """One line; None for a blank one, a comment and what can match nothing."""
    text = line.removesuffix("\r")
    stripped = text.rstrip(" ")
    text = stripped + " " if stripped.endswith("\\") and stripped != text else stripped
    again = text.startswith("!")
    text = text[1:] if again else text
    if not text or (text.startswith("#") and not again):
        return None
    folders = text.endswith("/") and not text.endswith("\\/")
    text = text.rstrip("/") if folders else text
    if not text:
        return None
    by_name = "/" not in text
    try:
        regex = _translated(text.removeprefix("/"))
        re.compile(regex)
    except re.error:
        return None
    return _Pattern(regex, again, folders, by_name)


_NOTHING = "(?!)"
"""Of a set that is not closed and of a `\\` at the end: git matches nothing with them."""


def _translated(glob: str) -> str:
    """As a regular expression for a whole path, or a whole name."""
    out, at = [], 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
        elif glob[at:] == "**" and at > 0 and glob[at - 1] == "/":
            out.append(".+")
            at += 2
        else:
            piece, at = _one(glob, at)
            out.append(piece)
    return "".join(out)


def _one(glob: str, at: int) -> tuple[str, int]:
    match glob[at]:
        case "*":
            while glob.startswith("*", at):
                at += 1
            return "[^/]*", at
        case "?":
            return "[^/]", at + 1
        case "[" if found := re.match(r"\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]", glob[at:]):
            return _set(found[0]), at + len(found[0])
        case "[":
            return _NOTHING, len(glob)
        case "\\":
            return (re.escape(glob[at + 1]), at + 2) if at + 1 < len(glob) else (_NOTHING, at + 1)
        case char:
            return re.escape(char), at + 1


_CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s", "xdigit": "0-9a-fA-F"}


def _set(text: str) -> str:
    inner, negated = text[1:-1], text[1] in "!^"
    inner = inner[1:] if negated else inner
    inner = re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], ""), inner)
    inner = re.sub(r"(\\.)|([\[\]&~|])", lambda match: match[1] or f"\\{match[2]}", inner)
    return f"(?!/)[{'^' if negated else ''}{inner}]"


__all__ = ["ALWAYS", "Ignored"]
