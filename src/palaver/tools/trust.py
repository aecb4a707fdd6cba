"""What verify commands rest on: the files that say what they run, by their hashes (SECURITY.md 16).

AGENTS.md where it gave the list, the makefiles of each `make` with what they include, and files that a command names itself.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from palaver.tools.verify_commands import MAKEFILES, read, said_by_agents_md

UNKNOWN = "?"
"""In place of a hash, of what cannot be told: trust in it never holds."""
_INCLUDE = re.compile(r"\s*[-s]?include\s+(.*)")
_MOST = 200
"""Files that are looked at: whoever includes more is asked each time."""
_LARGEST = 16 * 1024 * 1024
"""Bytes of one of them."""


def rests_on(workspace: Path, commands: Sequence[str]) -> dict[str, str]:
    """By path, from the workspace where it is inside. Blocks on the disk."""
    found: dict[str, str] = {}
    if said_by_agents_md(read(workspace / "AGENTS.md")) == tuple(commands):
        found["AGENTS.md"] = _hash(workspace / "AGENTS.md")
    for command in commands:
        try:
            words = _words(command)
        except ValueError:
            found[command] = UNKNOWN
            continue
        for word in words:
            if not os.path.isabs(word) and (workspace / word).is_file():
                found[word] = _hash(workspace / word)
        if any(os.path.basename(word) in ("make", "gmake") for word in words):
            for folder in _folders(workspace, words):
                for path in _makefiles(folder, words):
                    found[os.path.relpath(path, workspace)] = _hash(path)
                    found |= _included(path, folder, workspace, len(found))
    return found


def _words(line: str) -> list[str]:
    """Of every command in the line: `cd sub;make` holds three. Raises `ValueError`."""
    read_in = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    read_in.whitespace_split = True
    return list(read_in)


def _folders(workspace: Path, words: Sequence[str]) -> list[Path]:
    """Where `make` may run: what `-C` says, else wherever the line may have changed to."""
    if named := _value(words, "-C", "--directory"):
        return [workspace / named]
    after = [workspace / word for before, word in pairwise(words) if before in ("cd", "pushd")]
    return after or [workspace]


def _makefiles(folder: Path, words: Sequence[str]) -> Iterator[Path]:
    """The named one, else all that `make` would look for, there or not: one that appears is another beginning."""
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


def _included(makefile: Path, folder: Path, workspace: Path, known: int) -> dict[str, str]:
    """What it includes, and what that includes, by names from where `make` runs. One that is only known when it runs is unknown."""
    found: dict[str, str] = {}
    waiting = [makefile]
    while waiting:
        for line in read(waiting.pop()).replace("\\\n", " ").splitlines():
            match = _INCLUDE.fullmatch(line.split("#")[0])
            for name in match[1].split() if match else ():
                if known + len(found) >= _MOST or set(name) & set("$*?[`"):
                    found[f"include {name}"] = UNKNOWN
                    continue
                path = folder / name
                relative = os.path.relpath(path, workspace)
                if relative not in found:
                    found[relative] = _hash(path)
                    waiting.append(path)
    return found


def _hash(path: Path) -> str:
    """Of its content; of what is not there, none. Never waits for a pipe, and what is no plain file or too large is unknown."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError:
        return UNKNOWN
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return UNKNOWN
        return sha256(opened.read(_LARGEST + 1)).hexdigest()


__all__ = ["UNKNOWN", "rests_on"]
