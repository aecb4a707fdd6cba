"""SECURITY 14: for which shell lines the sandbox lets `.git` be written."""

from __future__ import annotations

import pytest

from palaver.policy.plain_git import is_plain_git

PLAIN = (
    "git add -A",
    "git commit -m 'a message; with $words'",
    "git add . && git commit -m x && git push origin main",
    "git status | git log",
    "git checkout -b next; git rebase main",
    "git log >/dev/null",
)
NOT_PLAIN = (
    "",
    "ls",
    "git",
    "git add . && make",
    "git add . && rm -rf .git/hooks",
    "git config core.hooksPath x",
    "git remote add o x",
    "git init",
    "git clone x",
    "git submodule foreach 'rm x'",
    "git bisect run ./x",
    "git filter-branch --tree-filter ./x",
    "git -c core.hooksPath=x commit",
    "git -C other commit",
    "git --exec-path=. commit",
    "git --git-dir=x add .",
    "git rebase --exec ./x main",
    "git rebase -x ./x main",
    "git log > .git/hooks/post-commit",
    "git log --output=.git/hooks/post-commit",
    "git commit -m $(./x)",
    "GIT_DIR=x git add .",
    "GIT_EDITOR=./x git commit",
    "./git add .",
    "bin/git add .",
    "$GIT add .",
    "git $X",
    "env git add .",
    "sudo git add .",
    "sh -c 'git add .'",
    "cd x && git add .",
    "git my-alias",
    "git grep -O./x y",
    "git add . & ./x",
    "git add 'unterminated",
)


@pytest.mark.parametrize("line", PLAIN)
def test_a_line_of_nothing_but_git_is_plain(line: str) -> None:
    assert is_plain_git(line)


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_what_runs_or_could_run_something_else_is_not_plain(line: str) -> None:
    assert not is_plain_git(line)
