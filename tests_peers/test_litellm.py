"""Whole turns against LiteLLM's proxy: its own mock answers, and calls that it passes on from a scripted model behind it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from palaver_daemon import Chat, Here, palaver
from peer_servers import free_port, python_of, running
from scripted_model import Release, ScriptedModel, calls, text

pytestmark = pytest.mark.anyio
KEY = "sk-peers"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class Proxy(NamedTuple):
    url: str
    behind: int
    """The port where the proxy looks for the model `behind`."""


def mocked(name: str, answer: str) -> str:
    return f'  - model_name: {name}\n    litellm_params: {{model: openai/mock, api_key: none, mock_response: "{answer}"}}\n'


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    python, folder, port, behind = python_of("litellm"), tmp_path_factory.mktemp("litellm"), free_port(), free_port()
    (folder / "config.yaml").write_text(
        "model_list:\n"
        + mocked("mock", "Hello from LiteLLM")
        + mocked("limited", "litellm.RateLimitError")
        + mocked("broken", "litellm.InternalServerError")
        + mocked("long", "litellm.ContextWindowExceededError")
        + "  - model_name: behind\n"
        + f"    litellm_params: {{model: openai/behind, api_key: none, api_base: 'http://127.0.0.1:{behind}/v1'}}\n"
        + f"general_settings: {{master_key: {KEY}}}\n"
        + "router_settings: {num_retries: 0}\nlitellm_settings: {num_retries: 0, telemetry: false}\n"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [str(python.with_name("litellm")), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, port, "/health/liveliness", folder / "log", env):
        yield Proxy(f"http://127.0.0.1:{port}/v1", behind)


@asynccontextmanager
async def chatting(folder: Path, proxy: Proxy, model: str, more: str = "", key: str = KEY) -> AsyncIterator[tuple[Here, Chat]]:
    names = ("mock", "limited", "broken", "long", "behind", "nobody")
    config = "".join(f'[models.{name}]\nbase_url = "{proxy.url}"\napi_key_env = "PEER_KEY"\n{more}' for name in names)
    async with palaver(folder, config=config, env={"PEER_KEY": key}) as here, here.chat(model=model, mode="auto") as chat:
        yield here, chat
        await chat.check()


async def test_a_mock_answer_streams_and_its_usage_is_counted(tmp_path: Path, proxy: Proxy) -> None:
    async with chatting(tmp_path, proxy, "mock", "price_in = 1.0\nprice_out = 1.0\n") as (_, chat):
        ended = await chat.runs("hello")
        assert (ended["outcome"], chat.answers()) == ("completed", ["Hello from LiteLLM"])
        assert ended["usage"]["input_tokens"] > 0 and ended["usage"]["output_tokens"] > 0 and "estimated" not in ended["usage"]
        assert ended["cost"]["amount"] > 0


async def test_a_turn_with_tools_goes_through_the_proxy_both_ways(tmp_path: Path, proxy: Proxy) -> None:
    batch = calls(("read_file", {"path": "a.txt"}), ("teleport", {}), ("read_file", '{"path": '))
    async with ScriptedModel([batch, text("It holds ", "a secret.")], port=proxy.behind) as behind:
        async with chatting(tmp_path, proxy, "behind") as (here, chat):
            (here.workspace / "a.txt").write_text("the secret")
            ended = await chat.runs("what is in a.txt?")
            assert (ended["outcome"], ended["counts"], chat.answers()[-1]) == (
                "completed",
                {"steps": 2, "tool_calls": 3},
                "It holds a secret.",
            )
            called = [chat.result(one["data"]["tool_call"]["id"]) for one in chat.of("tool_call_started")]
            assert [result.get("error", {}).get("code") for result in called] == [None, "unknown_tool", "invalid_arguments"]
        said, *answers = behind.requests[1]["messages"][-4:]
        assert [call["id"] for call in said["tool_calls"]] == [answer["tool_call_id"] for answer in answers]
        assert "the secret" in str(answers[0]["content"])


async def test_a_rate_limit_is_tried_again_twice_and_then_fails_the_turn(tmp_path: Path, proxy: Proxy) -> None:
    async with chatting(tmp_path, proxy, "limited") as (_, chat):
        ended = await chat.runs("hello")
        assert (ended["outcome"], ended["error"]["code"]) == ("failed", "model_rate_limited")
        assert "mock rate limit error" in ended["error"]["message"] and ended["duration_ms"] > 500


async def test_the_fallback_answers_for_one_that_is_limited(tmp_path: Path, proxy: Proxy) -> None:
    async with chatting(tmp_path, proxy, "limited", 'fallback = "mock"\n') as (_, chat):
        assert (await chat.runs("hello"))["outcome"] == "completed"
        assert (chat.of("model_fallback")[0]["data"]["actual"], chat.answers()) == ("mock", ["Hello from LiteLLM"])


@pytest.mark.parametrize(
    ("model", "code", "says"),
    [
        ("broken", "model_failed", "mock internal server error"),
        ("long", "context_overflow", "context window"),
        ("nobody", "model_failed", "Invalid model name"),
    ],
)
async def test_an_error_ends_the_turn_in_the_proxys_own_words(tmp_path: Path, proxy: Proxy, model: str, code: str, says: str) -> None:
    async with chatting(tmp_path, proxy, model) as (_, chat):
        ended = await chat.runs("hello")
        assert (ended["outcome"], ended["error"]["code"]) == ("failed", code) and says in ended["error"]["message"]


async def test_a_wrong_key_fails_the_turn_and_is_shown_nowhere(tmp_path: Path, proxy: Proxy) -> None:
    async with chatting(tmp_path, proxy, "mock", key="sk-wrong-0123456789") as (_, chat):
        ended = await chat.runs("hello")
        assert ended["outcome"] == "failed" and "No connected db" in ended["error"]["message"], "its word, where it has no database"
        assert "sk-wrong" not in str(await chat.log())


async def test_a_cancel_reaches_the_model_behind_the_proxy(tmp_path: Path, proxy: Proxy) -> None:
    async with ScriptedModel([text("one ", "two").stalled_after(1, Release())], port=proxy.behind) as behind:
        async with chatting(tmp_path, proxy, "behind") as (_, chat):
            sent = await chat.say("hello")
            await chat.happens("model_output_delta")
            await chat.post("cancel")
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "cancelled"
            await behind.disconnected(0)
