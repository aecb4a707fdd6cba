"""The daemon's events in spec 000's words: golden streams, and that it does not matter when one begins to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from golden import FOLDER, Golden, cases, pretty, read_lines
from palaver.backends.history import History
from palaver.client import MessageLog
from palaver.client.durable_queue import MirroredQueue
from palaver.client.testing import create_mock_client
from palaver.client.timeline import Timeline, blocks_of

Json = dict[str, Any]
LOGS = [case / "log.ndjson" for case in cases()] + sorted((FOLDER / "commands").glob("*/events.jsonl"))
STREAMS = ("approvals", "backend", "cancel_text", "cancel_tool", "discarded", "plan_and_checks", "queue", "retry", "steer", "text", "tools")


def envelopes(case: Path) -> list[Json]:
    return read(case / "log.ndjson")


def read(log: Path) -> list[Json]:
    return [json.loads(line) for line in log.read_bytes().splitlines()]


def log_after(events: list[Any]) -> MessageLog:
    log = MessageLog(create_mock_client(), session_id="s1", subscribe=False)
    for event in events:
        log.process_event(event)
    return log


@pytest.mark.parametrize("name", STREAMS)
def test_a_log_tells_its_golden_stream(name: str, golden: Golden) -> None:
    """S0-50, S0-05; API.md, "Importing it": what the accessor makes of canonical events, in the order of promise 3."""
    timeline = Timeline()
    events = [event for envelope in envelopes(FOLDER / name) for event in timeline.take(envelope)]
    made = {"log": f"{name}/log.ndjson", "events": events, "restored": timeline.restored(), "open": list(timeline.approvals.values())}
    golden.check(FOLDER / "primitives" / f"stream_{name}.json", pretty(made))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_a_reader_who_joins_at_any_event_ends_with_the_same_messages(path: Path) -> None:
    """T-01 for spec 000's view: restored at N, then what follows, is what a reader from the beginning has."""
    log = read(path)
    whole = Timeline()
    events = [event for envelope in log for event in whole.take(envelope)]
    ended = log_after(events).messages
    for seq in range(len(log) + 1):
        timeline = Timeline()
        for envelope in log[:seq]:
            timeline.take(envelope)
        joined = log_after([timeline.restored(), *(event for envelope in log[seq:] for event in timeline.take(envelope))]).messages
        if whole.turn_id is None:
            assert joined == ended, seq
        else:
            assert joined[: len(ended)] == ended, f"{seq}: more than the ended turns may be there, of the one that is open"


@pytest.mark.parametrize("name", ["text", "steer", "queue", "tools", "discarded", "approvals"])
def test_messages_stand_in_the_order_in_which_the_model_got_them(name: str) -> None:
    """Promise 3, by comparison with the history that a model is given; notes are for the model alone."""
    history, timeline = History(), Timeline()
    for recorded in read_lines(FOLDER / name / "log.ndjson"):
        history.take(recorded)
    for envelope in envelopes(FOLDER / name):
        timeline.take(envelope)
    told = [
        (message.role, part.text)
        for message in history.messages(closing=True)
        for part in message.parts[:1]
        if message.role != "tool" and message.code is None and not (part.text or "").startswith("Summary")
    ]
    roles = {"event": "user"}
    shown = [
        (roles.get(entry["message"]["role"], entry["message"]["role"]), block["text"])
        for entry in timeline.entries()
        if entry["message"]["role"] != "tool"
        for block in [one for one in entry["message"]["content"] if isinstance(one, dict) and one["type"] == "text"][:1]
    ]
    assert [one for one in shown if one[1]] == [one for one in told if one[1]]


def test_a_message_is_told_once_also_where_a_retry_reads_it_again() -> None:
    timeline = Timeline()
    events = [event for envelope in envelopes(FOLDER / "retry") for event in timeline.take(envelope)]
    told = [entry["message"]["id"] for event in events if event["type"] == "execution_end" for entry in event["newTimelineEntries"] or ()]
    assert len(set(told)) == len(told)
    assert told == [entry["message"]["id"] for entry in timeline.entries()]


def test_what_is_complete_of_an_open_turn_is_restored() -> None:
    """P-04, P-06: a reload in mid-run shows what the person wrote, and knows that it runs."""
    timeline = Timeline()
    for envelope in envelopes(FOLDER / "tools")[:6]:
        timeline.take(envelope)
    restored = timeline.restored()
    assert restored["executionId"] == "turn_1"
    assert [message["role"] for message in restored["messages"]] == ["user"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_the_mirrored_queue_is_the_log_s(path: Path) -> None:
    """T-08: order, membership and the words of each item, after every event."""
    queue, words = MirroredQueue(cast(Any, None)), dict[str, list[Json]]()
    for envelope in read(path):
        changed = queue.take(envelope)
        if envelope["type"] == "message_added":
            words[envelope["data"]["message"]["id"]] = envelope["data"]["message"]["parts"]
        if envelope["type"] == "queue_changed":
            items = envelope["data"]["items"]
            words |= {item["message_id"]: item["message"]["parts"] for item in items if "message" in item}
            assert changed and queue.paused == envelope["data"]["paused"]
            assert [(item["id"], item["paused"]) for item in queue.items] == [(item["id"], item["paused"]) for item in items]
            assert [item["message"]["content"] for item in queue.items] == [blocks_of(words[item["message_id"]], {}) for item in items]
        else:
            assert not changed
