"""SECURITY 15: where hooks stand when git's settings say so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palaver.tools.hooks import hook_folders


@pytest.mark.parametrize(
    "settings",
    [
        "[core]\n\thooksPath = tools/hooks\n",
        '[CORE]\nbare = false\nHOOKSPATH="tools/hooks" ; said twice\n',
        "[core] hookspath=tools/hooks # here\n",
        "[user]\n\tname = x\n[core]\n\thooksPath = ./tools/../tools/hooks\n",
    ],
)
def test_the_repositorys_settings_name_its_hooks(tmp_path: Path, settings: str) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / "below").mkdir()
    (tmp_path / "work" / ".git" / "config").write_text(settings)
    named = (str((tmp_path / "work" / "tools" / "hooks").resolve()),)
    assert hook_folders(tmp_path / "work", tmp_path) == named
    assert hook_folders(tmp_path / "work" / "below", tmp_path) == named


@pytest.mark.parametrize("settings", ["", "[core]\nbare = false\n", '[core "x"]\nhooksPath = a\n', "[other]\nhooksPath = a\n"])
def test_settings_that_name_none_guard_nothing(tmp_path: Path, settings: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(settings)
    assert hook_folders(tmp_path, tmp_path / "nobody") == ()


def test_the_persons_own_settings_count_in_every_repository(tmp_path: Path) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = ~/hooks\n")
    home = Path("~/hooks").expanduser()
    assert hook_folders(tmp_path / "work", tmp_path) == (str(home.resolve()),)
    assert hook_folders(tmp_path, tmp_path) == ()


def test_a_pipe_in_place_of_the_settings_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "config")
    assert hook_folders(tmp_path, tmp_path / "nobody") == ()
