"""The bench makes its table: with counts so small that the numbers mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "bench" / "run.py"
FAMILIES = (
    "starting", "accepting", "appending", "streaming", "fanning", "history", "looping", "changing", "rivals", "repository", "paging",
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_measurements_gives_rows_in_the_agreed_shape(family: str, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, str(RUN), "--tiny", "--only", family, "--out", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(results.read_text())
    assert rows
    for row in rows:
        assert set(row) == {"name", "unit", "value", "floor", "ratio", "goal", "ok"}
        assert row["name"] in done.stdout
        assert row["ok"] is True or row["goal"] is not None, "where there is no goal all is well"
        assert (row["ratio"] is None) == (row["floor"] is None)


def test_without_only_every_family_is_measured() -> None:
    done = subprocess.run([sys.executable, str(RUN), "--help"], capture_output=True, text=True, timeout=30, check=True)
    assert all(family in done.stdout for family in FAMILIES)
