"""A whole daemon and its clients, for tests from end to end: in the test's own event loop, or as a process of its own.

`async with palaver(tmp_path) as here, here.chat() as chat` is a daemon with the demo model at full speed and a session that is watched;
`chat.say(…)` sends, `chat.ended(…)` waits. What a `Reader` has got it folds, as a client does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from palaver.daemon import Daemon as Built
from palaver.daemon import build
from palaver.engine.keeping import IDLE_S
from palaver.log.disk import Disk
from palaver.log.folders import DataFolder
from palaver.models.discover import SERVICES, Service
from palaver.settings import load
from palaver.views.session import listed
from palaver.views.transcript import Page, Transcript, drop_provisional, show, show_tail, to_page
from palaver.wire.codec import decode_event
from serving import Answer, Frame, Stream, exchange, serving, streaming

Json = dict[str, Any]
T = TypeVar("T")
DEADLINE_S = 20.0
"""How long a test waits for what it expects."""


async def until(condition: Callable[[], T], what: str = "", deadline_s: float = DEADLINE_S) -> T:
    """The first true value of `condition`. Raises `AssertionError` with `what` when the deadline passes."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while not (value := condition()):
        assert loop.time() < end, what or "it did not happen in time"
        await asyncio.sleep(0.004)
    return value


def fold(events: list[Json], start: Transcript | None = None) -> Transcript:
    """What a client shows after these logged events."""
    transcript = start or Transcript()
    for event in events:
        show(transcript, decode_event(msgspec.json.encode(event)))
    return transcript


def page_of(transcript: Transcript) -> Page:
    page: Page = json.loads(msgspec.json.encode(to_page(transcript)))
    return page


def row_of(session: Json) -> Json:
    """A session as the list shows it."""
    return listed(session)


def texts(message: Mapping[str, Any], kind: str = "text") -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part["type"] == kind)


def process_is_there(pid: int) -> bool:
    """Whether it runs; one that has ended and waits to be noticed does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # where there is no /proc, the kill has said it


# --- clients ------------------------------------------------------------------------------------------------------------------


class Client:
    """Whoever speaks to a daemon over HTTP."""

    def __init__(self, port: int, token: str | None, folder: Path) -> None:
        self.port = port
        self.token = token
        self.folder = folder
        self.data = folder / "data"
        self.workspace = folder / "work"

    def sign(self, token: str = "") -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}"} if token or self.token else {}

    async def answer(
        self, method: str, path: str, body: Any = None, *, token: str = "", headers: Mapping[str, str] | None = None, raw: bytes = b""
    ) -> Answer:
        """`raw` goes out as it is, with the headers that are given."""
        content = raw if body is None else json.dumps(body).encode()
        lines = {"Host": f"127.0.0.1:{self.port}", **self.sign(token)}
        if body is not None:
            lines["Content-Type"] = "application/json"
        if content:
            lines["Content-Length"] = str(len(content))
        return await exchange(self.port, method, path, list({**lines, **(headers or {})}.items()), content)

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The decoded answer to a request that is not refused."""
        answer = await self.answer(method, path, body, **options)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    async def new_session(self, **fields: Any) -> str:
        created = await self.ask("POST", "/v1/sessions", {"workspace_path": str(self.workspace), **fields})
        return str(created["session_id"])

    @asynccontextmanager
    async def chat(self, session_id: str | None = None, **fields: Any) -> AsyncIterator[Chat]:
        """A session, a new one unless its id is given, and somebody who watches it meanwhile."""
        id = session_id or await self.new_session(**fields)
        async with Reader(self, id) as reader:
            yield Chat(self, id, reader)

    def reader(self, session_id: str, **options: Any) -> Reader:
        return Reader(self, session_id, **options)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[Stream]:
        async with streaming(self.port, path, token=self.token, headers=headers) as stream:
            yield stream

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[ClientConnection]:
        """A WebSocket that is let in."""
        async with connect(f"ws://127.0.0.1:{self.port}/v1/ws", additional_headers=self.sign(), max_size=None) as ws:
            assert json.loads(await ws.recv())["op"] == "ready"
            yield ws

    def lines(self, session_id: str) -> list[bytes]:
        """The log as it is on disk."""
        return (self.data / "sessions" / session_id / "events.ndjson").read_bytes().splitlines(keepends=True)

    async def inbox(self) -> list[Json]:
        items: list[Json] = (await self.ask("GET", "/v1/inbox"))["items"]
        return items


