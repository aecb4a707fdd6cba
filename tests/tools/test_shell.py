from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tool_bench import Bench, alive, happens, until, words

from palaver.errors import Refused, ToolFailed
from palaver.sandbox.variants import VARIANTS, Sandbox, try_out
from palaver.tools.output import SHOWN, STREAMED, Clip, Output
from palaver.tools.processes import MARK, Marks, end_marked, find_marked
from palaver.tools.shell import Shell
from palaver.wire.ids import CallId
from palaver.wire.values import CallError, ToolCall, ToolResult

HELD = [variant for variant in VARIANTS if try_out(variant) is None]
"""The variants of the sandbox that hold here: a command is the same in each of them as in none."""


@pytest.fixture(params=["bare", *HELD])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    sandbox = None if request.param == "bare" else Sandbox(variants=[request.param])
    yield Bench(tmp_path, sandbox=sandbox)
    if sandbox is not None:
        sandbox.forget()


def test_a_command_gives_its_output_and_exit_code(bench: Bench) -> None:
    """S4-62."""
    assert bench.text("shell", command="echo hello") == "hello\n[Exit code 0.]"
    assert bench.text("shell", command="true") == "(no output)\n[Exit code 0.]"


def test_both_streams_are_streamed_apart_and_shown_together(bench: Bench) -> None:
    result = bench.run("shell", command="echo out; echo err >&2; exit 3")
    assert bench.streamed == [("stdout", "out\n"), ("stderr", "err\n")]
    assert result.error == CallError("tool_error", "Exit code 3.")
    assert (result.ok, words(result)) == (False, "out\nerr\n[Exit code 3.]")


def test_output_is_streamed_while_the_command_runs(bench: Bench) -> None:
    async def watched() -> None:
        call = asyncio.ensure_future(bench.call("shell", command="echo first; until [ -e go ]; do sleep 0.01; done; echo second"))
        await happens(lambda: bench.streamed == [("stdout", "first\n")])
        bench.write("go", "")
        assert words(await call) == "first\nsecond\n[Exit code 0.]"

    asyncio.run(watched())


def test_a_timeout_gives_the_output_so_far(bench: Bench) -> None:
    result = bench.run("shell", command="echo begun; sleep 60", timeout_s=1)
    assert result.error is not None
    assert result.error.code == "tool_timeout"
    assert words(result).startswith("begun\n[It was ended after 1 s.")


def test_a_signal_is_named(bench: Bench) -> None:
    said = words(bench.run("shell", command="kill -TERM $$"))
    assert said in ("(no output)\n[Ended by SIGTERM.]", "(no output)\n[Exit code 143.]")  # bubblewrap tells it as shells do


def test_long_output_keeps_head_and_tail_and_the_whole_is_an_artifact(bench: Bench) -> None:
    result = bench.run("shell", command="echo HEAD; head -c 100000 /dev/zero | tr '\\0' x; echo; echo TAIL")
    assert result.truncated
    assert result.ok
    text = words(result)
    assert text.startswith("HEAD\nxxx")
    assert text.endswith("xxx\nTAIL\n[Exit code 0.]")
    assert "artifacts/turn_1/call_1-output.txt" in text
    assert len(text) < SHOWN + 300
    assert result.artifacts == ("artifacts/turn_1/call_1-output.txt",)
    assert bench.artifacts == {"call_1-output.txt": b"HEAD\n" + b"x" * 100_000 + b"\nTAIL\n"}


def test_no_more_than_256_kib_of_a_call_are_streamed(bench: Bench) -> None:
    """DESIGN 4: the rest goes to its artifact alone."""
    bench.run("shell", command="head -c 1000000 /dev/zero | tr '\\0' x")
    assert sum(len(text.encode()) for _, text in bench.streamed) == STREAMED
    assert len(bench.artifacts["call_1-output.txt"]) == 1_000_000


def test_a_call_that_prints_more_than_is_kept_ends_as_an_error(bench: Bench) -> None:
    tool = Shell(kept=100_000)
    result: ToolResult = asyncio.run(tool.invoke(bench.context(), ToolCall(CallId("call_1"), "shell", {"command": "yes"})))
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert "more than 100000 bytes" in result.error.message
    assert len(bench.artifacts["call_1-output.txt"]) == 100_000


def test_bytes_that_are_no_text_are_shown_as_replaced(bench: Bench) -> None:
    text = bench.text("shell", command=r"printf 'a\377b\000c\n'")
    assert text == "a�b\0c\n[Exit code 0.]"


def test_a_character_split_over_two_writes_arrives_whole(bench: Bench) -> None:
    bench.run("shell", command=r"printf '\303'; sleep 0.1; printf '\251\n'; printf '\303'")
    assert "".join(text for _, text in bench.streamed) == "é\n�"


@pytest.mark.parametrize("command", ["-x", "--version", "-c true", "- "])
def test_a_command_is_never_an_option_of_the_shell(bench: Bench, command: str) -> None:
    """SECURITY 11."""
    result = bench.run("shell", command=command)
    assert result.error == CallError("tool_error", "Exit code 127.")


def test_it_runs_in_the_workspace_or_in_a_folder_of_it(bench: Bench) -> None:
    (bench.workspace / "sub").mkdir()
    home = os.path.realpath(bench.workspace)
    assert bench.text("shell", command="pwd; echo $PWD").split("\n")[:2] == [home, home]
    assert bench.text("shell", command="pwd; pwd -P", cwd="sub").split("\n")[:2] == [f"{home}/sub"] * 2


