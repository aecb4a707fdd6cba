"""The words of the command line, their help, and the completion that is made from them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.cli.completion import script
from palaver.cli.parser import make_parser

COMMANDS = ("serve", "open", "token", "sessions", "send", "attach", "run", "doctor", "completion")


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = make_parser()._actions
    return next(dict(action.choices) for action in actions if isinstance(action, argparse._SubParsersAction))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_that_parses(name: str) -> None:
    parser = commands()[name]
    text = parser.format_help()
    assert "--data" in text and "--config" in text and "--url" in text
    assert parser.epilog is not None and parser.epilog.startswith("example:\n")
    for line in parser.epilog.splitlines()[1:]:
        words = _palaver_words(line)
        assert make_parser().parse_args(words).command == name


def _palaver_words(line: str) -> list[str]:
    """What the shell would hand to palaver, were the line typed."""
    part = line.split("$(")[1].split(")")[0] if "$(" in line else line
    part = next(piece for piece in part.split("|") if piece.strip().startswith("palaver "))
    done = subprocess.run(["bash", "-c", f'palaver() {{ printf "%s\\0" "$@"; }}; {part}'], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("line", ["--data X sessions --json", "sessions --data X --json"])
def test_which_daemon_may_be_said_before_or_after_the_command(line: str) -> None:
    args = make_parser().parse_args(line.split())
    assert (args.data, args.config, args.url, args.json) == ("X", None, None, True)


@pytest.mark.parametrize(
    "line",
    [
        "serve --port 65536",
        "serve --port x",
        "run",
        "run x --timeout 0",
        "token --scope read,write",
        "token --days 0",
        "attach",
        "nonsense",
        "run x --work .",
    ],
)
def test_wrong_usage_ends_with_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args(line.split())
    assert caught.value.code == 2
    assert "usage: palaver" in capsys.readouterr().err


def complete(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    path = folder / "palaver.bash"
    path.write_text(script(make_parser(), "bash"))
    line = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _palaver; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", line, str(path), "palaver", *words], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    assert complete(tmp_path, "s") == ["serve", "sessions", "send"]
    assert complete(tmp_path, "--ver") == ["--version"]
    assert complete(tmp_path, "serve", "--p") == ["--port", "--print-url"]
    assert complete(tmp_path, "--data", "x", "run", "--time") == ["--timeout"]
    assert complete(tmp_path, "send", "last", "hi", "--delivery", "st") == ["steer"]
    assert complete(tmp_path, "completion", "") == [word for word in complete(tmp_path, "completion", "") if word]
    assert {"bash", "zsh", "fish"} <= set(complete(tmp_path, "completion", ""))
    (tmp_path / "my-settings.toml").touch()
    assert complete(tmp_path, "doctor", "--config", "my") == ["my-settings.toml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_completion_knows_every_option_of_every_command(shell: str) -> None:
    text = script(make_parser(), shell)
    for name, parser in commands().items():
        assert name in text
        for action in parser._actions:
            for word in action.option_strings:
                assert (f"-l {word[2:]}" if shell == "fish" and word.startswith("--") else word) in text or shell == "fish"


@pytest.mark.parametrize("name", [None, *COMMANDS])
@pytest.mark.parametrize("columns", ["72", "100"])
def test_help_fits_the_terminal(name: str | None, columns: str) -> None:
    command = [sys.executable, "-m", "palaver.cli.main", *([name] if name else []), "--help"]
    done = subprocess.run(command, env={**os.environ, "COLUMNS": columns}, capture_output=True, text=True, check=True)
    prose = done.stdout.split("example:")[0]  # an example is one line, so that it can be copied
    assert max(map(len, prose.splitlines())) <= int(columns)
