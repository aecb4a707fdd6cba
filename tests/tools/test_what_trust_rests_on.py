"""SECURITY 16: the files that verify commands rest on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palaver.tools.trust import UNKNOWN, rests_on


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text("include a.mk deep/b.mk  # more\n-include maybe.mk\ntest:\n\ttrue\n")
    (tmp_path / "a.mk").write_text("sinclude c.mk\n")
    (tmp_path / "c.mk").write_text("include a.mk\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.mk").write_text("")
    (tmp_path / "deep" / "Makefile").write_text("test:\n")
    (tmp_path / "check.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("make test", {"GNUmakefile", "makefile", "Makefile", "a.mk", "c.mk", "deep/b.mk", "maybe.mk"}),
        ("/usr/bin/make -s -C deep test", {"deep/GNUmakefile", "deep/makefile", "deep/Makefile"}),
        ("make -f a.mk", {"a.mk", "c.mk"}),
        ("make --file=c.mk x", {"a.mk", "c.mk"}),
        ("python check.py --fast", {"check.py"}),
        ("pytest -q", set()),
        ("cd deep && make test", {"deep/GNUmakefile", "deep/makefile", "deep/Makefile"}),
        ("cd deep;make test", {"deep/GNUmakefile", "deep/makefile", "deep/Makefile"}),
        ("(make -f a.mk)", {"a.mk", "c.mk"}),
    ],
)
def test_commands_rest_on_makefiles_and_what_they_include_and_on_files_they_name(work: Path, command: str, files: set[str]) -> None:
    assert set(rests_on(work, [command])) == files


def test_agents_md_counts_where_it_gave_the_list(work: Path) -> None:
    (work / "AGENTS.md").write_text("verify: pytest -q\n")
    assert set(rests_on(work, ["pytest -q"])) == {"AGENTS.md"}
    assert set(rests_on(work, ["pytest"])) == set()


@pytest.mark.parametrize("line", ["include $(MORE)", "include *.mk", "-include `ls`", "include x[12].mk"])
def test_what_is_only_known_when_it_runs_is_never_trusted(work: Path, line: str) -> None:
    (work / "Makefile").write_text(f"{line}\ntest:\n")
    assert UNKNOWN in rests_on(work, ["make test"]).values()


@pytest.mark.parametrize("name", ["Makefile", "a.mk", "c.mk", "deep/b.mk"])
def test_every_change_of_them_shows_and_so_does_one_that_appears(work: Path, name: str) -> None:
    before = rests_on(work, ["make test"])
    assert rests_on(work, ["make test"]) == before
    with (work / name).open("a") as file:
        file.write("# changed\n")
    changed = rests_on(work, ["make test"])
    assert changed != before
    (work / "maybe.mk").write_text("")
    assert rests_on(work, ["make test"]) != changed


def test_names_in_included_files_start_where_make_runs(work: Path) -> None:
    (work / "Makefile").write_text("include deep/b.mk \\\n  a.mk\ntest:\n")
    (work / "deep" / "b.mk").write_text("include deep/e.mk\n")
    assert {"deep/b.mk", "deep/e.mk", "a.mk", "c.mk"} <= set(rests_on(work, ["make test"]))


def test_a_pipe_and_an_endless_file_are_never_waited_for_and_never_trusted(work: Path) -> None:
    """SECURITY 13: who lays a FIFO there does not hold up the turn."""
    os.mkfifo(work / "GNUmakefile")
    with (work / "a.mk").open("wb") as sparse:
        sparse.truncate(50 << 30)
    found = rests_on(work, ["make test"])
    assert (found["GNUmakefile"], found["a.mk"]) == (UNKNOWN, UNKNOWN)
