"""Daemons that can be killed at a point, and the clients that watch them over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from palaver.views.transcript import Transcript, drop_provisional, show, show_tail
from palaver.wire.codec import decode_event

TOOL = Path(__file__).with_name("daemon_at.py")
PATIENCE = 20.0


class Gone(Exception):
    """The daemon died before it answered: whether it did what was asked is not known."""


class Answer(NamedTuple):
    status: int
    body: Any


class Life:
    """One process of the daemon, from its start to its end."""

    def __init__(self, host: Host, data: Path, pid: int) -> None:
        self.host, self.data, self.pid = host, data, pid
        self.url = ""
        self._client: httpx2.AsyncClient | None = None

    async def listening(self) -> bool:
        """Whether it came to say where it listens; False when it died before."""
        self.url = await self.host.url(self.pid)
        if not self.url:
            return False
        token = (self.data / "token").read_text().strip()
        self._client = httpx2.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(PATIENCE, read=None),  # a stream may be silent for as long as it likes
            limits=httpx2.Limits(max_connections=None),
            trust_env=False,
        )
        return True

    @property
    def client(self) -> httpx2.AsyncClient:
        assert self._client is not None
        return self._client

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """The answer. Raises `Gone`. Nothing that these clients do may be answered with a 5xx."""
        content = b"" if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            answer = await self.client.request(method, path, content=content, headers=headers, timeout=PATIENCE)
        except httpx2.TimeoutException as error:
            raise AssertionError(f"{method} {path} is not answered in {PATIENCE:g} s") from error
        except httpx2.TransportError as error:
            raise Gone from error
        assert answer.status_code < 500, (method, path, body, answer.text)
        return Answer(answer.status_code, json.loads(answer.content) if answer.content else None)

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def ended(self, within: float = PATIENCE) -> int | None:
        """Its status, once it has ended; None while it has not."""
        return await self.host.ended(self.pid, within)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


class Host:
    """Starts daemons, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, armed: Path, log: Path) -> None:
        self._process, self._armed, self.log = process, armed, log
        self._number = 0
        self._started: list[int] = []
        self._urls: list[str] = []
        self._statuses: dict[int, int] = {}
        self._asked: set[int] = set()
        self._pids: set[int] = set()
        self._news = asyncio.Condition()
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._news:
                match line.decode().split():
                    case ["started", pid]:
                        self._started.append(int(pid))
                    case ["ended", pid, status]:
                        self._statuses[int(pid)] = int(status)
                    case [url]:
                        self._urls.append(url)
                self._news.notify_all()

    def _order(self, words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n".encode())

    async def _until(self, true_of: Callable[[], bool], within: float = PATIENCE) -> None:
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(true_of)

    def arm(self, point: str, nth: int = 1) -> None:
        """From now on the daemon ends at the `nth` arrival there."""
        self._number += 1
        self._armed.write_bytes(f"{point} {nth} {self._number}".ljust(100).encode())

    def disarm(self) -> None:
        self.arm("-")

    async def start(self, data: Path) -> Life:
        """Started, and perhaps not listening yet."""
        self._urls.clear()
        self._order(f"start {data}")
        await self._until(lambda: bool(self._started))
        pid = self._started.pop()
        self._pids.add(pid)
        return Life(self, data, pid)

    async def url(self, pid: int) -> str:
        """Where it listens; nothing when it ended before it said so."""
        self._ask_for(pid)
        await self._until(lambda: bool(self._urls) or pid in self._statuses)
        return self._urls.pop() if self._urls else ""

    async def ended(self, pid: int, within: float) -> int | None:
        self._ask_for(pid)
        with suppress(TimeoutError):
            await self._until(lambda: pid in self._statuses, within)
        return self._statuses.get(pid)

    def _ask_for(self, pid: int) -> None:
        if pid not in self._asked:
            self._asked.add(pid)
            self._order(f"wait {pid}")

    async def close(self) -> None:
        """Ends what still runs."""
        for pid in self._pids - self._statuses.keys():
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[Host]:
    """A place to start daemons from."""
    config, armed, log = folder / "config" / "config.toml", folder / "armed", folder / "stderr"
    config.parent.mkdir()
    config.touch()
    armed.write_bytes(b"- 1 0".ljust(100))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(TOOL),
            str(config),
            str(armed),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**env, "PALAVER_DISCOVER": "0", "PYTHONUNBUFFERED": "1"},
        )
    host = Host(process, armed, log)
    try:
        yield host
    finally:
        await host.close()


class Follower:
    """A reader of one session that remembers where it was, and what it had when the daemon died."""

    def __init__(self, session_id: str, *, tail: bool) -> None:
        self.session_id = session_id
        self.tail = tail
        self.lines: list[bytes] = []
        self.shown = Transcript()
        self.caught_up = -1
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, life: Life) -> None:
        """Go on from the cursor, with this daemon."""
        drop_provisional(self.shown)
        self.caught_up = -1
        self._task = asyncio.ensure_future(self._follow(life))

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def over(self) -> None:
        """Returns when the stream has broken off, with all that came before."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=PATIENCE)

    async def until(self, true_of: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true_of():
                self._news.clear()
                await self._news.wait()

    async def is_at(self, seq: int) -> None:
        await self.until(lambda: self.caught_up >= seq)

    async def _follow(self, life: Life) -> None:
        query = f"after={len(self.lines)}" + ("&tail=1" if self.tail else "")
        held = b""
        with suppress(httpx2.TransportError):
            async with life.client.stream("GET", f"/v1/sessions/{self.session_id}/events?{query}") as stream:
                assert stream.status_code == 200, (self.session_id, len(self.lines), await stream.aread())
                async for chunk in stream.aiter_raw():
                    *blocks, held = (held + chunk).split(b"\n\n")
                    for block in blocks:
                        self._take(block)
                    self._news.set()

    def _take(self, block: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and not line.startswith(b":"))
        data = fields.get(b"data", b"")
        if b"event" in fields:
            if fields[b"event"] == b"caught_up":
                self.caught_up = json.loads(data)["data"]["seq"]
        elif b"id" in fields:
            assert int(fields[b"id"]) == len(self.lines) + 1, "each logged event comes once, in order"
            self.lines.append(data)
            show(self.shown, decode_event(data))
        elif data:
            show_tail(self.shown, decode_event(data))
