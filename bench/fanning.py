"""One session to many readers: what a delivered event costs, beyond what it costs to make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from measure import Row, at_least, cpu_seconds, in_turn, row
from processes import FLOORS, HERE, Process, folder
from scale import Scale

NOTICE = '"type":"notice"'
JOINED = 16
SLICE = 10 * JOINED


def rows(scale: Scale) -> Iterator[Row]:
    for readers in scale.reader_counts:
        events = max(JOINED, min(3_000, scale.deliveries // readers)) // JOINED * JOINED
        with folder() as home, Process.python(HERE / "fan_host.py", home) as process:
            yield from _fan_out(scale, _Host(process, events), readers)


@dataclass
class _Host:
    """A daemon that publishes when it is told to."""

    process: Process
    events: int
    """As many as are published at a time."""

    def deliver(self, together: int, readers: Process) -> float:
        """CPU seconds until every reader has the last one, beyond those of publishing as many where nobody reads.

        In turns of a few events: publishing costs several times what a delivery does, and what it costs drifts.
        """
        more, left = 0.0, self.events
        while left:
            some = min(left, SLICE)
            before = cpu_seconds(self.process.pid)
            self.process.ask(f"{some} {together} alone")
            between = cpu_seconds(self.process.pid)
            published = self.process.ask(f"{some} {together}")
            assert readers.ask(published) == published
            more += (cpu_seconds(self.process.pid) - between) - (between - before)
            left -= some
        return more


def _fan_out(scale: Scale, host: _Host, readers: int) -> Iterator[Row]:
    port, token, session_id = host.process.hear().split()
    deliveries = host.events * readers
    with (
        Process.python(HERE / "readers.py", port, token, session_id, "tail=1&after=0", readers, NOTICE) as watching,
        Process.python(FLOORS / "writer.py", readers) as bare,
    ):
        assert watching.hear() == "ready"
        assert bare.hear() == "ready"
        one, joined, floors = in_turn(
            scale.rounds,
            lambda: host.deliver(1, watching) / deliveries,
            lambda: host.deliver(JOINED, watching) / deliveries,
            lambda: float(bare.ask(str(host.events))) / deliveries,
        )
    note = "deliveries a CPU second, each a write of its own, beyond what publishing costs; the floor writes ready bytes to as many sockets"
    who = "1 reader" if readers == 1 else f"{readers} readers"
    yield row(f"fan-out to {who}", "1/s", _a_second(one), _a_second(floors), goal=at_least(0.45), note=note)
    yield row(f"fan-out to {who}, {JOINED} joined in a write", "1/s", _a_second(joined), _a_second(floors))


def _a_second(seconds: list[float]) -> list[float]:
    return [1 / max(each, 1e-7) for each in seconds]
