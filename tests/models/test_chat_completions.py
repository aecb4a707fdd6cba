"""The model client against a real server that says what a script tells it: every way in which an answer comes, breaks or stops."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.errors import Invalid, ModelFailed
from palaver.models.base import CallPiece, Finish, ModelMessage, ModelRequest, ModelTool, Piece, TextPiece
from palaver.models.chat_completions import ChatCompletions
from palaver.models.connections import Connections
from palaver.wire.values import Part, Usage
from scripted_model import (
    Release,
    ScriptedModel,
    Step,
    bad_tool_json,
    burst,
    calls,
    error_in_stream,
    lone_surrogate,
    malformed,
    raw,
    split_surrogate_pair,
    status,
    text,
    thinking,
)

pytestmark = pytest.mark.anyio
KEY = "sk-planted-secret"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


REQUEST = ModelRequest((ModelMessage("user", (Part("text", text="Hello"),)),), (ModelTool("shell", "Runs a command.", {"type": "object"}),))


@asynccontextmanager
async def asking(*script: Step, **options: Any) -> AsyncIterator[tuple[ChatCompletions, ScriptedModel]]:
    async with ScriptedModel(script) as server:
        connections = Connections()
        options = {"client": lambda: connections.to(server.url), "api_key_env": "MODEL_KEY", **options}
        try:
            yield ChatCompletions("test", server.url, "scripted", options.pop("api_key", KEY), **options), server
        finally:
            await connections.aclose()


async def everything(model: ChatCompletions) -> list[Piece]:
    return [piece async for piece in model.stream(REQUEST)]


async def answered(*script: Step, **options: Any) -> list[Piece]:
    async with asking(*script, **options) as (model, _):
        return await everything(model)


async def failure(*script: Step, **options: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as failed:
        await answered(*script, **options)
    assert KEY not in failed.value.message
    return failed.value


def joined(pieces: list[Piece], kind: str = "text") -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.kind == kind)


# --- answers ------------------------------------------------------------------------------------------------------------------


async def test_text_arrives_piece_by_piece_and_ends_with_the_usage() -> None:
    release = Release()
    async with asking(text("Hel", "lo", " \n").stalled_after(1, release)) as (model, _):
        stream = model.stream(REQUEST)
        assert await anext(stream) == TextPiece("text", "Hel")
        release.open()
        rest = [piece async for piece in stream]
        assert joined(rest) == "lo \n" and rest[-1] == Finish("end_turn", Usage(10, 5))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_details"])
async def test_thinking_comes_before_the_text(name: str) -> None:
    pieces = await answered(thinking("hm", "m", name=name) + text("yes"))
    assert (joined(pieces, "thinking"), joined(pieces)) == ("hmm", "yes")


async def test_two_calls_of_one_batch_are_told_apart() -> None:
    pieces = await answered(text("I look.") + calls(("shell", {"command": "ls -la --color=never"}), ("read_file", {"path": "a"})))
    first = "".join(piece.arguments for piece in pieces if isinstance(piece, CallPiece) and piece.index == 0)
    names = [piece.name for piece in pieces if isinstance(piece, CallPiece) and piece.name]
    assert first == '{"command": "ls -la --color=never"}' and names == ["shell", "read_file"]
    assert pieces[-1] == Finish("tool_calls", Usage(10, 5))


async def test_arguments_that_are_no_json_are_passed_on_as_they_came() -> None:
    pieces = await answered(bad_tool_json())
    assert "".join(piece.arguments for piece in pieces if isinstance(piece, CallPiece)) == '{"command": "ls", '


async def test_a_surrogate_pair_split_over_two_deltas_arrives_as_one_character() -> None:
    assert joined(await answered(split_surrogate_pair())) == "\U0001f600"


async def test_a_lone_surrogate_arrives_as_the_replacement_character() -> None:
    assert joined(await answered(lone_surrogate())) == "a\ufffdb"


async def test_a_burst_of_twenty_thousand_chunks_arrives_whole() -> None:
    pieces = await answered(burst(20_000, "word "))
    assert len(pieces) < 2_000 and joined(pieces) == "word " * 20_000, "what came in one read is one piece"


async def test_a_stream_without_done_is_whole_when_it_gave_a_reason() -> None:
    ending = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\r\n\r\n'
    [said, finish] = await answered(raw(b": hello\r\n\r\n", ending))
    assert (said, isinstance(finish, Finish) and finish.reason) == (TextPiece("text", "x"), "end_turn")


async def test_a_connection_that_breaks_after_the_reason_loses_only_the_usage() -> None:
    ending = raw(b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n')
    [said, finish] = await answered(ending.dropped_after(1))
    assert (said, isinstance(finish, Finish) and finish.reason) == (TextPiece("text", "x"), "end_turn")


async def test_a_service_that_tells_no_usage_has_it_counted_here_and_that_is_said() -> None:
    *_, finish = await answered(replace(text("0123456789"), usage=None))
    assert isinstance(finish, Finish) and finish.usage is not None
    assert (finish.usage.estimated, finish.usage.output_tokens) == (True, 3) and 5 < finish.usage.input_tokens < 40
    *_, finish = await answered(text("0123456789"))
    assert finish == Finish("end_turn", Usage(10, 5))


async def test_an_event_split_over_chunks_and_without_a_space_is_read() -> None:
    assert (
        joined(await answered(raw(b"da", b'ta:{"choices":[{"delta":{"con', b'tent":"a\xe2\x80', b'\xa8b"}}]}\n', b"\ndata:[DONE]\n\n")))
        == "a\u2028b"
    )


async def test_an_answer_that_never_ends_its_response_still_ends() -> None:
    done = raw(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', b"data: [DONE]\n\n", ends=False)
    assert joined(await answered(done)) == "x"


# --- the request --------------------------------------------------------------------------------------------------------------


async def test_the_request_carries_model_tools_and_key() -> None:
    async with asking(text("x")) as (model, server):
        await everything(model)
        assert server.requests[0]["model"] == "scripted" and server.requests[0]["tools"][0]["function"]["name"] == "shell"
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
        assert server.headers[0]["content-type"] == "application/json"


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with asking(text("x"), api_key=None) as (model, server):
        await everything(model)
        assert "authorization" not in server.headers[0]


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with asking(text("a"), calls(("shell", {})), status(429), text("b")) as (model, server):
        for _ in range(2):
            await everything(model)
        with pytest.raises(ModelFailed):
            await everything(model)
        await everything(model)
        assert (len(server.requests), server.connections) == (4, 1)


async def test_many_requests_at_once_do_not_wait_for_each_other() -> None:
    release = Release()
    async with asking(*[text("x").stalled_after(0, release)] * 120) as (model, server):
        answers = [asyncio.create_task(everything(model)) for _ in range(120)]
        await server.received(120)
        release.open()
        assert {joined(pieces) for pieces in await asyncio.gather(*answers)} == {"x"}


# --- stopping -----------------------------------------------------------------------------------------------------------------


async def test_closing_the_generator_closes_the_request_at_once() -> None:
    async with asking(text("a", "b").stalled_after(1, Release())) as (model, server):
        stream = model.stream(REQUEST)
        assert await anext(stream) == TextPiece("text", "a")
        await stream.aclose()
        await server.disconnected(0)


@pytest.mark.parametrize("frames", [0, 1])
async def test_cancelling_whoever_reads_closes_the_request_also_before_the_first_piece(frames: int) -> None:
    async with asking(text("a", "b").stalled_after(frames, Release())) as (model, server):
        reading = asyncio.create_task(everything(model))
        await server.received(1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await server.disconnected(0)


async def test_a_request_that_was_stopped_does_not_disturb_the_next() -> None:
    async with asking(text("a", "b").stalled_after(1, Release()), text("c")) as (model, _):
        stream = model.stream(REQUEST)
        await anext(stream)
        await stream.aclose()
        assert joined(await everything(model)) == "c"


# --- failing ------------------------------------------------------------------------------------------------------------------


async def test_too_many_requests_say_when_to_come_back() -> None:
    failed = await failure(status(429, retry_after=7))
    assert (failed.code, failed.retryable, failed.retry_after) == ("model_rate_limited", True, 7.0)


async def test_a_date_in_retry_after_counts_from_now() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    failed = await failure(status(503, retry_after="Thu, 01 Jan 2026 12:00:30 GMT"), now=lambda: now)
    assert (failed.retryable, failed.retry_after) == (True, 30.0)


@pytest.mark.parametrize("value", ["soon", "", "-5", "Thu, 01 Jan 2020 12:00:30 GMT", "Thu, 99 Foo"])
async def test_a_retry_after_that_makes_no_sense_never_waits(value: str) -> None:
    assert (await failure(status(429, retry_after=value))).retry_after in (None, 0.0)


@pytest.mark.parametrize(
    ("code", "retryable"), [(400, False), (404, False), (408, True), (422, False), (500, True), (502, True), (529, True)]
)
async def test_a_status_says_whether_asking_again_can_help(code: int, retryable: bool) -> None:
    failed = await failure(status(code, message="because of the weather"))
    assert failed.retryable is retryable and str(code) in failed.message and "because of the weather" in failed.message


@pytest.mark.parametrize("code", [401, 403])
async def test_a_refused_key_names_its_variable_and_never_the_key(code: int) -> None:
    failed = await failure(status(code, message=f"Incorrect API key provided: {KEY}"))
    assert (failed.code, failed.retryable) == ("model_auth", False) and "MODEL_KEY" in failed.message


async def test_a_key_that_is_not_set_is_said_to_be_missing() -> None:
    assert "MODEL_KEY is not set" in (await failure(status(401), api_key=None)).message


@pytest.mark.parametrize("key", ["sk-ü", "sk-a\nb"])
async def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    failed = await failure(api_key=key)
    assert failed.code == "model_auth" and key not in failed.message and "MODEL_KEY" in failed.message


async def test_an_error_that_quotes_the_key_inside_the_stream_is_shown_without_it() -> None:
    assert "quoting …" in (await failure(error_in_stream(f"quoting {KEY}"))).message


async def test_an_error_inside_a_good_stream_fails_after_the_pieces_before_it() -> None:
    async with asking(error_in_stream("fell over", before="so far")) as (model, _):
        stream = model.stream(REQUEST)
        assert await anext(stream) == TextPiece("text", "so far")
        with pytest.raises(ModelFailed, match="fell over") as failed:
            await anext(stream)
        assert (failed.value.code, failed.value.retryable) == ("model_failed", True)


async def test_a_malformed_chunk_is_a_bad_chunk() -> None:
    assert (await failure(malformed("so far"))).code == "bad_chunk"


@pytest.mark.parametrize("frames", [0, 1, 2])
async def test_a_connection_that_drops_in_the_stream_can_be_tried_again(frames: int) -> None:
    failed = await failure(text("a", "b", "c").dropped_after(frames))
    assert (failed.code, failed.retryable) == ("model_unreachable", True)


async def test_a_stream_that_ends_before_it_is_whole_is_no_answer() -> None:
    failed = await failure(raw(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'))
    assert failed.retryable and "before it was whole" in failed.message


async def test_a_page_where_a_stream_was_due_points_at_the_address() -> None:
    failed = await failure(Step(body=b"<html>Welcome</html>"))
    assert not failed.retryable and "base_url" in failed.message


@pytest.mark.parametrize("frames", [0, 1])
async def test_a_service_that_falls_silent_is_left_after_the_limit(frames: int) -> None:
    async with asking(text("a", "b").stalled_after(frames, Release()), silence_s=0.05) as (model, server):
        with pytest.raises(ModelFailed) as failed:
            await everything(model)
        assert (failed.value.code, failed.value.retryable) == ("provider_silent", False)
        await server.disconnected(0)


async def test_comments_hold_the_line_for_a_while_but_not_for_ever() -> None:
    failed = await failure(raw(*[b": still here\n\n"] * 2_000).paced(0.005), silence_s=0.04)
    assert failed.code == "provider_silent"


async def test_comments_before_the_answer_are_no_silence() -> None:
    patient = raw(*[b": still here\n\n"] * 10).paced(0.01) + text("x")
    assert joined(await answered(patient.paced(0.01), silence_s=5)) == "x"


async def test_a_service_that_is_not_there_can_be_tried_again() -> None:
    async with ScriptedModel([]) as server:
        url = server.url
    connections = Connections()
    model = ChatCompletions("test", url, "scripted", KEY, client=lambda: connections.to(url))
    with pytest.raises(ModelFailed) as failed:
        await everything(model)
    await connections.aclose()
    assert (failed.value.code, failed.value.retryable) == ("model_unreachable", True) and model.provider in failed.value.message


@pytest.mark.parametrize("url", ["nonsense", "ftp://example.test/v1", "http://"])
async def test_an_address_that_is_none_is_not_tried_again(url: str) -> None:
    connections = Connections()
    model = ChatCompletions("test", url, "scripted", KEY, client=lambda: connections.to(url))
    with pytest.raises(ModelFailed) as failed:
        await everything(model)
    await connections.aclose()
    assert not failed.value.retryable and "base_url" in failed.value.message


def test_an_address_that_cannot_be_taken_apart_is_refused_when_the_model_is_made() -> None:
    connections = Connections()
    with pytest.raises(Invalid, match="base_url"):
        ChatCompletions("test", "http://[::1/v1", "m", None, client=lambda: connections.to("http://[::1/v1"))


async def test_an_address_with_a_password_is_shown_without_it() -> None:
    connections = Connections()
    model = ChatCompletions("test", "http://user:hidden@127.0.0.1:1/v1", "m", None, client=lambda: connections.to("http://127.0.0.1:1/v1"))
    assert model.provider == "127.0.0.1:1"
    with pytest.raises(ModelFailed) as failed:
        await everything(model)
    await connections.aclose()
    assert "hidden" not in failed.value.message


async def test_a_compressed_stream_is_read_all_the_same() -> None:
    whole = gzip.compress(b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n')
    step = Step((whole,), finish=None, usage=None, done=False, headers=(("content-encoding", "gzip"),))
    assert joined(await answered(step)) == "x"


def test_importing_the_models_does_not_import_the_http_client() -> None:
    """STACK 1: it is paid for with the first turn."""
    code = "import sys, palaver.models; assert 'httpx2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_fails_the_request_and_says_so(proxy: str) -> None:
    """In a process of its own, since the environment is read there."""
    code = (
        "import asyncio\n"
        "from palaver.errors import ModelFailed\n"
        "from palaver.models import ModelRequest, ModelSettings, Registry\n"
        "async def ask():\n"
        "    registry = Registry([ModelSettings('m', 'https://model.test/v1')], {})\n"
        "    try:\n"
        "        await anext(registry.get('m').stream(ModelRequest((), ())))\n"
        "    except ModelFailed as failed:\n"
        "        print(failed.code, failed.retryable, failed.message)\n"
        "asyncio.run(ask())\n"
    )
    said = subprocess.run([sys.executable, "-c", code], env={"ALL_PROXY": proxy}, check=True, timeout=30, capture_output=True, text=True)
    assert said.stdout.startswith("model_unreachable False The proxy")


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Requested tokens (5000) exceed context window of 4096",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Trying to keep the first 9000 tokens when context the overflows.",
        "context_length_exceeded",
    ],
)
async def test_a_request_beyond_the_context_is_told_apart_whatever_the_service_calls_it(said: str) -> None:
    failed = await failure(status(400, message=said))
    assert (failed.code, failed.retryable) == ("context_overflow", False) and said in failed.message
    assert (await failure(error_in_stream(said, code=400))).code == "context_overflow"


@pytest.mark.parametrize("said", ["Unknown parameter: 'max_tokens'.", "tokens per minute: limit 10000", "no such model", ""])
async def test_any_other_refusal_is_none_of_the_length(said: str) -> None:
    assert (await failure(status(400, message=said))).code == "model_failed"
    assert (await failure(status(429, message="This request exceeds the limit of tokens per minute"))).code == "model_rate_limited"
