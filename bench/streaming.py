"""From the model to the client: a burst of deltas, and how long one delta takes while nothing is in a hurry."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator

from measure import Row, at_most, cpu_seconds, in_turn, percentile, row
from processes import FLOORS, HERE, TURN_ENDED, Daemon, Http, Process, Stream, folder, message
from rivals import Chat, check_text
from scale import Scale


def rows(scale: Scale) -> Iterator[Row]:
    burst, paced, beside = f"burst-{scale.deltas}", f"paced-50-{scale.paced}", f"paced-200-{scale.answers * 4}"
    with Process.python(HERE / "model.py") as model, folder() as home:
        port = int(model.hear())
        with Daemon(home, model_port=port, scenarios=(burst, paced, beside)) as daemon:
            yield from _burst(scale, daemon, port, burst)
            yield _latency(scale, daemon, port, paced)
            yield _answers(scale, daemon, beside)


def _burst(scale: Scale, daemon: Daemon, port: int, scenario: str) -> Iterator[Row]:
    chat = Chat(daemon, scenario)
    cpu: tuple[list[float], list[float]] = ([], [])
    with Process.python(FLOORS / "discard.py") as bare:
        url = f"http://127.0.0.1:{port}/{scenario}/v1/chat/completions"
        wall = in_turn(
            scale.rounds,
            lambda: _timed(daemon.pid, chat.turn, cpu[0]),
            lambda: _timed(bare.pid, lambda: bare.ask(url), cpu[1]),
        )
    check_text(chat.turn(), scale.deltas)
    chat.close()
    note = "a chunk each; the floor is httpx2 + msgspec reading the same stream and discarding it"
    yield row(f"{scale.deltas} deltas model → client, wall", "ms", *wall, goal=at_most(2), note=note)
    yield row(f"{scale.deltas} deltas model → client, CPU", "ms", cpu[0][1:], cpu[1][1:], goal=at_most(2), note=note)


def _timed(pid: int, work: Callable[[], object], cpu: list[float]) -> float:
    before, began = cpu_seconds(pid), time.perf_counter()
    work()
    took = time.perf_counter() - began
    cpu.append((cpu_seconds(pid) - before) * 1000)
    return took * 1000


def _latency(scale: Scale, daemon: Daemon, port: int, scenario: str) -> Row:
    """The model writes the time into each delta; whoever reads it compares."""
    http = daemon.http()

    def through_us() -> float:
        session_id = daemon.session(http, scenario)
        reader = Stream(daemon, session_id)
        http.ask("POST", f"/v1/sessions/{session_id}/messages", message("go on"))
        late = _late(reader, rb'"type":"model_output_delta".*?"text":"([0-9 ]+)"', scale.paced)
        reader.until(TURN_ENDED)
        reader.close()
        return percentile(late, 0.99)

    def direct() -> float:
        model = Http(port)
        model.begin("POST", f"/{scenario}/v1/chat/completions", {"messages": []})
        late = _late(model, rb'"content": "([0-9 ]+)"', scale.paced)
        model.close()
        return percentile(late, 0.99)

    values, floors = in_turn(scale.few_rounds, through_us, direct)
    note = f"the slowest hundredth of {scale.paced} deltas at 50 a second; the floor reads the model's socket"
    return row("p99 from the model's byte to the client's, with the tail", "ms", values, floors, note=note)


def _late(stream: Stream | Http, pattern: bytes, count: int) -> list[float]:
    """For each stamp the milliseconds until it was first read."""
    seen: dict[int, float] = {}
    rest = b""
    while len(seen) < count:
        rest += stream.more()
        now = time.monotonic_ns()
        for text in re.findall(pattern, rest):
            for stamp in text.split():
                seen.setdefault(int(stamp), (now - int(stamp)) / 1e6)
        rest = rest[rest.rfind(b"\n") + 1 :]
    return list(seen.values())


def _answers(scale: Scale, daemon: Daemon, scenario: str) -> Row:
    """The durable answer to a message while another session streams to a hundred readers."""
    http = daemon.http()
    busy, other = daemon.session(http, scenario), daemon.session(http, auto_run=False)

    def asked() -> float:
        waits: list[float] = []
        for _ in range(scale.answers):
            began = time.perf_counter()
            http.ask("POST", f"/v1/sessions/{other}/messages", message("one more"))
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
        return percentile(waits, 0.99)

    values: list[float] = []
    floors: list[float] = []
    readers = scale.fan_readers
    with Process.python(HERE / "readers.py", daemon.port, daemon.token, busy, "tail=1", readers, TURN_ENDED.decode()) as watching:
        assert watching.hear() == "ready"
        for number in range(1, scale.few_rounds + 1):
            floors.append(asked())
            daemon.http().ask("POST", f"/v1/sessions/{busy}/messages", message("go on"))
            ended = threading.Thread(target=watching.ask, args=(str(number),))
            ended.start()
            values.append(asked())
            ended.join()
    note = f"200 deltas a second to {readers} readers meanwhile; the floor is the same daemon at rest"
    return row("p99 of the durable answer beside a stream", "ms", values, floors, note=note)
