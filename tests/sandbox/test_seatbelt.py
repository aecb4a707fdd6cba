"""The profile of macOS as a text. That it holds is for a Mac to say: no test here runs it."""

from __future__ import annotations

import re

import pytest

from palaver.policy.paths import GUARDED
from palaver.sandbox.orders import Orders, read
from palaver.sandbox.seatbelt import command, profile


def orders(*, git: bool = False, network: bool = False) -> Orders:
    own = ["/work/.git"] if git else []
    return Orders("seatbelt", "/work", "/tmp/mine", "/work/sub", ["/home/u/.ssh"], GUARDED, ["/work/tools/hooks"], own, network)


def denied(text: str) -> list[re.Pattern[str]]:
    """The patterns of what may not be written."""
    return [re.compile(found.replace("\\\\", "\\")) for found in re.findall(r'\(deny file-write\* \(regex #"(.*)"\)\)', text)]


@pytest.mark.parametrize(
    ("path", "is_denied"),
    [
        ("/work/Makefile", True),
        ("/work/deep/er/AGENTS.md", True),
        ("/work/agents.MD", True),
        ("/work/.vscode/tasks.json", True),
        ("/work/.github/workflows/ci.yml", True),
        ("/work/.git/config", True),
        ("/work/.git", True),
        ("/work/sub/.git/hooks/x", True),
        ("/work/Makefile.am", False),
        ("/work/.github/README.md", False),
        ("/work/.gitignore", False),
        ("/work/a.git/x", False),
        ("/other/Makefile", False),
    ],
)
def test_guarded_names_are_denied_wherever_they_stand(path: str, is_denied: bool) -> None:
    assert any(pattern.search(path) for pattern in denied(profile(orders()))) is is_denied


@pytest.mark.parametrize(
    ("path", "is_denied"),
    [
        ("/work/.git/index", False),
        ("/work/.git/refs/heads/config", False),
        ("/work/.git/config", True),
        ("/work/.git/hooks/post-commit", True),
        ("/work/.git/modules/x/config", True),
        ("/work/.git/worktrees/x/config.worktree", True),
    ],
)
def test_git_writes_its_folder_but_not_its_settings_and_hooks(path: str, is_denied: bool) -> None:
    assert any(pattern.search(path) for pattern in denied(profile(orders(git=True)))) is is_denied


def test_what_denies_stands_behind_what_allows() -> None:
    """The last rule that matches decides."""
    lines = profile(orders()).split("\n")
    opened = next(number for number, line in enumerate(lines) if '(subpath "/work")' in line)
    for rule in ('(deny file-read* file-write* (subpath "/home/u/.ssh"))', '(deny file-write* (subpath "/work/tools/hooks"))'):
        assert lines.index(rule) > opened
    assert "(deny network*)" in lines and not any("allow network" in line for line in lines)
    assert any("allow network-outbound" in line for line in profile(orders(network=True)).split("\n"))
    assert command(orders(), ["/bin/sh"])[0] == "/usr/bin/sandbox-exec"


def test_orders_go_over_a_command_line_and_come_back() -> None:
    sent = orders(git=True, network=True)
    back, rest = read([*sent.words(), "/bin/sh", "-c", "--"])
    assert vars(back) == vars(sent) and rest == ["/bin/sh", "-c", "--"]
