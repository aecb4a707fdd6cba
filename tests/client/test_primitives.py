"""What a script of golden/primitives cannot say of the primitives: who subscribes, who is harmed by whom, what is passed to whom."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import pytest

import palaver.client as client_package
from palaver.client import (
    ChatMessage,
    ChatSession,
    ChatSessionOptions,
    MessageLog,
    MessageLogOptions,
    MessageSteering,
    MessageSteeringOptions,
    MessageTransformContext,
    TimelineEntry,
    ToolConfirmations,
    ToolConfirmationsOptions,
    default_derive_mode,
    default_transform,
    extract_tool_calls,
    timeline_to_messages,
)
from palaver.client.testing import MockClient, create_mock_client, make_event

PRIMITIVES = (MessageLog, ToolConfirmations, MessageSteering, ChatSession)


def entry(role: Any, text: str, id: str) -> TimelineEntry:
    return {"kind": "message", "message": {"id": id, "role": role, "content": [{"type": "text", "text": text}]}}


def ended(*entries: TimelineEntry) -> Any:
    return make_event("execution_end", newTimelineEntries=list(entries))


def asked(id: str = "c1", name: str = "shell") -> Any:
    return {"toolUseId": id, "name": name, "arguments": {}}


class Counted:
    """How often it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> None:
        self.calls.append(args)


# --- one by one and together ------------------------------------------------------------------------------------------------------


def test_each_concern_can_be_had_alone() -> None:
    """S0-01, S0-02: an editor has confirmations without messages, a dashboard durations without steering."""
    client = create_mock_client()
    confirmations, log = ToolConfirmations(client, session_id="s1"), MessageLog(client, session_id="s2")
    client.emit_tool_confirmation("s1", asked())
    client.emit_session_event("s2", ended(entry("user", "Hi", "u1")))
    assert confirmations.pending is not None and confirmations.pending.request["name"] == "shell"
    assert [message["id"] for message in log.messages] == ["u1"]


def test_one_who_is_driven_from_outside_does_not_subscribe() -> None:
    """S0-03, S0-14, S0-24, S0-32"""
    client = create_mock_client()
    log = MessageLog(client, session_id="s1", subscribe=False)
    confirmations = ToolConfirmations(client, session_id="s1", subscribe=False)
    steering = MessageSteering(client, session_id="s1", subscribe=False)
    chat = ChatSession(client, session_id="s1", subscribe=False)
    for event in (make_event("execution_start"), ended(entry("user", "Hi", "u1"))):
        client.emit_session_event("s1", event)
    client.emit_tool_confirmation("s1", asked())
    assert (log.messages, confirmations.pending, steering.is_executing, chat.messages) == ((), None, False, ())
    assert client.get_accessor("s1").subscriptions == 0
    for primitive in (log, steering, chat):
        primitive.process_event(make_event("execution_start"))
        primitive.process_event(ended(entry("user", "Hi", "u1")))
    confirmations.handle_confirmation(asked(), Counted())
    chat.handle_confirmation(asked(), Counted())
    assert len(log.messages) == len(chat.messages) == 1 and chat.tool_confirmation and confirmations.pending


def test_a_chat_is_one_subscription_over_its_parts() -> None:
    """S0-07, S0-60"""
    handlers: list[Any] = []
    client = create_mock_client()
    accessor = client.get_accessor("s1")
    on_event, on_confirmation = accessor.on_event, accessor.on_tool_confirmation

    def counting(what: str, join: Callable[..., Any]) -> Callable[..., Any]:
        def joined(handler: Any) -> Any:
            handlers.append(what)
            return join(handler)

        return joined

    accessor.on_event = counting("event", on_event)
    accessor.on_tool_confirmation = counting("confirmation", on_confirmation)
    chat = ChatSession(client, session_id="s1")
    assert handlers == ["event", "confirmation"] and accessor.subscriptions == 1
    chat.destroy()
    assert accessor.subscriptions == 0


