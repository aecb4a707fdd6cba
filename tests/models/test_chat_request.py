"""Our request as the body that Chat Completions servers take, held by golden JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from palaver.models.base import ModelCall, ModelMessage, ModelRequest, ModelTool
from palaver.models.chat_request import to_body
from palaver.models.media import EVERYTHING, TEXT_LIMIT, Takes
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


PNG = b"\x89PNG\r\n\x1a\nrest"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "
PDF = b"%PDF-1.7 rest"
IMAGE = Part("image", ref="attachments/a.jpg", mime_type="image/jpeg", name="a.jpg")


def content(message: ModelMessage, takes: Takes = EVERYTHING) -> Any:
    [told] = json.loads(to_body(ModelRequest((message,), ()), "m", takes=takes))["messages"]
    return told["content"]


def with_file(part: Part, data: bytes) -> ModelMessage:
    return ModelMessage("user", (*said("See"), part), media={part.ref or "": data})


@pytest.mark.parametrize(
    ("part", "data", "sent"),
    [
        (IMAGE, PNG, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}),
        (
            Part("file", ref="a.webp"),
            b"RIFF....WEBP",
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,UklGRi4uLi5XRUJQ"}},
        ),
        (Part("audio", ref="a.wav"), WAV, {"type": "input_audio", "input_audio": {"data": b64encode(WAV).decode(), "format": "wav"}}),
        (Part("audio", ref="a.mp3"), b"ID3\x04", {"type": "input_audio", "input_audio": {"data": "SUQzBA==", "format": "mp3"}}),
        (
            Part("file", ref="attachments/a.pdf"),
            PDF,
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}"}},
        ),
    ],
)
def test_a_file_goes_in_the_form_of_what_it_is_whatever_it_is_called(part: Part, data: bytes, sent: Any) -> None:
    assert content(with_file(part, data)) == [{"type": "text", "text": "See"}, sent]


@pytest.mark.parametrize(
    ("part", "data", "why"),
    [
        (IMAGE, PNG, "the model takes no images"),
        (Part("audio", ref="a.wav", name="a.wav"), WAV, "the model takes no audio"),
        (Part("file", ref="a.pdf", name="a.pdf"), PDF, "the model takes no PDF files"),
        (Part("file", ref="a.zip", name="a.zip"), b"PK\x03\x04\x00", "it is neither text nor an image, audio or PDF"),
        (Part("image", ref="a.svg", name="a.svg"), b"<svg/>", "it is no image"),
        (Part("image", ref="a.heic", name="a.heic"), b"\x00\x00ftypheic", "it is no image that models take: PNG, JPEG, GIF or WebP"),
        (IMAGE, None, "its file is not there"),
    ],
)
def test_a_file_that_the_model_is_not_shown_is_named_with_the_reason(part: Part, data: bytes | None, why: str) -> None:
    message = ModelMessage("user", (*said("See"), part), media={} if data is None else {part.ref or "": data})
    assert content(message, Takes()) == f"See\n[{part.name} was attached here and is not shown: {why}.]\n"


def test_a_text_file_goes_to_every_model_and_a_long_one_says_where_the_rest_is() -> None:
    part = Part("file", ref="attachments/notes.md", name="notes.md")
    assert content(with_file(part, "naïve".encode()), Takes()) == "See\n[The attached file notes.md:]\nnaïve\n[The end of notes.md.]\n"
    long = content(with_file(part, "ä".encode() * TEXT_LIMIT), Takes())
    assert long.count("ä") == TEXT_LIMIT // 2 and f"of {2 * TEXT_LIMIT} bytes" in long and "attachments/notes.md" in long


def test_what_tools_gave_to_look_at_follows_their_batch() -> None:
    """A tool message holds text only; nothing stands between a call and its result."""
    messages = (
        ModelMessage("assistant", (), (ModelCall("c1", "read_file", "{}"), ModelCall("c2", "read_file", "{}"))),
        ModelMessage("tool", (*said("a.jpg:"), IMAGE), call_id="c1", media={"attachments/a.jpg": PNG}),
        ModelMessage("tool", said("text"), call_id="c2"),
        ModelMessage("user", said("and?")),
    )
    body = json.loads(to_body(ModelRequest(messages, ()), "m", takes=EVERYTHING))["messages"]
    assert [message["role"] for message in body] == ["assistant", "tool", "tool", "user", "user"]
    assert body[1]["content"] == "a.jpg:[It is shown after these results.]"
    assert [part["type"] for part in body[3]["content"]] == ["text", "image_url"]
    blind = json.loads(to_body(ModelRequest(messages, ()), "m"))["messages"]
    assert [message["role"] for message in blind] == ["assistant", "tool", "tool", "user"]
    assert "the model takes no images" in blind[1]["content"]


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


def test_a_model_that_cannot_call_reads_in_words_what_others_called() -> None:
    """A fallback, or a model that was chosen later: no server gets calls that it cannot read, and nothing of them is lost."""
    messages = (
        ModelMessage("user", said("go")),
        ModelMessage("assistant", said("I look."), (ModelCall("c1", "read_file", '{"path":"a"}'), ModelCall("c2", "read_file", "{}"))),
        ModelMessage("tool", (*said("a.jpg:"), IMAGE), call_id="c1", media={"attachments/a.jpg": PNG}),
        ModelMessage("tool", said("nothing"), call_id="c2"),
        ModelMessage("assistant", (), (ModelCall("c3", "shell", "{}"),)),
        ModelMessage("tool", said("ok"), call_id="c3"),
    )
    body = json.loads(to_body(ModelRequest(messages, ()), "m", tools=False))["messages"]
    assert [message["role"] for message in body] == ["user", "assistant", "user", "assistant", "user"]
    assert all(set(message) == {"role", "content"} for message in body)
    assert body[1]["content"].startswith('I look.\n[Called `read_file` with {"path":"a"}]') and "`shell`" in body[4]["content"]
    assert body[2]["content"].count("what `read_file` gave]") == 2 and "the model takes no images" in body[2]["content"]
    seen = json.loads(to_body(ModelRequest(messages, ()), "m", tools=False, takes=EVERYTHING))["messages"]
    assert "image_url" in [part["type"] for part in seen[2]["content"]]


def test_the_limit_of_the_answer_goes_by_the_name_that_the_service_knows() -> None:
    request = ModelRequest((ModelMessage("user", said("a")),), ())
    assert json.loads(to_body(request, "m", max_output=9))["max_tokens"] == 9
    newer = json.loads(to_body(request, "m", max_output=9, max_output_field="max_completion_tokens"))
    assert newer["max_completion_tokens"] == 9 and "max_tokens" not in newer
