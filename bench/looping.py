"""What the loop adds to a turn and to each tool call, against the bare HTTP exchanges with the model that they are made of."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator

from measure import Row, at_most, in_turn, row
from processes import HERE, TURN_ENDED, Daemon, Process, Stream, folder, message
from scale import Scale

LIMITS = "[limits]\nsteps = 100000\nsame_call = 100000\ntool_calls_per_minute = 1000000\n[verify]\nauto = false\n"
SAID = {"role": "user", "content": "x" * 300}


def rows(scale: Scale) -> Iterator[Row]:
    calls = f"calls-{scale.calls}"
    with Process.python(HERE / "model.py") as model, folder() as home:
        port = int(model.hear())
        daemon = Daemon(home, model_port=port, scenarios=("burst-1", calls))
        daemon.config.write_text(daemon.config.read_text() + LIMITS)
        (daemon.workspace / "a.txt").write_text("the letter a\n")
        with daemon:
            _turn(daemon, "burst-1")
            _turn(daemon, calls)  # what is imported with the first turn and the first call is measured elsewhere
            note = "accepted, written, asked, streamed, ended; the floor is the one exchange with the model"
            values, floors = in_turn(
                scale.rounds * 3, lambda: _turn(daemon, "burst-1") * 1000, lambda: _bare(port, "burst-1", exchanges=1) * 1000
            )
            yield row("a turn of one answer, wall", "ms", values, floors, goal=at_most(30), note=note)
            note = f"of a turn with {scale.calls} steps of one `read_file`: decided, run, told, on disk at each point; floor: an exchange"
            values, floors = in_turn(
                scale.rounds,
                lambda: _turn(daemon, calls) * 1000 / scale.calls,
                lambda: _bare(port, "burst-1", exchanges=scale.calls) * 1000 / scale.calls,
            )
            yield row("a tool call and its step, wall", "ms", values, floors, goal=at_most(100), note=note)


def _turn(daemon: Daemon, model: str) -> float:
    """Seconds from the message until the end is seen, in a session of its own."""
    asking = daemon.http()
    id = daemon.session(asking, model, mode="auto")
    reader = Stream(daemon, id)
    began = time.perf_counter()
    asking.ask("POST", f"/v1/sessions/{id}/messages", message("go on"))
    reader.until(TURN_ENDED)
    took = time.perf_counter() - began
    reader.close()
    asking.close()
    return took


def _bare(port: int, scenario: str, exchanges: int) -> float:
    """The same requests on one kept connection, their answers thrown away."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    body = json.dumps({"model": "bench", "stream": True, "messages": [SAID, SAID]}).encode()
    began = time.perf_counter()
    for _ in range(exchanges):
        connection.request("POST", f"/{scenario}/v1/chat/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    took = time.perf_counter() - began
    connection.close()
    return took