def test_a_chat_that_is_told_not_to_leaves_the_transport_alone() -> None:
    client = create_mock_client()
    chat = ChatSession(client, session_id="s1", auto_subscribe=False)
    assert client.get_accessor("s1").subscriptions == 0
    client.emit_session_event("s1", make_event("execution_start"))
    assert chat.is_executing
    chat.destroy()
    assert client.get_accessor("s1").subscriptions == 0


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_without_a_session_nothing_is_subscribed(kind: Any) -> None:
    """S0-14"""
    asked_for = Counted()
    client = create_mock_client()
    client.session = asked_for
    kind(client).destroy()
    assert asked_for.calls == []


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_what_is_destroyed_hears_and_tells_nothing_and_can_be_destroyed_again(kind: Any) -> None:
    """S0-19, S0-28, S0-48"""
    client, listener = create_mock_client(), Counted()
    primitive = kind(client, session_id="s1")
    primitive.on_state_change(listener)
    primitive.destroy()
    primitive.destroy()
    client.emit_session_event("s1", ended(entry("user", "Hi", "u1")))
    client.emit_tool_confirmation("s1", asked())
    assert listener.calls == [] and client.get_accessor("s1").subscriptions == 0


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_a_listener_is_told_until_it_leaves(kind: Any) -> None:
    """S0-18, S0-28, S0-48, S0-60"""
    client, stays, leaves = create_mock_client(), Counted(), Counted()
    primitive = kind(client, session_id="s1")
    primitive.on_state_change(stays)
    leave = primitive.on_state_change(leaves)

    def happen() -> None:
        if kind is ToolConfirmations:
            client.emit_tool_confirmation("s1", asked())
        else:
            client.emit_session_event("s1", ended())

    happen()
    leave()
    leave()
    happen()
    assert (len(stays.calls), len(leaves.calls)) == (2, 1)


def test_a_listener_that_raises_harms_no_other_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    client, heard, seen = create_mock_client(), Counted(), Counted()

    def broken(*args: Any) -> None:
        raise ValueError("mine")

    chat = ChatSession(client, session_id="s1", on_event=broken)
    chat.on_state_change(broken)
    chat.on_state_change(heard)
    client.get_accessor("s1").on_event(seen)
    with caplog.at_level(logging.ERROR, "palaver.client"):
        client.emit_session_event("s1", make_event("execution_start"))
    assert chat.is_executing and len(heard.calls) == len(seen.calls) == 1
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["mine", "mine"]


def test_a_listener_that_leaves_while_others_are_told_is_not_told() -> None:
    steering, told = MessageSteering(create_mock_client()), list[str]()
    leaves: list[Callable[[], None]] = []
    steering.on_state_change(lambda: [leave() for leave in leaves])
    leaves.append(steering.on_state_change(lambda: told.append("gone")))
    steering.queue("x")
    assert told == []


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_a_state_is_frozen_and_new_after_each_change(kind: Any) -> None:
    """S0-12, S0-25, S0-37"""
    client = create_mock_client()
    primitive = kind(client, session_id="s1")
    before = primitive.state
    client.emit_session_event("s1", ended(entry("user", "Hi", "u1")))
    client.emit_tool_confirmation("s1", asked())
    assert primitive.state is not before
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(primitive.state, dataclasses.fields(primitive.state)[0].name, None)
    for field in dataclasses.fields(primitive.state):
        assert getattr(primitive, field.name) == getattr(primitive.state, field.name), "each field of the state has a getter"


# --- messages ---------------------------------------------------------------------------------------------------------------------


