"""Promise 3: whatever a model says and a person does meanwhile, every request that goes out is one that a provider accepts.

Each example is a session of a few turns over real sockets: bad arguments, made-up tools, ids used twice, answers that are cut
off, empty or broken; calls that are approved, denied, changed or left alone over a restart; steers, interrupts, cancels, retries,
forks, failed checks.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from legal_requests import why_illegal
from palaver_daemon import Chat, Here, Json, check_ended, palaver, scripted
from scripted_model import Release, ScriptedModel, Step, calls, chunk, error_in_stream, malformed, sse, status, text, thinking

CONFIG = '[verify]\ncommands = ["test -e ok"]\nattempts = 1\n[limits]\nsame_call = 4\ntool_calls_per_minute = 40\n'
EXAMPLES = int(os.environ.get("PALAVER_ANY_TURN", "15"))
"""The same fifteen each time; more of them, by the variable, are new ones."""
MEDDLING = ("nothing", "nothing", "nothing", "steer", "interrupt", "cancel", "queue", "mode")
REACTIONS = ("approve", "approve", "deny", "note", "change", "session", "cancel", "interrupt", "steer", "restart")
AFTER = ("nothing", "nothing", "retry", "fork", "stored", "resume")

CALLS: Sequence[tuple[str, Json | str]] = (
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"path": "missing"}),
    ("read_file", {"file": "a.txt"}),
    ("shell", {"command": "echo x >> made"}),
    ("shell", {"command": "exit 3"}),
    ("shell", {"command": "touch ok"}),
    ("ask_user", {"questions": [{"text": "Which?", "options": ["A", "B"]}]}),
    ("ask_user", {"questions": []}),
    ("update_plan", {"items": [{"text": "look"}]}),
    ("teleport", {"to": "the moon"}),
    ("no such name!", {}),
    ("n" * 80, {}),
    ("", {}),
    ("shell", '{"command": "ls", '),
    ("shell", '["ls"]'),
    ("shell", "null"),
    ("read_file", ""),
)


def same_ids(*wanted: tuple[str, Json | str]) -> Step:
    """A batch whose calls have one id."""
    step = calls(*wanted, split=200)
    return replace(step, frames=tuple(_renamed(frame) for frame in step.frames if isinstance(frame, bytes)))


def _renamed(frame: bytes) -> bytes:
    value: Any = json.loads(frame.removeprefix(b"data: "))
    for call in value["choices"][0]["delta"]["tool_calls"]:
        if "id" in call:
            call["id"] = "call_same"
    return sse(value)


def nothing() -> Step:
    return Step((sse(chunk({"content": ""})),))


batches = st.lists(st.sampled_from(CALLS), min_size=1, max_size=3)
steps = st.one_of(
    batches.map(lambda wanted: calls(*wanted)),
    batches.map(lambda wanted: text("I look.") + calls(*wanted)),
    batches.map(lambda wanted: thinking("hm ") + calls(*wanted)),
    batches.map(lambda wanted: same_ids(*wanted)),
    batches.map(lambda wanted: replace(calls(*wanted), finish="length")),
    batches.map(lambda wanted: replace(calls(*wanted), finish="stop")),
    batches.map(lambda wanted: calls(*wanted).dropped_after(1)),
    st.sampled_from(
        [
            text("All ", "done."),
            text("  \n"),
            nothing(),
            thinking("only thought"),
            replace(text("cut"), finish="length"),
            text("some ", "of it").dropped_after(1),
            malformed("some "),
            error_in_stream(before="some "),
            status(500, retry_after=0.01),
            status(400),
            replace(nothing(), finish="content_filter"),
        ]
    ),
)


@dataclass(frozen=True)
class Turn:
    steps: tuple[Step, ...]
    meddling: tuple[str, ...]
    """While each request is being answered."""
    reactions: tuple[str, ...]
    """To each thing that is asked."""
    after: str


turns = st.builds(
    Turn,
    st.lists(steps, min_size=1, max_size=4).map(tuple),
    st.lists(st.sampled_from(MEDDLING), min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from(REACTIONS), min_size=1, max_size=3).map(tuple),
    st.sampled_from(AFTER),
)


def round(choices: Sequence[str]) -> Iterator[str]:
    while True:
        yield from choices


@dataclass
class World:
    """A daemon that may be started again, the session that is watched, and the person."""

    folder: Path
    stack: AsyncExitStack
    gates: asyncio.Queue[tuple[Release, str]] = field(default_factory=asyncio.Queue)
    steps: Iterator[Step] = field(default_factory=lambda: iter(()))
    meddling: Iterator[str] = field(default_factory=lambda: iter(()))
    reactions: Iterator[str] = field(default_factory=lambda: iter(()))
    illegal: list[str] = field(default_factory=list)

    async def open(self, model: ScriptedModel, mode: str) -> None:
        self.model, self.mode = model, mode
        await self._start(None)

    async def _start(self, session_id: str | None) -> None:
        env = scripted(self.model.url)
        self.here: Here = await self.stack.enter_async_context(palaver(self.folder, env=env, config=CONFIG))
        self.chat: Chat = await self.stack.enter_async_context(self.here.chat(session_id, **({} if session_id else {"mode": self.mode})))

    async def restart(self) -> None:
        await self.stack.aclose()
        await self._start(self.chat.id)

    def respond(self, body: Json) -> Step:
        if wrong := why_illegal(body):
            self.illegal.append(f"{wrong}: {body['messages']}")
        step = next(self.steps, text("Nothing more."))
        what = next(self.meddling, "nothing")
        if what == "nothing" or step.status != 200:
            return step
        release = Release()
        self.gates.put_nowait((release, what))
        return step.stalled_after(min(1, len(step.frames)), release)

    async def meddle(self) -> None:
        while True:
            release, what = await self.gates.get()
            match what:
                case "steer" | "interrupt" | "queue":
                    await self.chat.say(f"a message to {what}", delivery=what)
                case "cancel":
                    await self.chat.post("cancel")
                case "mode":
                    await self.chat.post("mode", {"id": "edit"})
            release.open()

    async def react(self) -> None:
        """To the oldest ask that is open."""
        ask = self.chat.open_asks()[0]
        match next(self.reactions):
            case "cancel":
                await self.chat.post("cancel")
            case "interrupt":
                await self.chat.say("stop that", delivery="interrupt")
            case "steer":
                await self.chat.say("by the way", delivery="steer")
                await self._answer(ask, {"action": "approve"})
            case "restart":
                await self.restart()
                await self._answer(ask, {"action": "approve"})
            case "deny":
                await self._answer(ask, {"action": "deny"})
            case "note":
                await self._answer(ask, {"action": "deny", "reason": "not like that"})
            case "change":
                await self._answer(ask, {"action": "approve", "input": {"command": "echo changed"}})
            case "session":
                await self._answer(ask, {"action": "approve", "scope": "session"})
            case _:
                await self._answer(ask, {"action": "approve"})

    async def _answer(self, ask: str, answer: Json) -> None:
        if ask.startswith("ques"):
            body: Json = {"declined": True} if answer["action"] == "deny" else {"answers": {"q1": {"selected": ["A"]}}}
            reply = await self.here.answer("POST", f"/v1/questions/{ask}", body)
        else:
            reply = await self.here.answer("POST", f"/v1/approvals/{ask}", answer)
            if reply.status == 422:  # a check of the daemon's own takes no such answer
                reply = await self.here.answer("POST", f"/v1/approvals/{ask}", {"action": "approve"})
        assert reply.status in (200, 409, 404), reply.body
        await self.chat.reader.until(lambda: ask not in self.chat.open_asks() or self.is_idle)

    @property
    def is_idle(self) -> bool:
        return len(self.chat.of("turn_started")) == len(self.chat.of("turn_completed"))

    async def settle(self) -> None:
        """Until nothing runs and nobody is asked."""
        while True:
            await self.chat.reader.until(lambda: self.is_idle or self.chat.open_asks())
            if self.is_idle:
                return
            await self.react()

    async def play(self, turn: Turn) -> None:
        self.steps, self.meddling, self.reactions = iter(turn.steps), iter(turn.meddling), round(turn.reactions)
        sent = await self.chat.say("Do it.")
        await self.chat.happens("message_added", len(self.chat.of("message_added")) or 1)
        if sent["turn_id"] is not None:
            await self.chat.reader.until(lambda: any(one["turn_id"] == sent["turn_id"] for one in self.chat.of("turn_started")))
        await self.settle()
        match turn.after:
            case "retry":
                last = self.chat.of("turn_completed")[-1]
                if last["data"]["outcome"] != "completed":
                    await self.chat.post(f"turns/{last['turn_id']}/retry")
                    await self.chat.happens("turn_started", len(self.chat.of("turn_completed")) + 1)
            case "fork":
                forked = await self.chat.post("fork")
                self.chat = await self.stack.enter_async_context(self.here.chat(forked["session_id"]))
                await self.chat.reader.reached((await self.chat.get())["head_seq"])
            case "stored":
                await self.chat.say("for later", auto_run=False)
            case "resume":
                if (await self.chat.get("queue"))["items"]:
                    await self.chat.post("queue/resume")
        await self.chat.reader.reached((await self.chat.get())["head_seq"])
        await self.settle()


async def live(played: Sequence[Turn], mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            world = World(Path(folder), stack)
            async with ScriptedModel(world.respond) as model:
                await world.open(model, mode)
                (world.here.workspace / "a.txt").write_text("the letter a\n")
                person = asyncio.create_task(world.meddle())
                try:
                    async with asyncio.timeout(60):
                        for turn in played:
                            await world.play(turn)
                        check_ended(await world.chat.check())
                        assert await world.chat.transcript() == world.chat.reader.page()
                finally:
                    person.cancel()
                    await asyncio.gather(person, return_exceptions=True)
                    await stack.aclose()
    assert not world.illegal, world.illegal[0]


def turn(*said: Step, meddling: str = "nothing", reaction: str = "approve", after: str = "nothing") -> Turn:
    return Turn(said, (meddling,), (reaction,), after)


SHELL = calls(("shell", {"command": "echo x >> made"}), ("shell", '{"command": "ls", '), ("read_file", {"path": "a.txt"}))
ENDS = turn(text("All done."))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES == 15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(turns, min_size=1, max_size=3), st.sampled_from(("ask", "auto", "edit", "plan")))
@example([turn(SHELL, reaction="cancel", after="retry"), ENDS], "ask")
@example([turn(SHELL, reaction="restart"), ENDS], "ask")
@example([turn(SHELL, reaction="change", after="fork"), ENDS], "ask")
@example([turn(SHELL, meddling="interrupt", after="fork"), ENDS], "auto")
@example([turn(replace(SHELL, finish="length"), replace(SHELL, finish="length"), after="retry"), ENDS], "auto")
@example([turn(text("  \\n"), text("yes"), after="fork"), ENDS], "auto")
@example([turn(nothing(), nothing(), after="retry"), turn(thinking("hm"), text("yes")), ENDS], "auto")
@example([turn(text("some ", "of it").dropped_after(1), meddling="steer", after="retry"), ENDS], "auto")
@example([turn(same_ids(*CALLS[:3]), same_ids(*CALLS[:3]), after="stored"), ENDS], "auto")
def test_every_request_is_legal_whatever_was_said_and_done(played: list[Turn], mode: str) -> None:
    """Promise 3, promise 2, T-14."""
    asyncio.run(live(played, mode))
