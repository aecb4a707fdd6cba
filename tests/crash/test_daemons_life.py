"""The daemon as a process: its clean end, a second one on the same folder, and whose processes it ends at a start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from storm_log import Told

from palaver.log.folders import DataFolder, Lock
from palaver.tools.processes import MARK, Marks, find_marked
from palaver.wire import events as e
from palaver_daemon import Chat, palaver_process, process_is_there, until

pytestmark = pytest.mark.anyio
AWAY = """#!/bin/sh
if command -v setsid >/dev/null; then exec setsid "$@"; fi
exec perl -MPOSIX -e 'POSIX::setsid(); exec @ARGV' "$@"
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def told(data: Path, session_id: str) -> Told:
    log = Told(data / "sessions" / session_id)
    log.check()
    return log


def marked(data: Path) -> dict[str, list[int]]:
    """The processes with a mark of this folder, by call."""
    found: dict[str, list[int]] = {}
    for one in find_marked(Marks((data / "mark").read_text().strip(), "")):
        found.setdefault(one.call_id, []).append(one.pid)
    return found


# --- a clean end --------------------------------------------------------------------------------------------------------------


async def test_sigterm_ends_what_runs_and_leaves_open_what_only_waits(tmp_path: Path) -> None:
    """Promise 6: `interrupted`, cause `shutdown`; a turn that waits for a person goes on when it is answered, after the restart."""
    async with (
        palaver_process(tmp_path) as first,
        first.chat(mode="auto") as runs,
        first.chat(mode="ask") as asks,
        first.chat() as questions,
    ):
        turn_id = (await runs.say("write 5 words then run the command `printf begun; sleep 600`"))["turn_id"]
        await runs.say("write 7 words", delivery="queue")
        await asks.say("run the command `touch allowed` then write 3 words")
        await questions.say("ask me Which with A or B then write 3 words")
        approval, question = (await asks.asks())[0]["id"], (await questions.asks())[0]["id"]
        await runs.happens("tool_output_delta")
        assert marked(first.data)
        assert await first.end() == ""
        assert first.process.returncode == 0
    assert not (first.data / "daemon.json").exists()
    assert not marked(first.data)
    log = told(first.data, runs.id)
    end = log.all(e.TurnCompleted)[-1]
    assert (end.outcome, end.cause) == ("interrupted", "shutdown")
    assert log.all(e.ToolCallCompleted)[-1].tool_result.error.code == "tool_interrupted"
    assert log.state.last_turn is not None and log.state.last_turn.id == turn_id
    assert [item.paused for item in log.state.queue] == [True]
    for waits in (asks, questions):
        assert told(first.data, waits.id).state.only_waits
    async with palaver_process(tmp_path) as second, second.chat(asks.id) as asks_on, second.chat(questions.id) as questions_on:
        assert {item["id"] for item in await second.inbox()} == {approval, question}
        await second.ask("POST", f"/v1/approvals/{approval}", {"action": "approve"})
        await second.ask("POST", f"/v1/questions/{question}", {"answers": {"choice": {"selected": ["B"]}}})
        for chat in (asks_on, questions_on):
            await chat.idle()
            assert chat.of("turn_completed")[-1]["data"]["outcome"] == "completed"
        assert (second.workspace / "allowed").exists()


async def test_an_interrupt_that_did_not_start_waits_paused_after_sigterm(tmp_path: Path) -> None:
    """DESIGN 5.1: no turn is begun by an end."""
    async with palaver_process(tmp_path) as first, first.chat(mode="auto") as chat:
        await chat.say("run the command `trap '' TERM; printf begun; while :; do sleep 1; done`")
        await chat.happens("tool_output_delta")
        await chat.say("run the command `touch late`", delivery="interrupt")
        await first.end()
    log = told(first.data, chat.id)
    assert [turn.outcome for turn in log.all(e.TurnCompleted)] == ["cancelled"]
    assert log.state.turn is None and [item.paused for item in log.state.queue] == [True]
    assert not (first.workspace / "late").exists()


# --- a second one -------------------------------------------------------------------------------------------------------------


class Folder:
    """A data folder and how a second `serve` is started on it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.config = folder / "settings" / "config.toml"
        self.config.parent.mkdir(mode=0o700, parents=True)
        self.config.touch(0o600)

    @asynccontextmanager
    async def serve(self, port: int = 0, mark: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
        """Through a shell that stays, as a script would."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        words = ("serve", "--data", str(self.data), "--config", str(self.config), "--port", str(port))
        script = '"$@" & child=$!; trap "kill $child" TERM; wait $child'
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, "sh", sys.executable, "-m", "palaver.cli.main", *words,
            env={**env, "PALAVER_DISCOVER": "0", **({MARK: mark} if mark else {})}, stdout=pipe, stderr=pipe,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


