"""The files below a folder as ripgrep lists them: what .gitignore names is left out, and so is what no tool may read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from palaver.errors import ToolFailed
from palaver.tools.base import ToolContext
from palaver.tools.environment import find_program
from palaver.tools.paths import Spot, folder_for_child
from palaver.tools.processes import run
from palaver.wire.values import Stream

MOST_FILES = 100_000
_TIMEOUT_S = 60.0
_LONGEST_NAME = 1 << 16

FIXED = ("--no-config", "--no-follow", "--hidden", "--no-require-git", "--color=never")
"""What every start of rg says: nothing of the folder or of the person's settings changes what is looked at, and no link is followed."""


@dataclass
class Listing:
    """Paths below the folder, sorted, with `/` between their parts and in whatever bytes they have."""

    paths: list[str]
    more: bool
    """There are more than were asked for, or the listing took too long."""


async def list_files(context: ToolContext, place: Spot, *, most: int = MOST_FILES) -> Listing:
    """Every file below the folder at `place`; links are no files. Raises `ToolFailed`."""
    program = find_program("rg", context.env.get("PATH", os.defpath), context.workspace)
    names = _Names(most)
    command = [program, "--files", "--null", *FIXED, *left_out(context, place), "--", "./"]
    ended = await run(command, folder=folder_for_child(place), env=context.env, sink=names.take, timeout_s=_TIMEOUT_S)
    if ended.why == "exited" and ended.status not in (0, 1) and not names.found:
        said = names.errors.decode("utf-8", "replace").strip() or f"rg ended with {ended.status}"
        raise ToolFailed(f"{place.label} could not be listed: {said}.")
    return Listing(sorted(names.found), names.more or ended.why == "timeout")


def left_out(context: ToolContext, place: Spot) -> list[str]:
    """Globs after the model's own, so that they win: git's internals and folders that no tool reads."""
    inside = [Path(os.path.realpath(folder)) for folder in context.hidden]
    below = [folder.relative_to(place.path) for folder in inside if folder != place.path and folder.is_relative_to(place.path)]
    return ["--glob=!**/.git/**", "--glob=!**/.git", *(f"--iglob=!/{_literal(str(folder))}" for folder in below)]


def _literal(path: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]{}\\!," else char for char in path)


@dataclass
class _Names:
    """What `rg --files --null` prints, bounded."""

    most: int
    found: list[str] = field(default_factory=list)
    errors: bytes = b""
    more: bool = False
    _rest: bytes = b""

    def take(self, stream: Stream, data: bytes) -> bool:
        if stream == "stderr":
            self.errors = (self.errors + data)[:4_000]
            return True
        *names, self._rest = (self._rest + data).split(b"\0")
        room = self.most - len(self.found)
        self.found += [os.fsdecode(name.removeprefix(b"./")) for name in names[:room]]
        self.more = self.more or len(names) > room or len(self._rest) > _LONGEST_NAME
        return not self.more


__all__ = ["FIXED", "MOST_FILES", "Listing", "left_out", "list_files"]
