from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tool_bench import PATH, alive, happens, until

from palaver.errors import ToolFailed
from palaver.tools import marks as marking
from palaver.tools import processes
from palaver.tools.processes import MARK, Child, Ended, Found, Marks, end_marked, find_marked, run
from palaver.wire.values import Stream

Run = Callable[[Coroutine[Any, Any, Any]], Any]

MARKS = Marks(processes.new_secret(), "run1")


def children() -> set[int]:
    """Of this process, dead ones too, but not the `ps` that tells: other tests may have left some of their own."""
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as ps:
        told, _ = ps.communicate()
    rows = [tuple(map(int, line.split())) for line in told.splitlines()]
    return {pid for pid, parent in rows if parent == os.getpid() and pid != ps.pid}


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Run:
    return asyncio.run if request.param == "asyncio" else uvloop.run


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of the test itself: ended with it, whatever it shows."""
    own: list[subprocess.Popen[bytes]] = []
    yield own
    for process in own:
        process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # each leads a group of its own
        process.wait()


class Printed:
    def __init__(self, most: int = 1 << 30) -> None:
        self.data: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self.size = 0
        self._most = most

    def take(self, stream: Stream, data: bytes) -> bool:
        self.size += len(data)
        if len(self.data[stream]) < 1_000_000:
            self.data[stream] += data
        return self.size <= self._most


def sh(line: str, printed: Printed | None = None, *, timeout_s: float | None = 30, mark: str | None = None) -> Coroutine[Any, Any, Ended]:
    env = {"PATH": PATH} | ({MARK: mark} if mark else {})
    sink = (printed or Printed()).take
    return run(["/bin/bash", "-c", "--", line], folder="/", env=env, sink=sink, timeout_s=timeout_s)


def _numbers(path: Path, count: int) -> list[int]:
    """The process numbers that a command writes to a file, one a line, once all are there."""
    until(lambda: path.exists() and path.read_text().count("\n") >= count)
    return [int(line) for line in path.read_text().split()]


# --- running ------------------------------------------------------------------------------------------------------------------


def test_both_streams_and_the_status_arrive(loop: Run) -> None:
    printed = Printed()
    assert loop(sh("echo out; echo err >&2; exit 3", printed)) == Ended("exited", 3)
    assert printed.data == {"stdout": b"out\n", "stderr": b"err\n"}


def test_a_signal_is_told_as_a_negative_status(loop: Run) -> None:
    assert loop(sh("kill -9 $$")) == Ended("exited", -9)


def test_the_child_reads_an_empty_input(loop: Run) -> None:
    printed = Printed()
    loop(sh("cat; echo end", printed))
    assert printed.data["stdout"] == b"end\n"


def test_what_was_printed_just_before_the_end_arrives(loop: Run) -> None:
    for _ in range(5):
        printed = Printed()
        loop(sh("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2", printed))
        assert (len(printed.data["stdout"]), len(printed.data["stderr"])) == (60_000, 60_000)


def test_sixty_four_mebibytes_arrive_whole(loop: Run) -> None:
    printed = Printed()
    assert loop(sh("head -c 67108864 /dev/zero", printed)).why == "exited"
    assert printed.size == 67_108_864


def test_a_sink_that_has_enough_ends_a_child_that_never_would(loop: Run) -> None:
    assert loop(sh("yes", Printed(most=1_000_000))) == Ended("enough", None)


def test_a_child_that_closes_its_output_early_runs_on(loop: Run, tmp_path: Path) -> None:
    line = f"echo first; exec >&- 2>&-; sleep 0.2; : > {tmp_path}/late; exit 4"
    printed = Printed()
    assert loop(sh(line, printed)) == Ended("exited", 4)
    assert printed.data["stdout"] == b"first\n"
    assert (tmp_path / "late").exists()


def test_a_grandchild_that_holds_the_pipe_is_not_waited_for(loop: Run, tmp_path: Path) -> None:
    begun = time.monotonic()
    printed = Printed()
    assert loop(sh(f"setsid sleep 60 & echo $! >{tmp_path}/pid; echo done", printed)) == Ended("exited", 0)
    assert time.monotonic() - begun < 5
    assert printed.data["stdout"] == b"done\n"
    os.kill(_numbers(tmp_path / "pid", 1)[0], signal.SIGKILL)


def test_a_program_that_is_not_there_is_a_tool_error(loop: Run) -> None:
    with pytest.raises(ToolFailed, match="could not be started"):
        loop(run(["/nowhere/program"], folder="/", env={}, sink=Printed().take, timeout_s=1))
    with pytest.raises(ToolFailed, match="could not be started"):
        loop(run(["/bin/sh", "-c", "true"], folder="/nowhere", env={}, sink=Printed().take, timeout_s=1))


def test_no_zombie_and_no_descriptor_is_left(loop: Run) -> None:
    async def several() -> None:
        await sh("true")
        before, ours = len(os.listdir("/dev/fd")), children()
        for line in ("true", "sleep 30 & true", "exit 1", "sleep 30"):
            await sh(line, timeout_s=0.2)
        assert len(os.listdir("/dev/fd")) == before
        assert children() <= ours

    loop(several())


# --- ending -------------------------------------------------------------------------------------------------------------------


def test_what_is_left_in_the_group_ends_with_the_call(loop: Run, tmp_path: Path) -> None:
    """DESIGN 5, Processes: a call's end ends its group."""
    loop(sh(f"sleep 60 & echo $! >{tmp_path}/pid"))
    assert not alive(_numbers(tmp_path / "pid", 1)[0])


