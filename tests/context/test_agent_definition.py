"""`[agents.X]`: its prompt is told, and of the tools it has only those that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver_daemon import palaver
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio

CONFIG = """\
[models.m]
base_url = "URL"
[agents.reader]
model = "m"
prompt = "Only read."
tools = ["read_file", "search"]
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_agent_has_its_prompt_and_only_the_tools_that_it_names(tmp_path: Path) -> None:
    """Agent definition. A call of another tool is told which there are."""
    script = [calls(("shell", {"command": "touch made"}), ("read_file", {"path": "a"})), text("ok")]
    async with ScriptedModel(script) as model, palaver(tmp_path, config=CONFIG.replace("URL", model.url)) as here:
        (here.workspace / "a").write_text("here\n")
        async with here.chat(agent="reader", mode="auto") as chat:
            assert (await chat.runs("go"))["outcome"] == "completed"
            first, second = model.requests
            assert [one["function"]["name"] for one in first["tools"]] == ["read_file", "search"]
            assert "# Instructions of the person\n\nOnly read." in first["messages"][0]["content"]
            refused, read = [one["content"] for one in second["messages"] if one["role"] == "tool"]
            assert "The agent reader has no tool 'shell'. Use one of: read_file, search." in refused and "here" in read
            assert not (here.workspace / "made").exists()
