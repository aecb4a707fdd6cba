"""Bytes of a Chat Completions stream to pieces: every oddity that servers are known for, as a table."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import ModelFailed
from palaver.models.base import CallPiece, Finish, Piece, TextPiece
from palaver.models.chat_stream import Answer
from palaver.models.sse import EVENT_LIMIT, EventSplitter
from palaver.wire.values import Usage


def answer() -> Answer:
    numbers = itertools.count()
    return Answer(lambda: f"made_{next(numbers)}")


def chunk(**delta: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


def finish(reason: str) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).encode()


def pieces(*events: bytes) -> list[Piece]:
    taken = answer()
    return [*(piece for event in events for piece in taken.take(event)), *taken.end()]


def joined(found: list[Piece], kind: str) -> str:
    return "".join(piece.text for piece in found if isinstance(piece, TextPiece) and piece.kind == kind)


def events(*chunks: bytes) -> list[bytes]:
    splitter = EventSplitter()
    return [*(event for piece in chunks for event in splitter.feed(piece)), *splitter.end()]


# --- bytes to events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"data: 1\n\n"], [b" 1"]),
        ([b"data:1\n\n"], [b"1"]),
        ([b"data: 1\n\ndata: 2\n\n"], [b" 1", b" 2"]),
        ([b"data: 1\r\n\r\ndata: 2\r\n\r\n"], [b" 1", b" 2"]),
        ([b"da", b"ta: 1", b"2\n", b"\nda", b"ta: 3\n\n"], [b" 12", b" 3"]),
        ([b"data: 1\r", b"\n\r", b"\n"], [b" 1"]),
        ([b": comment\n\ndata: 1\n\n: again\n"], [b" 1"]),
        ([b"event: x\nid: 7\nretry: 5\ndata: 1\n\n"], [b" 1"]),
        ([b"data: {\ndata: }\n\n"], [b" {\n }"]),
        ([b"data: 1\n\ndata: 2"], [b" 1", b" 2"]),
        ([b"data: 1\n\ndata: 2\n"], [b" 1", b" 2"]),
        ([b"\n\n\n", b"data: 1\n\n\n\n"], [b" 1"]),
        ([b"data: 1\n", b"data: 2\n\n"], [b" 1\n 2"]),
        ([b""], []),
    ],
)
def test_events_are_cut_wherever_the_reads_end(chunks: list[bytes], expected: list[bytes]) -> None:
    assert events(*chunks) == expected


@given(
    texts=st.lists(st.text().map(json.dumps), max_size=8),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_the_events_do_not_depend_on_how_the_bytes_were_split(texts: list[str], line_end: bytes, cuts: list[int]) -> None:
    stream = b"".join(b"data: " + text.encode() + line_end * 2 for text in texts)
    ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert [json.loads(event) for event in events(*(stream[a:b] for a, b in itertools.pairwise(ends)))] == [json.loads(t) for t in texts]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_a_character_that_splitlines_takes_for_a_line_end_cuts_no_event(character: str) -> None:
    """STACK 4's trap: raw in the JSON where JSON allows it, escaped where not."""
    escaped = json.dumps({"choices": [{"delta": {"content": f"a{character}b"}}]}, ensure_ascii=character < " ").encode()
    event = b"data: " + escaped + b"\n\n"
    assert joined(pieces(*events(event)), "text") == f"a{character}b"
    assert joined(pieces(*events(event * 2)), "text") == f"a{character}b" * 2
    assert joined(pieces(*events(event[:9], event[9:])), "text") == f"a{character}b"


def test_an_event_that_never_ends_is_a_bad_chunk_and_does_not_fill_the_memory() -> None:
    splitter = EventSplitter()
    with pytest.raises(ModelFailed) as failed:
        for _ in range(EVENT_LIMIT // 1_000_000 + 2):
            splitter.feed(b"x" * 1_000_000)
    assert failed.value.code == "bad_chunk"


def test_an_event_of_ten_megabytes_in_small_reads_arrives_whole() -> None:
    text = "x" * 10_000_000
    stream = b"data: " + chunk(content=text) + b"\n\n"
    cut = [stream[start : start + 65_536] for start in range(0, len(stream), 65_536)]
    assert joined(pieces(*events(*cut)), "text") == text


# --- events to pieces ---------------------------------------------------------------------------------------------------------


def test_text_keeps_its_whitespace_and_its_order() -> None:
    found = pieces(chunk(content="a"), chunk(content=" "), chunk(content="\n\n"), chunk(content="b"), finish("stop"))
    assert joined(found, "text") == "a \n\nb"


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"reasoning": "r"}, "r"),
        ({"reasoning_content": "c"}, "c"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "d"}]}, "d"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]}, "s"),
        ({"reasoning": "same", "reasoning_content": "same"}, "same"),
        ({"reasoning_details": [{"text": "same"}], "reasoning": "same", "reasoning_content": "same"}, "same"),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}], "reasoning": "r"}, "r"),
        ({"reasoning_details": [], "reasoning": None, "reasoning_content": "c"}, "c"),
        ({"reasoning": "r", "content": ""}, "r"),
    ],
)
def test_thinking_is_read_from_the_first_of_three_fields_and_never_twice(delta: dict[str, Any], expected: str) -> None:
    found = pieces(chunk(**delta), finish("stop"))
    assert (joined(found, "thinking"), joined(found, "text")) == (expected, "")