class Reader:
    """One client of a session's stream: keeps what it gets and folds it."""

    def __init__(
        self, client: Client, session_id: str, *, after: int = 0, tail: bool = False, transcript: Transcript | None = None
    ) -> None:
        self.client, self.session_id = client, session_id
        self.after, self.tail = after, tail
        self.transcript = transcript or Transcript()
        self.events: list[Json] = []
        self.pieces: list[Json] = []
        self.controls: list[Frame] = []
        self.status = 0
        self.over = False
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        await self.until(lambda: self.status)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        path = f"/v1/sessions/{self.session_id}/events?after={self.after}" + ("&tail=1" if self.tail else "")
        try:
            async with self.client.stream(path) as stream:
                self.status = stream.status
                self._changed.set()
                while (frame := await _patiently(stream)) is not None:
                    self.take(frame)
        finally:
            self.over = True
            self._changed.set()

    def take(self, frame: Frame) -> None:
        if frame.event != "message":
            self.controls.append(frame)
            if frame.event == "hello":
                drop_provisional(self.transcript)
        elif "seq" not in frame.data:
            self.pieces.append(frame.data)
            show_tail(self.transcript, decode_event(msgspec.json.encode(frame.data)))
        else:
            self.events.append(frame.data)
            show(self.transcript, decode_event(msgspec.json.encode(frame.data)))
            self.after = frame.data["seq"]
        self._changed.set()

    async def until(self, condition: Callable[[], T]) -> T:
        """The first true value; looks again at every frame."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (value := condition()):
                    assert not (self.over and not condition()), f"the stream is over: {self.told()}"
                    self._changed.clear()
                    await self._changed.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"it did not happen; what did: {self.told()}") from None

    async def reached(self, seq: int) -> None:
        await self.until(lambda: self.after >= seq)

    def of(self, *types: str) -> list[Json]:
        return [event for event in self.events if event["type"] in types]

    def told(self) -> list[str]:
        return [event["type"] for event in self.events][-40:]

    def page(self) -> Page:
        return page_of(self.transcript)


async def _patiently(stream: Stream) -> Frame | None:
    """The next frame, however long it takes: who waits for something has a deadline of their own."""
    while True:
        try:
            return await stream.next()
        except TimeoutError:
            continue


class Chat:
    """A session, and a reader that sees what happens in it."""

    def __init__(self, client: Client, id: str, reader: Reader) -> None:
        self.client, self.id, self.reader = client, id, reader
        self.path = f"/v1/sessions/{id}"

    async def say(self, said: str | list[Json], **fields: Any) -> Json:
        parts = [{"type": "text", "text": said}] if isinstance(said, str) else said
        reply: Json = await self.post("messages", {"role": "user", "parts": parts, **fields})
        return reply

    async def post(self, path: str, body: Any = None) -> Any:
        return await self.client.ask("POST", f"{self.path}/{path}", {} if body is None else body)

    async def get(self, path: str = "") -> Any:
        return await self.client.ask("GET", f"{self.path}/{path}".rstrip("/"))

    async def refused(self, method: str, path: str, body: Any = None) -> Answer:
        answer = await self.client.answer(method, path if path.startswith("/v1") else f"{self.path}/{path}".rstrip("/"), body)
        assert answer.status >= 400, answer.body
        return answer

    async def log(self) -> list[Json]:
        """Every event so far, over HTTP."""
        found: list[Json] = []
        while True:
            page = await self.get(f"events?format=json&limit=10000&after={len(found)}")
            found += page["events"]
            if len(found) >= page["head_seq"]:
                return found

    async def transcript(self) -> Json:
        page: Json = await self.get("transcript?limit=1000")
        return page

    # --- waiting --------------------------------------------------------------------------------------------------------------

    async def happens(self, type: str, count: int = 1, **data: Any) -> Json:
        """The `count`th event of that type whose data has these values."""

        def found() -> Json | None:
            hits = [one for one in self.reader.of(type) if all(one["data"].get(name) == value for name, value in data.items())]
            return hits[count - 1] if len(hits) >= count else None

        event = await self.reader.until(found)
        assert event is not None
        return event

    async def ended(self, turn_id: str) -> Json:
        """The end of that turn."""
        ends = await self.reader.until(lambda: [one for one in self.of("turn_completed") if one["turn_id"] == turn_id])
        data: Json = ends[0]["data"]
        return data

    async def runs(self, said: str | list[Json], **fields: Any) -> Json:
        """Say it and wait for the end of its turn."""
        return await self.ended((await self.say(said, **fields))["turn_id"])

    async def asks(self, count: int = 1) -> list[Json]:
        """The inbox's items of this session, once there are so many."""
        await self.reader.until(lambda: len(self.open_asks()) >= count)
        return [item for item in await self.client.inbox() if item["session_id"] == self.id]

    def open_asks(self) -> list[str]:
        asked = [one["data"].get("approval_id") or one["data"]["question_id"] for one in self.of("approval_requested", "question_asked")]
        settled = self.of("approval_granted", "approval_denied", "question_answered")
        answered = {one["data"].get("approval_id") or one["data"]["question_id"] for one in settled}
        return [id for id in asked if id not in answered]

    async def idle(self) -> None:
        """Every turn that has begun has ended."""
        await self.reader.until(lambda: self.of("turn_started") and len(self.of("turn_started")) == len(self.of("turn_completed")))

    # --- looking --------------------------------------------------------------------------------------------------------------

    def of(self, *types: str) -> list[Json]:
        return self.reader.of(*types)

    def turn(self, turn_id: str) -> list[str]:
        return [event["type"] for event in self.reader.events if event["turn_id"] == turn_id]

    def result(self, call_id: str) -> Json:
        """The one result of a call."""
        [found] = [one["data"]["tool_result"] for one in self.of("tool_call_completed") if one["data"]["tool_call"]["id"] == call_id]
        result: Json = found
        return result

    def answers(self) -> list[str]:
        return [texts(one["data"]["message"]) for one in self.of("model_output_completed")]

    async def check(self) -> list[Json]:
        """What must hold of every session at every moment; its log."""
        log = await self.log()
        await self.reader.reached(log[-1]["seq"])
        check_log(log)
        return log


