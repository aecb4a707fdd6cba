"""The commands that check the work: which they are, how they run, and what they leave in the log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tool_bench import Bench, words

from palaver.errors import ToolFailed
from palaver.tools.folder_state import changed, look, look_from_outside
from palaver.tools.verify import Verify
from palaver.tools.verify_commands import find_commands
from palaver.wire.events import VerifyCompleted
from palaver.wire.ids import CallId
from palaver.wire.values import ToolCall


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def noted(bench: Bench) -> VerifyCompleted:
    [fact] = bench.noted
    assert isinstance(fact, VerifyCompleted)
    return fact


# --- which commands -----------------------------------------------------------------------------------------------------------

MAKEFILE = "all:\n\techo all\ntest: all\n\techo tested\n"


@pytest.mark.parametrize(
    ("makefile", "has"),
    [
        (MAKEFILE, True),
        ("lint test check:\n\ttrue\n", True),
        ("test::\n\ttrue\n", True),
        ("tests:\n\ttrue\n", False),
        ("test := 3\n", False),
        ("test ::= 3\n", False),
        ("all:\n\ttest: it\n", False),
        ("# test: none\n", False),
        (".PHONY: test\n", False),
        ("", False),
    ],
)
def test_make_test_is_run_only_where_there_is_such_a_target(tmp_path: Path, makefile: str, has: bool) -> None:
    """S4-64, DESIGN 5.5."""
    (tmp_path / "Makefile").write_text(makefile)
    assert find_commands(tmp_path) == (("make test",) if has else ())


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("verify: npm test\n", ("npm test",)),
        ("- Verify: `npm test`\n- verify: npm run lint\n", ("npm test", "npm run lint")),
        ("# Tests\n```sh\n# all of them\n$ pytest -q\n\nruff check\n```\n", ("pytest -q", "ruff check")),
        ("# How to verify\n\nRun this:\n\n- `make check`\n- and be nice\n", ("make check",)),
        ("## Testing\n```python\nimport os\n```\n`tox`\n", ("tox",)),
        ("# Tests\nRun the tests before you commit.\n", ()),
        ("# Latest news\n```sh\nrm -rf x\n```\n", ()),
        ("# Testing\nwords\n# Deploy\n```sh\n./deploy\n```\n", ()),
        ("# Intro\n```sh\n# test\n./deploy\n```\n", ()),
        ("", ()),
    ],
)
def test_agents_md_names_commands_in_two_ways_and_nothing_else_in_it_is_one(tmp_path: Path, text: str, commands: tuple[str, ...]) -> None:
    """S4-64, S4-65."""
    (tmp_path / "AGENTS.md").write_text(text)
    assert find_commands(tmp_path) == commands


def test_the_settings_beat_agents_md_which_beats_the_makefile(tmp_path: Path) -> None:
    """DESIGN 5.5."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    assert find_commands(tmp_path) == ("make test",)
    (tmp_path / "AGENTS.md").write_text("verify: tox\n")
    assert find_commands(tmp_path) == ("tox",)
    assert find_commands(tmp_path, ("nox", "ruff check")) == ("nox", "ruff check")
    assert find_commands(tmp_path, ()) == ()


def test_a_pipe_in_the_place_of_agents_md_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    assert find_commands(tmp_path) == ()


# --- running ------------------------------------------------------------------------------------------------------------------


def test_commands_run_in_order_and_their_whole_output_is_kept(bench: Bench) -> None:
    """S4-64: streamed, in the result, and an artifact each."""
    result = bench.run("verify", commands=["echo one", "echo two >&2"])
    assert (result.ok, result.error) == (True, None)
    assert words(result) == "$ echo one\none\n[Exit code 0.]\n$ echo two >&2\ntwo\n[Exit code 0.]"
    assert bench.streamed == [("stdout", "one\n"), ("stderr", "two\n")]
    assert bench.artifacts == {"call_1-verify-1.txt": b"one\n", "call_1-verify-2.txt": b"two\n"}
    fact = noted(bench)
    assert (fact.ok, fact.clean, fact.dirty, fact.tool_call_id) == (True, True, (), "call_1")
    assert [(run.command, run.exit_code, run.artifact) for run in fact.commands] == [
        ("echo one", 0, "artifacts/turn_1/call_1-verify-1.txt"),
        ("echo two >&2", 0, "artifacts/turn_1/call_1-verify-2.txt"),
    ]