def test_a_transform_gets_the_entries_and_durations_that_it_cannot_change() -> None:
    """S0-04, S0-08, S0-09, S0-10, S0-34"""
    got: list[tuple[Sequence[TimelineEntry], MessageTransformContext]] = []

    def transform(entries: Sequence[TimelineEntry], context: MessageTransformContext) -> list[ChatMessage]:
        got.append((entries, context))
        return [{"id": "mine", "role": "assistant", "content": f"{len(entries)} entries"}]

    client = create_mock_client()
    chat = ChatSession(client, session_id="s1", transform=transform)
    for event in (
        make_event("tool_result", callId="c1", durationMs=7),
        ended(entry("tool", "result", "t1")),
        ended(entry("tool", "more", "t2")),
    ):
        client.emit_session_event("s1", event)
    assert [message["content"] for message in chat.messages] == ["1 entries", "1 entries"]
    assert [dict(context.tool_durations) for _, context in got] == [{"c1": 7}, {}]
    with pytest.raises(TypeError):
        got[0][1].tool_durations["c1"] = 8  # type: ignore[index] # that it is read-only is what is tested


def test_initial_messages_are_copied() -> None:
    """S0-11"""
    initial: list[ChatMessage] = [{"id": "u1", "role": "user", "content": "Hi"}]
    log = MessageLog(create_mock_client(), initial_messages=initial)
    initial.clear()
    assert [message["id"] for message in log.messages] == ["u1"]


def test_a_later_clock_is_not_needed_where_the_first_one_showed_nought() -> None:
    """S0-15: a timer that began at 0 is a timer."""
    log = MessageLog(create_mock_client(), now=iter([0, 250]).__next__)
    for event in (make_event("tool_call_start", callId="c1"), make_event("tool_result", callId="c1")):
        log.process_event(event)
    log.process_event(
        ended({"kind": "message", "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "x"}]}})
    )
    assert log.messages[0]["toolCalls"][0].get("duration") == 250


def test_the_default_transform_is_timeline_to_messages() -> None:
    """S0-20, S0-21, S0-51"""
    entries: list[Any] = [
        entry("user", "Hi", "u1"),
        entry("event", "noted", "e1"),
        {"kind": "message"},
        {"message": {"role": "user", "content": "no kind"}},
        {"kind": "message", "message": {"role": "assistant", "content": [{"type": "tool_use", "toolUseId": "c1", "name": "glob"}]}},
    ]
    made = timeline_to_messages(entries, {"c1": 3})
    assert made == default_transform(entries, MessageTransformContext({"c1": 3}))
    assert made == [
        {"id": "u1", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "id": "msg-4",
            "role": "assistant",
            "content": entries[4]["message"]["content"],
            "toolCalls": [{"id": "c1", "name": "glob", "status": "done", "duration": 3}],
        },
    ]
    assert timeline_to_messages([], {}) == []


def test_tool_calls_are_extracted_from_blocks() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "x"},
        {"type": "tool_use", "id": "c1", "name": "a"},
        {"type": "tool_result", "toolUseId": "c1", "name": "a", "content": [], "isError": False},
    ]
    assert extract_tool_calls(blocks) == [{"id": "c1", "name": "a", "status": "done"}]
    assert extract_tool_calls("only words") == []


# --- confirmations ----------------------------------------------------------------------------------------------------------------

POLICIES: dict[str, tuple[Callable[[Any], Any], list[bool | None]]] = {
    "a power user": (
        lambda request: {"action": "approve" if request["name"] in ("read_file", "glob", "grep") else "prompt"},
        [True, None, None],
    ),
    "continuous integration": (lambda request: {"action": "approve"}, [True, True, True]),
    "a restricted place": (
        lambda request: {"action": "deny" if request["name"] in ("shell", "write_file") else "prompt"},
        [None, False, False],
    ),
    "nobody said anything": (lambda request: {"action": "prompt"}, [None, None, None]),
}


