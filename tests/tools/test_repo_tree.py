from __future__ import annotations

import os
from pathlib import Path

import pytest
from tool_bench import Bench

from palaver.wire.values import Location


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace)


def test_a_folder_is_shown_as_a_tree_folders_first(bench: Bench) -> None:
    """S4-56."""
    for name in ("README.md", "src/app/main.py", "src/app/deep/down/far.py", "src/app/deep/near.py", "src/z.py", "docs/a.md"):
        bench.write(name, "x")
    assert bench.text("repo_tree").splitlines() == [
        *("docs/", "  a.md"),
        *("src/", "  app/", "    deep/ (2 files)", "    main.py", "  z.py"),
        "README.md",
    ]
    assert bench.text("repo_tree", path="src/app/deep").splitlines() == ["down/", "  far.py", "near.py"]


def test_depth_one_counts_what_lies_below(bench: Bench) -> None:
    for name in ("a/1", "a/b/2", "a/b/c/3", "top"):
        bench.write(name, "")
    assert bench.text("repo_tree", depth=1) == "a/ (3 files)\ntop"


def test_a_chain_of_single_folders_is_one_line(bench: Bench) -> None:
    bench.write("src/main/java/org/example/App.java", "")
    assert bench.text("repo_tree") == "src/main/java/org/example/\n  App.java"


def test_what_gitignore_names_is_not_there_in_a_repository_and_outside_of_one(bench: Bench) -> None:
    bench.write(".gitignore", "*.log\n/build/\n")
    for name in ("a.log", "build/out", "kept.txt", ".github/workflows/ci.yml", ".git/config", "sub/.git"):
        bench.write(name, "")
    assert bench.text("repo_tree", depth=9).splitlines() == [".github/workflows/", "  ci.yml", ".gitignore", "kept.txt"]
    assert bench.text("repo_tree", path="sub").startswith("sub has no files, or .gitignore")


def test_links_are_no_files_and_lead_nowhere(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    bench.write("inside/a", "")
    (bench.workspace / "out").symlink_to(tmp_path / "outside")
    (bench.workspace / "in").symlink_to("inside")
    assert bench.text("repo_tree") == "inside/\n  a"
    assert bench.text("repo_tree", path="in") == "a"
    assert "outside the workspace" in bench.fails("repo_tree", path="out")
    assert "outside the workspace" in bench.fails("repo_tree", path="..")


def test_folders_of_palaver_are_left_out(bench: Bench) -> None:
    bench.write("da[t]a, {x}/token", "")
    bench.write("a", "")
    bench.hidden = (bench.workspace / "da[t]a, {x}",)
    assert bench.text("repo_tree") == "a"
    assert "belongs to Palaver" in bench.fails("repo_tree", path="da[t]a, {x}")


def test_a_file_or_nothing_is_told_what_to_do_instead(bench: Bench) -> None:
    bench.write("src/a.py", "")
    assert bench.fails("repo_tree", path="src/a.py") == "src/a.py is a file. Use read_file, or name a folder."
    assert bench.fails("repo_tree", path="scr") == "scr is not there. In the workspace there is: src/."
    assert bench.text("repo_tree", path="src/..").startswith("src/")


def test_an_empty_workspace_says_so(bench: Bench) -> None:
    assert bench.text("repo_tree") == ". has no files, or .gitignore leaves all of them out."


def test_a_huge_folder_is_cut_and_says_so(bench: Bench) -> None:
    for number in range(700):
        bench.write(f"f{number:03}", "")
    result = bench.run("repo_tree")
    assert result.truncated
    lines = (result.parts[0].text or "").splitlines()
    assert (len(lines), lines[-1]) == (601, "[100 lines more: name a folder, or a smaller depth]")


def test_a_planted_rg_is_not_run(bench: Bench) -> None:
    """SECURITY 11."""
    bench.write("rg", "#!/bin/sh\ntouch canary\n").chmod(0o755)
    bench.write("ripgreprc", "--follow\n")
    bench.env = {"PATH": f".:{bench.workspace}:{os.environ['PATH']}", "RIPGREP_CONFIG_PATH": str(bench.workspace / "ripgreprc")}
    (bench.workspace / "link").symlink_to("/etc")
    assert bench.text("repo_tree") == "rg\nripgreprc"
    assert not (bench.workspace / "canary").exists()


def test_names_in_any_bytes_are_shown(bench: Bench) -> None:
    with open(os.fsencode(bench.workspace) + b"/caf\xe9\n.txt", "wb"):
        pass
    assert bench.text("repo_tree") == "caf\ufffd\n.txt"


@pytest.mark.parametrize("input", [{"path": ""}, {"depth": 0}, {"depth": 33}, {"depth": "2"}, {"folder": "a"}, {"path": "a\0"}])
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, object]) -> None:
    assert bench.refuses("repo_tree", **input)


def test_a_call_is_described_by_the_folder_it_reads(bench: Bench) -> None:
    bench.write("src/a", "")
    told = bench.describe("repo_tree", path="src")
    assert (told.title, told.locations) == ("List src", (Location("src"),))
    assert told.reads == (os.path.realpath(bench.workspace / "src"),)
    assert bench.describe("repo_tree").title == "List the workspace"
