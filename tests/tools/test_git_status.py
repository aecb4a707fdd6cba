from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tool_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace)


def git(bench: Bench, *words: str) -> None:
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}
    clean = {"PATH": os.environ["PATH"], "HOME": str(bench.workspace.parent), "GIT_CONFIG_NOSYSTEM": "1", **who}
    subprocess.run(["git", "-C", str(bench.workspace), *words], check=True, env=clean, capture_output=True)


def test_branch_commits_and_changed_paths_are_told(bench: Bench) -> None:
    """S4-60."""
    git(bench, "init", "-q", "-b", "main")
    assert bench.text("git_status") == "On branch main, without a commit yet.\n\nNothing differs from the last commit."
    for name in ("kept", "changed", "gone", "old name"):
        bench.write(name, f"this is {name}\n" * 9)
    git(bench, "add", ".")
    git(bench, "commit", "-q", "-m", "First – ünïcode")
    bench.write("changed", "other\n")
    (bench.workspace / "gone").unlink()
    git(bench, "mv", "old name", "new name")
    bench.write("sub/untracked", "")
    lines = bench.text("git_status").splitlines()
    assert lines[0].startswith("On branch main, at ") and lines[1].endswith(" First – ünïcode")
    assert lines[2] == "" and set(lines[3:]) == {"R  new name (was old name)", " M changed", " D gone", "?? sub/untracked"}


def test_a_folder_without_a_repository_says_so(bench: Bench) -> None:
    assert bench.text("git_status") == "The workspace is in no git repository."


def test_many_changes_are_cut_and_counted(bench: Bench) -> None:
    git(bench, "init", "-q")
    for number in range(320):
        bench.write(f"f{number}", "")
    result = bench.run("git_status")
    assert result.truncated and (result.parts[0].text or "").endswith("[20 paths more]")


def test_nothing_of_the_repositorys_config_is_run(bench: Bench) -> None:
    """SECURITY 12; `test_git.py` tries every way, this the one that `git status` would take."""
    git(bench, "init", "-q")
    git(bench, "config", "core.fsmonitor", f"touch {bench.workspace}/canary")
    bench.write("a", "")
    assert "?? a" in bench.text("git_status")
    assert not (bench.workspace / "canary").exists()


@pytest.mark.parametrize("input", [{"path": "."}, {"verbose": True}])
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, object]) -> None:
    assert bench.refuses("git_status", **input).endswith("It takes {}.")


def test_a_call_is_described(bench: Bench) -> None:
    told = bench.describe("git_status")
    assert (told.title, told.reads) == ("Look at git's status", (os.path.realpath(bench.workspace),))
