"""kill -9 in the middle of an undo: files whole, the undo finished by the next start, and told once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver_daemon import Client, check_ended, palaver

pytestmark = pytest.mark.anyio
HOST = Path(__file__).with_name("daemon_at.py")
SAID = 'change "one" to "uno" in a.txt then run the command `rm gone; mkdir made; echo new > made/it`'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def daemon_that_dies_at(point: str, folder: Path) -> AsyncIterator[tuple[Client, asyncio.Future[int]]]:
    """A daemon on the folder, and how it ends."""
    armed = folder / "armed"
    armed.write_text(f"{point} 1 1\n")
    pipe = asyncio.subprocess.PIPE
    host = await asyncio.create_subprocess_exec(
        sys.executable, str(HOST), str(folder / "settings" / "config.toml"), str(armed), stdin=pipe, stdout=pipe
    )
    assert host.stdin is not None and host.stdout is not None
    try:
        host.stdin.write(f"start {folder / 'data'}\n".encode())
        said = [(await asyncio.wait_for(host.stdout.readline(), 30)).decode() for _ in range(2)]
        pid = next(line.split()[1] for line in said if line.startswith("started"))
        url = next(line.strip() for line in said if line.startswith("http"))

        async def ended() -> int:
            assert host.stdin is not None and host.stdout is not None
            host.stdin.write(f"wait {pid}\n".encode())
            while not (line := (await asyncio.wait_for(host.stdout.readline(), 30)).decode()).startswith("ended"):
                pass
            return int(line.split()[2])

        yield Client(int(url.rsplit(":", 1)[1]), (folder / "data" / "token").read_text().strip(), folder), asyncio.ensure_future(ended())
    finally:
        host.stdin.close()
        await asyncio.wait_for(host.wait(), 30)


@pytest.mark.parametrize("point", ["undo.intended", "undo.performed", "undo.logged"])
async def test_an_undo_that_a_kill_cut_off_is_finished_by_the_next_start_and_told_once(tmp_path: Path, point: str) -> None:
    """Promise 4: the log says what is true."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    (work / "gone").write_text("g\n")
    config = "[verify]\nauto = false\n"
    async with palaver(tmp_path, config=config) as here, here.chat(mode="auto") as chat:
        turn = (await chat.say(SAID))["turn_id"]
        assert (await chat.ended(turn))["outcome"] == "completed"
        id = chat.id
    assert (work / "a.txt").read_text() == "uno\n"
    async with daemon_that_dies_at(point, tmp_path) as (client, ended):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.ask("POST", f"/v1/sessions/{id}/turns/{turn}/undo", {})
        assert await ended == -signal.SIGKILL
    async with palaver(tmp_path, config=config) as here, here.chat(id) as chat:
        event = await chat.happens("turn_undone")
        assert {path.name: path.read_text() for path in work.iterdir()} == {"a.txt": "one\n", "gone": "g\n"}
        assert {file["path"]: file["action"] for file in event["data"]["files"]} == {
            "a.txt": "restored",
            "gone": "recreated",
            "made/it": "deleted",
        }
        assert (await chat.get("changes")) == {"files": []}
        log = await chat.check()
        assert [one["type"] for one in log].count("turn_undone") == 1
        check_ended(log)
