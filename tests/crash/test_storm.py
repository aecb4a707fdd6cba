"""The storm: a daemon is killed at every named point while people use it, and the next one must have lost nothing (T-06).

`PALAVER_STORM` sets the number of kills (20 unless set), `PALAVER_STORM_SEED` repeats a storm; the seed is printed with the table.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from storm_clients import Book, Person, as_long_as_it_lives
from storm_host import Gone, Host, Life, hosting
from storm_log import Told, check_effects

from palaver.engine.points import POINTS
from palaver.tools.processes import Found, Marks, find_marked

KILLS = int(os.environ.get("PALAVER_STORM", "20"))
SEED = os.environ.get("PALAVER_STORM_SEED") or secrets.token_hex(4)

RECOVERY = {"recovery.begun": "recovery.begun", "in recovery": "log.synced", "at a start": "log.written"}
"""Targets that are armed before a start, and the point that each means."""
AT_THE_END = ("checkpoint.written", "checkpoint.renamed")
"""Reached when the daemon is told to end."""
ANYWHERE = "anywhere"
TOO_LATE = "(too late)"
"""Killed all the same, because nobody came by the point in time; the point gets another turn."""
PATIENCE = 5
TARGETS = [*(point for point in POINTS), "in recovery", "at a start", ANYWHERE]
MAX_SESSIONS = 14

Scenario = Callable[[Person], Awaitable[None]]
LEADING: dict[str, tuple[Scenario, ...]] = {
    "marker.synced": (Person.comes_back,),
    "open.marked": (Person.uses_tools,),
    "session.logged": (Person.uses_tools, Person.tidies),
    "session.written": (Person.uses_tools,),
    "session.renamed": (Person.uses_tools,),
    "local.written": (Person.tidies,),
    "local.renamed": (Person.tidies,),
    "log.written": (Person.uses_tools, Person.is_interrupted, Person.queues),
    "log.synced": (Person.uses_tools, Person.is_interrupted, Person.queues),
    "tail.left": (Person.reads_on,),
    "call.running": (Person.uses_tools, Person.leaves_a_grandchild),
    "call.done": (Person.uses_tools, Person.is_asked),
    "cancel.stopped": (Person.changes_its_mind, Person.is_interrupted),
    "answer.begun": (Person.is_asked, Person.is_questioned),
    "answer.granted": (Person.grants_for_the_workspace,),
    "answer.logged": (Person.is_questioned, Person.is_asked),
}
"""Scenarios that come by that point."""
BEFORE_A_START: tuple[Scenario, ...] = (Person.leaves_a_grandchild, Person.is_asked, Person.is_interrupted)
"""Scenarios that leave something to recover."""
ALL: list[Scenario] = [
    Person.uses_tools,
    Person.comes_back,
    Person.leaves_a_grandchild,
    Person.is_asked,
    Person.is_questioned,
    Person.reads_on,
    Person.queues,
    Person.steers,
    Person.changes_its_mind,
    Person.is_interrupted,
    Person.tidies,
]
LATE = ("log.written", "log.synced")
"""Points that come by so often that any arrival may be the one."""


class Crashed(NamedTuple):
    """How the logs stood when the daemon had died."""

    calls: set[str]
    """Those without a result."""
    heads: dict[str, int]


class Storm:
    def __init__(self, host: Host, folder: Path, seed: str) -> None:
        self.host, self.folder, self.random = host, folder, random.Random(seed)
        self.table = Counter[str]()
        self.books = 0
        self.book = self.fresh_book()

    def fresh_book(self) -> Book:
        self.books += 1
        return Book(self.folder / f"data-{self.books}", self.folder / f"workspace-{self.books}")

    async def run(self, kills: int) -> None:
        life = await self.recovered_life()
        left = self.targets(kills)
        while left:
            target = left.pop(0)
            if len(self.book.sessions) > MAX_SESSIONS and target != "marker.synced":
                life = await self.move(life)
            hit = await self.kill(life, target)
            await life.close()
            self.table[hit] += 1
            before = self.table[TOO_LATE] - (hit == TOO_LATE)
            life = await self.after(target)
            if before < self.table[TOO_LATE] <= PATIENCE:
                left.append(target)
        await self.move(life)

    def targets(self, kills: int) -> list[str]:
        chosen: list[str] = []
        while len(chosen) < kills:
            chosen += self.random.sample(TARGETS, len(TARGETS))
        chosen.remove("marker.synced")
        chosen.insert(len(TARGETS) // 2, "marker.synced")  # it takes a session of an earlier daemon, and so cannot come first
        return chosen[: max(kills, len(TARGETS))]

    async def move(self, life: Life) -> Life:
        """To a fresh data folder, after a clean end of this one."""
        life.kill(signal.SIGTERM)
        assert await life.ended() == 0, self.host.log.read_text()
        await self.let_followers_go()
        await life.close()
        for log in self.book.logs():
            log.check()
        self.book = self.fresh_book()
        return await self.recovered_life()

    async def let_followers_go(self) -> None:
        for follower in self.book.followers.values():
            await follower.end()

    # --- one kill ---------------------------------------------------------------------------------------------------------------------

    async def kill(self, life: Life, target: str) -> str:
        """Use the daemon until it dies; says where it died."""
        armed = target in LEADING
        if armed:
            self.host.arm(target, self.random.randint(1, 40) if target in LATE else 1)
        ending = asyncio.ensure_future(life.ended(60))
        people = asyncio.ensure_future(self.use(life, LEADING.get(target, BEFORE_A_START if target in RECOVERY else tuple(ALL))))
        if not armed:
            await asyncio.sleep(0.05 + self.random.random() * 0.5)
            if target in AT_THE_END:
                self.host.arm(target)
                life.kill(signal.SIGTERM)
            else:
                life.kill()
        done, _ = await asyncio.wait([ending], timeout=15)
        if not done:
            life.kill()
            target = TOO_LATE
        assert await ending == -signal.SIGKILL, (target, self.host.log.read_text())
        await people
        for follower in self.book.followers.values():
            await follower.over()
        return target if target not in RECOVERY else ANYWHERE

    async def use(self, life: Life, leading: tuple[Scenario, ...]) -> None:
        while True:
            chosen = [self.random.choice(leading), *self.random.sample(ALL, 2)]
            people = [Person(life, self.book, random.Random(self.random.random())) for _ in chosen]
            await as_long_as_it_lives(*(partial(do, who) for do, who in zip(chosen, people, strict=True)))
            try:
                await life.ask("GET", "/v1/health")
            except Gone:
                return

    # --- what must be true afterwards -------------------------------------------------------------------------------------------------

    async def after(self, target: str) -> Life:
        """Start again, perhaps with one more crash in the start itself, and check everything."""
        self.host.disarm()
        crashed = self.check_crash()
        if target in RECOVERY:
            self.host.arm(RECOVERY[target])
            dying = await self.host.start(self.book.data)
            ended = await dying.ended(5)
            if ended is None:  # there was nothing to recover, so nothing was written
                dying.kill()
                await dying.ended()
                self.table[TOO_LATE] += 1
            else:
                assert ended == -signal.SIGKILL, self.host.log.read_text()
                self.table[target] += 1
            self.host.disarm()
            self.check_crash()
        life = await self.recovered_life()
        await self.check_recovered(life, crashed)
        return life

    def check_crash(self) -> Crashed:
        """What holds before anybody has repaired anything."""
        logs = self.book.logs()
        for log in logs:
            log.check()
        self.book.check(logs)
        self.book.check_workspaces()
        check_effects(logs, self.book.workspace / "effects")
        return Crashed({call for log in logs for call in log.open_calls()}, {log.id: len(log.recorded) for log in logs})

    async def recovered_life(self) -> Life:
        life = await self.host.start(self.book.data)
        self.book.earlier = list(self.book.sessions)
        assert await life.listening(), self.host.log.read_text()
        assert (await life.ask("GET", "/v1/inbox")).status == 200  # waits until the start has looked at everything
        return life

    async def check_recovered(self, life: Life, crashed: Crashed) -> None:
        logs = await self.settled(crashed)
        for log in logs:
            log.check_recovered(crashed.heads.get(log.id, 0))
        self.book.check(logs)
        check_effects(logs, self.book.workspace / "effects")
        self.check_processes(crashed.calls)
        await self.check_followers(life, {log.id: log for log in logs})
        await self.check_pages(life, logs)
        await self.send_again(life)
        await self.answer_what_waits(life, logs)

    async def settled(self, crashed: Crashed) -> list[Told]:
        """The logs, once no turn goes on any more that a grant on disk lets go on."""
        deadline = time.monotonic() + 10
        while True:
            logs = self.book.logs()
            moving = [log.id for log in logs if log.goes_on(crashed.heads.get(log.id, 0)) and not log.state.only_waits]
            if not moving:
                return logs
            assert time.monotonic() < deadline, f"{moving} do not come to an end"
            await asyncio.sleep(0.02)

    def check_processes(self, crashed: set[str]) -> None:
        """Nothing is left of the calls that were open. What a finished call started on purpose may live, and is ours to end."""
        left = self.end_marked()
        assert not [found for found in left if found.call_id in crashed], (left, crashed)

    def end_marked(self) -> list[Found]:
        """What carried a mark of this data folder."""
        left = find_marked(Marks((self.book.data / "mark").read_text().strip(), ""))
        for found in left:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
        return left

    async def check_followers(self, life: Life, logs: dict[str, Told]) -> None:
        """A reader that goes on from its cursor ends with the fold of the log (promise 1)."""
        for id, follower in self.book.followers.items():
            follower.begin(life)
            await follower.is_at(len(logs[id].lines))
            assert follower.lines == logs[id].lines, id
            shown, told = follower.shown, logs[id].transcript
            assert (shown.entries, shown.open, shown.tails) == (told.entries, told.open, told.tails), id

    async def check_pages(self, life: Life, logs: list[Told]) -> None:
        for log in self.random.sample(logs, min(2, len(logs))):
            answer = await life.ask("GET", f"/v1/sessions/{log.id}/transcript?limit=1000")
            assert answer.body == log.page(), log.id
            answer = await life.ask("GET", f"/v1/sessions/{log.id}")
            assert (answer.body["head_seq"], answer.body["status"]) == (log.state.seq, log.state.status)
        listed = await life.ask("GET", "/v1/sessions?limit=200")
        assert {log.id for log in logs} <= {one["id"] for one in listed.body["sessions"]}

    async def send_again(self, life: Life) -> None:
        """Messages whose answer never came: the same id counts once, whether or not the first one arrived (promise 5)."""
        unsure, self.book.unsure = self.book.unsure, []
        for session_id, body in unsure:
            answer = await life.ask("POST", f"/v1/sessions/{session_id}/messages", body)
            assert answer.status in (202, 409), answer
            if answer.status == 202:
                Person(life, self.book, self.random, session_id).accepted(answer.body, body)

    async def answer_what_waits(self, life: Life, logs: list[Told]) -> None:
        """A turn that only waited goes on when it is answered (promise 6)."""
        parked = [log for log in logs if log.state.turn and log.id in self.book.followers]
        if not parked or self.random.random() < 0.5:
            return
        log = self.random.choice(parked)
        assert log.state.turn is not None
        person = Person(life, self.book, self.random, log.id)
        for ask in log.state.asks.values():
            if ask.approval is not None:
                await person.approves(ask.id, action="approve")
            else:
                await person.answers(ask.id)
        turn_id = log.state.turn.id
        await person.until(lambda: any(turn_id.encode() in line for line in person.follower.lines[len(log.lines) + 1 :]))


def printed(storm: Storm, seed: str, seconds: float) -> str:
    rows = [f"  {point:20} {times:4}   {POINTS.get(point, '')}" for point, times in sorted(storm.table.items())]
    return "\n".join([f"seed {seed}, {storm.table.total()} kills in {seconds:.0f} s", *rows])


@pytest.mark.timeout(60 + KILLS * 10)
def test_two_hundred_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """T-06; promises 1, 2, 4, 5, 6, 7, 8."""

    async def weather() -> None:
        async with hosting(tmp_path) as host:
            storm = Storm(host, tmp_path, SEED)
            started = time.monotonic()
            try:
                await storm.run(KILLS)
            finally:
                storm.end_marked()
                with capsys.disabled():
                    print("\n" + printed(storm, SEED, time.monotonic() - started))
        least = 5 if KILLS >= 200 else 1
        missed = [target for target in TARGETS if storm.table[target] < least]
        assert not missed, f"hit too seldom: {missed}"

    asyncio.run(weather())
