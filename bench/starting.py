"""What a start costs, whatever has happened before, and what the daemon needs while nothing happens."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Row, at_most, in_turn, memory_mib, row, under
from processes import FLOORS, HERE, Daemon, Process, folder, free_port, message, until_answered
from scale import Scale


def rows(scale: Scale) -> Iterator[Row]:
    with folder() as home:
        daemon = Daemon(home / "new")
        values, floors = in_turn(scale.rounds, lambda: _started(daemon, "/v1/health"), _bare)
        yield row("start to the first health", "ms", values, floors, goal=at_most(1.5), note="the floor is a bare Starlette app on uvicorn")
        old = Daemon(home / "old")
        _make_old_sessions(old, scale.old_sessions)
        listed = "/v1/sessions?limit=20"
        values, floors = in_turn(scale.rounds, lambda: _started(old, listed), lambda: _started(daemon, listed))
        note = "to the first list of sessions, which health does not wait for; the floor is a start without any"
        yield row(f"start with {scale.old_sessions} old sessions", "ms", values, floors, goal=at_most(1.3), note=note)
        yield from _memory(scale, Daemon(home / "memory"))


def _started(daemon: Daemon, path: str) -> float:
    """Milliseconds from the start of the process to the first good answer."""
    began = time.perf_counter()
    daemon.start()
    token = "" if path == "/v1/health" else daemon.answering().token
    took = until_answered(daemon.port, path, token) - began
    daemon.end()
    return took * 1000


def _bare() -> float:
    port = free_port()
    began = time.perf_counter()
    process = Process(sys.executable, FLOORS / "bare_app.py", str(port))
    took = until_answered(port, "/v1/health") - began
    process.end()
    return took * 1000


def _make_old_sessions(daemon: Daemon, count: int) -> None:
    """Copies of one that was used, under other ids; the list is made by the start after."""
    with daemon:
        http = daemon.http()
        first = daemon.session(http, agent="demo")
        http.ask("POST", f"/v1/sessions/{first}/messages", message("write 20 words"))
        until = time.monotonic() + 30
        while b"turn_completed" not in (source := (daemon.data / "sessions" / first / "events.ndjson")).read_bytes():
            if time.monotonic() > until:
                raise SystemExit("the turn of the session to copy does not end")
            time.sleep(0.02)
        http.close()
    files = {path.name: path.read_bytes() for path in source.parent.iterdir() if path.suffix in (".json", ".ndjson")}
    for number in range(count):
        _copy(files, daemon.data / "sessions", first, f"{first[:-6]}{number:06d}")
    (daemon.data / "index.sqlite").unlink(missing_ok=True)
    with daemon:
        daemon.http().ask("GET", "/v1/sessions")


def _copy(files: dict[str, bytes], sessions: Path, first: str, name: str) -> None:
    (sessions / name).mkdir(mode=0o700, exist_ok=True)
    for file, data in files.items():
        (sessions / name / file).write_bytes(data.replace(first.encode(), name.encode()))


def _memory(scale: Scale, daemon: Daemon) -> Iterator[Row]:
    with daemon:
        http = daemon.http()
        http.ask("GET", "/v1/sessions")
        time.sleep(scale.settle_s)
        idle = memory_mib(daemon.pid)
        yield row("memory idle", "MiB", [idle], goal=under(50), note="a daemon that has answered, with nothing open")
        sessions = [daemon.session(http) for _ in range(scale.idle_sessions)]
        time.sleep(scale.settle_s / 2)
        opened = memory_mib(daemon.pid)
        yield row("memory per open idle session", "KiB", [max(0.0, opened - idle) / scale.idle_sessions * 1024])
        readers = scale.memory_readers
        with Process.python(HERE / "readers.py", daemon.port, daemon.token, sessions[0], "tail=1", readers, "never") as watching:
            assert watching.hear() == "ready"
            time.sleep(scale.settle_s / 2)
            yield row("memory per reader", "KiB", [max(0.0, memory_mib(daemon.pid) - opened) / readers * 1024])
    shutil.rmtree(daemon.home)
