"""The ranker against questions with known answers, on packages that we did not write."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from questions import PINNED, QUESTIONS, Question
from rooms import Room

from palaver.context.repository import Repositories
from palaver.models.tokens import estimate

CACHE = Path(__file__).parents[2] / ".cache" / "sdists"
ROOM = 3_000


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages' source distributions, unpacked; downloaded once and kept in `.cache`."""
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = [pin for pin in PINNED if not (CACHE / f"{pin.replace('==', '-')}.tar.gz").exists()]
    if missing:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(CACHE), *missing]
        subprocess.run(command, check=True, timeout=280)
    folder = tmp_path_factory.mktemp("sources")
    for pin in PINNED:
        with tarfile.open(CACHE / f"{pin.replace('==', '-')}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return {pin.partition("==")[0]: folder / pin.replace("==", "-") for pin in PINNED}


@pytest.mark.timeout(300)
def test_it_names_an_answer_in_its_first_ten_files_for_16_of_20_questions(
    sources: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within its budget; the unranked tree's score is printed beside it."""
    repositories = Repositories(tmp_path / "cache", 60.0)
    rows = asyncio.run(_asked(repositories, sources))
    ranked, tree = sum(row[1] for row in rows), sum(row[2] for row in rows)
    with capsys.disabled():
        print(f"\nnamed in the first ten: {ranked} of {len(rows)}; by the unranked tree: {tree} of {len(rows)}")
    assert ranked >= 16, [question.text for question, named, _ in rows if not named]
    assert tree < ranked


async def _asked(repositories: Repositories, sources: dict[str, Path]) -> list[tuple[Question, bool, bool]]:
    rows = []
    for question in QUESTIONS:
        folder = sources[question.package]
        text = await repositories.bundle(Room(folder).reach(), question.text, ROOM)
        assert estimate(text) <= ROOM
        named = re.findall(r"^\d+\. (\S+) \(", text, re.MULTILINE)
        assert len(named) == 10
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not os.path.islink(path))
        rows.append((question, bool(question.answers & set(named)), bool(question.answers & set(files[:10]))))
    return rows
