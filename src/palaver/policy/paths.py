"""Paths as text: what lies inside of what, what a pattern names, what a shell line mentions. Nothing here looks at a disk.

What restricts (protected, guarded, denied) compares names as a file system without upper and lower case would; what permits compares
them exactly.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise

from palaver.policy.command import Line, Part
from palaver.policy.programs import name_of, removes, writes

_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_MAX_BASES = 4
_NAME = re.compile(r"[\w.-]")

_GUARDED_NAMES = frozenset("agents.md claude.md .mcp.json opencode.json .envrc makefile gnumakefile".split())
_GUARDED_FOLDERS = frozenset(".palaver .claude .codex .pi .gemini .qwen .opencode .vscode .idea .husky".split())
_GUARDED_PAIR = (".github", "workflows")
GUARDED = (*sorted(_GUARDED_NAMES), *sorted(_GUARDED_FOLDERS), "/".join(_GUARDED_PAIR))
"""All of them, wherever they stand: what a sandbox keeps from being written."""


def folded(path: str) -> str:
    """The name that a forgiving file system would take it for: no case, no invisible characters, one form of accents."""
    return path.lower() if path.isascii() else _IGNORABLE.sub("", unicodedata.normalize("NFC", path)).casefold()


def clean(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes."""
    return "/" + posixpath.normpath(path).lstrip("/")


def is_inside(path: str, folder: str) -> bool:
    """Whether it is the folder or lies below it."""
    path, folder = clean(path), clean(folder)
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def is_inside_any(path: str, folders: Iterable[str]) -> bool:
    """The same, for what restricts."""
    path = clean(folded(path))
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in map(_plain, folders))


@lru_cache(maxsize=64)
def _plain(folder: str) -> str:
    return clean(folded(folder))


def relative(path: str, workspace: str) -> str:
    """As people write it: from the workspace where it is inside, else the whole."""
    return posixpath.relpath(clean(path), clean(workspace)) if is_inside(path, workspace) else clean(path)


def is_git_internal(path: str) -> bool:
    """`.git` itself or anything below one."""
    return ".git" in folded(path).split("/")


def is_guarded(path: str, workspace: str, more: Iterable[str]) -> bool:
    """Whether other programs obey what stands there (SECURITY.md 15)."""
    names = folded(relative(path, workspace)).split("/")
    return (
        names[-1] in _GUARDED_NAMES
        or not _GUARDED_FOLDERS.isdisjoint(names)
        or any(pair == _GUARDED_PAIR for pair in pairwise(names))
        or is_inside_any(path, more)
    )


# --- patterns -----------------------------------------------------------------------------------------------------------------


def pattern_matches(pattern: str, path: str, workspace: str, home: str | None, *, forgiving: bool) -> bool:
    """Whether a rule's `path` names this path.

    `*` and `?` stay within a name, `**` crosses folders, everything else is itself. A relative pattern starts at the workspace, `~/` at
    home. A pattern whose last name has no wildcard also names what is below it.
    """
    whole = _absolute(pattern, workspace, home)
    if whole is None:
        return False
    path = clean(path)
    if forgiving:
        whole, path = folded(whole), folded(path)
    below = not has_wildcard(whole.rpartition("/")[2])
    return _matches(whole, path) or (below and _matches(f"{whole}/**", path))


def has_wildcard(path: str) -> bool:
    return "*" in path or "?" in path


def _absolute(pattern: str, workspace: str, home: str | None) -> str | None:
    if pattern == "~" or pattern.startswith("~/"):
        return None if home is None else clean(home + pattern[1:])
    return clean(posixpath.join(workspace, pattern))


def _matches(pattern: str, path: str) -> bool:
    """One pass over the names of the path, with every place in the pattern that can be reached."""
    parts = pattern.split("/")
    places = _reach(parts, {0})
    for name in path.split("/"):
        step = {place for place in places if place < len(parts) and parts[place] == "**"}
        step |= {place + 1 for place in places if place < len(parts) and _name_matches(parts[place], name)}
        places = _reach(parts, step)
    return len(parts) in places


def _reach(parts: list[str], places: set[int]) -> set[int]:
    reached = set(places)
    for place in sorted(places):
        while place < len(parts) and parts[place] == "**":
            place += 1
            reached.add(place)
    return reached


def _name_matches(pattern: str, name: str) -> bool:
    return pattern != "**" and fnmatchcase(name, pattern.replace("[", "[[]"))


# --- what a shell line mentions -----------------------------------------------------------------------------------------------


def mentioned(line: Line, start: str, home: str | None) -> tuple[str, ...]:
    """Every path that a word of the line may name. A word that only looks like a path counts too."""
    words = (word.text for part in line.parts for word in (*part.words, *part.files, *part.sources))
    return _candidates(words, _bases(line, start, home), home)


def written(line: Line, start: str, home: str | None) -> tuple[str, ...]:
    """Those that it would change, as far as redirections and the programs that change files tell."""
    words = (text for part in line.parts for text in (*(word.text for word in part.files), *writes(part.words)))
    return _candidates(words, _bases(line, start, home), home)


def removed(line: Line, start: str, home: str | None) -> tuple[str, ...]:
    """Those that it would remove, move or open with everything below them."""
    words = (text for part in line.parts for text in removes(part.words))
    return _candidates(words, _bases(line, start, home), home)


def names_folder(text: str, folder: str, shown: Iterable[str], home: str | None) -> bool:
    """Whether a text holds the folder's path in any spelling, other than on the way into a folder that may be seen."""
    text = folded(text)
    open_below = [clean(folded(path))[len(clean(folded(folder))) :] for path in shown if is_inside(path, folder)]
    return any(_occurs(text, spelling, open_below) for spelling in _spellings(folder, home))


def _spellings(folder: str, home: str | None) -> list[str]:
    spellings = [clean(folded(folder))]
    if home is not None and is_inside(folder, home):
        rest = clean(folded(folder))[len(clean(folded(home))) :]
        spellings += [f"{start}{rest}" for start in ("~", "$home", "${home}")]
    return spellings


def _occurs(text: str, spelling: str, open_below: list[str]) -> bool:
    at = text.find(spelling)
    while at >= 0:
        rest = text[at + len(spelling) : at + len(spelling) + 4096]
        ends = not _NAME.match(rest)
        seen = any(rest.startswith(below) and not _NAME.match(rest[len(below) :]) and "/.." not in rest for below in open_below)
        if ends and not seen:
            return True
        at = text.find(spelling, at + 1)
    return False


def _bases(line: Line, start: str, home: str | None) -> list[str]:
    """Where its relative paths may start: where the line starts, and wherever it changes to."""
    bases = [start]
    for part in line.parts:
        if len(bases) < _MAX_BASES and (target := _changes_to(part)) is not None:
            bases.append(_resolve(target, bases[-1], home))
    return bases


def _changes_to(part: Part) -> str | None:
    if len(part.words) > 1 and name_of(part.words[0]) in ("cd", "pushd"):
        return part.words[-1].text
    return None


def _candidates(words: Iterable[str], bases: list[str], home: str | None) -> tuple[str, ...]:
    """What these words may name: they, and what follows a `=` or `@` in them. Each once: wrappers repeat what they carry."""
    pieces = dict.fromkeys(piece for text in dict.fromkeys(words) for piece in (text, text.partition("=")[2], text.partition("@")[2]))
    return tuple(_resolve(piece, base, home) for piece in pieces if piece and not piece.startswith("-") for base in bases)


def _resolve(text: str, base: str, home: str | None) -> str:
    if home is not None and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return clean(posixpath.join(base, text))