@pytest.mark.parametrize("who", POLICIES)
def test_policies_decide_how_an_ask_is_met(who: str) -> None:
    """S0-22, S0-23, S0-26, S0-29, S0-30, T-12"""
    policy, expected = POLICIES[who]
    got: list[bool | None] = []
    for name in ("read_file", "shell", "write_file"):
        client = create_mock_client()
        confirmations = ToolConfirmations(client, session_id="s1", policy=policy)
        client.emit_tool_confirmation("s1", asked(name=name))
        got.append(client.answered[0]["approved"] if client.answered else None)
        assert (confirmations.pending is None) == bool(client.answered)
    assert got == expected


def test_a_policy_that_raises_approves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def policy(request: Any) -> Any:
        raise KeyError("what")

    client = create_mock_client()
    confirmations = ToolConfirmations(client, session_id="s1", policy=policy)
    client.emit_tool_confirmation("s1", asked())
    assert client.answered == [] and confirmations.pending is not None
    assert "left to the person" in caplog.text


def test_each_confirmation_keeps_its_own_way_to_be_answered() -> None:
    """S0-25, S0-27, P-01, T-11"""
    client, first, second = create_mock_client(), Counted(), Counted()
    confirmations = ToolConfirmations(client, session_id="s1")
    client.emit_tool_confirmation("s1", asked("c1"), first)
    client.emit_tool_confirmation("s1", asked("c2"), second)
    confirmations.respond({"approved": False, "reason": "no"})
    assert (first.calls, second.calls) == ([], [({"approved": False, "reason": "no"},)])
    assert confirmations.pending is not None and confirmations.pending.request["toolUseId"] == "c1"
    confirmations.pending.respond({"approved": True})
    assert first.calls == [({"approved": True},)]


# --- steering ---------------------------------------------------------------------------------------------------------------------


def test_without_a_session_what_is_sent_has_none() -> None:
    """S0-38 … S0-41"""
    client = create_mock_client()
    steering = MessageSteering(client)
    steering.submit("Hello")
    asyncio.run(_await(steering.interrupt("No session")))
    assert [(one["input"]["messages"][0]["content"][0]["text"], one["session_id"]) for one in client.sent] == [
        ("Hello", None),
        ("No session", None),
    ]


async def _await(awaitable: Any) -> Any:
    return await awaitable


def test_an_interrupt_can_be_awaited_for_its_answer() -> None:
    """S0-41"""
    chat = ChatSession(create_mock_client(), session_id="s1")
    assert asyncio.run(_await(chat.interrupt("Stop")))["delivered"] == "started"


def test_more_than_words_can_be_sent_and_queued() -> None:
    """P-04: what is queued keeps its attachments."""
    client = create_mock_client()
    chat = ChatSession(client, session_id="s1", mode="queue")
    client.emit_session_event("s1", make_event("execution_start"))
    picture: Any = [{"type": "text", "text": "See "}, {"type": "image", "ref": "attachments/a.png", "mimeType": "image/png"}]
    chat.submit(picture)
    assert chat.queued[0]["content"] == picture and chat.last_submitted is None
    client.emit_session_event("s1", ended())
    assert client.sent[0]["input"]["messages"][0]["content"] == picture
    chat.submit(picture)
    client.emit_session_event("s1", make_event("execution_start"))
    assert len(chat.queued) == 1, "the second one waits for the first"


def test_what_could_not_be_sent_is_neither_lost_nor_shown_as_sent() -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise ConnectionError("away")

    client = create_mock_client()
    chat = ChatSession(client, session_id="s1")
    chat.queue("kept")
    client.send = refuse
    with pytest.raises(ConnectionError):
        chat.submit("Hello")
    with pytest.raises(ConnectionError):
        chat.flush()
    assert chat.last_submitted is None and len(chat.queued) == 1


def test_a_refusal_concerns_whoever_sent_the_text() -> None:
    class Handle:
        client_message_id = "k1"

    client = create_mock_client()
    client.send = lambda *args, **options: Handle()
    mine, other = (MessageSteering(client, session_id="s1") for _ in range(2))
    mine.submit("Hello")
    client.emit_session_event("s1", make_event("message_refused", clientMessageId="k1", text="Hello", code="disk", message="full"))
    assert mine.error is not None and other.error is None


