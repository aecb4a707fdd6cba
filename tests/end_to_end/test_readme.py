"""The README's conversation, typed into a real shell word for word: only the port and the ask's id are put in."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver_daemon import DEADLINE_S, Json, Process, palaver_process

pytestmark = pytest.mark.anyio

README = (Path(__file__).parents[2] / "README.md").read_text()
PLACEHOLDER = "appr_…"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def blocks(heading: str) -> list[str]:
    """What is to be typed below that heading of the README, block by block."""
    [section] = [part for part in re.split(r"^## ", README, flags=re.MULTILINE) if part.startswith(f"{heading}\n")]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@asynccontextmanager
async def shell(here: Process, text: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A terminal in the workspace, where `.venv/bin` is what it is in a checkout. What runs in it ends with the block."""
    if not (venv := here.workspace / ".venv").exists():
        venv.mkdir()
        (venv / "bin").symlink_to(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PALAVER_", "OPENAI_"))}
    folders = {"HOME": str(here.folder), "PALAVER_DATA": str(here.data), "PALAVER_CONFIG": str(here.folder / "settings" / "config.toml")}
    text = text.replace("http://127.0.0.1:8787", f"http://127.0.0.1:{here.port}")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", text),
        env={**kept, **folders},
        cwd=here.workspace,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        limit=1 << 22,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def typed(here: Process, text: str) -> str:
    async with shell(here, text) as process:
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert (process.returncode, err) == (0, b""), (out, err)
        return out.decode()


async def told(process: asyncio.subprocess.Process, last: str) -> list[Json]:
    """The events that a terminal shows, up to the first one of that type."""
    assert process.stdout is not None
    events: list[Json] = []
    async with asyncio.timeout(DEADLINE_S):
        while line := await process.stdout.readline():
            if line.startswith(b"data: ") and "seq" in (event := json.loads(line[6:])):
                events.append(event)
                if event["type"] == last:
                    return events
    raise AssertionError(f"the stream is over before {last}: {[event['type'] for event in events]}")


async def test_the_conversation_with_curl_is_as_the_readme_tells_it(tmp_path: Path) -> None:
    """S4-69 to S4-72, as a stranger with curl sees them."""
    start, speak, follow, answer = blocks("A first conversation with curl")
    look, approve = answer.strip().splitlines()
    assert PLACEHOLDER in approve
    async with palaver_process(tmp_path) as here, shell(here, start + speak + follow) as terminal:
        seen = await told(terminal, "approval_requested")
        assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
        [item] = json.loads(await typed(here, start + look))["items"]
        assert item["id"] == seen[-1]["data"]["approval_id"] and item["data"]["preview"]["command"] == "date"
        answered = json.loads(await typed(here, start + approve.replace(PLACEHOLDER, item["id"])))
        assert (answered["outcome"], answered["by"]) == ("granted", "curl")
        seen += await told(terminal, "turn_completed")
        types = [event["type"] for event in seen]
        assert types.index("approval_granted") < types.index("tool_output_delta") < types.index("turn_completed")
        assert seen[-1]["data"]["outcome"] == "completed"


async def test_the_answer_to_a_message_is_what_the_readme_says(tmp_path: Path) -> None:
    """The README's words after its second block."""
    start, speak, _, _ = blocks("A first conversation with curl")
    async with palaver_process(tmp_path) as here:
        reply = await typed(here, start + speak)
        assert '"delivered": "started"' in README and json.loads(reply)["delivered"] == "started"
        [session] = (await here.ask("GET", "/v1/sessions"))["sessions"]
        assert session["workspace_path"] == str(here.workspace)


async def test_the_first_command_of_the_readme_asks_and_waits_when_nobody_is_there(tmp_path: Path) -> None:
    """API.md, Command line: `run` ends with 4 where something must be answered and nobody is there."""
    _, run = blocks("Two commands")
    async with palaver_process(tmp_path) as here, shell(here, run) as process:
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 4, (out, err)
        [item] = await here.inbox()
        assert item["data"]["preview"]["command"] == "ls" and item["id"] in (out + err).decode()
