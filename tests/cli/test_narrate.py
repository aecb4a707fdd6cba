"""A session's events as a person reads them in a terminal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palaver.cli.narrate import Narrator
from palaver.cli.screen import Said
from stand_in import event

USAGE = {"input_tokens": 12, "output_tokens": 3}


def delta(seq: int | None, offset: int, text: str, *, part: str = "part_1", kind: str = "text") -> dict[str, Any]:
    envelope = event(seq or 0, "model_output_delta", {"message_id": "msg_1", "part_id": part, "kind": kind, "offset": offset, "text": text})
    if seq is None:
        del envelope["seq"]
    return envelope


def completed(seq: int, text: str, **more: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "role": "assistant", "parts": [{"type": "text", "id": "part_1", "text": text}], **more}
    return event(seq, "model_output_completed", {"message": message})


def told(*envelopes: dict[str, Any]) -> list[Said]:
    narrator = Narrator()
    return [said for envelope in envelopes for said in narrator.take(envelope)]


def text_of(said: list[Said]) -> str:
    return "".join(one.text for one in said if one.kind == "text")


def lines_of(said: list[Said]) -> list[str]:
    return [one.text for one in said if one.kind not in ("text", "thinking", "end")]


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"], exclude_characters="⟨"), max_size=60), st.data())
def test_no_character_is_told_twice_whatever_the_tail_brought_before_the_log(text: str, data: st.DataObject) -> None:
    """Promise 1, in a terminal: pieces of the tail and of the log overlap in any way, and the text comes out once."""
    from palaver.views.visible import visible

    cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=6))})
    envelopes: list[dict[str, Any]] = []
    for number, (begin, end) in enumerate(pairwise(cuts), 1):
        for _ in range(data.draw(st.integers(0, 2))):
            ahead = data.draw(st.integers(begin, len(text)))
            start = data.draw(st.integers(0, ahead))
            envelopes.append(delta(None, start, text[start:ahead]))
        envelopes.append(delta(number, begin, text[begin:end]))
    envelopes.append(completed(99, text))
    assert text_of(told(*envelopes)) == visible(text, prose=True)


def test_a_piece_that_is_ahead_waits_for_the_log() -> None:
    assert text_of(told(delta(None, 5, "late"), delta(1, 0, "early"), delta(2, 5, "late"))) == "earlylate"


def test_a_reader_who_came_late_sees_that_something_is_missing() -> None:
    assert text_of(told(delta(7, 100, "the end"))) == "…the end"


def test_a_message_whose_pieces_were_not_seen_is_told_at_its_end() -> None:
    assert text_of(told(completed(1, "all of it"))) == "all of it"


def test_what_was_shown_and_not_saved_is_owned_up_to() -> None:
    said = told(delta(1, 0, "saved"), delta(None, 5, " and lost"), completed(2, "saved", interrupted=True))
    assert text_of(said) == "saved and lost"
    assert lines_of(said) == ["⚠ the end of this text was not saved before the daemon stopped", "⚠ interrupted"]


def test_an_answer_that_begins_anew_is_told_from_its_beginning() -> None:
    said = told(delta(1, 0, "first"), event(2, "model_output_discarded", {"message_id": "msg_1"}), delta(3, 0, "second"))
    assert [one for one in said if one.kind != "end"] == [
        Said("text", "first"),
        Said("note", "… the answer begins anew"),
        Said("text", "second"),
    ]


def test_control_sequences_of_a_model_are_shown_and_not_obeyed() -> None:
    """SECURITY 19."""
    assert text_of(told(delta(1, 0, "a\x1b[2Jb\u202ec"))) == "a⟨U+001B⟩[2Jb⟨U+202E⟩c"


def call(seq: int, result: dict[str, Any], *, kind: str = "exec", title: str = "$ ls") -> list[dict[str, Any]]:
    started = {
        "tool_call": {"id": "call_1", "name": "shell", "input": {}},
        "kind": kind,
        "title": title,
        "locations": [],
        "run_by": "daemon",
    }
    ended = {"tool_call": {"id": "call_1", "name": "shell"}, "tool_result": {"id": "call_1", "parts": [], **result}, "duration_ms": 1234}
    return [
        event(seq, "tool_call_started", started),
        event(seq + 1, "tool_call_running", {"tool_call_id": "call_1"}),
        event(seq + 2, "tool_call_completed", ended),
    ]


def test_a_call_is_a_line_when_it_runs_and_a_line_when_it_ends() -> None:
    assert lines_of(told(*call(1, {"ok": True}))) == ["▸ shell $ ls", "✓ shell $ ls  1.2 s"]
    assert lines_of(told(*call(1, {"ok": True, "truncated": True}, kind="read"))) == ["✓ shell $ ls  1.2 s  (shortened)"]
    denied = {"ok": False, "error": {"code": "tool_denied", "message": "not\nnow"}}
    assert lines_of(told(*call(1, denied)))[1] == "✗ shell $ ls  tool_denied: not ⏎ now"
    stopped = {"ok": False, "error": {"code": "tool_interrupted", "message": "outcome unknown"}}
    assert lines_of(told(*call(1, stopped)))[1] == "⚠ shell $ ls  tool_interrupted: outcome unknown"


def test_a_title_stays_on_its_line_and_hides_nothing() -> None:
    """SECURITY 19."""
    line = lines_of(told(*call(1, {"ok": True}, title=f"$ ls{' ' * 300}\nrm\x1b[1A")))[0]
    assert line == "▸ shell $ ls⟨300 blanks⟩ ⏎ rm⟨U+001B⟩[1A"


def test_a_turn_ends_with_its_outcome_its_price_and_its_reason() -> None:
    data = {"outcome": "completed", "stop_reason": "end_turn", "usage": USAGE, "duration_ms": 900, "counts": {"steps": 1, "tool_calls": 0}}
    cost = {"amount": 0.0123, "currency": "USD"}
    assert lines_of(told(event(1, "turn_completed", {**data, "cost": cost}))) == ["— done · 900 ms · 12 tokens in, 3 out · 0.0123 USD"]
    failed = {**data, "outcome": "failed", "error": {"code": "step_limit", "message": "It took 200 steps."}}
    assert lines_of(told(event(1, "turn_completed", failed))) == [
        "— failed: It took 200 steps. (step_limit) · 900 ms · 12 tokens in, 3 out"
    ]
    assert lines_of(told(event(1, "turn_completed", {**data, "outcome": "cancelled"})))[0].startswith("— cancelled")
    assert lines_of(told(event(1, "turn_completed", {**data, "outcome": "interrupted"})))[0].startswith("— interrupted")


def test_answers_by_others_are_told() -> None:
    granted = {"approval_id": "appr_1", "tool_call": None, "by": "Ann", "scope": "session"}
    denied = {"approval_id": "appr_2", "tool_call": None, "by": "Ann", "cause": "user", "reason": "no"}
    expired = {"approval_id": "appr_3", "tool_call": None, "by": "daemon", "cause": "expired"}
    answers = {"q1": {"selected": ["red", "blue"]}, "q2": {"selected": [], "text": "words"}, "q3": {"selected": [], "value": False}}
    said = told(
        event(1, "approval_granted", granted),
        event(2, "approval_denied", denied),
        event(3, "approval_denied", expired),
        event(4, "question_answered", {"question_id": "ques_1", "answers": answers, "cause": "user", "by": "Ann"}),
        event(5, "question_answered", {"question_id": "ques_2", "cause": "agent_decides", "by": "Ann"}),
    )
    assert lines_of(said) == [
        "✓ allowed (session) by Ann",
        "✗ denied by Ann: no",
        "✗ nobody answered in time",
        "✓ answered by Ann: red, blue; words; False",
        "? agent decides",
    ]


def test_a_type_that_this_version_does_not_know_is_skipped() -> None:
    assert told(event(1, "from_the_future", {"anything": 1})) == []
