"""Where a query stands in a text, and what of a log can be found: `views/search.py`."""

from __future__ import annotations

import pytest

from palaver.views.search import AFTER, BEFORE, excerpt, folded, passages
from palaver.wire import events as e
from palaver.wire.codec import encode_event
from palaver.wire.ids import CallId, MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import Author, Location, Message, Part, ToolCall


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("fox", "The quick Fox jumps", ("The quick ", "Fox", " jumps")),
        ("ΟΔΌΣ", "η οδός μου", ("η ", "οδός", " μου")),
        ("straße", "Die STRAßE hier", ("Die ", "STRAßE", " hier")),
        ("i\u0307", "xi\u0307y", ("x", "i\u0307", "y")),
        ("b", "İb", ("İ", "b", "")),
        ("😀b", "a😀Bc", ("a", "😀B", "c")),
        ("jumps quick", "The quick fox jumps", ("The ", "quick", " fox jumps")),
        ("quick fox", "fox quick, quick fox", ("fox quick, ", "quick fox", "")),
        ("fox cat", "The quick fox", None),
        ("100%", "at 100 %, 100%", ("at 100 %, ", "100%", "")),
    ],
)
def test_a_query_is_found_in_any_case_by_code_points(query: str, text: str, found: tuple[str, str, str] | None) -> None:
    assert excerpt(query, text) == found


def test_an_excerpt_is_cut_out_of_its_text_and_bounded() -> None:
    text = "😀" * 500 + "needle" + "é" * 500
    around = excerpt("NEEDLE", text)
    assert around is not None and "".join(around) in text
    assert (len(around.before), around.match, len(around.after)) == (BEFORE, "needle", AFTER)


def test_folding_keeps_every_place() -> None:
    text = "".join(map(chr, [*range(0x20, 0xD800), *range(0xE000, 0x1F000)]))
    assert len(folded(text)) == len(text)


def line(seq: int, event: e.AnyEvent) -> bytes:
    return encode_event(e.Recorded(seq, "2026-01-01T00:00:00.000Z", SessionId("sess_1"), TurnId("turn_1"), event))


def test_messages_calls_and_paths_can_be_found_and_thinking_cannot() -> None:
    parts = (Part("thinking", PartId("p1"), "secretly"), Part("text", PartId("p2"), "openly"), Part("file", PartId("p3"), name="plan.pdf"))
    message = Message(MessageId("msg_1"), "assistant", parts, "2026-01-01T00:00:00.000Z", Author("agent"))
    call = ToolCall(CallId("call_1"), "shell", {"command": "make test", "more": [{"deep": "deeper"}]})
    lines = [
        line(1, e.ModelOutputDelta(message_id=message.id, part_id=PartId("p2"), kind="text", offset=0, text="openly")),
        line(2, e.ModelOutputCompleted(message=message)),
        line(
            3,
            e.ToolCallStarted(
                tool_call=call,
                kind="exec",
                title="Run make test",
                locations=(Location("src/a.py"),),
                run_by="daemon",
                message_id=message.id,
                step_id=StepId("step_1"),
            ),
        ),
        b'{"v":1,"seq":4,"type":"message_added","data":{"message":5}}',
        b"not a line",
    ]
    said, called = passages(lines)
    assert (said.seq, said.message_id, said.role, said.text) == (2, "msg_1", "assistant", "openly\nplan.pdf")
    assert (called.seq, called.message_id, called.call_id, called.role) == (3, "msg_1", "call_1", "tool")
    assert called.text.split("\n") == ["Run make test", "shell", "make test", "deeper", "src/a.py"]
