"""Events appended and on the disk, a second: many waiting on one log, and one each on many logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from measure import Row, at_least, in_turn, row
from processes import FLOORS, HERE, Process, folder
from scale import Scale


def rows(scale: Scale) -> Iterator[Row]:
    for writers, logs, name in (
        (scale.connections, 1, f"events appended, {scale.connections} waiting on one log"),
        (scale.logs, scale.logs, f"events appended, one each on {scale.logs} logs"),
    ):
        count = scale.appends if logs == 1 else scale.appends // 4
        values, floors = in_turn(
            scale.rounds,
            lambda writers=writers, logs=logs, count=count: _run(HERE / "append_host.py", writers, logs, count),  # type: ignore[misc]
            lambda writers=writers, logs=logs, count=count: _run(FLOORS / "bare_append.py", writers, logs, count),  # type: ignore[misc]
        )
        note = "the floor writes and syncs the same bytes in groups of the same size into as many files"
        yield row(name, "1/s", values, floors, goal=at_least(0.5), note=note)


def _run(script: Path, writers: int, logs: int, count: int) -> float:
    with folder() as where, Process.python(script, where, writers, logs, count) as process:
        return float(process.hear())
