"""One session to many readers: what a delivered event costs, beyond what it costs to make it."""

from __future__ import annotations

from collections.abc import Iterator

from measure import Row, at_least, cpu_seconds, in_turn, row
from processes import FLOORS, HERE, Process, folder
from scale import Scale

NOTICE = '"type":"notice"'
JOINED = 16


def rows(scale: Scale) -> Iterator[Row]:
    for readers in scale.reader_counts:
        with folder() as home, Process.python(HERE / "fan_host.py", home) as host:
            port, token, session_id = host.hear().split()
            events = max(JOINED, min(3_000, scale.deliveries // readers)) // JOINED * JOINED

            def published(watching: Process | None, together: int, so_far: list[int], host: Process = host, events: int = events) -> float:
                """CPU seconds of the host for so many events."""
                before = cpu_seconds(host.pid)
                assert host.ask(f"{events} {together}") == "done"
                if watching is not None:
                    so_far[0] += events
                    assert watching.ask(str(so_far[0])) == str(so_far[0])
                return cpu_seconds(host.pid) - before

            alone = {together: in_turn(scale.rounds, lambda k=together: published(None, k, [0]))[0] for together in (1, JOINED)}  # type: ignore[misc]
            with (
                Process.python(HERE / "readers.py", port, token, session_id, "tail=1&after=0", readers, NOTICE) as watching,
                Process.python(FLOORS / "writer.py", readers) as bare,
            ):
                assert watching.hear() == "ready"
                bare.hear()
                so_far = [int(host.ask("count"))]

                def delivered(together: int, watching: Process = watching, so_far: list[int] = so_far, alone: dict[int, list[float]] = alone) -> float:  # noqa: E501
                    used = published(watching, together, so_far) - sorted(alone[together])[len(alone[together]) // 2]
                    return events * readers / max(used, 1e-6)

                def written(bare: Process = bare, events: int = events) -> float:
                    return events * readers / float(bare.ask(str(events)))

                one, floors, joined = in_turn(scale.rounds, lambda: delivered(1), written, lambda: delivered(JOINED))
            note = "deliveries a CPU second, each a write of its own; the floor writes ready bytes to as many sockets"
            who = "1 reader" if readers == 1 else f"{readers} readers"
            yield row(f"fan-out to {who}", "1/s", one, floors, goal=at_least(0.45), note=note)
            yield row(f"fan-out to {who}, {JOINED} joined in a write", "1/s", joined, floors)
