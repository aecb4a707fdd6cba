"""The programs of docs/python-client.md, run as they stand against a daemon that they find by themselves; and which one they find."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from palaver.client.address import data_folder, open_connection
from palaver.errors import Refused
from palaver.settings import data_folder as folder_of_the_settings
from palaver_daemon import palaver_process

PAGE = Path(__file__).parents[2] / "docs" / "python-client.md"
SCRIPT, PROGRAM = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(code: str, folder: Path, **env: str) -> tuple[str, str]:
    """What a program prints that is started in the workspace and told nothing but the data folder."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        env={**known, "PALAVER_DATA": str(folder / "data"), **env},
        cwd=folder / "work",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, wrong = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, wrong.decode()
    return said.decode(), wrong.decode()


async def test_the_programs_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    """S0-06; a script of under 20 lines."""
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) < 20
    async with palaver_process(tmp_path):
        (tmp_path / "work" / "README.md").write_text("Hello from the readme\n")
        said, wrong = await run(SCRIPT, tmp_path)
        assert "Hello from the readme" in said and wrong == ""
        said, wrong = await run(SCRIPT, tmp_path, QUESTION="run the command `touch made`")
        assert "only look" in said and not (tmp_path / "work" / "made").exists()
        said, wrong = await run(PROGRAM, tmp_path)
        assert "started\n" in said and wrong == ""
        assert len(said.rpartition("characters so far\n")[2].split()) == 30


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/ada"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"},
        {"HOME": "/home/ada", "PALAVER_DATA": "/elsewhere"},
    ],
)
@pytest.mark.parametrize("given", [None, "/given", "given/relative"])
def test_the_client_looks_where_the_daemon_keeps_its_data(given: str | None, env: dict[str, str]) -> None:
    assert data_folder(given, env) == folder_of_the_settings(given, env)


async def test_what_is_given_is_preferred_to_the_environment(tmp_path: Path) -> None:
    """A token of the data folder never goes to an address; API.md: `connect(url=None, token=None, data=None)`."""
    env = {"PALAVER_URL": "http://127.0.0.1:1", "PALAVER_TOKEN": "env.token"}
    async with palaver_process(tmp_path) as here:
        url = f"http://127.0.0.1:{here.port}"
        data = str(tmp_path / "data")
        found = [
            await open_connection(None, None, None, env),
            await open_connection(url, None, None, env),
            await open_connection(None, None, data, env),
            await open_connection(None, "own.token", data, env),
            await open_connection("http://127.0.0.1:2", "own.token", None, env),
        ]
        for connection in found:
            await connection.close()
    assert [(one.url, one._token) for one in found] == [
        ("http://127.0.0.1:1", "env.token"),
        (url, "env.token"),
        (url, here.token),
        (url, "own.token"),
        ("http://127.0.0.1:2", "own.token"),
    ]


async def test_a_token_alone_finds_no_daemon_where_none_runs(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        await open_connection(None, "own.token", str(tmp_path))
    assert caught.value.code == "no_daemon"
