"""Starts daemons that end themselves with SIGKILL at a chosen point.

    python daemon_at.py CONFIG ARMED

reads orders from stdin and answers on stdout, so that a thousand starts cost one import:

    start DATA   → `started PID`, then the daemon's own `http://…` line
    wait PID     → `ended PID STATUS`, once that daemon has ended; negative: the signal

Each daemon is a process of its own, forked before anything runs, and is `palaver.life.serve` with the demo model at full speed.
ARMED is a file of one line, `POINT NTH NUMBER`: at the NTH arrival at POINT the daemon that reads it ends. Its line may be changed
while a daemon runs; NUMBER only tells one line from the next.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import palaver.backends.loop
import palaver.serve.app
import palaver.serve.server
import palaver.serve.tokens  # noqa: F401  # so that a fork need not import it
from palaver.daemon import build
from palaver.life import serve
from palaver.settings import load

ENV = {"PALAVER_DISCOVER": "0"}


class Trap:
    """Called at every point; ends the process at the one that is armed."""

    def __init__(self, armed: int) -> None:
        self._armed = armed
        self._arrivals: Counter[bytes] = Counter()

    def __call__(self, point: str) -> None:
        line = os.pread(self._armed, 100, 0)
        name, _, rest = line.partition(b" ")
        if name != point.encode():
            return
        self._arrivals[line] += 1
        if self._arrivals[line] == int(rest.split()[0]):
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # a thread must not come any further while the process goes


def start(config: str, armed: str, data: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        trap = Trap(os.open(armed, os.O_RDONLY))
        made = partial(build, demo_pace_s=0.002, idle_s=0.3)
        status = serve(load(config, ENV), Path(data), 0, build=made, reached=trap)
    finally:
        sys.stdout.flush()
        os._exit(status)


def main(config: str, armed: str) -> None:
    for line in sys.stdin:
        match line.split():
            case ["start", data]:
                print(f"started {start(config, armed, data)}", flush=True)
            case ["wait", pid]:
                status = os.waitstatus_to_exitcode(os.waitpid(int(pid), 0)[1])
                print(f"ended {pid} {status}", flush=True)
            case words:
                raise SystemExit(f"what is {words}?")


if __name__ == "__main__":
    main(*sys.argv[1:])
