"""Which commands check the work in a folder, where the settings name none: what its AGENTS.md says, else its Makefile.

AGENTS.md says it in one of two ways, and nothing else in it is taken for a command:

- lines `verify: make test` (in a list too, and in backticks), one command each;
- the first heading with the word `verify` or `test` in it: the first fenced shell block below it, a command a line, else the lines that
  are nothing but one command in backticks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOST = 256 * 1024
"""Bytes of a file that are looked at."""
_VERIFY_LINE = re.compile(r"\s*(?:[-*+]\s+)?verify:\s*(\S.*)", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_ABOUT_CHECKS = re.compile(r"\b(verify|verifying|verification|tests?|testing)\b", re.IGNORECASE)
_FENCE = re.compile(r"\s*(```+|~~~+)\s*(\w*)")
_SHELLS = frozenset(("", "sh", "bash", "shell", "console"))
_ALONE = re.compile(r"\s*(?:[-*+]\s+)?`([^`]+)`\s*")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which GNU make looks for them."""


def find_commands(workspace: Path, configured: Sequence[str] | None = None) -> tuple[str, ...]:
    """The settings' commands, else AGENTS.md's, else `make test` where there is such a target, else none. Blocks on the disk."""
    if configured is not None:
        return tuple(configured)
    return said_by_agents_md(read(workspace / "AGENTS.md")) or (("make test",) if _has_make_test(workspace) else ())


def said_by_agents_md(text: str) -> tuple[str, ...]:
    lines = text.splitlines()
    if named := [_bare(match[1]) for line in lines if (match := _VERIFY_LINE.fullmatch(line))]:
        return tuple(named)
    section = list(_section(lines))
    return tuple(_fenced(section)) or tuple(match[1].strip() for line in section if (match := _ALONE.fullmatch(line)))


def _bare(command: str) -> str:
    match = _ALONE.fullmatch(command)
    return (match[1] if match else command).strip()


def _section(lines: Sequence[str]) -> Iterator[str]:
    """What stands between the first heading about checks and the next heading; a `#` in a fenced block is no heading."""
    inside, fence = False, ""
    for line in lines:
        if (mark := _FENCE.match(line)) and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            if inside:
                return
            inside = _ABOUT_CHECKS.search(heading[1]) is not None
            continue
        if inside:
            yield line


def _fenced(section: Sequence[str]) -> Iterator[str]:
    """The lines of the first shell block that has any."""
    fence, shell, found = "", False, False
    for line in section:
        if fence and line.strip() == fence:
            if found:
                return
            fence = ""
        elif fence:
            command = line.strip().removeprefix("$ ")
            if shell and command and not command.startswith("#"):
                found = True
                yield command
        elif mark := _FENCE.match(line):
            fence, shell = mark[1], mark[2].lower() in _SHELLS


def _has_make_test(workspace: Path) -> bool:
    makefile = next((workspace / name for name in MAKEFILES if (workspace / name).is_file()), None)
    return makefile is not None and any(map(_makes_test, read(makefile).splitlines()))


def _makes_test(line: str) -> bool:
    targets, colon, rest = line.partition(":")
    return bool(colon) and not line.startswith(("\t", " ", "#")) and not rest.startswith(("=", ":=")) and "test" in targets.split()


def read(path: Path) -> str:
    """The beginning of a plain file; nothing where there is none. Never waits for a pipe."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(file, _MOST).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(file).st_mode) else ""
    finally:
        os.close(file)


__all__ = ["MAKEFILES", "find_commands", "read", "said_by_agents_md"]