async def _ended_when_ready(line: str, printed: Printed) -> int | None:
    """End a child once it has said `ready`."""
    child = await Child.start(["/bin/bash", "-c", line], folder="/", env={"PATH": PATH}, sink=printed.take)
    await happens(lambda: b"ready" in printed.data["stdout"])
    await child.end(forced=False)
    assert not alive(child.pid)
    return child.status


def test_a_child_that_ignores_term_is_killed(loop: Run) -> None:
    begun = time.monotonic()
    assert loop(_ended_when_ready("trap '' TERM; echo ready; while :; do sleep 0.1; done", Printed())) == -signal.SIGKILL
    assert time.monotonic() - begun >= 1


def test_a_child_gets_term_first_and_its_last_words_arrive(loop: Run) -> None:
    printed = Printed()
    assert loop(_ended_when_ready("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done", printed)) == 5
    assert printed.data["stdout"] == b"ready\nbye\n"


def test_a_child_that_takes_too_long_is_ended(loop: Run) -> None:
    begun = time.monotonic()
    assert loop(sh("sleep 60", timeout_s=0.1)) == Ended("timeout", None)
    assert time.monotonic() - begun < 2.5


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"])
def test_a_cancel_ends_the_group_within_two_seconds_and_passes(loop: Run, tmp_path: Path, trap: str) -> None:
    """T-06: the whole process group is gone within 2 s."""

    async def cancelled() -> float:
        line = f"{trap} sleep 60 & echo $! >>{tmp_path}/pid; (sleep 60 & echo $! >>{tmp_path}/pid; wait) & echo $! >>{tmp_path}/pid; wait"
        task = asyncio.ensure_future(sh(line, mark=MARKS.of("call_c")))
        await happens(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().count("\n") == 3)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begun

    assert loop(cancelled()) < 2
    assert not any(map(alive, _numbers(tmp_path / "pid", 3)))


def test_a_second_cancel_ends_it_at_once(loop: Run) -> None:
    async def cancelled() -> None:
        printed = Printed()
        task = asyncio.ensure_future(sh("trap '' TERM; echo $$; while :; do sleep 0.1; done", printed))
        await happens(lambda: printed.data["stdout"].endswith(b"\n"))
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 0.9
        await happens(lambda: not alive(int(printed.data["stdout"])))

    loop(cancelled())


