"""Thinking in every dialect: read once, kept as it came, and given back as its provider wants it. PROTOCOLS 7.2."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from palaver.models.base import Finish, ModelCall, ModelMessage, ModelRequest, TextPiece
from palaver.models.chat_request import Echo, to_body
from palaver.models.chat_stream import Answer
from palaver.wire.values import Part, Reasoning

TEXT = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", "signature": None}


def taken(*deltas: dict[str, Any]) -> tuple[str, Reasoning | None]:
    """The thinking as it was told, and what was kept of it."""
    answer = Answer(lambda: "made", "m")
    pieces = [piece for delta in deltas for piece in answer.take(json.dumps({"choices": [{"delta": delta}]}).encode())]
    pieces += answer.end()
    finish = pieces[-1]
    assert isinstance(finish, Finish)
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.kind == "thinking"), finish.reasoning


@pytest.mark.parametrize(
    ("delta", "form"),
    [
        ({"reasoning_content": "hm"}, "reasoning_content"),
        ({"reasoning": "hm"}, "reasoning"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "reasoning_details"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}], "reasoning": "hm"}, "reasoning_details"),
        ({"reasoning": "hm", "reasoning_content": "hm"}, "reasoning_content"),
        ({"reasoning_details": [], "reasoning": "hm", "content": ""}, "reasoning"),
        ({"reasoning_details": None, "reasoning_content": "hm", "reasoning": None}, "reasoning_content"),
    ],
)
def test_the_same_words_in_two_fields_are_read_once_and_their_form_is_kept(delta: dict[str, Any], form: str) -> None:
    told, kept = taken(delta, {"content": "yes"})
    assert told == "hm" and kept is not None and (kept.model, kept.form) == ("m", form)


def test_an_answer_that_was_not_thought_about_keeps_no_form() -> None:
    assert taken({"content": "yes"}) == ("", None) and taken({"content": "<think>hm</think>yes"}) == ("hm", None)


def test_fragments_of_a_detail_become_what_would_have_come_without_a_stream() -> None:
    told, kept = taken(
        {"reasoning_details": [{**TEXT, "text": "I \ud83d"}]},
        {"reasoning_details": [{**TEXT, "text": "\ude00 see"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "sig"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "b64", "id": "e"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "b64", "id": "e"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 2, "text": "more"}]},
    )
    assert told == "I 😀 seemore" and kept is not None
    assert kept.details == (
        {**TEXT, "text": "I 😀 see", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "b64", "id": "e"},
        {"type": "reasoning.text", "index": 2, "text": "more"},
    )


def test_thinking_that_is_only_encrypted_is_kept_though_nothing_of_it_is_shown() -> None:
    told, kept = taken({"reasoning_details": [{"type": "reasoning.encrypted", "data": "b64"}]}, {"content": "yes"})
    assert told == "" and kept is not None and kept.details == ({"type": "reasoning.encrypted", "data": "b64"},)


def test_details_of_any_shape_harm_nobody() -> None:
    told, kept = taken({"reasoning_details": [{"type": "x", "text": {"deep": 1}}, {}], "reasoning": "hm"}, {"content": "yes"})
    assert told == "hm" and kept is not None and kept.details == ({"type": "x", "text": {"deep": 1}}, {})


DETAILS = Reasoning("m", "reasoning_details", ({"type": "reasoning.encrypted", "data": "b64"},))
CONTENT = Reasoning("m", "reasoning_content")
PLAIN = Reasoning("m", "reasoning")
OTHERS = Reasoning("other", "reasoning_content")
SENT_DETAILS = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "b64"}]}


@pytest.mark.parametrize(
    ("kept", "echo", "sent"),
    [
        (DETAILS, "auto", SENT_DETAILS),
        (CONTENT, "auto", {"reasoning_content": "hm"}),
        (PLAIN, "auto", {}),
        (OTHERS, "auto", {}),
        (None, "auto", {}),
        (DETAILS, "none", {}),
        (CONTENT, "none", {}),
        (CONTENT, "reasoning_content", {"reasoning_content": "hm"}),
        (PLAIN, "reasoning_content", {"reasoning_content": "hm"}),
        (OTHERS, "reasoning_content", {"reasoning_content": ""}),
        (None, "reasoning_content", {"reasoning_content": ""}),
    ],
)
def test_what_goes_back_is_what_the_provider_wants(kept: Reasoning | None, echo: Echo, sent: dict[str, Any]) -> None:
    """Never another model's thinking, never two forms of it, and nothing on messages of other roles."""
    said = (Part("text", text="yes"),)
    messages = (
        ModelMessage("user", said),
        ModelMessage("assistant", said, (ModelCall("c", "f", "{}"),), reasoning=kept, thinking="hm"),
        ModelMessage("tool", said, call_id="c"),
    )
    for _ in range(2):  # the second from what was encoded before
        told = json.loads(to_body(ModelRequest(messages, ()), "m", name="m", echo=echo))["messages"]
        assert {key: value for key, value in told[1].items() if key.startswith("reasoning")} == sent
        assert set(told[0]) == {"role", "content"} and set(told[2]) == {"role", "content", "tool_call_id"}


def test_what_came_with_a_call_goes_back_with_it() -> None:
    """Google's signature of the thought behind a call, without which it refuses the next request."""
    signed = {"google": {"thought_signature": "sig"}}
    head = {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}, "extra_content": signed}
    _, kept = taken(
        {"tool_calls": [head]}, {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"name": "g"}}]}
    )
    assert kept == Reasoning("m", None, calls={"0": signed})
    ours = Reasoning("m", None, calls={"call_1": signed})
    message = ModelMessage("assistant", (), (ModelCall("call_1", "f", "{}"), ModelCall("call_2", "g", "{}")), reasoning=ours)
    for name, echo, sent in (("m", "auto", [signed, None]), ("other", "auto", [None, None]), ("m", "none", [None, None])):
        told = json.loads(to_body(ModelRequest((message,), ()), "m", name=name, echo=cast(Echo, echo)))["messages"][0]["tool_calls"]
        assert [call.get("extra_content") for call in told] == sent


def test_content_in_parts_is_read_too() -> None:
    answer = Answer(lambda: "made")
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}, {"type": "new"}]
    chunk = {"choices": [{"delta": {"content": parts}}]}
    assert answer.take(json.dumps(chunk).encode()) == [TextPiece("thinking", "hm"), TextPiece("text", "yes")]


def test_more_members_of_the_request_stand_beside_ours() -> None:
    body = to_body(ModelRequest((), ()), "m", extra={"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}})
    told = json.loads(body)
    assert (told["reasoning_effort"], told["chat_template_kwargs"], told["stream"]) == ("high", {"enable_thinking": False}, True)
