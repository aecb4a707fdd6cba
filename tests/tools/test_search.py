from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tool_bench import PATH, Bench, words

from palaver.tools.output import SHOWN


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "ws")
    bench.write("a.py", "alpha = 1\nbeta = (2)\n")
    bench.write("src/b.py", "gamma(alpha)\n")
    bench.write("src/c.txt", "alpha\n")
    return bench


def test_matches_come_as_path_line_and_text_in_the_order_of_paths(bench: Bench) -> None:
    """S4-59."""
    assert bench.text("search", pattern="alpha") == "a.py:1:alpha = 1\nsrc/b.py:1:gamma(alpha)\nsrc/c.txt:1:alpha"
    assert bench.text("search", pattern="alpha", path="src") == "src/b.py:1:gamma(alpha)\nsrc/c.txt:1:alpha"
    assert bench.text("search", pattern="alpha", path="src/b.py") == "src/b.py:1:gamma(alpha)"
    assert bench.text("search", pattern="alpha", glob="*.py") == "a.py:1:alpha = 1\nsrc/b.py:1:gamma(alpha)"
    assert bench.text("search", pattern="alpha", glob="!src/**") == "a.py:1:alpha = 1"


def test_the_pattern_is_plain_text_unless_it_is_called_a_regex(bench: Bench) -> None:
    assert bench.text("search", pattern="(2)") == "a.py:2:beta = (2)"
    assert bench.text("search", pattern="a.*a") == "No line matches a.*a in the workspace."
    assert bench.text("search", pattern="^a.*1$", regex=True) == "a.py:1:alpha = 1"
    assert "regex parse error" in bench.fails("search", pattern="(", regex=True)


@pytest.mark.parametrize("pattern", ["-", "--", "-e", "--pre=./evil", "--files", "-f/etc/passwd"])
def test_a_pattern_is_never_an_option(bench: Bench, pattern: str) -> None:
    """SECURITY 11: patterns that start with `-`."""
    bench.write("dash.txt", f"x {pattern} y\n")
    assert bench.text("search", pattern=pattern) == f"dash.txt:1:x {pattern} y"


def test_a_glob_and_a_path_are_never_options(bench: Bench) -> None:
    """SECURITY 11: globs and paths that start with `-`."""
    bench.write("--pre", "alpha\n")
    bench.write("-d/--files", "alpha\n")
    assert bench.text("search", pattern="alpha", path="--pre") == "--pre:1:alpha"
    assert bench.text("search", pattern="alpha", path="-d") == "-d/--files:1:alpha"
    assert bench.text("search", pattern="alpha", glob="--files") == "-d/--files:1:alpha"
    assert "not there" in bench.fails("search", pattern="alpha", path="--no-ignore")


def test_a_config_file_of_rg_and_planted_programs_are_not_used(bench: Bench) -> None:
    """SECURITY 11: RIPGREP_CONFIG_PATH; `rg` and `msgspec.py` planted in the folder."""
    canary = bench.workspace / "canary"
    for name in ("rg", "bin/rg", "pre"):
        bench.write(name, f"#!/bin/sh\n: > {canary}\n").chmod(0o755)
    bench.write("msgspec.py", f"open({str(canary)!r}, 'w')\n")
    bench.write("rgrc", f"--pre={bench.workspace}/pre\n")
    bench.env = {"PATH": f".:{bench.workspace}/bin:{bench.workspace}:{PATH}", "RIPGREP_CONFIG_PATH": str(bench.workspace / "rgrc")}
    assert "a.py:1:alpha = 1" in bench.text("search", pattern="alpha")
    assert not canary.exists()


def test_what_gitignore_names_and_gits_own_folder_are_left_out_and_dot_files_are_not(bench: Bench) -> None:
    bench.write(".gitignore", "ignored/\n")
    bench.write("ignored/x.py", "needle\n")
    bench.write(".git/config", "needle\n")
    bench.write(".github/workflow.yml", "needle\n")
    assert bench.text("search", pattern="needle") == ".github/workflow.yml:1:needle"


def test_nothing_is_found_through_a_link_that_leads_out(bench: Bench) -> None:
    """SECURITY 13."""
    outside = bench.workspace.parent / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("needle\n")
    (bench.workspace / "door").symlink_to(outside)
    (bench.workspace / "file").symlink_to(outside / "x.txt")
    assert bench.text("search", pattern="needle").startswith("No line")
    assert "outside the workspace" in bench.fails("search", pattern="needle", path="door")
    assert "outside the workspace" in bench.fails("search", pattern="needle", path="file")


def test_hidden_folders_are_not_searched_whatever_the_glob(bench: Bench) -> None:
    """SECURITY 13: built-in reads refuse the data folder."""
    bench.write("da[t]a, {x}/token", "needle\n")
    bench.hidden = (bench.workspace / "da[t]a, {x}",)
    assert bench.text("search", pattern="needle").startswith("No line")
    assert bench.text("search", pattern="needle", glob="**/token").startswith("No line")
    assert "belongs to Palaver" in bench.fails("search", pattern="needle", path="da[t]a, {x}")
    bench.hidden = ()
    assert bench.text("search", pattern="needle") == "da[t]a, {x}/token:1:needle"


def test_what_is_found_is_bounded(bench: Bench) -> None:
    bench.write("many.txt", "needle\n" * 5_000)
    result = bench.run("search", pattern="needle")
    assert result.truncated
    assert len(words(result).split("\n")) == 201
    bench.write("wide.txt", "wide " + "x" * 10_000_000)
    text = bench.text("search", pattern="wide")
    assert text.startswith("wide.txt:1:wide xxx")
    assert len(text) < 600
    bench.write("long.txt", ("long " + "x" * 300 + "\n") * 200)
    assert len(bench.text("search", pattern="long")) < SHOWN + 200


def test_binary_files_and_special_files_are_passed_over(bench: Bench) -> None:
    bench.write("bin", b"needle\0needle\n")
    os.mkfifo(bench.workspace / "pipe")
    assert bench.text("search", pattern="needle").startswith("No line")
    assert "no regular file" in bench.fails("search", pattern="needle", path="pipe")


@pytest.mark.parametrize(
    "input", [{}, {"pattern": ""}, {"pattern": "a\nb"}, {"pattern": "a", "query": "b"}, {"pattern": "a", "regex": "yes"}]
)
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, object]) -> None:
    bench.refuses("search", **input)


def test_a_call_is_described_by_the_folder_it_reads(bench: Bench) -> None:
    told = bench.describe("search", pattern="alpha", path="src")
    assert (told.title, told.reads) == ("Search for alpha in src", (os.path.realpath(bench.workspace / "src"),))


def test_importing_the_tools_runs_nothing_of_the_current_folder(bench: Bench) -> None:
    """SECURITY 11: our Python children run with `-P`: a planted `msgspec.py` is not imported."""
    bench.write("msgspec.py", "raise SystemExit('planted')\n")
    told = subprocess.run(
        [sys.executable, "-P", "-c", "import palaver.tools; print('fine')"],
        cwd=bench.workspace,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout == "fine\n", told
