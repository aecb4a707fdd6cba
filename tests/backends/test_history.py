"""The model's history: always legal, and in the order in which turns read and said things (promise 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import cases, read_lines
from palaver.backends.history import History, is_legal
from palaver.models.base import ModelCall, ModelMessage
from palaver.wire import events as e
from palaver.wire.ids import CallId, PartId
from palaver.wire.values import FileRef, Message, Part, ToolCall
from random_logs import random_log
from story import Story

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def history(story: Story) -> History:
    made = History()
    for recorded in story.recorded:
        made.take(recorded)
    return made


def told(story: Story, closing: bool = True) -> list[str]:
    """Each message on a line: its role's first letter and its text, calls in brackets."""
    messages = history(story).messages(closing)
    assert closing is False or is_legal(messages) is None
    return [f"{m.role[0]} {m.text}{''.join(f'[{call.name}]' for call in m.calls)}" for m in messages]


# --- always legal -------------------------------------------------------------------------------------------------------------


def check(events: list[e.Recorded]) -> None:
    made = History()
    for recorded in events:
        made.take(recorded)
        assert is_legal(made.messages(closing=True)) is None
        if not made.open_calls():
            assert made.messages(closing=False) == made.messages(closing=True)
        else:
            messages = made.messages(closing=False)
            answered = [m.call_id for m in messages if m.role == "tool"]
            assert not {call.id for call in made.open_calls()} & set(answered)
            last = next(m for m in reversed(messages) if m.role != "tool")
            assert {call.id for call in made.open_calls()} <= {call.id for call in last.calls}


@every_case
def test_the_history_of_a_golden_session_is_legal_at_every_event(case: Path) -> None:
    """Promise 3"""
    check(read_lines(case / "log.ndjson"))


@given(st.randoms(use_true_random=False))
def test_the_history_of_a_random_session_is_legal_at_every_event(random: Any) -> None:
    """Promise 3"""
    check(random_log(random).recorded)


@given(st.randoms(use_true_random=False))
def test_every_word_that_was_read_or_said_is_told_once_in_its_order(random: Any) -> None:
    """Promise 3, against the plain rule: turns in order, without those that were retried, input as it was read."""
    events = [r for r in random_log(random).recorded if not isinstance(r.data, e.ContextCompacted | e.TurnUndone)]
    made = History()
    for recorded in events:
        made.take(recorded)
    assert [m for m in map(spoken, made.messages(closing=True)) if m] == plain(events)


def spoken(message: ModelMessage) -> str:
    text = message.text.replace("\n\n[interrupted here]", "")
    return "" if message.role == "tool" or text.startswith("[Not from") or not text.strip() else f"{message.role}:{text}"


def plain(events: list[e.Recorded]) -> list[str]:
    retried = {r.data.attempt_of for r in events if isinstance(r.data, e.TurnStarted)}
    thrown = {r.data.message_id for r in events if isinstance(r.data, e.ModelOutputDiscarded)}
    words, lines, begun = dict[str, str](), dict[str, str](), list[str]()
    for recorded in events:
        event = recorded.data
        match event:
            case e.MessageAdded():
                words[event.message.id] = text_of(event.message)
            case e.QueueChanged():
                words.update({item.message_id: text_of(item.message) for item in event.items if item.message is not None})
            case e.TurnStarted() if recorded.turn_id not in retried:
                begun += [f"user:{words[id]}" for id in event.message_ids]
            case e.MessageDelivered() if recorded.turn_id not in retried:
                begun.append(f"user:{words[event.message_id]}")
            case e.ModelOutputStarted() if recorded.turn_id not in retried and event.message_id not in thrown:
                begun.append(event.message_id)
            case e.ModelOutputCompleted():
                lines[event.message.id] = f"assistant:{text_of(event.message)}"
    said = [lines.get(line, "") if line.startswith("msg_") else line for line in begun]
    return [line for line in said if line.partition(":")[2].strip()]


