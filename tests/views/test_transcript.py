"""The transcript is one fold: golden sessions, live and reloaded, with and without the tail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import FOLDER, Golden, cases, pretty, read_lines, to_lines
from golden_cases import CASES, FAMILY, written
from palaver.views.transcript import OUTPUT_KEPT, Transcript, drop_provisional, from_page, show, show_tail, to_page
from palaver.wire.events import ModelOutputCompleted, ModelOutputDelta, ModelOutputDiscarded, PlanUpdated, Recorded
from palaver.wire.values import Plan
from random_logs import random_log
from story import Story

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def fold(events: Iterable[Recorded], onto: Transcript | None = None) -> Transcript:
    return reduce(show, events, Transcript() if onto is None else onto)


def parsed(transcript: Transcript) -> Any:
    """As a client gets it."""
    return json.loads(json.dumps(to_page(transcript)))


def shown(story: Story) -> Any:
    return parsed(fold(story.recorded))


def blocks(page: Any) -> list[Any]:
    return [block for entry in page["entries"] for block in entry["blocks"]]


# --- golden sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_golden_session_is_what_its_story_says(name: str, golden: Golden) -> None:
    story = written(name)
    golden.check(FOLDER / name / "log.ndjson", to_lines(story.recorded))
    if any(recorded.seq == 0 for recorded in story.stream):
        golden.check(FOLDER / name / "tail.ndjson", story.stream_lines())
    golden.check(FOLDER / name / "transcript.json", pretty(to_page(fold(story.recorded))))


@every_case
def test_a_golden_log_folds_to_its_transcript(case: Path) -> None:
    """T-01"""
    assert parsed(fold(read_lines(case / "log.ndjson"))) == json.loads((case / "transcript.json").read_bytes())


@every_case
def test_a_client_that_goes_on_from_any_page_ends_where_the_whole_fold_ends(case: Path) -> None:
    """T-01, promise 1"""
    events = read_lines(case / "log.ndjson")
    whole, live = parsed(fold(events)), Transcript()
    for n, recorded in enumerate(events):
        page = json.loads(json.dumps(to_page(live)))
        assert parsed(fold(events[n:], from_page(page))) == whole
        show(live, recorded)


@every_case
def test_the_tail_changes_nothing_that_is_confirmed(case: Path) -> None:
    """Promise 1: the page is equal after each logged event, whatever pieces came before it."""
    stream = case / "tail.ndjson"
    if not stream.exists():
        stream = case / "log.ndjson"
    plain, tailed = Transcript(), Transcript()
    for recorded in read_lines(stream):
        if recorded.seq:
            show(plain, recorded)
            show(tailed, recorded)
            assert parsed(tailed) == parsed(plain)
            if isinstance(recorded.data, ModelOutputCompleted):
                assert not [tail for tail in tailed.tails.values() if tail.owner == recorded.data.message.id]
        else:
            show_tail(tailed, recorded)


@given(st.randoms(use_true_random=False))
def test_going_on_from_a_page_holds_for_random_sessions(random: Any) -> None:
    """T-01, promise 1"""
    events = random_log(random).recorded
    n = random.randrange(len(events) + 1)
    page = json.loads(json.dumps(to_page(fold(events[:n]))))
    assert parsed(fold(events[n:], from_page(page))) == parsed(fold(events))


# --- rules of the fold --------------------------------------------------------------------------------------------------------


def test_an_unknown_event_only_moves_the_number() -> None:
    story = Story()
    story.asks("Hi")
    before = shown(story)
    story.unknown("sparkle_added", {"message": {"id": "msg_1"}})
    assert shown(story) == {**before, "as_of_seq": before["as_of_seq"] + 1}


def test_a_page_is_a_copy() -> None:
    story = Story()
    story.asks("Hi")
    said = story.opens()
    story.delta(said, "a")
    live = fold(story.recorded)
    page = to_page(live)
    story.delta(said, "b", part="part_2")
    show(live, story.recorded[-1])
    assert page["entries"][-1]["blocks"][0]["part"]["text"] == "a"
    going_on = from_page(page)
    show(going_on, story.recorded[-1])
    assert page["entries"][-1]["blocks"][0]["part"]["text"] == "a"


def test_a_text_ends_when_the_next_block_begins_or_with_its_message() -> None:
    story = Story()
    story.asks("Hi")
    said = story.opens()
    story.delta(said, "hm", "thinking")
    story.delta(said, "so")
    story.completes(said)
    thinking, text = blocks(shown(story))[1:]
    *_, first, second, completed = story.recorded
    assert (thinking["started_at"], thinking["ended_at"]) == (first.ts, second.ts)
    assert (text["started_at"], text["ended_at"]) == (second.ts, completed.ts)


def test_the_end_of_a_turn_stands_in_its_last_entry_else_in_one_of_its_own() -> None:
    story = Story()
    story.asks("Hi")
    story.ends("cancelled")
    story.starts(trigger="mission")
    story.ends()
    said, alone = shown(story)["entries"]
    assert [block["kind"] for block in said["blocks"]] == ["text", "turn_end"]
    assert alone["message"] is None and [block["kind"] for block in alone["blocks"]] == ["turn_end"]


def test_a_discarded_message_leaves_nothing_and_its_late_result_changes_nothing() -> None:
    story = Story()
    story.asks("Hi")
    before = shown(story)["entries"]
    said = story.opens()
    call = story.calls(said, story.call(), run_by="backend")
    ask = story.wants(call)
    story.log(ModelOutputDiscarded(message_id=said.id))
    story.denies(ask, call, cause="cancelled")
    story.fails(call, "tool_interrupted", "Started over.")
    assert shown(story)["entries"] == before


def test_a_plan_is_one_block_for_each_turn_and_keeps_its_latest_call() -> None:
    story = Story()
    for _ in range(2):
        story.asks("Plan")
        first, second = story.call("update_plan"), story.call("update_plan")
        said = story.says("Planning.", calls=[first, second])
        for call in (first, second):
            story.calls(said, call, "ask")
        for call in (first, second):
            story.log(PlanUpdated(plan=Plan("p", "executing", (), text=call.id), run_by="daemon", tool_call_id=call.id))
        page = json.loads(json.dumps(to_page(fold(story.recorded))))
        story.returns(second)
        story.fails(first, "tool_error", "Too late.")
        assert parsed(fold(story.recorded[-2:], from_page(page))) == shown(story)
        story.ends()
    found = [block for block in blocks(shown(story)) if block["kind"] in ("plan", "tool")]
    assert [(block["kind"], block["data"]["plan"]["text"]) for block in found] == [("plan", "call_2"), ("plan", "call_4")]
    assert [(block["call"]["id"], block["call"]["state"]) for block in found] == [("call_2", "success"), ("call_4", "success")]


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.integers(0, 5000)), max_size=12))
def test_a_call_shows_at_most_the_newest_4096_code_points_and_counts_all(pieces: list[tuple[Any, int]]) -> None:
    story = Story()
    story.asks("Run")
    call = story.call("shell")
    story.calls(story.says(calls=[call]), call, "exec")
    said = {"stdout": "", "stderr": ""}
    for stream, size in pieces:
        text = "🙂x" * (size // 2) + "é" * (size % 2)
        story.prints(call, text, len(said[stream]), stream)
        said[stream] += text
    shown_call = blocks(shown(story))[-1]["call"]
    assert sum(len(piece["text"]) for piece in shown_call["output"]) <= OUTPUT_KEPT
    assert shown_call["output_chars"] == {stream: len(said[stream]) for stream, _ in pieces}
    for stream, whole in said.items():
        assert whole.endswith("".join(piece["text"] for piece in shown_call["output"] if piece["stream"] == stream))
    if pieces and pieces[-1][1]:
        assert shown_call["output"][-1]["text"]


def test_open_lists_what_is_open() -> None:
    page = shown(written("open_now"))
    assert page["open"]["turn"]["id"] == "turn_1" and page["open"]["turn"]["cancel_requested"] is True
    assert [ask["approval_id"] for ask in page["open"]["approvals"]] == ["appr_1"]
    assert [ask["question_id"] for ask in page["open"]["questions"]] == ["ques_1"]
    assert page["open"]["parts"] == [
        {"message_id": "msg_2", "part_id": "part_2", "chars": 8},
        {"tool_call_id": "call_1", "stream": "stdout", "chars": 5},
        {"tool_call_id": "call_1", "stream": "stderr", "chars": 3},
    ]
    story = written("open_now")
    story.ends("cancelled")
    assert "turn" not in shown(story)["open"]


def test_a_page_of_nothing_is_empty() -> None:
    nothing = {"as_of_seq": 0, "entries": [], "open": {"approvals": [], "questions": [], "parts": []}, "earlier": None, "later": None}
    assert parsed(Transcript()) == nothing


# --- the tail -----------------------------------------------------------------------------------------------------------------


def opened() -> tuple[Story, Any]:
    story = Story()
    story.asks("Hi")
    return story, story.opens()


def received(story: Story) -> Transcript:
    return reduce(lambda view, r: show(view, r) if r.seq else show_tail(view, r), story.stream, Transcript())


def test_a_piece_adds_only_what_lies_beyond() -> None:
    story, said = opened()
    part = story.delta(said, FAMILY[:2])
    story.tail(said, part, 0, FAMILY[:3])
    story.tail(said, part, 1, FAMILY[1:3])
    story.tail(said, part, 2, FAMILY[2:])
    assert received(story).provisional(said.id, part) == FAMILY[2:]


@given(st.randoms(use_true_random=False))
def test_whatever_pieces_come_a_reader_sees_a_beginning_of_the_text_and_confirms_only_the_log(random: Any) -> None:
    """Promise 1, with a tail that overlaps, repeats, runs ahead and starts anew."""
    events = random_log(random, 2).recorded
    texts = dict[str, str]()
    for recorded in events:
        if isinstance(recorded.data, ModelOutputDelta):
            texts[recorded.data.part_id] = texts.get(recorded.data.part_id, "") + recorded.data.text
    plain, tailed = Transcript(), Transcript()
    for recorded in events:
        show(plain, recorded)
        show(tailed, recorded)
        assert parsed(tailed) == parsed(plain)
        if random.random() < 0.1:
            drop_provisional(tailed)
        if isinstance(recorded.data, ModelOutputDelta):
            whole = texts[recorded.data.part_id]
            offset = random.randrange(len(whole) + 1)
            piece = msgspec.structs.replace(recorded.data, offset=offset, text=whole[offset : random.randrange(offset, len(whole) + 1)])
            show_tail(tailed, msgspec.structs.replace(recorded, seq=0, data=piece))
            block = tailed.parts[f"{piece.message_id}/{piece.part_id}"]
            assert whole.startswith(block["part"]["text"] + tailed.provisional(piece.message_id, piece.part_id))


def test_a_piece_that_is_ahead_is_ignored_until_the_log_has_come() -> None:
    story, said = opened()
    part = story.delta(said, "ab")
    story.tail(said, part, 3, "d")
    assert received(story).provisional(said.id, part) == ""
    story.delta(said, "c", part=part)
    story.tail(said, part, 3, "d")
    assert received(story).provisional(said.id, part) == "d"


def test_what_the_log_confirms_is_provisional_no_longer() -> None:
    story, said = opened()
    part = story.delta(said, "a")
    story.tail(said, part, 1, "bcd")
    story.delta(said, "bc", part=part)
    view = received(story)
    assert view.provisional(said.id, part) == "d"
    assert view.entries[-1]["blocks"][0]["part"]["text"] == "abc"


def test_a_new_connection_and_the_end_of_a_message_cut_back_to_the_log() -> None:
    story, said = opened()
    part = story.delta(said, "a")
    story.tail(said, part, 1, "b")
    assert not drop_provisional(received(story)).tails
    story.completes(said)
    assert not received(story).tails
    story.tail(said, part, 0, "ab again")
    assert not received(story).tails


def test_a_piece_of_a_message_that_is_not_there_is_ignored() -> None:
    story, said = opened()
    view = fold(story.recorded[:-1])
    story.tail(said, "part_9", 0, "x")
    assert not show_tail(view, story.stream[-1]).tails
