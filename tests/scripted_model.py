"""A model server that says what a test tells it to: Chat Completions over real HTTP, one step of the script for each request.

In a test: `async with ScriptedModel([text("Hello"), calls(("shell", {"command": "ls"})), text("Done")]) as server`, then
`server.url` as the base_url. Steps add up: `thinking("hm") + text("yes")` is one answer. On its own, for processes and benches:
`python tests/scripted_model.py --port 0 --script file.json` prints its url and serves until it is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

DEADLINE_S = 10.0
"""How long a test waits for what it expects of the server."""
_BLOCK = 64 * 1024


class Release:
    """Opened by the test: a step that stalls at it goes on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def open(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


@dataclass(frozen=True)
class Step:
    """What one request gets. A frame is one HTTP chunk, or a place where the server waits or drops the connection."""

    frames: tuple[bytes | Release | None, ...] = ()
    """`None` drops the connection there."""
    finish: str | None = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
    done: bool = True
    ends: bool = True
    """False: the response stays open after its last frame until the client goes."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    pace_s: float = 0.0
    """A wait after each frame; at 0 frames are written in large blocks, each still a chunk of its own."""

    def __add__(self, other: Step) -> Step:
        finish = "tool_calls" if "tool_calls" in (self.finish, other.finish) else other.finish
        return replace(other, frames=self.frames + other.frames, finish=finish)

    def dropped_after(self, frames: int) -> Step:
        """The connection breaks after so many pieces."""
        return replace(self, frames=(*self.frames[:frames], None))

    def stalled_after(self, frames: int, release: Release) -> Step:
        """Nothing comes after so many pieces until the test opens `release`."""
        return replace(self, frames=(*self.frames[:frames], release, *self.frames[frames:]))

    def paced(self, seconds: float) -> Step:
        return replace(self, pace_s=seconds)

    def payload(self) -> Iterable[bytes | Release | None]:
        """Every frame with what comes at the end of an answer."""
        yield from self.frames
        if self.finish is not None:
            yield sse(chunk({}, finish_reason=self.finish))
        if self.usage is not None:
            yield sse({**chunk({}), "choices": [], "usage": self.usage})
        if self.done:
            yield b"data: [DONE]\n\n"


# --- steps --------------------------------------------------------------------------------------------------------------------


def text(*pieces: str) -> Step:
    return Step(tuple(sse(chunk({"content": piece})) for piece in pieces))


def thinking(*pieces: str, name: str = "reasoning_content") -> Step:
    """`name` is the field that carries it: reasoning_content, reasoning, or reasoning_details."""
    if name == "reasoning_details":
        deltas: list[dict[str, Any]] = [{name: [{"type": "reasoning.text", "text": piece, "index": 0}]} for piece in pieces]
    else:
        deltas = [{name: piece} for piece in pieces]
    return Step(tuple(sse(chunk(delta)) for delta in deltas))


def calls(*wanted: tuple[str, dict[str, Any] | str], split: int = 12) -> Step:
    """Tool calls as (name, arguments); arguments given as text are sent as they are. Arguments come `split` characters a piece."""
    frames: list[bytes] = []
    for index, (name, arguments) in enumerate(wanted):
        words = arguments if isinstance(arguments, str) else json.dumps(arguments)
        head = {"index": index, "id": f"call_{index}_{name}", "type": "function", "function": {"name": name, "arguments": ""}}
        frames.append(sse(chunk({"tool_calls": [head]})))
        for start in range(0, len(words), split):
            piece = {"index": index, "function": {"arguments": words[start : start + split]}}
            frames.append(sse(chunk({"tool_calls": [piece]})))
    return Step(tuple(frames), finish="tool_calls")


def bad_tool_json(name: str = "shell") -> Step:
    return calls((name, '{"command": "ls", '))


def status(code: int, *, retry_after: float | str | None = None, message: str = "the script says so") -> Step:
    headers = () if retry_after is None else (("retry-after", str(retry_after)),)
    return Step(status=code, headers=headers, body=json.dumps({"error": {"message": message, "code": code}}).encode())


def raw(*chunks: bytes, ends: bool = True) -> Step:
    """Bytes as they are, one HTTP chunk each, with no end added."""
    return Step(chunks, finish=None, usage=None, done=False, ends=ends)


def malformed(before: str = "") -> Step:
    return (text(before) if before else Step()) + raw(b'data: {"choices": [{"delta": \n\n')


def split_surrogate_pair() -> Step:
    """U+1F600, its two halves in two deltas."""
    return Step((_half("\\ud83d"), _half("\\ude00")))


def lone_surrogate() -> Step:
    return Step((_half("a\\ud83d"), _half("b")))


def error_in_stream(message: str = "the model fell over", code: int | str = 502, before: str = "") -> Step:
    broken = sse({"error": {"message": message, "code": code}})
    return (text(before) if before else Step()) + raw(broken)


def burst(count: int = 20_000, word: str = "word ") -> Step:
    """So many deltas, one HTTP chunk each, as fast as the socket takes them."""
    return Step((sse(chunk({"content": word})),) * count)


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def sse(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _half(escaped: str) -> bytes:
    return sse(chunk({"content": "HERE"})).replace(b"HERE", escaped.encode())


# --- the server ---------------------------------------------------------------------------------------------------------------

Respond = Callable[[dict[str, Any]], Step]


class ScriptedModel:
    """`script` is a list of steps, or a function from the request's body to its step. Use as an async context manager."""

    def __init__(self, script: Sequence[Step] | Respond, *, loop: bool = False, port: int = 0) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        """The bodies received, in order."""
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self._respond = script if callable(script) else _in_order(script, loop)
        self._port = port
        self._exchanges: list[_Exchange] = []
        self._changed = asyncio.Condition()
        self._open: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", self._port)
        self._server = server
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for connection in list(self._open):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        failures = await asyncio.gather(*self._tasks, return_exceptions=True)
        for failure in failures:
            if isinstance(failure, Exception) and error is None:
                raise failure

    async def received(self, count: int) -> None:
        """Wait until so many requests have come."""
        await self._until(lambda: len(self.requests) >= count)

    async def disconnected(self, index: int) -> None:
        """Wait until the client of that request is gone before its answer was whole."""
        await self._until(lambda: len(self._exchanges) > index and self._exchanges[index].cut_by_client)

    async def answered(self, index: int) -> None:
        """Wait until the whole answer to that request is written."""
        await self._until(lambda: len(self._exchanges) > index and self._exchanges[index].whole)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(condition)

    # called by connections

    def opened(self, connection: _Connection) -> None:
        self.connections += 1
        self._open.add(connection)

    def closed(self, connection: _Connection) -> None:
        self._open.discard(connection)
        self.start(self.tell())

    def start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def answer(self, connection: _Connection, line: bytes, headers: dict[str, str], body: bytes) -> None:
        method, path, _ = line.decode("latin-1").split(" ", 2)
        if method == "POST" and path.endswith("/chat/completions"):
            exchange = _Exchange()
            self.requests.append(json.loads(body))
            self.headers.append(headers)
            self._exchanges.append(exchange)
            await self.tell()
            await connection.play(self._respond(self.requests[-1]), exchange)
        elif method == "GET" and path.endswith("/models"):
            await connection.play(Step(status=200, body=b'{"object":"list","data":[{"id":"scripted","object":"model"}]}'), _Exchange())
        else:
            await connection.play(status(404, message=f"no route {method} {path}"), _Exchange())
        await self.tell()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)  # one that failed stays, and is raised at the end


