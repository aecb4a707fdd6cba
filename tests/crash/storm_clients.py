"""What people do to a daemon while it dies: scenarios over HTTP, and a book of all that was acknowledged.

Each scenario is one person with one session. What a daemon answered with 2xx is entered as a promise: a check of the session's log that
must hold from then on, after any crash.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storm_host import Answer, Follower, Gone, Life
from storm_log import Told

from palaver.wire import events as e
from palaver.wire.codec import decode_event

NOTE = """#!/bin/sh
echo "$1" >> effects
"""
AWAY = """#!/bin/sh
# runs a command in a session of its own
if command -v setsid >/dev/null; then exec setsid "$@"; fi
exec perl -MPOSIX -e 'POSIX::setsid(); exec @ARGV' "$@"
"""

Check = Callable[[Told], bool]


@dataclass
class Book:
    """One data folder: its sessions, who follows them, and what was promised."""

    data: Path
    workspace: Path
    promises: list[tuple[str, str, Check]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    """Acknowledged ones, in order."""
    earlier: list[str] = field(default_factory=list)
    """Those that the running daemon did not make itself."""
    followers: dict[str, Follower] = field(default_factory=dict)
    unsure: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Messages that were sent and got no answer."""
    tokens: int = 0

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True)
        for name, text in (("note", NOTE), ("away", AWAY)):
            (self.workspace / name).write_text(text)
            (self.workspace / name).chmod(0o755)
        (self.workspace / "words.txt").write_text("old words\n")

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def folder(self, session_id: str) -> Path:
        return self.data / "sessions" / session_id

    def logs(self) -> list[Told]:
        found = sorted(folder for folder in (self.data / "sessions").iterdir() if not folder.name.startswith("."))
        return [Told(folder) for folder in found if (folder / "events.ndjson").exists() and (folder / "events.ndjson").stat().st_size]

    def check_workspaces(self) -> None:
        """Their logs have no gaps, and all that is in them can be read."""
        for path in (self.data / "workspaces").glob("*/events.ndjson"):
            whole = path.read_bytes()
            recorded = [decode_event(line) for line in whole[: whole.rfind(b"\n") + 1].split(b"\n")[:-1]]
            assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1)), path
            assert all(isinstance(one.data, e.WorkspaceUsed | e.RuleAdded | e.RuleRemoved) for one in recorded), path

    def promise(self, session_id: str, what: str, check: Check) -> None:
        self.promises.append((session_id, what, check))

    def check(self, logs: list[Told]) -> None:
        by_id = {log.id: log for log in logs}
        for session_id, what, check in self.promises:
            assert session_id in by_id, f"{session_id} was acknowledged and is gone"
            assert check(by_id[session_id]), f"{session_id}: {what} was acknowledged and is not in the log"