@pytest.mark.parametrize(
    ("content", "thinking", "text"),
    [
        ("<think>a</think>b", "a", "b"),
        ("\n<think>\na\n</think>\n\nb", "\na\n", "b"),
        ("<think>a</think><think>b</think>c", "ab", "c"),
        ("<think>a < b </thin</think>c", "a < b </thin", "c"),
        ("<think>never closed", "never closed", ""),
        ("<think>cut </thi", "cut </thi", ""),
        ("plain <think>of it</think>", "", "plain <think>of it</think>"),
        ("<thi", "", "<thi"),
        ("<this> is text", "", "<this> is text"),
        ("  indented", "", "  indented"),
        ("   ", "", "   "),
        ("<think></think>", "", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_think_tag_at_the_start_is_thinking_however_it_is_split(content: str, thinking: str, text: str, size: int) -> None:
    found = pieces(*(chunk(content=content[start : start + size]) for start in range(0, len(content), size)), finish("stop"))
    assert (joined(found, "thinking"), joined(found, "text")) == (thinking, text)


def call(index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    fragment: dict[str, Any] = {"function": {}}
    if index is not None:
        fragment["index"] = index
    if id is not None:
        fragment["id"] = id
    if name is not None:
        fragment["function"]["name"] = name
    if arguments is not None:
        fragment["function"]["arguments"] = arguments
    return fragment


def assembled(found: list[Piece]) -> list[tuple[str | None, str | None, str]]:
    calls: dict[int, tuple[str | None, str | None, str]] = {}
    for piece in found:
        if isinstance(piece, CallPiece):
            if piece.index not in calls:
                assert piece.id is not None and piece.name is not None, "id and name come with the first piece"
                calls[piece.index] = (piece.id, piece.name, "")
            id, name, arguments = calls[piece.index]
            calls[piece.index] = (id, name, arguments + piece.arguments)
    assert sorted(calls) == list(range(len(calls)))
    return [calls[index] for index in sorted(calls)]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([[call(0, "a", "f", "{")], [call(0, arguments='"x"')], [call(0, arguments=":1}")]], [("a", "f", '{"x":1}')]),
        ([[call(0, "a", "f", "")], [call(1, "b", "g", "{}")], [call(0, arguments="{}")]], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([[call(0, "a", "f", "1"), call(1, "b", "g", "2")]], [("a", "f", "1"), ("b", "g", "2")]),
        ([[call(0, None, "f", "{}")]], [("made_0", "f", "{}")]),
        ([[call(0, "", "f", "{}")]], [("made_0", "f", "{}")]),
        ([[call(0, "a", "f", "{")], [call(0, "a", "f", "}")]], [("a", "f", "{}")]),
        ([[call(0, "a", None, "{")], [call(0, None, "f", "}")]], [("a", "f", "{}")]),
        ([[call(0, "a", None, "{}")]], [("a", "", "{}")]),
        ([[call(None, "a", "f", "{}")], [call(None, "b", "g", "{}")]], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([[call(None, "a", "f", "{")], [call(None, arguments="}")]], [("a", "f", "{}")]),
        ([[call(0, "a", "f", "{}")], [call(0, "b", "g", "{}")]], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([[call(3, "a", "f", "{}")], [call(7, "b", "g", "{}")]], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([[call(0, "a", "f", {"x": 1})]], [("a", "f", '{"x": 1}')]),
        ([[call(0, "a", "f")]], [("a", "f", "")]),
        ([[call(0, "a", "f", '{"x": ')]], [("a", "f", '{"x": ')]),
    ],
)
def test_calls_are_put_together_from_their_fragments(fragments: list[list[dict[str, Any]]], expected: list[tuple[str, str, str]]) -> None:
    found = pieces(*(chunk(tool_calls=batch) for batch in fragments), finish("tool_calls"))
    assert assembled(found) == expected
    assert found[-1] == Finish("tool_calls")


@pytest.mark.parametrize(
    ("reason", "with_call", "expected"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "end_turn"),
        ("function_call", True, "tool_calls"),
        ("length", False, "max_tokens"),
        ("length", True, "max_tokens"),
        ("content_filter", False, "refusal"),
        ("something_new", False, "end_turn"),
        (None, True, "tool_calls"),
    ],
)
def test_the_finish_says_in_our_words_why(reason: str | None, with_call: bool, expected: str) -> None:
    sent = [chunk(tool_calls=[call(0, "a", "f", "{}")])] if with_call else [chunk(content="x")]
    last = pieces(*sent, *([finish(reason)] if reason else []), b"[DONE]")[-1]
    assert isinstance(last, Finish) and last.reason == expected


def test_a_usage_chunk_without_choices_ends_up_in_the_finish() -> None:
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    last = pieces(chunk(content="x"), finish("stop"), json.dumps({"choices": [], "usage": usage}).encode())[-1]
    assert last == Finish("end_turn", Usage(11, 7, 3, 2))


def test_numbers_that_came_as_text_or_with_a_point_count() -> None:
    last = pieces(finish("stop"), b'{"choices": [], "usage": {"prompt_tokens": "11", "completion_tokens": 7.0}}')[-1]
    assert last == Finish("end_turn", Usage(11, 7))


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource"])
def test_a_finish_that_is_an_error_fails(reason: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        pieces(chunk(content="x"), finish(reason))
    assert failed.value.retryable


def test_what_is_null_or_unknown_is_skipped() -> None:
    odd: dict[str, Any] = {
        "id": None,
        "error": None,
        "usage": None,
        "x": [1],
        "choices": [{"delta": {"content": None, "tool_calls": None, "y": {}}}],
    }
    assert pieces(json.dumps(odd).encode(), b'{"choices": null}', b"{}", finish("stop")) == [Finish("end_turn")]


def test_the_two_halves_of_a_character_in_two_deltas_arrive_as_one() -> None:
    halves = [b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}', b'{"choices":[{"delta":{"content":"\\ude00b"}}]}']
    assert joined(pieces(*halves, finish("stop")), "text") == "a\U0001f600b"


def test_halves_meet_across_deltas_of_another_part() -> None:
    found = pieces(
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"reasoning":"\\ud83e"}}]}',
        b'{"choices":[{"delta":{"content":"\\ude00"}}]}',
        b'{"choices":[{"delta":{"reasoning":"\\udd14"}}]}',
        finish("stop"),
    )
    assert (joined(found, "text"), joined(found, "thinking")) == ("\U0001f600", "\U0001f914")


def test_halves_in_the_arguments_of_a_call_meet_too() -> None:
    found = pieces(
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\\"x\\":\\"\\ud83d"}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\ude00\\"}"}}]}}]}',
        finish("tool_calls"),
    )
    assert assembled(found) == [("a", "f", '{"x":"\U0001f600"}')]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([b"a\\ud83d", b"b"], "a\ufffdb"),
        ([b"a\\ud83d"], "a\ufffd"),
        ([b"\\ude00a"], "\ufffda"),
        ([b"\\ud83d", b"\\ud83d", b"\\ude00"], "\ufffd\U0001f600"),
        ([b"\\ud83dx\\ude00"], "\ufffdx\ufffd"),
    ],
)
def test_a_half_that_stays_alone_is_replaced(deltas: list[bytes], expected: str) -> None:
    sent = (b'{"choices":[{"delta":{"content":"' + delta + b'"}}]}' for delta in deltas)
    text = joined(pieces(*sent, finish("stop")), "text")
    assert text == expected
    text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": [{"delta": ',
        b"not json",
        b"[1]",
        b'{"choices": 5}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"x":' + b"[" * 100_000,
        b'{"choices":[{"delta":"x"}]}',
    ],
)
def test_what_is_no_chunk_is_a_bad_chunk(data: bytes) -> None:
    with pytest.raises(ModelFailed) as failed:
        answer().take(data)
    assert failed.value.code == "bad_chunk" and len(failed.value.message) < 600


def test_what_came_together_is_one_piece_as_far_as_it_is_of_one_kind() -> None:
    together = [chunk(reasoning="h"), chunk(reasoning="m"), chunk(content="y"), chunk(content="e"), chunk(content="s")]
    assert list(answer().take_all(together)) == [TextPiece("thinking", "hm"), TextPiece("text", "yes")]
    taken = answer().take_all([chunk(content="a"), chunk(content="b"), b"{"])
    assert next(taken) == TextPiece("text", "ab"), "what came before an error comes before it"
    with pytest.raises(ModelFailed):
        next(taken)


@pytest.mark.parametrize(
    ("error", "said", "retryable"),
    [
        ({"message": "fell over", "code": 502}, "fell over", True),
        ({"message": "slow down", "type": "rate_limit_error"}, "slow down", True),
        ({"message": "no such thing", "code": "bad_request"}, "no such thing", False),
        ("only words", "only words", False),
        ({"error": {"message": "nested"}}, "nested", False),
    ],
)
def test_an_error_inside_the_stream_fails_in_the_providers_words(error: Any, said: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed) as failed:
        answer().take(json.dumps({"error": error}).encode())
    assert failed.value.code == "model_failed" and said in failed.value.message and failed.value.retryable is retryable
