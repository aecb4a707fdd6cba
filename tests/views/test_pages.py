"""Pages of the transcript: all of them together are the whole fold, and each is planned without reading the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import cases, read_lines
from palaver.errors import Invalid
from palaver.views.pages import PageIndex, SavedIndex, page
from palaver.views.transcript import Page, Transcript, from_page, show, to_page
from palaver.wire.events import ModelOutputDiscarded, Notice, Recorded
from random_logs import random_log
from story import Story

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def indexed(events: list[Recorded]) -> PageIndex:
    index = PageIndex()
    for recorded in events:
        index.note(recorded)
    return index


def whole(events: list[Recorded]) -> Page:
    transcript = Transcript()
    for recorded in events:
        show(transcript, recorded)
    return to_page(transcript)


def ask(index: PageIndex, events: list[Recorded], **where: Any) -> Page:
    """The page, from the events that the plan names and no others."""
    plan = index.plan(**where)
    named = [*range(plan.from_seq, plan.to_seq + 1), *plan.later]
    assert named == sorted(set(named))
    return page(plan, [events[seq - 1] for seq in named])


def backwards(index: PageIndex, events: list[Recorded], limit: int) -> list[Page]:
    pages = [ask(index, events, limit=limit)]
    while (earlier := pages[-1]["earlier"]) is not None:
        pages.append(ask(index, events, before=earlier, limit=limit))
        assert pages[-1]["entries"] and len(pages[-1]["entries"]) <= limit
    return pages


def check(events: list[Recorded], limit: int) -> None:
    index, everything = indexed(events), whole(events)
    entries = everything["entries"]
    pages = backwards(index, events, limit)
    assert [entry for made in reversed(pages) for entry in made["entries"]] == entries
    assert all(made["open"] == everything["open"] and made["as_of_seq"] == len(events) for made in pages)
    forward, after = list[Any](), "0"
    while True:
        made = ask(index, events, after=after, limit=limit)
        forward += made["entries"]
        assert len(made["entries"]) <= limit
        if made["later"] is None:
            break
        after = made["later"]
    assert forward == entries


@every_case
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_the_pages_of_a_golden_session_are_its_transcript(case: Path, limit: int) -> None:
    events = read_lines(case / "log.ndjson")
    check(events, limit)
    for n in range(0, len(events), 7):
        check(events[:n], limit)


@given(st.randoms(use_true_random=False), st.integers(1, 9))
def test_the_pages_of_a_random_session_are_its_transcript(random: Any, limit: int) -> None:
    check(random_log(random).recorded, limit)


@given(st.randoms(use_true_random=False), st.integers(1, 9))
def test_going_on_from_the_newest_page_ends_as_the_newest_entries_of_the_whole(random: Any, limit: int) -> None:
    """T-01: a page that begins late is as good a beginning, for what it has."""
    events = random_log(random).recorded
    n = random.randrange(len(events) + 1)
    first = ask(indexed(events[:n]), events[:n], limit=limit)
    live = from_page(first)
    for recorded in events[n:]:
        show(live, recorded)
    entries = to_page(live)["entries"]
    assert entries == whole(events)["entries"][len(whole(events)["entries"]) - len(entries) :]


@given(st.randoms(use_true_random=False))
def test_an_index_that_was_saved_goes_on_as_if_it_had_not_been(random: Any) -> None:
    events = random_log(random).recorded
    n = random.randrange(len(events) + 1)
    saved = msgspec.msgpack.decode(msgspec.msgpack.encode(indexed(events[:n]).save()), type=SavedIndex)
    index = PageIndex.restore(saved)
    for recorded in events[n:]:
        index.note(recorded)
    assert msgspec.msgpack.encode(index.save()) == msgspec.msgpack.encode(indexed(events).save())


def turns(count: int) -> Story:
    story = Story()
    for n in range(count):
        story.asks(f"Question {n}")
        story.says(f"Answer {n}")
        story.ends()
    return story


def texts(made: Page) -> list[str]:
    return [block["part"]["text"] for entry in made["entries"] for block in entry["blocks"] if "part" in block]


def test_a_page_reads_its_own_turns_however_long_the_log_is() -> None:
    short, long = turns(20), turns(2000)
    plans = [indexed(story.recorded).plan(limit=20) for story in (short, long)]
    assert plans[0].to_seq - plans[0].from_seq == plans[1].to_seq - plans[1].from_seq < 100


def test_the_index_of_a_long_session_is_small() -> None:
    story = turns(2000)
    size = len(msgspec.msgpack.encode(indexed(story.recorded).save()))
    assert size / 2000 < 80


def test_a_page_around_a_message_has_it_in_the_middle() -> None:
    story = turns(30)
    index = indexed(story.recorded)
    made = ask(index, story.recorded, around="msg_31", limit=4)
    assert texts(made) == ["Question 14", "Answer 14", "Question 15", "Answer 15"]
    assert made["earlier"] is not None and made["later"] is not None
    assert texts(ask(index, story.recorded, before=made["earlier"], limit=2)) == ["Question 13", "Answer 13"]
    assert texts(ask(index, story.recorded, after=made["later"], limit=2)) == ["Question 16", "Answer 16"]
    assert texts(ask(index, story.recorded, around="msg_60", limit=3)) == ["Answer 28", "Question 29", "Answer 29"]
    assert texts(ask(index, story.recorded, around="msg_1", limit=3)) == ["Question 0", "Answer 0", "Question 1"]


def test_before_a_message_comes_what_stands_before_it_in_the_same_turn_too() -> None:
    story = turns(3)
    made = ask(indexed(story.recorded), story.recorded, before="msg_4", limit=2)
    assert texts(made) == ["Answer 0", "Question 1"]


def test_the_newest_page_has_all_of_the_open_turn() -> None:
    story = turns(5)
    story.asks("Count")
    for n in range(10):
        story.says(f"{n}")
    made = ask(indexed(story.recorded), story.recorded, limit=3)
    assert texts(made) == ["Count", *(str(n) for n in range(10))]


def interrupted() -> Story:
    """A turn that was interrupted, with the first words of the turn that comes."""
    story = turns(3)
    story.asks("Slowly")
    story.says("Well")
    story.cancel_asked(cause="superseded")
    story.adds("Now", "turn_now")
    story.ends("cancelled", cause="superseded")
    return story


def test_the_newest_page_has_the_first_words_of_the_turn_that_comes() -> None:
    story = interrupted()
    story.log(Notice(level="info", code="x", text="between the two"))
    first = ask(indexed(story.recorded), story.recorded, limit=1)
    story.starts("msg_9", turn="turn_now")
    story.ends("cancelled")
    live = from_page(first)
    for recorded in story.recorded[first["as_of_seq"] :]:
        show(live, recorded)
    first_words, between = to_page(live)["entries"]
    assert [block["kind"] for block in first_words["blocks"]] == ["text", "turn_end"]
    assert between["message"] is None


def test_a_turn_that_said_nothing_ends_in_its_first_words_on_the_page_before() -> None:
    story = interrupted()
    story.starts("msg_9", turn="turn_now")
    said = story.opens()
    story.delta(said, "No")
    story.log(ModelOutputDiscarded(message_id=said.id))
    story.ends("failed")
    story.asks("Next")
    check(story.recorded, 2)
    index = indexed(story.recorded)
    begun = index.events_of("turn_now")
    assert begun is not None
    cursor = str(begun[0])
    made = ask(index, story.recorded, before=cursor, limit=1)
    assert [block["kind"] for block in made["entries"][0]["blocks"]] == ["text", "turn_end"]
    after = ask(index, story.recorded, after=cursor)
    assert texts(after) == ["Next"] and len(after["entries"]) == 1


def test_a_row_of_stored_messages_is_read_in_pieces() -> None:
    story = Story()
    for n in range(1000):
        story.adds(f"Note {n}", None)
    index = indexed(story.recorded)
    plan = index.plan(limit=10)
    assert plan.to_seq - plan.from_seq < 200
    assert texts(ask(index, story.recorded, limit=2)) == ["Note 998", "Note 999"]


def test_the_events_of_a_turn_are_known() -> None:
    story = turns(3)
    index = indexed(story.recorded)
    found = index.events_of("turn_2")
    assert found is not None
    types = [recorded.type for recorded in story.recorded[found[0] - 1 : found[1]]]
    assert types[:2] == ["message_added", "turn_started"] and types[-1] == "turn_completed"
    assert index.events_of("turn_9") is None


@pytest.mark.parametrize("where", [{"before": "msg_none"}, {"after": "-1"}, {"around": "²"}, {"limit": 0}, {"before": "1", "after": "1"}])
def test_a_wrong_place_is_refused_by_name(where: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        indexed(turns(1).recorded).plan(**where)
    assert refused.value.extra["errors"][0]["path"] in where


def test_an_empty_session_has_an_empty_page() -> None:
    assert json.dumps(ask(PageIndex(), [])) == json.dumps(whole([]))