@dataclass
class Person:
    """Does things in one session of one daemon, as long as it lives."""

    life: Life
    book: Book
    random: random.Random
    session_id: str = ""

    # --- single requests ------------------------------------------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return await self.life.ask(method, f"/v1/sessions/{self.session_id}{path}", body)

    async def opens(self, mode: str) -> None:
        answer = await self.life.ask("POST", "/v1/sessions", {"workspace_path": str(self.book.workspace), "mode": mode, "agent": "demo"})
        assert answer.status == 201, answer
        self.session_id = id = answer.body["session_id"]
        self.book.sessions.append(id)
        self.book.promise(id, "creating it", lambda log: (self.book.folder(id) / "session.json").stat().st_size > 0)
        self.watches()

    def watches(self) -> None:
        if self.session_id not in self.book.followers:
            follower = self.book.followers[self.session_id] = Follower(self.session_id, tail=self.random.random() < 0.5)
            follower.begin(self.life)

    @property
    def follower(self) -> Follower:
        return self.book.followers[self.session_id]

    async def says(self, text: str, delivery: str = "auto") -> dict[str, Any]:
        """The reply. Whatever becomes of it, the message is sent again after a crash and must count once."""
        body = {"role": "user", "parts": [{"type": "text", "text": text}], "delivery": delivery, "client_message_id": self.book.token()}
        try:
            answer = await self.ask("POST", "/messages", body)
        except Gone:
            self.book.unsure.append((self.session_id, body))
            raise
        assert answer.status == 202, answer
        self.accepted(answer.body, body)
        reply: dict[str, Any] = answer.body
        return reply

    def accepted(self, reply: dict[str, Any], body: dict[str, Any]) -> None:
        mine, client = reply["message_id"], body["client_message_id"]
        self.book.promise(self.session_id, f"the message {mine}", lambda log: log.of_client_message(client) == {mine})

    async def turn_ends(self, turn_id: str) -> None:
        await self.until(lambda: any(self._is_end(line, turn_id) for line in self.follower.lines[-40:]))

    @staticmethod
    def _is_end(line: bytes, turn_id: str) -> bool:
        return b'"turn_completed"' in line and json.loads(line)["turn_id"] == turn_id

    async def until(self, true_of: Callable[[], bool]) -> None:
        """Waits for the log to say so. Raises `Gone` when the daemon dies first."""
        seen = asyncio.ensure_future(self.follower.until(true_of))
        dead = asyncio.ensure_future(self.follower.over())
        try:
            await asyncio.wait([seen, dead], return_when=asyncio.FIRST_COMPLETED)
            if not seen.done():
                raise Gone
            await seen
        finally:
            seen.cancel()
            dead.cancel()

    async def open_asks(self, number: int = 1) -> list[str]:
        """The ids of what waits for an answer, once there is something."""
        await self.until(lambda: self._is_waiting() or self._is_over())
        return self._waiting()[:number]

    def _waiting(self) -> list[str]:
        page = self.follower.shown.open.to_page()
        return [one["approval_id"] for one in page["approvals"]] + [one["question_id"] for one in page["questions"]]

    def _is_waiting(self) -> bool:
        return bool(self._waiting())

    def _is_over(self) -> bool:
        return bool(self.follower.lines) and b'"turn_completed"' in self.follower.lines[-1]

    async def approves(self, approval_id: str, **answer: Any) -> bool:
        reply = await self.life.ask("POST", f"/v1/approvals/{approval_id}", answer)
        if reply.status == 200:
            kind = e.ApprovalGranted if reply.body["outcome"] == "granted" else e.ApprovalDenied
            self.book.promise(
                self.session_id, f"the answer to {approval_id}", lambda log: any(one.approval_id == approval_id for one in log.all(kind))
            )
        else:
            assert reply.status in (409, 422), reply
        return reply.status == 200

    async def answers(self, question_id: str) -> None:
        body = self.random.choice([{"answers": {"choice": {"selected": ["A"]}}}, {"agent_decides": True}, {"declined": True}])
        reply = await self.life.ask("POST", f"/v1/questions/{question_id}", body)
        assert reply.status in (200, 409), reply
        if reply.status == 200:
            cause = reply.body["cause"]
            self.book.promise(
                self.session_id,
                f"the answer to {question_id}",
                lambda log: any(one.question_id == question_id and one.cause == cause for one in log.all(e.QuestionAnswered)),
            )

    async def cancels(self, **body: Any) -> None:
        reply = await self.ask("POST", "/cancel", body)
        assert reply.status in (200, 202), reply
        turn_id = reply.body["turn_id"]
        if turn_id is not None:
            self.book.promise(self.session_id, f"cancelling {turn_id}", lambda log: _cancelled(log, turn_id))

    # --- whole scenarios ------------------------------------------------------------------------------------------------------------

    async def uses_tools(self) -> None:
        await self.opens("auto")
        token = self.book.token()
        reply = await self.says(
            f'run the command `./note {token}` then read the file words.txt then write the file out-{token}.txt with "{token}" '
            f"then run the command `./note {self.book.token()}`"
        )
        await self.turn_ends(reply["turn_id"])

    async def comes_back(self) -> None:
        """Goes on with a session that an earlier daemon knew."""
        if not self.book.earlier:
            return await self.uses_tools()
        self.session_id = self.random.choice(self.book.earlier)
        self.watches()
        await self.says(f"run the command `./note {self.book.token()}`")
        await asyncio.sleep(0.05)

    async def leaves_a_grandchild(self) -> None:
        await self.opens("auto")
        reply = await self.says(f"run the command `./away sleep 600 & ./note {self.book.token()}; sleep 600`")
        effects = self.book.workspace / "effects"
        before = effects.stat().st_size if effects.exists() else 0
        for _ in range(50):
            if effects.exists() and effects.stat().st_size > before:
                break
            await asyncio.sleep(0.01)
        if self.random.random() < 0.5:
            await self.cancels()
            await self.turn_ends(reply["turn_id"])

    async def is_asked(self, scope: str | None = None) -> None:
        await self.opens("ask")
        reply = await self.says(f"run the command `./note {self.book.token()}` then run the command `./note {self.book.token()}`")
        for _ in range(2):
            asks = await self.open_asks()
            if not asks:
                return
            chosen = scope or self.random.choice(["once", "session", "workspace", "deny", "leave"])
            if chosen == "leave":
                return
            action = "deny" if chosen == "deny" else "approve"
            await self.approves(asks[0], action=action, scope="once" if chosen == "deny" else chosen, client_answer_id=self.book.token())
            await self.until(lambda asked=asks[0]: asked not in self._waiting())  # type: ignore[misc]  # bound now, not later
        await self.turn_ends(reply["turn_id"])

    async def grants_for_the_workspace(self) -> None:
        """With a command that no earlier grant covers."""
        await self.opens("ask")
        name = f"note-{self.book.token()}"
        (self.book.workspace / name).symlink_to("note")
        await self.says(f"run the command `./{name} {self.book.token()}` then run the command `./{name} {self.book.token()}`")
        asks = await self.open_asks()
        if asks:
            await self.approves(asks[0], action="approve", scope="workspace")

    async def is_questioned(self) -> None:
        await self.opens("ask")
        await self.says("ask me Which one with A or B then write 5 words")
        asks = await self.open_asks()
        if asks and self.random.random() < 0.7:
            await self.answers(asks[0])

    async def reads_on(self) -> None:
        await self.opens("auto")
        reply = await self.says("think about crashes then write 400 words")
        await self.turn_ends(reply["turn_id"])

    async def queues(self) -> None:
        await self.opens("auto")
        await self.says("wait 0.2 seconds then write 20 words")
        items = [(await self.says(f"run the command `./note {self.book.token()}`", "queue")).get("item_id") for _ in range(3)]
        first, second, third = items
        if first:
            edited = f"run the command `./note {self.book.token()}`"
            reply = await self.ask("PATCH", f"/queue/{first}", {"parts": [{"type": "text", "text": edited}]})
            assert reply.status in (200, 409), reply
        if second:
            await self._removes(second)
        if self.random.random() < 0.5:
            reply = await self.ask("POST", f"/queue/{self.random.choice(['pause', 'resume'])}")
            assert reply.status == 200, reply
        elif third:
            reply = await self.ask("POST", f"/queue/{third}/promote")
            assert reply.status in (202, 409), reply
        await asyncio.sleep(self.random.random() * 0.3)

    async def _removes(self, item_id: str) -> None:
        reply = await self.ask("DELETE", f"/queue/{item_id}")
        assert reply.status in (204, 409), reply
        if reply.status == 204:
            self.book.promise(self.session_id, f"removing {item_id}", lambda log: _removed(log, item_id))

    async def steers(self) -> None:
        await self.opens("auto")
        await self.says("write 60 words then read the file words.txt then wait 0.1 seconds")
        for delivery in self.random.sample(["steer", "steer", "interrupt", "queue"], 3):
            await self.says(f"run the command `./note {self.book.token()}`", delivery)
            await asyncio.sleep(self.random.random() * 0.1)

    async def changes_its_mind(self) -> None:
        await self.opens("auto")
        turn_id = (await self.says(f"run the command `./note {self.book.token()}` then wait 5 seconds then write 5 words"))["turn_id"]
        await self.says(f"run the command `./note {self.book.token()}`", "queue")
        await asyncio.sleep(self.random.random() * 0.1)
        await self.cancels(keep_queue=self.random.random() < 0.7)
        await self.turn_ends(turn_id)
        reply = await self.ask("POST", f"/turns/{turn_id}/retry")
        if reply.status == 202:
            again = reply.body["turn_id"]
            self.book.promise(self.session_id, f"retrying as {again}", lambda log: again in {one.turn_id for one in log.recorded})
            await asyncio.sleep(0.05)
            await self.cancels()

    async def is_interrupted(self) -> None:
        await self.opens("auto")
        await self.says("write 10 words then wait 5 seconds")
        await self.says(f"run the command `./note {self.book.token()}`", "steer")
        await asyncio.sleep(self.random.random() * 0.05)
        reply = await self.says(f"run the command `./note {self.book.token()}`", "interrupt")
        await self.turn_ends(reply["turn_id"])

    async def tidies(self) -> None:
        await self.opens("auto")
        turn_id = (await self.says(f"run the command `./note {self.book.token()}`"))["turn_id"]
        title = self.book.token()
        await self._sets_title(title)
        reply = await self.ask("PUT", "/draft", {"text": "half a sentence", "attachments": [], "rev": 0})
        assert reply.status == 200, reply
        await self.turn_ends(turn_id)
        reply = await self.ask("POST", "/fork", {})
        assert reply.status == 201, reply
        self.book.promise(reply.body["session_id"], "forking", lambda log: len(log.recorded) > 3)
        reply = await self.ask("POST", "/close")
        assert reply.status == 200, reply
        self.book.promise(self.session_id, "closing", lambda log: log.state.closed)
        self.book.sessions.remove(self.session_id)

    async def _sets_title(self, title: str) -> None:
        reply = await self.ask("PATCH", "", {"title": title})
        assert reply.status == 200, reply
        self.book.promise(self.session_id, "setting the title", lambda log: log.state.created.title == title)


def _cancelled(log: Told, turn_id: str) -> bool:
    return any(recorded.turn_id == turn_id and isinstance(recorded.data, e.TurnCancelRequested) for recorded in log.recorded)


def _removed(log: Told, item_id: str) -> bool:
    """It is in no queue, and its message in no turn, from some place of the log on."""
    ids = {entry.message_id for event in log.all(e.QueueChanged) for entry in event.items if entry.id == item_id}
    read = {id for event in log.all(e.TurnStarted) for id in event.message_ids} | {one.message_id for one in log.all(e.MessageDelivered)}
    return all(item.id != item_id for item in log.state.queue) and not ids & read


async def as_long_as_it_lives(*scenarios: Callable[[], Awaitable[None]]) -> None:
    """All at once; each ends when the daemon does."""

    async def one(scenario: Callable[[], Awaitable[None]]) -> None:
        try:
            await scenario()
        except Gone:
            return

    async with asyncio.TaskGroup() as group:
        for scenario in scenarios:
            group.create_task(one(scenario))
