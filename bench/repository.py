"""A repository of many files: what a turn is shown of it, and a search in it, against the programs that the work rests on, run bare."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from measure import Row, at_most, in_turn, row
from palaver.context.repository import Repositories
from palaver.tools import ToolCall, ToolContext
from palaver.tools.search import Search
from palaver.wire.ids import CallId
from scale import Scale

QUESTION = "Where is the tariff of a parcel computed, and which ledger keeps it?"
ROOM = 3_000
WORDS = (
    "parcel tariff ledger route depot driver window invoice customs weight label stamp queue retry parse encode merge split cache index"
).split()
PARSE = """
import sys
from pathlib import Path
from palaver.context.symbols import symbols
for path in Path(sys.argv[1]).rglob("*.py"):
    symbols(path.read_bytes(), "python")
"""
RG = str(Path(sysconfig.get_path("scripts"), "rg"))


def rows(scale: Scale) -> Iterator[Row]:
    with repository(scale.files) as folder, tempfile.TemporaryDirectory(prefix="palaver-bench-") as cache:
        fresh = count()
        parse = [sys.executable, "-c", PARSE, str(folder)]
        values, floors = in_turn(scale.few_rounds, lambda: _bundled(folder, Path(cache, f"cold{next(fresh)}")), lambda: _ran(parse))
        note = "nothing is known yet; the floor reads and parses the same files and keeps nothing"
        yield row(f"context bundle of {scale.files} files, cold", "ms", values, floors, goal=at_most(4), note=note)

        kept = Path(cache, "kept")
        note = "nothing has changed; the floor is rg --files and git status, run bare"
        values, floors = in_turn(scale.rounds, lambda: _bundled(folder, kept), lambda: _looked(folder))
        yield row(f"context bundle of {scale.files} files, warm", "ms", values, floors, goal=at_most(6), note=note)

        def changed() -> float:
            (folder / "module_00000.py").write_text(f"def changed_{next(fresh)}(): ...\n")
            return _bundled(folder, kept)

        values, floors = in_turn(scale.rounds, changed, lambda: _looked(folder))
        yield row(f"context bundle of {scale.files} files, one changed", "ms", values, floors, note="the same floor")

        for name, pattern in (("few", "tariff_of_parcel_00"), ("many", "return")):
            bare = [RG, "-e", pattern, "./"]
            values, floors = in_turn(scale.rounds, partial(_searched, folder, pattern), partial(_ran, bare, folder))
            note = "the tool stops at 200 matches and sorts them by path; the floor is rg run bare, which does neither"
            yield row(f"search with {name} matches in {scale.files} files", "ms", values, floors, note=note)


@contextmanager
def repository(files: int) -> Iterator[Path]:
    """So many small modules in a few hundred folders, committed."""
    folder = Path(tempfile.mkdtemp(prefix="palaver-bench-"))
    try:
        for number in range(files):
            place = folder / f"part_{number % 211:03}" if number else folder
            place.mkdir(exist_ok=True)
            (place / f"module_{number:05}.py").write_text(_source(number))
        clean = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "bench"]):
            subprocess.run(["git", *words], cwd=folder, check=True, env=clean, stdout=subprocess.DEVNULL)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _source(number: int) -> str:
    def word(step: int) -> str:
        return WORDS[(number * 7 + step * 13 + number // 20) % len(WORDS)]

    body = "".join(
        f"    def {word(step)}_of_{word(step + 1)}_{number:05}(self, {word(step + 2)}: int) -> int:\n"
        f'        """The {word(step)} of a {word(step + 1)}, by its {word(step + 2)}."""\n'
        f"        total = self.{word(step + 3)} + {word(step + 2)} * {step}\n"
        f"        return total\n\n"
        for step in range(12)
    )
    return f'"""What a {word(0)} needs of the {word(5)}."""\n\n\nclass {word(0).title()}{number:05}:\n    {word(3)} = {number}\n\n{body}'


def _reach(folder: Path) -> ToolContext:
    async def artifact(name: str, data: bytes, mime_type: str) -> str:
        return name

    return ToolContext(folder, "sess", "turn", "call", {"PATH": os.environ["PATH"]}, lambda stream, text: None, artifact)


def _bundled(folder: Path, cache: Path) -> float:
    repositories = Repositories(cache, 600.0)
    began = time.perf_counter()
    assert "parcel" in asyncio.run(repositories.bundle(_reach(folder), QUESTION, ROOM))
    return (time.perf_counter() - began) * 1000


def _searched(folder: Path, pattern: str) -> float:
    began = time.perf_counter()
    result = asyncio.run(Search().invoke(_reach(folder), ToolCall(CallId("call"), "search", {"pattern": pattern})))
    assert result.ok
    return (time.perf_counter() - began) * 1000


def _looked(folder: Path) -> float:
    return _ran([RG, "--files"], folder) + _ran(["git", "status", "--porcelain"], folder)


def _ran(command: list[str], folder: Path | None = None) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1), done.stderr
    return (time.perf_counter() - began) * 1000