def test_it_does_not_run_outside(bench: Bench) -> None:
    (bench.workspace / "out").symlink_to("/")
    bench.write("file", "")
    assert "outside the workspace" in bench.fails("shell", command="true", cwd="..")
    assert "outside the workspace" in bench.fails("shell", command="true", cwd="out")
    assert "not there" in bench.fails("shell", command="true", cwd="missing")
    assert "no folder" in bench.fails("shell", command="true", cwd="file")


def test_input_that_makes_no_sense_is_refused_with_the_right_keys(bench: Bench) -> None:
    assert "{command, cwd?, timeout_s?, background?}" in bench.refuses("shell", cmd="true")
    for input in ({"command": ""}, {"command": " \n"}, {"command": 5}, {"command": "true", "timeout_s": 0}, {"command": "a\0b"}):
        bench.refuses("shell", **input)
    bench.refuses("shell", command="\ud800")


def test_a_call_is_described_by_its_whole_command(bench: Bench) -> None:
    told = bench.describe("shell", command="make test\nrm -rf x", cwd=".")
    assert (told.title, told.command, told.preview.command) == ("make test…", "make test\nrm -rf x", "make test\nrm -rf x")
    assert len(bench.describe("shell", command="x" * 200).title) == 80


# --- background jobs ----------------------------------------------------------------------------------------------------------


def test_a_background_job_outlives_its_call_and_ends_with_the_daemon(bench: Bench) -> None:
    async def daemon() -> None:
        begun = time.monotonic()
        result = await bench.call("shell", command="echo up; sleep 60 & sleep 60", background=True)
        assert time.monotonic() - begun < 5
        (job,) = bench.jobs.list()
        assert job.id in words(result)
        assert (job.running, job.session_id, job.command) == (True, "sess_1", "echo up; sleep 60 & sleep 60")
        await happens(lambda: bench.jobs.list()[0].output == "up\n")
        assert bench.jobs.list("sess_2") == []
        await bench.jobs.close("sess_2")
        assert alive(job.pid)
        await bench.jobs.close()
        assert not alive(job.pid)
        assert not bench.jobs.list()[0].running

    asyncio.run(daemon())


def test_a_background_job_is_ended_by_its_id(bench: Bench) -> None:
    async def daemon() -> None:
        await bench.call("shell", command="sleep 60", background=True)
        await bench.call("shell", command="sleep 60", background=True)
        first, second = bench.jobs.list()
        ended = await bench.jobs.end(first.id)
        assert not ended.running
        assert (alive(first.pid), alive(second.pid)) == (False, True)
        assert await bench.jobs.end(first.id) == ended
        with pytest.raises(Refused, match="no background job"):
            await bench.jobs.end("job_x")
        await bench.jobs.close()

    uvloop.run(daemon())


def test_a_job_that_ends_by_itself_is_listed_with_its_status(bench: Bench) -> None:
    async def daemon() -> None:
        await bench.call("shell", command="exit 7", background=True)
        await happens(lambda: not bench.jobs.list()[0].running)
        assert bench.jobs.list()[0].status == 7

    asyncio.run(daemon())


def test_a_job_has_a_mark_of_its_own_by_which_the_next_start_finds_it(bench: Bench) -> None:
    marks = Marks("0" * 32, "run1")
    bench.mark = marks.of("call_1")

    async def daemon() -> None:
        await bench.call("shell", command=f"echo ${MARK} >mark; setsid sleep 60 & echo $! >pid; wait", background=True)
        (job,) = bench.jobs.list()
        await happens(lambda: (bench.workspace / "pid").exists() and (bench.workspace / "pid").read_text().endswith("\n"))
        assert (bench.workspace / "mark").read_text() == marks.of(job.id) + "\n"
        stray = int((bench.workspace / "pid").read_text())
        ended = await end_marked(marks, lambda found: found.call_id == job.id)
        pids = {found.pid for found in ended}
        if bench.sandbox is None:
            assert pids == {job.pid, stray}
            until(lambda: not alive(stray))
        assert job.pid in pids and not find_marked(marks)  # a sandbox has numbers of its own
        await happens(lambda: not bench.jobs.list()[0].running)

    asyncio.run(daemon())


def test_there_is_an_end_to_background_jobs(bench: Bench) -> None:
    async def daemon() -> None:
        for _ in range(32):
            await bench.call("shell", command="sleep 60", background=True)
        with pytest.raises(ToolFailed, match="32 background jobs"):
            await bench.call("shell", command="sleep 60", background=True)
        await bench.jobs.close()
        await bench.call("shell", command="true", background=True)
        await bench.jobs.close()

    asyncio.run(daemon())


# --- keeping ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [["abcdefghij"], list("abcdefghij"), ["abc", "", "defgh", "ij"], ["abcd", "efghij"]])
def test_a_clip_keeps_head_and_tail_however_it_comes(pieces: list[str]) -> None:
    def clipped(limit: int) -> Any:
        clip = Clip(limit)
        for piece in pieces:
            clip.add(piece)
        return clip.left_out, clip.text("…")

    assert clipped(10) == (0, "abcdefghij")
    assert clipped(11) == (0, "abcdefghij")
    assert clipped(9) == (1, "abcd…fghij")
    assert clipped(4) == (6, "ab…ij")


def test_what_is_streamed_is_cut_between_characters() -> None:
    seen: list[str] = []
    output = Output(lambda stream, text: seen.append(text))
    output.take("stdout", b"x" * (STREAMED - 1) + "é".encode() * 10)
    output.take("stdout", b"more")
    assert "".join(seen) == "x" * (STREAMED - 1)
