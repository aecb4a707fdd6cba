"""Our request as the body that Chat Completions servers take, held by golden JSON."""

from __future__ import annotations

import json

import pytest

from palaver.models.base import ModelCall, ModelMessage, ModelRequest, ModelTool
from palaver.models.chat_request import to_body
from palaver.wire.values import Part

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
ALWAYS = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}


def said(text: str) -> tuple[Part, ...]:
    return (Part("text", text=text),)


def test_a_turn_with_a_call_and_its_result_keeps_every_role() -> None:
    request = ModelRequest(
        (
            ModelMessage("system", said("Be brief.")),
            ModelMessage("user", said("What is in a?")),
            ModelMessage("assistant", (Part("thinking", text="hm"), *said("I look.")), (ModelCall("c1", "read_file", '{"path":"a"}'),)),
            ModelMessage("tool", said("one\ntwo"), call_id="c1"),
            ModelMessage("assistant", (), (ModelCall("c2", "read_file", ""),)),
            ModelMessage("tool", said("tool_error: no path"), call_id="c2", ok=False),
            ModelMessage("assistant", said("Two lines.")),
        ),
        (ModelTool("read_file", "Reads a file.", SCHEMA),),
    )
    assert json.loads(to_body(request, "m")) == ALWAYS | {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is in a?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}}],
            },
            {"role": "tool", "content": "one\ntwo", "tool_call_id": "c1"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "tool_error: no path", "tool_call_id": "c2"},
            {"role": "assistant", "content": "Two lines."},
        ],
        "tools": [{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": SCHEMA}}],
    }


def test_an_image_that_is_at_hand_becomes_a_data_url() -> None:
    parts = (*said("What is this?"), Part("image", ref="attachments/a.png", mime_type="image/png", name="a.png"))
    body = json.loads(to_body(ModelRequest((ModelMessage("user", parts),), ()), "m", media={"attachments/a.png": b"\x89PNG"}.get))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]


@pytest.mark.parametrize("has_loader", [True, False])
def test_a_file_that_the_model_cannot_be_shown_is_named_in_words(has_loader: bool) -> None:
    parts = (*said("See "), Part("image", ref="attachments/a.png", name="a.png"), Part("file", ref="attachments/b.zip"))
    body = json.loads(to_body(ModelRequest((ModelMessage("user", parts),), ()), "m", media=(lambda ref: None) if has_loader else None))
    assert body["messages"][0]["content"] == "See [image: a.png][file: attachments/b.zip]"


def test_a_message_that_was_stopped_before_its_first_word_is_left_out() -> None:
    messages = (ModelMessage("user", said("a")), ModelMessage("assistant", (Part("thinking", text="h"),)), ModelMessage("user", said("b")))
    assert [message["role"] for message in json.loads(to_body(ModelRequest(messages, ()), "m"))["messages"]] == ["user", "user"]


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", "null", "", "\ud83d"])
def test_arguments_that_no_provider_would_take_are_sent_as_an_empty_object(arguments: str) -> None:
    """Promise 3: a history that a provider accepts, whatever the model once wrote."""
    request = ModelRequest((ModelMessage("assistant", (), (ModelCall("c", "f", arguments),)),), ())
    assert json.loads(to_body(request, "m"))["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_without_tools_no_list_of_tools_is_sent() -> None:
    request = ModelRequest((ModelMessage("user", said("a")),), (ModelTool("f", "", {}),))
    assert "tools" not in json.loads(to_body(request, "m", tools=False)) and "tools" in json.loads(to_body(request, "m"))


def test_the_limit_of_the_answer_goes_by_the_name_that_the_service_knows() -> None:
    request = ModelRequest((ModelMessage("user", said("a")),), ())
    assert json.loads(to_body(request, "m", max_output=9))["max_tokens"] == 9
    newer = json.loads(to_body(request, "m", max_output=9, max_output_field="max_completion_tokens"))
    assert newer["max_completion_tokens"] == 9 and "max_tokens" not in newer
