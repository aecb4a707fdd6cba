from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from palaver.changes.ignored import Ignored
from palaver.changes.scan import scan

RULES = r"""
# a comment
*.log
!keep.log
/top
build/
doc/*.txt
a/**/z
**/deep
logs/**
[Tt]emp[0-9]
[!x]only
\#hash
\!bang
trailing{}
star*star
q?q
/nested/*
!/nested/kept
[[:digit:]]num
es\*cape
""".replace("{}", "   ")

PATHS = [
    *("x.log keep.log sub/y.log sub/keep.log top sub/top build/f sub/build/f buildf doc/a.txt doc/sub/a.txt a/z a/b/z a/b/c/z".split()),
    *("deep x/deep x/y/deep/f logs/f logs/a/b temp1 Temp2 tempx yonly xonly #hash !bang trailing starXstar star/star q1q qq".split()),
    *("nested/one nested/kept nested/kept/f 7num xnum es*cape esXcape ü/x.log src/main.py".split()),
    "with blank.log",
]


def by_git(folder: Path) -> set[str]:
    """What git itself would leave: the judge."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=folder, env=env, check=True)
    listed = subprocess.run(["git", "ls-files", "-z", "-o", "--exclude-standard"], cwd=folder, env=env, check=True, capture_output=True)
    return {path.decode() for path in listed.stdout.split(b"\0") if path} - {".gitignore"}


def by_us(folder: Path) -> set[str]:
    """But the rules at the root themselves: those are looked at even if they leave themselves out."""
    found = scan(folder, {}, lambda hash, data: None, now_ns=0)
    return {path for path, entry in found.changed.items() if entry is not None and entry.version.kind != "folder"} - {".gitignore"}


def make(folder: Path, rules: str, paths: list[str]) -> None:
    (folder / ".gitignore").write_text(rules)
    for path in paths:
        file = folder / path
        if not any((folder / part).is_file() for part in list(Path(path).parents)[:-1]) and not file.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")


def test_what_is_left_out_is_what_git_leaves_out(tmp_path: Path) -> None:
    make(tmp_path, RULES, PATHS)
    (tmp_path / "sub").mkdir(exist_ok=True)
    (tmp_path / "sub" / ".gitignore").write_text("!y.log\n/own\n")
    for name in ("own", "other"):
        (tmp_path / "sub" / name).write_text("")
    assert by_us(tmp_path) == by_git(tmp_path)
    assert "sub/y.log" in by_us(tmp_path)


@pytest.mark.parametrize(
    "rules", ["*\n!*.py\n!*/\n", "/*\n!/src\n", "**/a/**\n", "a/\n!a/b\n", "*.py[co]\n", "a**b\n", "/\n", "!\n", "[\n", "\\\n"]
)
def test_rules_of_every_shape_are_read_as_git_reads_them(tmp_path: Path, rules: str) -> None:
    paths = "a/b a/c/d src/x.py src/y.txt x.py x.pyc b/a/b aXb a/Xb [ \\".split()
    make(tmp_path, rules, paths)
    assert by_us(tmp_path) == by_git(tmp_path)


def test_rules_above_the_workspace_and_of_the_repository_count(tmp_path: Path) -> None:
    make(tmp_path, "*.log\n/sub/rooted\n", ["sub/a.log", "sub/rooted", "sub/mine", "sub/b.py", "sub/sub/rooted"])
    by_git(tmp_path)
    (tmp_path / ".git" / "info" / "exclude").write_text("mine\n")
    assert by_us(tmp_path / "sub") == {"b.py", "sub/rooted"}


def test_the_deeper_file_and_the_later_line_win() -> None:
    rules = Ignored()
    rules.add("", "*.a\n!x.a\nx.a\n*.b\n")
    rules.add("d", "!*.b\n")
    assert [rules.leaves_out(path, False) for path in ("x.a", "y.a", "z.b", "d/z.b", "d/x.a")] == [True, True, True, False, True]