def check_log(log: list[Json]) -> None:
    """Promise 2, numbers without a gap, and the turn of each event: whatever has ended, has ended once."""
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    for begin, end, name in (("turn_started", "turn_completed", "turn_id"), ("tool_call_started", "tool_call_completed", "tool_call")):
        begun = [_id(event, name) for event in log if event["type"] == begin]
        ended = [_id(event, name) for event in log if event["type"] == end]
        assert len(set(begun)) == len(begun), begin
        assert len(set(ended)) == len(ended), end
        assert set(ended) <= set(begun), end
    asked = [_ask(event) for event in log if event["type"] in ("approval_requested", "question_asked")]
    settled = [_ask(event) for event in log if event["type"] in ("approval_granted", "approval_denied", "question_answered")]
    assert len(set(settled)) == len(settled)
    assert set(settled) <= set(asked)


def check_ended(log: list[Json]) -> None:
    """The same of a session where nothing is open: everything that began has ended."""
    check_log(log)
    for begin, end in (("turn_started", "turn_completed"), ("tool_call_started", "tool_call_completed")):
        assert [event["type"] for event in log].count(begin) == [event["type"] for event in log].count(end), (begin, end)


def _id(event: Json, name: str) -> str:
    return str(event["turn_id"] if name == "turn_id" else event["data"]["tool_call"]["id"])


