"""What an agent costs beyond the work itself: ratios to a bare child process that reads prompts from a pipe and throws the answer away.

The goals are set against the best of four rivals, measured the same way on two cores. They send 20 000 records for 20 000 deltas; here
deltas are joined, and what counts is that all text arrives.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

from measure import Row, at_most, cpu_seconds, in_turn, memory_mib, percentile, row, under
from processes import FLOORS, HERE, TURN_ENDED, Daemon, Http, Process, Stream, folder, message
from scale import Scale

SHORT = "burst-5"


def rows(scale: Scale) -> Iterator[Row]:
    burst, each, fan = f"burst-{scale.deltas}", f"each-{scale.deltas}", f"burst-{scale.fan_deltas}"
    with Process.python(HERE / "model.py") as model, folder() as home:
        port = int(model.hear())
        daemon = Daemon(home, model_port=port, scenarios=(SHORT, burst, each, fan))
        yield from _start(scale, daemon, port)
        with daemon:
            yield from _memory(scale, daemon, burst)
        with daemon:
            yield from _turns(scale, daemon, port, SHORT)
            yield from _deltas(scale, daemon, port, each, "a write each")
            yield from _deltas(scale, daemon, port, burst, "in full reads")
        with daemon:
            yield _fan_out(scale, daemon, fan)
        with daemon:
            yield _many_turns(scale, daemon, port)


class Child:
    """The floor, and what it is told."""

    def __init__(self, model_port: int) -> None:
        self.process = Process.python(FLOORS / "bare_child.py")
        self._port = model_port

    def ask(self, scenario: str, messages: int = 2, size: int = 300) -> None:
        self.begin(scenario, messages, size)
        assert self.process.hear() == "done"

    def begin(self, scenario: str, messages: int = 2, size: int = 300) -> None:
        url = f"http://127.0.0.1:{self._port}/{scenario}/v1/chat/completions"
        assert self.process.ask(json.dumps({"url": url, "messages": messages, "size": size})) == "taken"


class Chat:
    """A session with one tail reader."""

    def __init__(self, daemon: Daemon, model: str) -> None:
        self._http = daemon.http()
        self._id = daemon.session(self._http, model)
        self._reader = Stream(daemon, self._id)

    def turn(self) -> bytes:
        """One turn from the message to its end; what the reader got meanwhile."""
        self._http.ask("POST", f"/v1/sessions/{self._id}/messages", message("go on"))
        return self._reader.until(TURN_ENDED)

    def close(self) -> None:
        self._reader.close()
        self._http.close()


def _start(scale: Scale, daemon: Daemon, port: int) -> Iterator[Row]:
    def ours() -> float:
        began = time.perf_counter()
        daemon.start().answering()
        http = daemon.http()
        http.ask("POST", f"/v1/sessions/{daemon.session(http, SHORT)}/messages", message("hello"))
        took = time.perf_counter() - began
        daemon.end()
        return took * 1000

    def bare() -> float:
        began = time.perf_counter()
        child = Child(port)
        child.begin(SHORT)
        took = time.perf_counter() - began
        child.process.end()
        return took * 1000

    values, floors = in_turn(scale.rounds, ours, bare)
    note = "from the start of the process; ours makes a session too, and its 202 is durable"
    yield row("start until a prompt is taken", "ms", values, floors, goal=at_most(4), note=note)


def _memory(scale: Scale, daemon: Daemon, burst: str) -> Iterator[Row]:
    chat = Chat(daemon, SHORT)
    chat.turn()
    chat.close()
    time.sleep(scale.settle_s)
    yield row("memory idle after one turn", "MiB", [memory_mib(daemon.pid)], goal=under(50))
    chat = Chat(daemon, burst)
    for _ in range(3):
        chat.turn()
    chat.close()
    time.sleep(scale.settle_s)
    yield row(f"memory idle after 3 × {scale.deltas} deltas", "MiB", [memory_mib(daemon.pid)], goal=under(60))
    before, began = cpu_seconds(daemon.pid), time.perf_counter()
    time.sleep(scale.idle_s)
    share = (cpu_seconds(daemon.pid) - before) / (time.perf_counter() - began)
    yield row("CPU while idle", "%", [share * 100], goal=under(0.05), note=f"over {scale.idle_s:g} s")


def _turns(scale: Scale, daemon: Daemon, port: int, scenario: str) -> Iterator[Row]:
    chat, child = Chat(daemon, scenario), Child(port)
    (wall, bare_wall), (cpu, bare_cpu) = _both(scale, daemon, chat, child, scenario, scale.turns_a_round)
    child.process.end()
    chat.close()
    note = "accepted, durable, streamed, ended"
    yield row("short turn, wall", "ms", wall, bare_wall, goal=at_most(5), note=note)
    yield row("short turn, CPU", "ms", cpu, bare_cpu, goal=at_most(15), note=note)


def _deltas(scale: Scale, daemon: Daemon, port: int, scenario: str, how: str) -> Iterator[Row]:
    chat, child = Chat(daemon, scenario), Child(port)
    (wall, bare_wall), (cpu, bare_cpu) = _both(scale, daemon, chat, child, scenario, 1)
    check_text(chat.turn(), scale.deltas)
    child.process.end()
    chat.close()
    note = "the model sends a chunk for each; joined here: the reader gets all text in fewer pieces"
    yield row(f"{scale.deltas} deltas, {how}, to one tail reader, wall", "ms", wall, bare_wall, goal=at_most(4), note=note)
    yield row(f"{scale.deltas} deltas, {how}, to one tail reader, CPU", "ms", cpu, bare_cpu, goal=at_most(150), note=note)


def _both(scale: Scale, daemon: Daemon, chat: Chat, child: Child, scenario: str, turns: int) -> tuple[list[list[float]], list[list[float]]]:
    """Wall and CPU milliseconds of a turn, for us and for the child, from the same rounds."""
    cpu: tuple[list[float], list[float]] = ([], [])

    def ours() -> float:
        before, began = cpu_seconds(daemon.pid), time.perf_counter()
        for _ in range(turns):
            chat.turn()
        took = time.perf_counter() - began
        time.sleep(0.05)  # what a turn leaves to do belongs to it
        cpu[0].append((cpu_seconds(daemon.pid) - before) / turns * 1000)
        return took / turns * 1000

    def bare() -> float:
        before, began = cpu_seconds(child.process.pid), time.perf_counter()
        for _ in range(turns):
            child.ask(scenario)
        took = time.perf_counter() - began
        cpu[1].append((cpu_seconds(child.process.pid) - before) / turns * 1000)
        return took / turns * 1000

    wall = in_turn(scale.rounds, ours, bare)
    return wall, [cpu[0][1:], cpu[1][1:]]


def check_text(got: bytes, deltas: int) -> None:
    """All text came, whatever pieces it came in: the logged ones alone make the whole."""
    logged = re.findall(rb'data: (\{"v":1,"seq":[^\n]*"type":"model_output_delta"[^\n]*\})', re.sub(rb"\r\n[0-9a-f]+\r\n", b"", got))
    text = "".join(json.loads(line)["data"]["text"] for line in logged)
    if len(text) != 5 * deltas:
        raise SystemExit(f"{len(text)} characters came where {5 * deltas} were due")


def _used_until_ended(scale: Scale, daemon: Daemon, http: Http, session_id: str, before: float) -> float:
    """CPU seconds since `before`, read before anybody asks whether the turn has ended: the answer costs some too."""
    for _ in range(100):
        time.sleep(scale.settle_s / 6)
        used = cpu_seconds(daemon.pid) - before
        if _ended(http, session_id):
            return used
    raise SystemExit("The turn does not end")


def _fan_out(scale: Scale, daemon: Daemon, scenario: str) -> Row:
    """The same burst, watched by a hundred and by nobody."""
    http: Http = daemon.http()

    def burst(readers: int) -> float:
        session_id = daemon.session(http, scenario)
        watching = None
        if readers:
            watching = Process.python(HERE / "readers.py", daemon.port, daemon.token, session_id, "tail=1", readers, TURN_ENDED.decode())
            assert watching.hear() == "ready"
        before = cpu_seconds(daemon.pid)
        http.ask("POST", f"/v1/sessions/{session_id}/messages", message("go on"))
        if watching is not None:
            assert watching.ask("1") == "1"
        used = _used_until_ended(scale, daemon, http, session_id, before)
        if watching is not None:
            watching.end()
        return used * 1000

    values, floors = in_turn(scale.rounds, lambda: burst(scale.fan_readers), lambda: burst(0))
    note = f"a burst of {scale.fan_deltas} deltas; the floor is the same burst without readers"
    return row(f"fan-out to {scale.fan_readers} tail readers, CPU", "ms", values, floors, goal=at_most(1.5), note=note)


def _ended(http: Http, session_id: str) -> bool:
    page = http.ask("GET", f"/v1/sessions/{session_id}/events?format=json&after=0")
    return any(event["type"] == "turn_completed" for event in page["events"])


def _many_turns(scale: Scale, daemon: Daemon, port: int) -> Row:
    """What the last turns take more than the first, since the request grows with the conversation."""
    model, child = Http(port), Child(port)
    model.ask("GET", "/sizes")
    part = scale.many_turns // 15

    def grew(walls: list[float]) -> float:
        return (percentile(walls[-part:], 0.5) - percentile(walls[:part], 0.5)) * 1000

    def ours() -> tuple[float, list[int]]:
        chat = Chat(daemon, SHORT)
        walls = [timed(chat.turn) for _ in range(scale.many_turns)]
        chat.close()
        return grew(walls), model.ask("GET", "/sizes")

    def bare(sizes: list[int]) -> float:
        walls = [timed(partial(child.ask, SHORT, 2 * turn, size)) for turn, size in enumerate(sizes, 1)]
        model.ask("GET", "/sizes")
        return grew(walls)

    values, floors = [], []
    for _ in range(scale.rounds):
        value, sizes = ours()
        values.append(value)
        floors.append(bare(sizes))
    child.process.end()
    note = f"the median of the last {part} less that of the first {part}; the child sends requests of the same sizes"
    return row(f"{scale.many_turns} turns: what the last take more", "ms", values, floors, goal=at_most(1.5), note=note)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