def text_of(message: Message) -> str:
    return "".join(part.text or "" for part in message.parts if part.type == "text")


# --- order --------------------------------------------------------------------------------------------------------------------


def test_a_message_stands_where_it_was_read() -> None:
    story = Story()
    story.adds("stored", None)
    story.asks("first")
    call = story.call()
    said = story.says("reading", calls=[call])
    story.calls(said, call)
    steer = story.steers("hurry")
    story.returns(call, "words")
    story.delivers(steer)
    story.says("done")
    story.ends()
    story.starts("msg_1", story.adds("second"), turn="turn_2")
    assert told(story) == ["u first", "a reading[read_file]", "t words", "u hurry", "a done", "u stored", "u second"]


def test_results_stand_in_the_order_of_the_calls() -> None:
    story = Story()
    story.asks("go")
    calls = [story.call(path=name) for name in "abc"]
    said = story.says(calls=calls)
    for call in calls:
        story.calls(said, call)
    for call in (calls[2], calls[0], calls[1]):
        story.returns(call, call.input["path"])
    assert told(story) == ["u go", "a [read_file][read_file][read_file]", "t a", "t b", "t c"]


def test_calls_stand_in_the_order_of_their_message_however_they_began() -> None:
    story = Story()
    story.backend = "claude"
    story.asks("go")
    one, two, three = (story.call(name) for name in ("one", "two", "three"))
    said = story.opens()
    for call in (three, two):
        story.calls(said, call, run_by="backend")
        story.returns(call, call.name)
    said.calls.extend((one, two))
    story.completes(said)
    assert [line.partition(":")[0] for line in told(story)] == ["u go", "a [one][two][three]", "t tool_interrupted", "t two", "t three"]


def test_open_calls_are_those_of_the_last_message_and_get_no_answer_while_they_run() -> None:
    story = Story()
    story.asks("go")
    calls = [story.call(path=name) for name in "abc"]
    said = story.says(calls=calls)
    for call in calls:
        story.calls(said, call)
    story.returns(calls[1], "b")
    assert [call.id for call in history(story).open_calls()] == [calls[0].id, calls[2].id]
    assert told(story, closing=False)[-1] == "t b"
    assert [line.startswith("t tool_interrupted") for line in told(story)[2:]] == [True, False, True]


def test_a_retry_takes_the_place_of_the_attempt() -> None:
    story = Story()
    story.asks("before")
    story.says("yes")
    story.ends()
    attempt = story.asks("do it")
    call = story.call()
    said = story.says("trying", calls=[call])
    story.calls(said, call)
    steer = story.steers("carefully")
    story.returns(call)
    story.delivers(steer)
    story.ends("failed")
    assert told(story)[-1] == "u carefully"
    second = story.starts("msg_3", steer, trigger="retry", attempt_of=attempt)
    assert told(story) == ["u before", "a yes", "u do it", "u carefully"]
    story.says("half")
    story.ends("failed")
    story.starts("msg_3", steer, trigger="retry", attempt_of=second)
    assert told(story) == ["u before", "a yes", "u do it", "u carefully"]


def test_a_retry_goes_back_behind_a_summary_of_its_attempt() -> None:
    story = Story()
    story.asks("before")
    story.says("yes")
    story.ends()
    attempt = story.asks("do it")
    story.says("trying")
    head = len(story.recorded)
    story.log(e.ContextCompacted(summary="all", from_seq=1, to_seq=head, tokens_before=9, tokens_after=1))
    story.says("after")
    assert told(story) == ["u Summary of the conversation so far:\n\nall", "a after"]
    story.ends("failed")
    story.starts("msg_3", trigger="retry", attempt_of=attempt)
    assert told(story) == ["u before", "a yes", "u do it"]


