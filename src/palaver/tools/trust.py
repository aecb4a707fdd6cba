"""What verify commands rest on: the files that say what they run, by their hashes (SECURITY.md 16).

AGENTS.md where it gave the list, the makefiles of each `make` with what they include, and files that a command names itself.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from palaver.tools.verify_commands import MAKEFILES, read, said_by_agents_md

UNKNOWN = "?"
"""In place of a hash, of what cannot be told: trust in it never holds."""
_INCLUDE = re.compile(r"\s*[-s]?include\s+(.*)")
_MOST = 200
"""Files that are looked at: whoever includes more is asked each time."""


def rests_on(workspace: Path, commands: Sequence[str]) -> dict[str, str]:
    """By path, from the workspace where it is inside. Blocks on the disk."""
    found: dict[str, str] = {}
    if said_by_agents_md(read(workspace / "AGENTS.md")) == tuple(commands):
        found["AGENTS.md"] = _hash(workspace / "AGENTS.md")
    for command in commands:
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            found[command] = UNKNOWN
            continue
        for word in words:
            if not os.path.isabs(word) and (workspace / word).is_file():
                found[word] = _hash(workspace / word)
        if any(os.path.basename(word) in ("make", "gmake") for word in words):
            for path in _makefiles(workspace, words):
                found[os.path.relpath(path, workspace)] = _hash(path)
                found |= _included(path, workspace, len(found))
    return found


def _makefiles(workspace: Path, words: Sequence[str]) -> Iterator[Path]:
    """The named one, else all that `make` would look for, there or not: one that appears is another beginning."""
    folder = workspace / (_value(words, "-C", "--directory") or ".")
    named = _value(words, "-f", "--file", "--makefile")
    yield from [folder / named] if named else [folder / name for name in MAKEFILES]


def _value(words: Sequence[str], *names: str) -> str | None:
    for word, after in zip(words, (*words[1:], ""), strict=True):
        for name in names:
            if word == name:
                return after
            if word.startswith(f"{name}=" if name.startswith("--") else name):
                return word[len(name) :].removeprefix("=")
    return None


def _included(makefile: Path, workspace: Path, known: int) -> dict[str, str]:
    """What it includes, and what that includes. A name that is only known when it runs is unknown."""
    found: dict[str, str] = {}
    waiting = [makefile]
    while waiting:
        for line in read(waiting.pop()).splitlines():
            match = _INCLUDE.fullmatch(line.split("#")[0])
            for name in match[1].split() if match else ():
                if known + len(found) >= _MOST or set(name) & set("$*?[`"):
                    found[f"include {name}"] = UNKNOWN
                    continue
                path = makefile.parent / name
                relative = os.path.relpath(path, workspace)
                if relative not in found:
                    found[relative] = _hash(path)
                    waiting.append(path)
    return found


def _hash(path: Path) -> str:
    """Of its content; of what is not there, none."""
    try:
        with path.open("rb") as file:
            return sha256(file.read()).hexdigest() if path.is_file() else UNKNOWN
    except FileNotFoundError:
        return ""
    except OSError:
        return UNKNOWN


__all__ = ["UNKNOWN", "rests_on"]