class _Exchange:
    def __init__(self) -> None:
        self.whole = False
        self.cut_by_client = False


class _Connection(asyncio.Protocol):
    """One client connection: requests with a length in, chunked responses out, kept alive."""

    def __init__(self, server: ScriptedModel) -> None:
        self._server = server
        self._buffer = bytearray()
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        self._writable.set()
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        line, *fields = bytes(self._buffer[:end]).split(b"\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (item.decode("latin-1").partition(":") for item in fields)}
        length = int(headers.get("content-length", "0"))
        if len(self._buffer) >= end + 4 + length:
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._server.start(self._server.answer(self, line, headers, body))

    def abort(self) -> None:
        self._aborted = True
        self._transport.abort()

    async def play(self, step: Step, exchange: _Exchange) -> None:
        """Write one response; stops at once when the client goes, and says so in `exchange`."""
        await (self._play_stream(step) if not step.body and step.status == 200 else self._play_body(step))
        exchange.cut_by_client = self._gone.is_set() and not self._aborted
        exchange.whole = not self._gone.is_set()

    async def _play_body(self, step: Step) -> None:
        fields = [("content-type", "application/json"), *step.headers, ("content-length", str(len(step.body)))]
        await self._write(_head(step.status, fields) + step.body)

    async def _play_stream(self, step: Step) -> None:
        fields = [("content-type", "text/event-stream; charset=utf-8"), *step.headers, ("transfer-encoding", "chunked")]
        block = bytearray(_head(200, fields))
        for frame in step.payload():
            if isinstance(frame, bytes):
                block += b"%x\r\n%b\r\n" % (len(frame), frame)
                if step.pace_s == 0 and len(block) < _BLOCK:
                    continue
            await self._write(bytes(block))
            block.clear()
            if frame is None:
                return self._drop()
            if isinstance(frame, Release):
                await self._or_gone(frame.wait())
            elif step.pace_s:
                await self._or_gone(asyncio.sleep(step.pace_s))
            if self._gone.is_set():
                return
        await self._write(bytes(block) + (b"0\r\n\r\n" if step.ends else b""))
        if not step.ends:
            await self._gone.wait()

    def _drop(self) -> None:
        self._aborted = True
        self._transport.close()  # after what was written; the response has no end

    async def _write(self, data: bytes) -> None:
        if not self._gone.is_set() and data:
            self._transport.write(data)
            await self._writable.wait()

    async def _or_gone(self, work: Awaitable[None]) -> None:
        waits = [asyncio.ensure_future(work), asyncio.ensure_future(self._gone.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _head(code: int, fields: Iterable[tuple[str, str]]) -> bytes:
    return "".join([f"HTTP/1.1 {code} Scripted\r\n", *(f"{name}: {value}\r\n" for name, value in fields), "\r\n"]).encode("latin-1")


def _in_order(steps: Sequence[Step], loop: bool) -> Respond:
    """Each step once; then from the start again, or a refusal that no client tries again."""
    taken = 0

    def respond(body: dict[str, Any]) -> Step:
        nonlocal taken
        taken += 1
        if taken > len(steps) and not (loop and steps):
            return status(400, message=f"the script has {len(steps)} steps, and this is request {taken}")
        return steps[(taken - 1) % len(steps)]

    return respond


# --- on its own ---------------------------------------------------------------------------------------------------------------


def step_from_json(value: dict[str, Any]) -> Step:
    """A step in a script file: `{"thinking": [...], "text": [...], "calls": [{"name", "arguments"}], "pace_s": 0.02, …}`."""
    if "status" in value:
        return status(value["status"], retry_after=value.get("retry_after"))
    step = Step()
    if "thinking" in value:
        step += thinking(*value["thinking"])
    if "text" in value:
        step += text(*value["text"])
    if "burst" in value:
        step += burst(value["burst"])
    if value.get("split_surrogate_pair"):
        step += split_surrogate_pair()
    if "calls" in value:
        step += calls(*((call["name"], call["arguments"]) for call in value["calls"]))
    if value.get("malformed"):
        step += malformed()
    if "error" in value:
        step += error_in_stream(value["error"])
    if "stall_after" in value:
        step = step.stalled_after(value["stall_after"], Release())
    if "drop_after" in value:
        step = step.dropped_after(value["drop_after"])
    return step.paced(value.get("pace_s", 0.0))


async def _serve(port: int, script: str) -> None:
    with open(script, encoding="utf-8") as file:
        written = json.load(file)
    steps = [step_from_json(value) for value in written["steps"]]
    async with ScriptedModel(steps, loop=written.get("loop", False), port=port) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Serve Chat Completions from a script; prints the url to use as base_url.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", required=True, help='JSON: {"steps": [{"text": ["Hello"]}, {"status": 429}], "loop": false}')
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options.port, options.script))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(0)
