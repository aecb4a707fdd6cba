"""Where a repository's hooks stand when its settings say so: what stands there is run, so it is guarded (SECURITY.md 15)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_SECTION = re.compile(r"\s*\[\s*([\w.-]+)\s*(?:\"([^\"]*)\")?\s*\](.*)")
_VALUE = re.compile(r"\s*hookspath\s*=\s*(.*?)\s*(?:[#;].*)?$", re.IGNORECASE)
_MOST = 256 * 1024


def hook_folders(workspace: Path, home: Path) -> tuple[str, ...]:
    """What `core.hooksPath` names for the repository of this folder, by its own settings and the person's. Blocks on the disk.

    Settings that include other files are read without those.
    """
    top = next((folder for folder in (workspace, *workspace.parents) if (folder / ".git").exists()), None)
    if top is None:
        return ()
    own = top / ".git"
    files = [own / "config", own / "config.worktree", home / ".gitconfig", home / ".config" / "git" / "config"]
    named = (value for file in files for value in _named(file))
    return tuple(dict.fromkeys(os.path.realpath(top / os.path.expanduser(value)) for value in named if value))


def _named(file: Path) -> Iterator[str]:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # there is none
    with os.fdopen(opened, "rb") as settings:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return  # a pipe would hold up every call
        text = settings.read(_MOST).decode("utf-8", "replace")
    section = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section, line = match[1].lower() if match[2] is None else "", match[3]
        if section == "core" and (value := _VALUE.match(line)):
            yield value[1].strip('"')


__all__ = ["hook_folders"]
