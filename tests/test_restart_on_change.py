"""`make dev` starts the daemon again when its source changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "restart_on_change.py"

COMMAND = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with open(sys.argv[1], "a") as starts:
    print(os.getpid(), file=starts, flush=True)
time.sleep(60)
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return subprocess.run(["ps", "-p", str(pid)], stdout=subprocess.DEVNULL, check=False).returncode != 0


def test_a_changed_source_starts_the_command_again_and_the_old_one_is_gone(tmp_path: Path) -> None:
    starts, source = tmp_path / "starts", tmp_path / "src" / "module.py"
    source.parent.mkdir()
    source.write_text("")
    starts.touch()

    def started() -> list[int]:
        return [int(line) for line in starts.read_text().split("\n")[:-1]]

    command = [sys.executable, str(SCRIPT), str(source.parent), "--", sys.executable, "-c", COMMAND, str(starts)]
    with subprocess.Popen(command) as watcher:
        try:
            wait_for(lambda: len(started()) == 1)
            source.write_text("changed = True")
            wait_for(lambda: len(started()) == 2)
            assert gone(started()[0])
        finally:
            watcher.send_signal(signal.SIGINT)
            assert watcher.wait(20) == 0
    assert gone(started()[1])


def test_it_says_how_it_is_used() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "src"], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Usage: restart_on_change.py FOLDER… -- COMMAND…\n")