# --- the chat ---------------------------------------------------------------------------------------------------------------------


def test_an_event_passes_the_raw_hook_then_the_parts_then_the_listener() -> None:
    """S0-34, S0-36, S0-49, S0-60"""
    client, order = create_mock_client(), list[str]()

    def hook(event: Any) -> None:
        order.append(f"hook:{event['type']}:{chat.is_executing}:{len(chat.messages)}")

    chat = ChatSession(client, session_id="s1", on_event=hook)
    chat.on_state_change(lambda: order.append(f"told:{chat.is_executing}:{len(chat.messages)}:{chat.last_submitted}"))
    chat.submit("Hi")
    client.emit_session_event("s1", make_event("execution_start"))
    client.emit_session_event("s1", ended(entry("user", "Hi", "u1")))
    assert order == [
        "told:False:0:Hi",
        "hook:execution_start:False:0",
        "told:True:0:Hi",
        "hook:execution_end:True:0",
        "told:False:1:None",
    ]


def test_a_deriver_can_build_on_the_default() -> None:
    """S0-06, S0-33, S0-52, S0-59"""
    failed = [False]

    def derive(*, is_executing: bool, has_pending_confirmation: bool) -> str:
        base = default_derive_mode(is_executing=is_executing, has_pending_confirmation=has_pending_confirmation)
        return "error" if base == "idle" and failed[0] else base

    client = create_mock_client()
    chat = ChatSession(client, session_id="s1", derive_mode=derive)
    assert chat.chat_mode == "idle"
    failed[0] = True
    client.emit_session_event("s1", ended())
    assert chat.chat_mode == "error"
    table = [(False, False, "idle"), (True, False, "streaming"), (False, True, "confirming_tool"), (True, True, "confirming_tool")]
    assert all(default_derive_mode(is_executing=runs, has_pending_confirmation=asks) == mode for runs, asks, mode in table)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (MessageLog, MessageLogOptions),
        (ToolConfirmations, ToolConfirmationsOptions),
        (MessageSteering, MessageSteeringOptions),
        (ChatSession, ChatSessionOptions),
    ],
)
def test_the_options_are_the_keywords(kind: Any, options: Any) -> None:
    """S0-11, S0-24, S0-32, S0-34, S0-61"""
    parameters = [one for one in inspect.signature(kind).parameters.values() if one.name not in ("client", "now")]
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters)
    assert {one.name for one in parameters} == set(get_type_hints(options))


# --- the test double and the package ----------------------------------------------------------------------------------------------


def test_the_double_wraps_what_a_spy_wants_to_see() -> None:
    """S0-62, S0-67"""
    seen: list[str] = []

    def spy(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seen.append(function.__name__)
            return function(*args, **options)

        return call

    client: MockClient = create_mock_client(spy)
    chat = ChatSession(client, session_id="s1")
    chat.submit("Hi")
    chat.destroy()
    assert [name.lstrip("_") for name in seen if "accessor" not in name] == ["subscribe", "send", "unsubscribe"]
    assert asyncio.run(_await(client.send({"messages": []}).result))["delivered"] == "started"


def test_every_name_of_the_package_is_there_and_connect_is_the_function() -> None:
    """S0-61, S0-63: what TypeScript exports from its root, Python does from `palaver.client`."""
    from palaver.client.connect import Connection

    assert all(getattr(client_package, name) is not None for name in client_package.__all__)
    assert inspect.isfunction(client_package.connect)
    assert Connection.__module__ == "palaver.client.connect"
    assert not hasattr(client_package, "nothing_of_that_name")


def test_importing_the_primitives_loads_no_http_client() -> None:
    code = "import sys; from palaver.client import ChatSession, connect, connect_sync; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
