"""What a turn's files cost: the checkpoint before it writes, the look at its end, and a patch."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import Row, at_most, in_turn, row
from palaver.changes.checkpoint import Checkpoints
from palaver.tools.apply_patch import ApplyPatch
from palaver.tools.base import ToolContext
from palaver.wire.ids import CallId
from palaver.wire.values import ToolCall
from scale import Scale

_ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_LINES = 60
"""Of each file."""


def rows(scale: Scale) -> Iterator[Row]:
    with TemporaryDirectory(prefix="palaver-bench-") as home:
        work, numbers = Path(home, "work"), count()
        _fill(work, scale.files)
        cold = in_turn(
            scale.few_rounds, lambda: _cold(work, Path(home, f"store-{next(numbers)}")), lambda: _added_cold(work, Path(home, "git"))
        )
        note = "the floor: git add -A into a scratch index and a new object store"
        yield row(f"checkpoint of {scale.files} files, cold", "ms", *cold, goal=at_most(1), note=note)
        checkpoints = Checkpoints(work, Path(home, "warm", "changes.sqlite"))
        checkpoints.begin("t", "s", seconds=600)
        warm = in_turn(
            scale.rounds,
            _after_a_change(work, numbers, lambda: checkpoints.look(seconds=600)),
            _after_a_change(work, numbers, lambda: _add(work, Path(home, "git"))),
        )
        note = "the floor: git add -A into the same scratch index again"
        yield row(f"checkpoint of {scale.files} files, one changed", "ms", *warm, goal=at_most(4), note=note)
        checkpoints.close()
        patches = in_turn(scale.rounds, lambda: _patched(work, scale.patches), lambda: _git_applied(work, scale.patches))
        note = "described and done, as a call is; the floor: git apply, a process each"
        yield row("a patch of one file", "ms", *patches, goal=at_most(1.5), note=note)


def _fill(work: Path, files: int) -> None:
    for number in range(files):
        file = work / f"d{number % 100}" / f"e{number % 7}" / f"f{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"line {line} of file {number}\n" for line in range(_LINES)))
    (work / ".gitignore").write_text("*.log\nbuild/\n")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _cold(work: Path, store: Path) -> float:
    checkpoints = Checkpoints(work, store / "changes.sqlite")
    try:
        return _timed(lambda: checkpoints.begin("t", "s", seconds=600))
    finally:
        checkpoints.close()
        shutil.rmtree(store)


def _added_cold(work: Path, git: Path) -> float:
    shutil.rmtree(git, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", str(git)], env=_ENV, check=True)
    return _timed(lambda: _add(work, git))


def _add(work: Path, git: Path) -> None:
    env = {**_ENV, "GIT_DIR": str(git), "GIT_WORK_TREE": str(work), "GIT_INDEX_FILE": str(git / "scratch")}
    subprocess.run(["git", "add", "-A"], cwd=work, env=env, check=True)


def _after_a_change(work: Path, numbers: Iterator[int], look: Callable[[], object]) -> Callable[[], float]:
    def once() -> float:
        (work / "d1" / "e1" / "f1.py").write_text(f"changed {next(numbers)}\n")
        return _timed(look)

    return once


def _diff(number: int, old: str, new: str) -> str:
    return f"--- a/p{number}.txt\n+++ b/p{number}.txt\n@@ -1,3 +1,3 @@\n one\n-{old}\n+{new}\n three\n"


def _ready(work: Path, patches: int) -> None:
    for number in range(patches):
        (work / f"p{number}.txt").write_text("one\ntwo\nthree\n")


def _patched(work: Path, patches: int) -> float:
    _ready(work, patches)
    tool, context = ApplyPatch(), ToolContext(work, "s", "t", "c", {}, lambda stream, text: None, _no_artifact)

    async def all_of_them() -> None:
        for number in range(patches):
            call = ToolCall(CallId("call"), "apply_patch", {"patch": _diff(number, "two", "2")})
            tool.describe(context, call)
            await tool.invoke(context, call)

    return _timed(lambda: asyncio.run(all_of_them())) / patches


def _git_applied(work: Path, patches: int) -> float:
    _ready(work, patches)

    def all_of_them() -> None:
        for number in range(patches):
            subprocess.run(["git", "apply", "-"], cwd=work, env=_ENV, input=_diff(number, "two", "2").encode(), check=True)

    return _timed(all_of_them) / patches


async def _no_artifact(name: str, data: bytes, mime_type: str) -> str:
    return name