def _ask(event: Json) -> str:
    return str(event["data"].get("approval_id") or event["data"].get("question_id"))


# --- daemons ------------------------------------------------------------------------------------------------------------------


class Here(Client):
    """A daemon in the test's own event loop: everything but its process."""

    def __init__(self, built: Built, port: int, token: str, folder: Path) -> None:
        super().__init__(port, token, folder)
        self.built = built

    async def mint(self, scope: str) -> str:
        return str((await self.ask("POST", "/v1/tokens", {"scope": scope}))["token"])

    @property
    def in_memory(self) -> set[str]:
        return {session.id for session in self.built.sessions._in_memory()}


@asynccontextmanager
async def palaver(
    folder: Path,
    *,
    config: str = "",
    env: Mapping[str, str] | None = None,
    disk: Disk | None = None,
    idle_s: float = IDLE_S,
    pace_s: float = 0.0,
    services: Sequence[Service] = SERVICES,
    change: Callable[[Built], None] = lambda built: None,
    sandbox: bool = False,
    **front: Any,
) -> AsyncIterator[Here]:
    """A daemon on the folder, as often one after another as a test likes: what the last one left is what the next one finds.

    `sandbox`: commands are held, as they are for people; without it they may write where a test looks, under their own numbers.
    """
    settings = folder / "settings" / "config.toml"
    for place in (settings.parent, folder / "work"):
        place.mkdir(parents=True, exist_ok=True)
    settings.write_text(config)
    data = DataFolder(folder / "data", disk)
    data.prepare()
    lock = data.lock()
    assert lock is not None, "another daemon has this folder"
    known = {"PATH": os.environ["PATH"], "PALAVER_DISCOVER": "0", **(env or {})}
    values = load(str(settings), known, None if sandbox else {"sandbox.mode": "off"})
    built = build(values, data, env=known, disk=disk, idle_s=idle_s, demo_pace_s=pace_s, services=services)
    change(built)
    built.sessions.start()
    try:
        async with serving(data.root, built.hub, **front) as served:
            yield Here(built, served.port, served.token, folder)
    finally:
        await built.close()
        lock.release()


def scripted(url: str) -> dict[str, str]:
    """The environment in which the daemon asks a scripted model."""
    return {"PALAVER_MODEL": "scripted", "OPENAI_BASE_URL": url}


class Process(Client):
    """A daemon as a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, token: str | None, folder: Path) -> None:
        super().__init__(port, token, folder)
        self.process = process

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def end(self) -> str:
        """SIGTERM; what it wrote to stderr."""
        assert self.process.stderr is not None
        if self.process.returncode is None:
            self.process.terminate()
        said = await asyncio.wait_for(self.process.stderr.read(), 30)
        await asyncio.wait_for(self.process.wait(), 30)
        return said.decode()


@asynccontextmanager
async def palaver_process(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, config: str = "", umask: int = -1, sandbox: bool = False
) -> AsyncGenerator[Process, None]:
    """`palaver serve` on the folder; killed at the end of the block if the test has not ended it. `sandbox`: as of `palaver`."""
    settings = folder / "settings" / "config.toml"
    for place in (settings.parent, folder / "work"):
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
    settings.write_text(config if sandbox else f'{config}\n[sandbox]\nmode = "off"\n')
    settings.chmod(0o600)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PALAVER_", "OPENAI_"))}
    known = {**kept, "HOME": str(folder), "PALAVER_CONFIG": str(settings), "PALAVER_DISCOVER": "0", **(env or {})}
    data = folder / "data"
    command = (sys.executable, "-m", "palaver.cli.main", "serve", "--data", str(data), "--port", "0", *words)
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=known, stdin=none, stdout=pipe, stderr=pipe, umask=umask)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        assert line.startswith("http://127.0.0.1:"), (line, process.returncode)
        token = None if "--no-token" in words else (data / "token").read_text().strip()
        yield Process(process, int(line.rsplit(":", 1)[1]), token, folder)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