@contextmanager
def holder_that_ends_when_asked(data: Path) -> Iterator[None]:
    """Has the lock of the folder, answers the first question for its health with 503, and ends."""
    folder = DataFolder(data)
    folder.prepare()
    lock: list[Lock] = [held for held in [folder.lock()] if held]

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            while lock:
                lock.pop().release()
            self.send_error(503)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        about = {"pid": os.getpid(), "url": f"http://127.0.0.1:{server.server_port}"}
        (data / "daemon.json").write_text(json.dumps(about))
        try:
            yield
        finally:
            server.shutdown()


async def test_a_second_serve_takes_over_when_the_first_one_ends_meanwhile(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with holder_that_ends_when_asked(folder.data):
        async with folder.serve() as second, asyncio.timeout(20):
            assert second.stdout is not None
            url = (await second.stdout.readline()).decode().strip()
            about = json.loads((folder.data / "daemon.json").read_bytes())
            assert about["url"] == url and about["pid"] not in (os.getpid(), second.pid)


async def test_a_port_that_is_taken_ends_serve_with_1_and_gives_the_folder_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with folder.serve(port) as process:
            _, said = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert f"Port {port}" in said.decode() and "--port" in said.decode()
    lock = DataFolder(folder.data).lock()
    assert lock is not None
    lock.release()


async def test_a_folder_that_a_killed_daemon_held_is_free_at_once(tmp_path: Path) -> None:
    async with palaver_process(tmp_path) as first:
        await first.kill()
    async with palaver_process(tmp_path) as second:
        assert (await second.ask("GET", "/v1/health"))["ok"] is True


# --- whose processes a start ends -----------------------------------------------------------------------------------------------


async def sleeping(mark: str) -> asyncio.subprocess.Process:
    """A process that carries a mark and is nobody's leftover."""
    return await asyncio.create_subprocess_exec("sleep", "600", env={"PATH": os.environ["PATH"], MARK: mark}, start_new_session=True)


async def runs_away(chat: Chat, command: str) -> str:
    """Has a call start something in a session of its own; the id of the call."""
    away = chat.client.workspace / "away"
    away.write_text(AWAY)
    away.chmod(0o755)
    await chat.say(f"run the command `./away sleep 600 & {command}`")
    return str((await chat.happens("tool_call_running"))["data"]["tool_call_id"])


async def test_a_start_ends_what_an_open_call_left_and_nothing_else(tmp_path: Path) -> None:
    """SECURITY 9: the mark of an ended call, of another folder, forged or of no call survives; an open call's grandchild does not."""
    others: list[asyncio.subprocess.Process] = []
    try:
        async with palaver_process(tmp_path) as first, first.chat(mode="auto") as open_chat, first.chat(mode="auto") as ended_chat:
            open_call = await runs_away(open_chat, "sleep 600")
            ended_call = await runs_away(ended_chat, "sleep 0.1")
            await ended_chat.idle()
            await until(lambda: len(marked(first.data).get(open_call, [])) >= 3)
            ended = marked(first.data)[ended_call]
            assert len(ended) == 1
            secret = (first.data / "mark").read_text().strip()
            for mark in (
                f"{secret}.0000.call_of_nobody",
                f"{'0' * len(secret)}.0000.{open_call}",
                f"{secret[:-1]}.0000.{open_call}",
                f"{secret}",
                open_call,
            ):
                others.append(await sleeping(mark))
            await first.kill()
        left = marked(first.data)[open_call]
        async with palaver_process(tmp_path) as second:
            await second.inbox()
            assert not any(map(process_is_there, left)), "a grandchild of the open call lives"
            assert open_call not in marked(second.data)
            assert process_is_there(ended[0]), "what a call that ended left on purpose lives"
            assert [process.returncode for process in others] == [None] * len(others)
            assert all(process_is_there(process.pid) for process in others)
            await second.end()
        result = told(first.data, open_chat.id).all(e.ToolCallCompleted)[-1].tool_result
        assert result.error.code == "tool_interrupted" and "outcome unknown" in result.parts[0].text
    finally:
        for process in others:
            process.kill()
            await process.wait()
        for pid in [pid for pids in marked(tmp_path / "data").values() for pid in pids]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def test_a_daemon_started_inside_an_open_call_is_not_its_leftover(tmp_path: Path) -> None:
    """SECURITY 9: neither a nested daemon nor the shell that starts the next one is ended, though both carry the mark."""
    async with palaver_process(tmp_path / "outer") as first, first.chat(mode="auto") as chat:
        call = await runs_away(chat, "sleep 600")
        await until(lambda: len(marked(first.data).get(call, [])) >= 3)
        await first.kill()
    mark = f"{(first.data / 'mark').read_text().strip()}.0000.{call}"
    async with palaver_process(tmp_path / "nested", env={MARK: mark}) as nested:
        folder = Folder(tmp_path / "shell")
        folder.data = first.data
        async with folder.serve(mark=mark) as shell, asyncio.timeout(20):
            assert shell.stdout is not None
            assert (await shell.stdout.readline()).startswith(b"http://")
            await until(lambda: set(marked(first.data)[call]) == {shell.pid})
            assert shell.returncode is None
            assert (await nested.ask("GET", "/v1/health"))["ok"] is True
            assert nested.process.returncode is None