def test_a_cancel_before_the_program_has_started_leaves_none(loop: Run, tmp_path: Path) -> None:
    async def cancelled() -> None:
        for turns in range(6):
            task = asyncio.ensure_future(sh(f"sleep 5; echo x >>{tmp_path}/ran"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    ours = children()
    loop(cancelled())
    assert children() <= ours
    assert not (tmp_path / "ran").exists()


_DAEMON = "setsid bash -c 'trap \"\" HUP; (sleep 60; :) & echo $! >>{pid}; echo $$ >>{pid}; wait' </dev/null >/dev/null 2>&1 &"


def test_a_double_forked_daemon_with_the_mark_ends_with_a_cancelled_call(loop: Run, tmp_path: Path) -> None:
    """SECURITY 9: what left the group but carries the mark."""

    async def cancelled() -> None:
        pid = tmp_path / "pid"
        task = asyncio.ensure_future(sh(f"({_DAEMON.format(pid=pid)}); sleep 60", mark=MARKS.of("call_d")))
        await happens(lambda: pid.exists() and pid.read_text().count("\n") == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop(cancelled())
    assert not any(map(alive, _numbers(tmp_path / "pid", 2)))


def test_a_daemon_that_a_command_started_on_purpose_outlives_its_normal_end(loop: Run, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    assert loop(sh(f"({_DAEMON.format(pid=pid)}); while [ ! -s {pid} ]; do sleep 0.01; done", mark=MARKS.of("call_e"))).why == "exited"
    numbers = _numbers(pid, 2)
    assert all(map(alive, numbers))
    ended = loop(end_marked(MARKS, lambda found: found.call_id == "call_e"))
    assert {found.pid for found in ended} >= set(numbers)
    until(lambda: not any(map(alive, numbers)))


# --- marks --------------------------------------------------------------------------------------------------------------------


def _marked(started: list[subprocess.Popen[bytes]], mark: str, line: str = "echo up; sleep 60; :") -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["/bin/bash", "-c", line], env={"PATH": PATH, MARK: mark}, stdout=subprocess.PIPE, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_only_what_carries_the_mark_of_an_open_call_is_ended(started: list[subprocess.Popen[bytes]]) -> None:
    """SECURITY 9: the mark of an ended call, of another data folder, or a forged one is let be."""
    marks = Marks(processes.new_secret(), "run2")
    earlier = Marks(marks.secret, "run1")
    open_call = _marked(started, earlier.of("call_open"))
    spared = [
        _marked(started, earlier.of("call_ended")),
        _marked(started, Marks(processes.new_secret(), "run1").of("call_open")),
        _marked(started, f"{marks.secret[:-1]}.run1.call_open"),
        _marked(started, f"{marks.secret}call_open"),
        _marked(started, ".run1.call_open"),
        _marked(started, ""),
    ]
    seen = {found.call_id for found in find_marked(marks)}
    assert seen == {"call_open", "call_ended"}
    ended = asyncio.run(end_marked(marks, lambda found: found.call_id == "call_open"))
    assert open_call.pid in {found.pid for found in ended}
    assert all(found.run == "run1" and found.call_id == "call_open" for found in ended)
    open_call.wait(5)
    assert all(process.poll() is None for process in spared)


def test_the_mark_of_a_call_that_has_dots_is_read_whole(started: list[subprocess.Popen[bytes]]) -> None:
    marks = Marks(processes.new_secret(), "run")
    process = _marked(started, marks.of("call.with.dots"))
    assert Found(process.pid, "run", "call.with.dots") in find_marked(marks)


def test_a_child_that_ignores_term_and_left_its_group_is_killed_after_a_crash(started: list[subprocess.Popen[bytes]]) -> None:
    marks = Marks(processes.new_secret(), "run")
    process = _marked(started, marks.of("call_1"), "trap '' TERM; echo up; while :; do sleep 0.1; done")
    asyncio.run(end_marked(marks, lambda found: True))
    assert process.wait(5) == -signal.SIGKILL


_ENDS_ALL = """
import asyncio, sys
from palaver.tools.processes import Marks, end_marked
print(len(asyncio.run(end_marked(Marks(sys.argv[1], "run2"), lambda found: True))), flush=True)
"""


def test_the_starting_shell_and_the_daemon_itself_survive_their_own_mark(started: list[subprocess.Popen[bytes]]) -> None:
    """SECURITY 9: never itself or an ancestor."""
    marks = Marks(processes.new_secret(), "run1")
    sibling = _marked(started, marks.of("call_1"))
    shell = subprocess.run(
        ["/bin/bash", "-c", f"'{sys.executable}' -c '{_ENDS_ALL}' {marks.secret}; echo survived"],
        env={"PATH": PATH, MARK: marks.of("call_1")},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert shell.stdout.split("\n")[-2] == "survived", shell
    assert int(shell.stdout.split("\n")[0]) >= 1
    sibling.wait(5)


_NESTED = """
import os, time
from palaver.tools.environment import drop_mark
dropped = drop_mark()
print("up", flush=True)
print(dropped, os.environ.get("PALAVER_CALL"), flush=True)
time.sleep(60)
"""


def test_a_nested_daemon_that_dropped_its_mark_survives(started: list[subprocess.Popen[bytes]]) -> None:
    """SECURITY 9: `palaver` drops a mark from its own environment, also from what the system shows of it."""
    marks = Marks(processes.new_secret(), "run1")
    nested = subprocess.Popen(
        [sys.executable, "-c", _NESTED], env={"PATH": PATH, MARK: marks.of("call_1")}, stdout=subprocess.PIPE, start_new_session=True
    )
    started.append(nested)
    assert nested.stdout is not None
    assert nested.stdout.readline() == b"up\n"
    assert nested.stdout.readline().split() == [marks.of("call_1").encode(), b"None"]
    assert nested.pid not in {found.pid for found in find_marked(marks)}
    asyncio.run(end_marked(marks, lambda found: True))
    assert nested.poll() is None


def test_a_number_that_was_given_out_again_is_not_signalled(started: list[subprocess.Popen[bytes]]) -> None:
    """SECURITY 9: where there is no pidfd, the start time is compared."""
    process = _marked(started, "mark")
    found = Found(process.pid, "run", "call_1")
    later = marking.ByStartTime(found, "then", lambda pid: "now")
    later.send(signal.SIGKILL)
    assert (later.gone(), process.poll()) == (True, None)
    same = marking.ByStartTime(found, "then", lambda pid: "then")
    same.send(signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL


def test_the_lines_of_ps_are_read_with_their_start_times() -> None:
    rows = marking.parse_rows(
        "  501     1   501 Thu Nov 19 20:28:44 2026     /bin/sleep 60 HOME=/Users/me PALAVER_CALL=s.r.call_1 TERM=x\n  bad line\n"
    )
    assert [(row.pid, row.parent, row.uid, row.started) for row in rows] == [(501, 1, 501, "Thu Nov 19 20:28:44 2026")]
    assert "PALAVER_CALL=s.r.call_1" in rows[0].rest