def test_a_retry_keeps_the_summaries_of_earlier_turns() -> None:
    story = Story()
    story.asks("before")
    story.says("yes")
    story.log(e.ContextCompacted(summary="all", from_seq=1, to_seq=len(story.recorded), tokens_before=9, tokens_after=1))
    story.ends()
    attempt = story.asks("do it")
    story.ends("failed")
    story.starts("msg_3", trigger="retry", attempt_of=attempt)
    assert told(story) == ["u Summary of the conversation so far:\n\nall", "u do it"]


def test_an_unread_message_is_told_as_it_was_edited() -> None:
    story = Story()
    story.asks("go")
    wrong = story.message("wrong")
    story.steers(wrong)
    story.ends("failed")
    right = msgspec.structs.replace(wrong, parts=(Part("text", text="right"),))
    story.queue((wrong.id, right), paused=True)
    story.starts(wrong.id, trigger="queue")
    assert told(story) == ["u go", "u right"]


# --- what is told -------------------------------------------------------------------------------------------------------------


def test_interrupted_text_is_kept_with_a_mark_and_empty_or_discarded_messages_are_not() -> None:
    story = Story()
    story.asks("go")
    said = story.opens()
    story.delta(said, "half a sen")
    story.completes(said, interrupted=True)
    thought = story.opens()
    story.delta(thought, "secret", "thinking")
    story.completes(thought, interrupted=True)
    blank = story.opens()
    story.delta(blank, " \n")
    story.completes(blank)
    thrown = story.opens()
    story.delta(thrown, "wrong")
    call = story.calls(thrown, story.call(), run_by="backend")
    story.log(e.ModelOutputDiscarded(message_id=thrown.id))
    story.returns(call)
    assert told(story) == ["u go", "a half a sen\n\n[interrupted here]"]


def test_a_result_says_its_error_once_and_never_nothing() -> None:
    story = Story()
    story.asks("go")
    calls = [story.call() for _ in range(4)]
    said = story.says(calls=calls)
    for call in calls:
        story.calls(said, call)
    story.fails(calls[0], "tool_denied", "Denied: not that one")
    said_too = (Part("text", text="It broke: disk full"),)
    story.fails(calls[1], "tool_error", "disk full", parts=said_too)
    story.fails(calls[2], "tool_skipped", "The call before it failed.")
    story.returns(calls[3], "")
    results = ["tool_denied: Denied: not that one\n", "It broke: disk full", "tool_skipped: The call before it failed.\n", "(no output)"]
    assert told(story)[2:] == [f"t {text}" for text in results]
    assert [message.ok for message in history(story).messages(True)[2:]] == [False, False, False, True]


def test_an_input_that_was_changed_reaches_the_model() -> None:
    """T-11"""
    story = Story()
    story.asks("go")
    call = story.call("shell", command="rm x")
    said = story.says(calls=[call])
    story.calls(said, call, "exec")
    story.grants(story.wants(call), call, input={"command": "rm -i x"})
    story.returns(call, "removed")
    assert told(story)[-1] == 't The input was changed before it was approved. It ran with: {"command":"rm -i x"}\nremoved'


def test_a_call_of_the_daemon_is_a_note_after_the_batch() -> None:
    """Promise 3"""
    story = Story()
    story.asks("go")
    call = story.call()
    said = story.says(calls=[call])
    story.works(said, call, text="changed")
    verify = story.calls(None, story.call("verify"), "exec")
    assert told(story)[-1] == "t changed"
    story.fails(verify, "tool_error", "make test ended with 2.")
    note = "u [Not from the person: `verify` was run automatically, it failed.]\ntool_error: make test ended with 2.\n"
    assert told(story)[-2:] == ["t changed", note]


def test_a_turn_that_was_stopped_before_its_first_word_says_so() -> None:
    """Nobody does later what was called off; where something was said, that is marked itself."""
    story = Story()
    story.asks("delete it all")
    story.ends("cancelled")
    story.asks("hello")
    story.says("Hello.")
    story.ends("cancelled")
    note = "u [Not from the person: The turn was stopped here, before anything was said or done.]"
    assert told(story) == ["u delete it all", note, "u hello", "a Hello."]
    assert [message.code for message in history(story).messages(True)] == [None, "stopped", None, None]


