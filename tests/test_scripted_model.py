"""The scripted server itself: what it sends is what a test relies on, so it is read here without our own client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from scripted_model import Release, ScriptedModel, Step, burst, calls, status, text, thinking

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def post(url: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return str(response.read().decode())


async def test_steps_are_consumed_one_by_one_and_the_end_of_the_script_is_said() -> None:
    async with ScriptedModel([text("a"), text("b")]) as server:
        first, second = [await asyncio.to_thread(post, server.url, {"n": n}) for n in (1, 2)]
        assert '"content": "a"' in first and '"content": "b"' in second and first.endswith("data: [DONE]\n\n")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            await asyncio.to_thread(post, server.url, {"n": 3})
        assert [body["n"] for body in server.requests] == [1, 2, 3]


async def test_a_script_may_depend_on_the_request() -> None:
    def respond(body: dict[str, Any]) -> Step:
        return text(body["word"].upper())

    async with ScriptedModel(respond) as server:
        assert '"content": "HO"' in await asyncio.to_thread(post, server.url, {"word": "ho"})


async def test_every_delta_of_a_burst_is_an_http_chunk_of_its_own() -> None:
    async with ScriptedModel([burst(300)]) as server:
        host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        received = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), 10)
        writer.close()
        sizes, rest = [], received.partition(b"\r\n\r\n")[2]
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            sizes.append(int(size, 16))
            rest = rest[sizes[-1] + 2 :]
        assert sizes[-1] == 0 and len(sizes) == 300 + 4  # the deltas, then finish, usage, done and the end


async def test_a_stalled_step_goes_on_when_it_is_released() -> None:
    release = Release()
    async with ScriptedModel([text("a", "b").stalled_after(1, release)]) as server:
        answer = asyncio.create_task(asyncio.to_thread(post, server.url, {}))
        await server.received(1)
        assert not answer.done()
        release.open()
        assert '"content": "b"' in await answer
        await server.answered(0)


async def test_steps_add_up_to_one_answer_with_one_end() -> None:
    async with ScriptedModel([thinking("t") + text("x") + calls(("f", {}))]) as server:
        said = await asyncio.to_thread(post, server.url, {})
        assert said.count('"finish_reason": "tool_calls"') == 1 and '"finish_reason": "stop"' not in said and said.count("[DONE]") == 1


async def test_a_status_carries_its_retry_after() -> None:
    async with ScriptedModel([status(429, retry_after=3)]) as server:
        with pytest.raises(urllib.error.HTTPError) as error:
            await asyncio.to_thread(post, server.url, {})
        assert (error.value.code, error.value.headers["retry-after"]) == (429, "3")


def test_on_its_own_it_prints_its_url_and_serves_a_script_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    steps = [{"thinking": ["hm"], "text": ["Hello"], "calls": [{"name": "f", "arguments": {"x": 1}}]}, {"status": 500}, {"burst": 50}]
    script.write_text(json.dumps({"steps": steps, "loop": True}))
    program = Path(__file__).with_name("scripted_model.py")
    with subprocess.Popen(
        [sys.executable, str(program), "--port", "0", "--script", str(script)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            first = post(url, {})
            assert '"content": "Hello"' in first and '"name": "f"' in first
            with pytest.raises(urllib.error.HTTPError):
                post(url, {})
            assert post(url, {}).count('"content": "word "') == 50
            assert post(url, {}) == first
        finally:
            server.terminate()
