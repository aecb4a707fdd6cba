"""A connection to one daemon: requests and answers, a session's events, and the proof of who listens.

Before a token goes over a new TCP connection, the daemon has to prove on that very connection that it knows the token: we ask
`GET /v1/health?token_id=ID&nonce=N`, where a token reads `ID.SECRET`, and expect

    proof = HMAC-SHA256(key = SHA-256(the whole token), message = N followed by the port in decimal), in lower-case hex.

So a program that took the port of a daemon that died learns no token. It works through httpx2's `trace` extension, which hands over
each new connection before a request is written to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from palaver.client.sse import FrameReader
from palaver.errors import Failed, PalaverError, Refused

if TYPE_CHECKING:
    import httpx2

_ANSWER_S = 60.0
_PROOF_S = 5.0
_SILENCE_S = 45.0
"""Of a stream: the daemon sends a comment every 15 s."""
_MAX_HEALTH = 64 * 1024


class Answer(NamedTuple):
    status: int
    body: Any


def proof(token: str, nonce: str, port: int) -> str:
    """What a daemon that knows `token` answers to `nonce` on `port`."""
    key = hashlib.sha256(token.encode()).digest()
    return hmac.new(key, f"{nonce}{port}".encode(), hashlib.sha256).hexdigest()


def check_url(url: str) -> str:
    """The address without a path. Raises `Refused("bad_url")` unless it is one that a daemon can have."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost") or parts.username or port is None:
        raise Refused(
            "bad_url",
            f"{url!r} is no address of a daemon: it reads http://127.0.0.1:PORT. "
            "For one on another machine, bring its port here first: ssh -L PORT:127.0.0.1:PORT HOST.",
        )
    return f"http://{parts.hostname}:{port}"