def test_what_was_stopped_and_tried_again_was_not_stopped() -> None:
    story = Story()
    turn = story.asks("go")
    story.ends("cancelled")
    story.starts(story.recorded[0].data.message.id, trigger="retry", attempt_of=turn)  # type: ignore[union-attr]  # it is the message
    assert told(story) == ["u go"]


def test_an_empty_answer_leaves_a_note_in_its_place() -> None:
    story = Story()
    story.asks("go")
    story.says("")
    story.log(e.Notice(level="info", code="empty_answer", text="It was empty."))
    story.log(e.Notice(level="info", code="another", text="Not for the model."))
    story.says("Sorry.")
    assert told(story) == ["u go", "u [Not from the person: It was empty.]", "a Sorry."]


def test_a_name_and_arguments_that_no_provider_takes_are_made_fit() -> None:
    story = Story()
    story.asks("go")
    call = ToolCall(CallId("call_raw"), "read file!", {}, input_raw='{"path": ')
    said = story.says(calls=[call])
    story.calls(said, call)
    story.fails(call, "unknown_tool", "There is none.")
    made = history(story).messages(True)[1].calls[0]
    assert (made.name, made.arguments) == ("read_file_", '{"input_raw":"{\\"path\\": "}')


def test_a_shortened_text_names_the_file_with_the_whole() -> None:
    story = Story()
    parts = (Part("thinking", text="no"), Part("text", id=PartId("part_l"), text="long […", truncated=True))
    ref = FileRef("attachments/long.txt", 90_000, "ab" * 32)
    story.starts(story.adds(story.message("", parts=parts), "turn_1", refs={"/message/parts/1/text": ref}), turn="turn_1")
    assert history(story).messages(True)[0].parts == (Part("text", id=PartId("part_l"), text="long […", truncated=True, ref=ref.ref),)


def test_a_summary_never_parts_a_call_from_its_result() -> None:
    story = Story()
    story.asks("go")
    story.says("so")
    call = story.call()
    said = story.says(calls=[call])
    story.calls(said, call)
    story.log(e.ContextCompacted(summary="all", from_seq=1, to_seq=len(story.recorded), tokens_before=9, tokens_after=1))
    story.returns(call, "words")
    assert told(story) == ["u Summary of the conversation so far:\n\nall", "a [read_file]", "t words"]


def test_the_history_is_the_same_list_until_something_changes() -> None:
    """Old messages are not made anew for each request."""
    story = Story()
    story.asks("go")
    story.says("yes")
    made = history(story)
    assert all(a is b for a, b in zip(made.messages(True), made.messages(True), strict=True))


# --- the providers' rules -----------------------------------------------------------------------------------------------------

SAID = (Part("text", text="x"),)
CALL = ModelCall("c1", "read_file", "{}")


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([ModelMessage("tool", SAID, call_id="c1")], "answers c1"),
        ([ModelMessage("assistant", (), (CALL,))], "no results"),
        ([ModelMessage("assistant", (), (CALL,)), ModelMessage("user", SAID)], "before the results"),
        ([ModelMessage("assistant", (), (CALL, CALL))], "twice"),
        ([ModelMessage("assistant", (Part("thinking", text="x"),))], "no content"),
        ([ModelMessage("assistant", (Part("text", text=" "),))], "empty"),
        ([ModelMessage("user", SAID), ModelMessage("system", SAID)], "front"),
        ([ModelMessage("user", SAID, (CALL,))], "makes calls"),
        ([ModelMessage("assistant", (), (ModelCall("c1", "a b", "{}"),))], "no name"),
        ([ModelMessage("assistant", (), (ModelCall("c1", "a", "[]"),))], "no object"),
    ],
)
def test_what_a_provider_refuses_is_not_legal(messages: list[ModelMessage], wrong: str) -> None:
    refusal = is_legal(messages)
    assert refusal is not None and wrong in refusal
