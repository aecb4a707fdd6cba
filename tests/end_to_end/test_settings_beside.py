"""A settings file may lie among other things: then it alone is out of the tools' reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palaver.daemon import build
from palaver.log.folders import DataFolder
from palaver.settings import load
from palaver_daemon import Here
from serving import serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_settings_file_beside_the_files_of_a_workspace_is_denied_and_they_are_not(tmp_path: Path) -> None:
    """SECURITY 13, DESIGN 5: the floor is the file where the folder is not Palaver's own."""
    workspace, config = tmp_path / "work", tmp_path / "work" / "palaver.toml"
    workspace.mkdir()
    config.write_text('[defaults]\nmode = "auto"\n')
    data = DataFolder(tmp_path / "data")
    data.prepare()
    assert data.lock() is not None
    built = build(load(str(config), {}), data, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}, demo_pace_s=0)
    built.sessions.start()
    try:
        async with serving(data.root, built.hub) as served:
            here = Here(built, served.port, served.token, tmp_path)
            async with here.chat() as chat:
                turn = (await chat.say('write the file a.txt with "one" then write the file palaver.toml with "two"'))["turn_id"]
                assert (await chat.ended(turn))["outcome"] == "completed"
                results = [event["data"]["tool_result"] for event in await chat.log() if event["type"] == "tool_call_completed"]
                assert [result["ok"] for result in results] == [True, False]
                assert results[1]["error"]["code"] == "tool_denied"
    finally:
        await built.close()
    assert (workspace / "a.txt").read_text() == "one\n"
    assert config.read_text() == '[defaults]\nmode = "auto"\n'
