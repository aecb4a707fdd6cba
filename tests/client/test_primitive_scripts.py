"""The scripts of golden/primitives: what happens to a primitive, and after each step its state, who was told, what was sent.

A step is `{event}`, `{confirmation}`, `{canonical}`, `{queue}` (another client changed it), `{call, args}` or `{clock}`. Its `told` counts
notifications; `sent`, `answered`, `interrupted`, `promoted` and `resumed` are what went out in it: absent is nothing. `state` names the
fields that are looked at. A policy is a table by tool, a deriver one by what is the case. Keys are TypeScript's.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden import FOLDER
from palaver.client import ChatSession, MessageLog, MessageSteering, StreamingText, ToolConfirmations
from palaver.client.testing import MockClient, create_mock_client

Json = dict[str, Any]
SCRIPTS = sorted(path for path in (FOLDER / "primitives").glob("*.json") if not path.name.startswith("stream_"))
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (MessageLog, ToolConfirmations, MessageSteering, ChatSession, StreamingText)}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def policy(table: Json) -> Callable[[Any], Any]:
    return lambda request: table.get(request["name"], table["*"])


def deriver(table: Json) -> Callable[..., str]:
    def derive(*, is_executing: bool, has_pending_confirmation: bool) -> str:
        return str(table["pending" if has_pending_confirmation else "executing" if is_executing else "else"])

    return derive


READ: dict[str, Callable[[Json], Any]] = {"policy": policy, "confirmationPolicy": policy, "deriveMode": deriver}


def plain(value: Any) -> Any:
    """A state as JSON: fields as TypeScript names them, functions left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(field) for name, field in fields.items() if not callable(field)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


class Play:
    """A primitive, and what it did since the last step."""

    def __init__(self, script: Json) -> None:
        self.now = 0.0
        self.told = 0
        self.client: MockClient = create_mock_client(durable_queue=script.get("durableQueue", False))
        options = {snake(name): READ[name](value) if name in READ else value for name, value in script["options"].items()}
        if script["primitive"] == "MessageLog":
            options["now"] = lambda: self.now
        self.primitive = KINDS[script["primitive"]](self.client, **options)
        self.accessor = self.client.get_accessor("s1")
        self.primitive.on_state_change(self.hear)

    def hear(self) -> None:
        self.told += 1

    def do(self, step: Json) -> None:
        match step:
            case {"event": event}:
                self.client.emit_session_event("s1", event)
            case {"canonical": envelope}:
                self.client.emit_canonical_event("s1", envelope)
            case {"confirmation": request}:
                self.client.emit_tool_confirmation("s1", request)
            case {"queue": items}:
                self.accessor.queue.items = tuple(items)
                self.accessor.queue.changed()
            case {"call": name, "args": args}:
                getattr(self.primitive, snake(name))(*args)
            case {"clock": now}:
                self.now = now

    def did(self) -> Json:
        """What went out and who was told; it is forgotten by this."""
        queue = getattr(self.accessor, "queue", None)
        sent = [{camel(name): value for name, value in one.items()} for one in self.client.sent]
        did = {
            "told": self.told,
            "sent": sent,
            "answered": list(self.client.answered),
            "interrupted": list(self.accessor.interrupted),
            "promoted": [item["id"] for item in queue.promoted] if queue else [],
            "resumed": queue.resumed if queue else 0,
        }
        self.told = 0
        self.client.sent.clear()
        self.client.answered.clear()
        self.accessor.interrupted.clear()
        if queue is not None:
            queue.promoted, queue.resumed = [], 0
        return did


NOTHING: Json = {"told": 0, "sent": [], "answered": [], "interrupted": [], "promoted": [], "resumed": 0}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_primitive_plays_its_script(path: Path) -> None:
    """Each script names what it shows: P-01, P-04, P-05, P-06, S0-06, S0-07, S0-08, S0-09, S0-10, S0-11, S0-12, S0-13, S0-15, S0-16,
    S0-17, S0-19, S0-20, S0-22, S0-23, S0-24, S0-25, S0-26, S0-27, S0-28, S0-29, S0-30, S0-31, S0-32, S0-33, S0-34, S0-35, S0-36,
    S0-37, S0-38, S0-39, S0-40, S0-41, S0-42, S0-43, S0-44, S0-45, S0-46, S0-47, S0-48, S0-49, S0-50, S0-51, S0-52, S0-59, S0-60,
    S0-65, T-07, T-11.
    """
    script = json.loads(path.read_text())
    play = Play(script)
    for number, step in enumerate(script["steps"]):
        before = play.primitive.state
        play.do(step)
        where = f"step {number}: {json.dumps(step, ensure_ascii=False)}"
        expected = {name: step.get(name, nothing) for name, nothing in NOTHING.items()}
        assert play.did() == expected, where
        state = plain(play.primitive.state)
        wanted = step.get("state", {})
        assert {name: state[name] for name in wanted} == wanted, where
        assert (play.primitive.state is before) == (step["told"] == 0), f"a state is new exactly when somebody is told; {where}"


def test_there_is_a_script_for_each_primitive() -> None:
    assert {json.loads(path.read_text())["primitive"] for path in SCRIPTS} == set(KINDS)
