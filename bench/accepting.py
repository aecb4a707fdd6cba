"""Messages accepted a second, each on the disk before its 202, over many connections at once."""

from __future__ import annotations

from collections.abc import Iterator

from measure import Row, at_least, in_turn, row
from processes import FLOORS, HERE, Daemon, Process, folder
from scale import Scale


def rows(scale: Scale) -> Iterator[Row]:
    with folder() as home, Process.python(FLOORS / "no_log_app.py", home) as floor:
        port, token = floor.hear().split()
        with Daemon(home / "daemon") as daemon:
            http = daemon.http()

            def sent(port: int, token: str, sessions: list[str]) -> float:
                with Process.python(HERE / "senders.py", port, token, scale.connections, scale.messages, *sessions) as senders:
                    return float(senders.hear())

            def ours(sessions: int) -> float:
                return sent(daemon.port, daemon.token, [daemon.session(http, auto_run=False) for _ in range(sessions)])

            note = "the floor is the same server answering 202 without a log"
            for sessions in (1, scale.connections):
                values, floors = in_turn(scale.rounds, lambda n=sessions: ours(n), lambda: sent(int(port), token, ["sess_none"]))  # type: ignore[misc]
                where = "one session" if sessions == 1 else f"{sessions} sessions"
                name = f"messages accepted over {scale.connections} connections, {where}"
                yield row(name, "1/s", values, floors, goal=at_least(0.5) if sessions == 1 else None, note=note)