def test_the_first_failure_ends_it(bench: Bench) -> None:
    """S4-47: a tool_error that names the command and its exit code."""
    result = bench.run("verify", commands=["true", "echo broken; exit 3", "touch never"])
    assert result.error is not None
    assert (result.ok, result.error.code, result.error.message) == (False, "tool_error", "`echo broken; exit 3` failed: Exit code 3.")
    assert "broken\n" in words(result) and words(result).endswith("[Not run after that: touch never]")
    assert not (bench.workspace / "never").exists()
    assert [run.exit_code for run in noted(bench).commands] == [0, 3]
    assert noted(bench).ok is False


def test_a_command_that_takes_too_long_is_ended(bench: Bench) -> None:
    call = ToolCall(CallId("call_1"), "verify", {"commands": ["echo begun; sleep 60"]})
    result = asyncio.run(Verify(timeout_s=0.3).invoke(bench.context(), call))
    assert result.error is not None and result.error.code == "tool_timeout"
    assert "begun" in words(result)
    assert noted(bench).commands[0].exit_code is None


def test_long_output_is_cut_in_the_middle_and_whole_in_its_artifact(bench: Bench) -> None:
    result = bench.run("verify", commands=["seq 1 20000", "seq 1 20000"])
    assert result.truncated and len(words(result)) < 32_000
    assert words(result).count("characters left out; the whole is in artifacts/turn_1/call_1-verify-") == 2
    assert bench.artifacts["call_1-verify-2.txt"].endswith(b"\n20000\n")


def test_what_changed_while_the_commands_ran_is_said(bench: Bench) -> None:
    """S4-65: clean and dirty, by how files look."""
    (bench.workspace / "gone").write_text("x")
    bench.run("verify", commands=["rm gone; mkdir -p deep __pycache__; touch deep/new __pycache__/kept"])
    assert (noted(bench).clean, noted(bench).dirty) == (False, ("deep/new", "gone"))
    assert noted(bench).workspace_hash == look_from_outside(bench.workspace).hash


def test_where_nothing_says_what_to_run_it_fails_and_says_what_to_do(bench: Bench) -> None:
    """T-15: no commands configured."""
    assert "AGENTS.md" in bench.fails("verify")
    assert bench.noted == []


@pytest.mark.parametrize("command", ["cat <<EOF", "echo \\", "echo a\nrm b", "   "])
def test_a_command_that_could_swallow_the_next_is_refused(bench: Bench, command: str) -> None:
    """They run one by one but are judged as lines of one text: both must mean the same."""
    with pytest.raises(ToolFailed) as caught:
        bench.run("verify", commands=[command, "rm -rf x"])
    assert caught.value.code == "invalid_arguments"


def test_a_description_names_the_commands_that_will_run_whatever_the_files_say_by_then(bench: Bench) -> None:
    (bench.workspace / "AGENTS.md").write_text("verify: make lint\nverify: make test\n")
    described = bench.describe("verify")
    assert (described.title, described.command) == ("Verify: make lint, make test", "make lint\nmake test")
    assert described.preview.command == described.command
    assert described.input == {"commands": ["make lint", "make test"]}


# --- how a folder looks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("longer"),
        lambda file: os.utime(file, ns=(1, 1)),
        lambda file: file.chmod(0o700),
        lambda file: file.unlink(),
        lambda file: file.rename(file.with_name("b")),
        lambda file: file.with_name("new").touch(),
    ],
    ids=["size", "time", "mode", "gone", "renamed", "new"],
)
def test_every_change_of_a_file_changes_the_hash(tmp_path: Path, change: Callable[[Path], object]) -> None:
    file = tmp_path / "sub" / "a"
    file.parent.mkdir()
    file.write_text("one")
    before = look_from_outside(tmp_path)
    assert look_from_outside(tmp_path).hash == before.hash
    change(file)
    assert look_from_outside(tmp_path).hash != before.hash
    assert changed(before, look_from_outside(tmp_path))


def test_what_tools_keep_for_themselves_is_not_looked_at(tmp_path: Path) -> None:
    before = look(tmp_path)
    for name in (".git", "node_modules", ".venv", "sub/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").touch()
    assert look(tmp_path) == before


def test_a_huge_folder_is_looked_at_in_part_and_the_same_part_each_time(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").touch()
    assert list(look(tmp_path, 5)) == [b"00", b"01", b"02", b"03", b"04"]


def test_links_are_looked_at_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(look(tmp_path)) == [b"loop"]