class Connection:
    """One daemon. Opens sockets as it needs them and keeps them; leave it with `async with`, or call `close`."""

    def __init__(self, url: str, token: str | None, *, nonce: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        self.url = check_url(url)
        self._token = token
        self._port = int(self.url.rsplit(":", 1)[1])
        self._nonce = nonce
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def request(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None) -> Answer:
        """Ask and get the decoded answer; a query's None values are left out.

        Raises `Refused` with the problem's code (its other members in `extra`, `status` among them), and `Failed` for a daemon that
        cannot be reached (`unreachable`) or that says the fault is its own (5xx).
        """
        content = None if body is None else msgspec.json.encode(body)
        status, data = await self._send(method, _with_query(path, query), content)
        return Answer(status, _decoded(data) if data else None)

    async def fetch(self, path: str) -> bytes:
        """The bytes of an attachment or an artifact."""
        return (await self._send("GET", path, None))[1]

    async def health(self) -> dict[str, Any]:
        """`GET /v1/health`, with the proof checked if there is a token; the token itself is not sent."""
        _, data = await self._send("GET", "/v1/health", None, token=False)
        body = _decoded(data)
        if not isinstance(body, dict) or body.get("ok") is not True:
            raise Failed("unreachable", f"What answers at {self.url} is no Palaver daemon. Check the address.")
        return body

    async def events(
        self,
        session_id: str,
        after: int = 0,
        tail: bool = False,
        *,
        patience_s: float = 30.0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Every envelope after `after`, each logged one once and in order, then whatever comes; control frames and the tail too.

        A stream that breaks is taken up again at the cursor, for `patience_s` without any; then `Failed("unreachable")`. A refusal
        ends it (410 for a cursor that the log does not have), and so does a log that was replaced: `Refused("log_replaced")`. After
        a `deleted` frame it returns.
        """
        epoch: Any = None
        loop = asyncio.get_running_loop()
        alive = loop.time()
        delay = 1.0
        while True:
            reader = FrameReader()
            try:
                async with aclosing(self._stream(f"/v1/sessions/{quote(session_id)}/events", after, tail)) as pieces:
                    async for piece in pieces:
                        alive = loop.time()
                        for frame in reader.feed(piece):
                            envelope = _decoded(frame.data)
                            kind, seq = envelope.get("type"), envelope.get("seq")
                            if seq is not None:
                                if seq <= after:
                                    continue
                                after = seq
                            elif kind == "hello":
                                epoch = _same_epoch(epoch, envelope.get("data", {}).get("epoch"))
                            yield envelope
                            if kind == "deleted":
                                return
            except Failed as error:
                if error.code in ("bad_stream", "bad_answer"):
                    raise
                if loop.time() - alive > patience_s:
                    raise Failed("unreachable", f"The daemon at {self.url} stayed away. Start it with `palaver serve`.") from error
            delay = reader.retry_s or delay
            await pause(delay)

    async def _stream(self, path: str, after: int, tail: bool) -> AsyncGenerator[bytes, None]:
        import httpx2

        query = {"after": after, "tail": 1 if tail else None}
        headers = {**self._headers(), "Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx2.Timeout(_SILENCE_S, connect=_PROOF_S)
        try:
            async with self._open().stream(
                "GET", self.url + _with_query(path, query), headers=headers, timeout=timeout, extensions={"trace": self._trace}
            ) as response:
                if response.status_code != 200:
                    raise problem(response.status_code, await response.aread())
                async for piece in response.aiter_raw():
                    yield piece
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    async def _send(self, method: str, path: str, content: bytes | None, *, token: bool = True) -> tuple[int, bytes]:
        import httpx2

        headers = self._headers() if token else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = await self._open().request(
                method, self.url + path, content=content, headers=headers, extensions={"trace": self._trace}
            )
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if response.status_code >= 400:
            raise problem(response.status_code, response.content)
        return response.status_code, response.content

    def _open(self) -> httpx2.AsyncClient:
        import httpx2

        if self._client is None:
            # trust_env would send what goes to our own machine through a proxy
            self._client = httpx2.AsyncClient(
                trust_env=False,
                timeout=httpx2.Timeout(_ANSWER_S, connect=_PROOF_S),
                headers={"Accept-Encoding": "identity", "User-Agent": "palaver"},
            )
        return self._client

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _unreachable(self, error: Exception) -> Failed:
        said = str(error) or type(error).__name__
        return Failed("unreachable", f"The daemon at {self.url} cannot be reached ({said}). Start it with `palaver serve`.")

    async def _trace(self, name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete" and self._token:
            await self._check_proof(info["return_value"], self._token)

    async def _check_proof(self, stream: Any, token: str) -> None:
        """Ask on a fresh connection; close it and raise `Refused("not_proven")` unless the answer is right."""
        nonce = self._nonce()
        query = urlencode({"token_id": token.partition(".")[0], "nonce": nonce})
        host = self.url.removeprefix("http://")
        try:
            await stream.write(f"GET /v1/health?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), timeout=_PROOF_S)
            body = await _health_body(stream)
            given = body.get("proof") if isinstance(body, dict) else None
            if not isinstance(given, str) or not hmac.compare_digest(given.encode(), proof(token, nonce, self._port).encode()):
                raise Refused(
                    "not_proven",
                    f"What listens at {self.url} does not know this token, so it was not sent. "
                    "Check the address, and that the token was not revoked.",
                )
        except BaseException:
            await stream.aclose()
            raise


def problem(status: int, data: bytes) -> PalaverError:
    """A problem document as the error that it is."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return Failed("bad_answer", f"The daemon answered {status} without saying why. Its log may say more.")
    message = str(body.get("detail") or body.get("title") or body["code"])
    if status >= 500:
        return Failed(body["code"], message)
    extra = {key: value for key, value in body.items() if key not in ("code", "detail", "message")}
    return Refused(body["code"], message, **{**extra, "status": status})


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Failed("bad_answer", f"The daemon's answer is no JSON ({error}). Check the address.") from error


def _with_query(path: str, query: Mapping[str, Any] | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _same_epoch(known: Any, epoch: Any) -> Any:
    if known is not None and epoch != known:
        raise Refused("log_replaced", "This session's log was replaced, so what was shown no longer holds. Attach again.")
    return epoch


async def _health_body(stream: Any) -> Any:
    """Read one answer of a known length from a bare connection, so that it can carry the next request; else None."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _more(stream, data)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length:[ \t]*(\d{1,6})[ \t]*\r?$", head)
    if not head.startswith(b"HTTP/1.1 200") or length is None or int(length[1]) > _MAX_HEALTH:
        return None
    while len(body) < int(length[1]):
        body += await _more(stream, body)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return None


async def _more(stream: Any, before: bytes) -> bytes:
    piece: bytes = await stream.read(_MAX_HEALTH, timeout=_PROOF_S)
    if not piece or len(before) > _MAX_HEALTH:
        raise Refused("not_proven", "What listens there did not prove that it is a Palaver daemon. Check the address.")
    return piece
