"""What `plugin_may_skip` does to a run, seen from outside: a small project, a real pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugin_may_skip import allowed

HERE = Path(__file__).parent

SKIPS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="too cold")
def test_is_skipped():
    pass

@pytest.mark.parametrize("n", [1, 2])
def test_is_skipped_inside(n):
    pytest.skip("no room")

@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False

@pytest.mark.xfail(strict=False)
def test_passes_against_expectation():
    pass
"""


def run(folder: Path, source: str, may_skip: str = "") -> tuple[int, str]:
    (folder / "tests").mkdir()
    (folder / "tests" / "may_skip.txt").write_text(may_skip)
    (folder / "tests" / "test_small.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "plugin_may_skip", "-p", "no:cacheprovider", "-q", "-rA"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(HERE), "NO_COLOR": "1"}, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_skipped_or_xfailed_test_fails_the_run_and_says_why(tmp_path: Path) -> None:
    status, output = run(tmp_path, SKIPS)
    assert status == 1
    assert "4 failed, 1 passed, 1 error" in output
    assert "too cold" in output
    assert "no room" in output


def test_a_test_that_the_page_names_for_this_platform_may_be_skipped(tmp_path: Path) -> None:
    names = ("test_is_skipped", "test_is_skipped_inside", "test_is_expected_to_fail", "test_passes_against_expectation")
    page = "".join(f"tests/test_small.py::{name} | {sys.platform} | nothing here has it\n" for name in names)
    status, output = run(tmp_path, SKIPS, page)
    assert status == 0, output
    assert "3 skipped, 1 xfailed, 1 xpassed" in output


def test_a_test_that_the_page_names_for_another_platform_may_not(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPS, "tests/test_small.py::test_is_skipped | plan9 | no reason\n")[0] == 1


def test_a_file_that_skips_itself_while_it_is_collected_fails_the_run(tmp_path: Path) -> None:
    status, output = run(tmp_path, 'import pytest\npytest.importorskip("a_module_that_nobody_has")\n')
    assert status != 0
    assert "a_module_that_nobody_has" in output


@pytest.mark.parametrize(
    "line", ["tests/x.py::test_a", "tests/x.py::test_a | linux |", "tests/x.py::test_a | * | because", "a | b | c | d"]
)
def test_a_line_that_says_too_little_is_an_error(line: str) -> None:
    with pytest.raises(pytest.UsageError, match=r"may_skip.txt:1"):
        allowed(line, "linux")
