"""A long past: following it from the start, and opening the newest page of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Row, at_most, in_turn, row
from processes import Daemon, Stream, folder, message
from scale import Scale


def rows(scale: Scale) -> Iterator[Row]:
    with folder() as home:
        daemon = Daemon(home)
        long, short = _make_sessions(daemon, scale.history, scale.short_history)
        log = daemon.data / "sessions" / long / "events.ndjson"
        with daemon:
            values, floors = in_turn(scale.rounds, lambda: _replayed(daemon, long), lambda: _split(log))
        note = "over SSE from the first event on; the floor reads the file and splits its lines"
        yield row(f"replay of {scale.history} events", "ms", values, floors, note=note)
        values, floors = in_turn(scale.rounds, lambda: _first_page(daemon, long), lambda: _first_page(daemon, short))
        note = f"asked of a daemon that has not opened it yet; the floor is a session with {scale.short_history} events"
        yield row(f"first transcript page of {scale.history} events", "ms", values, floors, goal=at_most(2), note=note)


def _replayed(daemon: Daemon, session_id: str) -> float:
    began = time.perf_counter()
    Stream(daemon, session_id, "after=0").close()
    return (time.perf_counter() - began) * 1000


def _split(log: Path) -> float:
    began = time.perf_counter()
    log.read_bytes().split(b"\n")
    return (time.perf_counter() - began) * 1000


def _first_page(daemon: Daemon, session_id: str) -> float:
    with daemon:
        http = daemon.http()
        http.ask("GET", "/v1/sessions")  # it is up
        began = time.perf_counter()
        http.ask("GET", f"/v1/sessions/{session_id}/transcript")
        return (time.perf_counter() - began) * 1000


def _make_sessions(daemon: Daemon, *sizes: int) -> list[str]:
    """One turn is lived, the others are copies of it under other ids; then each is opened once, which leaves its checkpoint."""
    with daemon:
        http = daemon.http()
        sessions = [daemon.session(http, agent="demo") for _ in sizes]
        for session_id in sessions:
            reader = Stream(daemon, session_id)
            http.ask("POST", f"/v1/sessions/{session_id}/messages", message("write 20 words"))
            reader.until(b'"type":"turn_completed"')
            reader.close()
    for session_id, size in zip(sessions, sizes, strict=True):
        _repeat_turn(daemon.data / "sessions" / session_id, size)
    with daemon:
        http = daemon.http()
        for session_id in sessions:
            http.ask("GET", f"/v1/sessions/{session_id}")
    return sessions


def _repeat_turn(session: Path, size: int) -> None:
    log = session / "events.ndjson"
    lines = log.read_bytes().splitlines()
    start = next(number for number, line in enumerate(lines) if b'"type":"message_added"' in line)
    turn, made = lines[start:], lines[:start]
    ids = {value for line in turn for value in _ids(json.loads(line)) if not value.startswith("sess_")}
    while len(made) < size:
        number = len(made)
        for line in turn:
            event = json.loads(line) | {"seq": len(made) + 1}
            text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
            for id in ids:
                text = text.replace(id, f"{id[:-7]}{number:07d}")
            made.append(text.encode())
    log.write_bytes(b"\n".join(made) + b"\n")
    (session / "checkpoint").unlink(missing_ok=True)


def _ids(value: object) -> Iterator[str]:
    """Every id in an event, wherever it stands."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _ids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner)
    elif isinstance(value, str) and value.split("_")[0] in ("turn", "step", "msg", "part", "call") and len(value) > 20:
        yield value
