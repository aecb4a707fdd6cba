"""The client for programs with an event loop: the primitives take it, and their listeners run on that loop."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

from palaver.client.address import open_connection
from palaver.client.connect import Connection
from palaver.client.line import Line
from palaver.client.session import Seam
from palaver.client.types import Json, StreamEvent
from palaver.errors import Failed

LEAVING_S = 5.0
"""How long leaving waits for what was handed over."""

T = TypeVar("T")


class AsyncClient(Seam):
    """A daemon, for programs with an event loop: the primitives take it, and their listeners run on that loop."""

    def __init__(self, connection: Connection) -> None:
        self._line = Line(connection, self._deliver, self.broke)
        self._moved = asyncio.Event()
        super().__init__(self._line)

    @property
    def url(self) -> str:
        return self._line.connection.url

    async def request(self, method: str, path: str, body: Any = None, *, query: Json | None = None) -> Any:
        """Any route of the daemon: the decoded body of its answer. Raises `Refused` and `Failed` as they are answered."""
        return (await self._line.connection.request(method, path, body, query=query)).body

    async def new_session(self, workspace_path: str, **fields: Any) -> str:
        """The id of a new session that works in that folder; `fields` are those of `POST /v1/sessions`."""
        body = await self.request("POST", "/v1/sessions", {"workspace_path": workspace_path, **fields})
        return str(body["session_id"])

    async def approve(self, approval_id: str, action: str = "approve", **fields: Any) -> Json:
        body: Json = await self.request("POST", *approval(approval_id, action, fields))
        return body

    async def answer(self, question_id: str, answers: Json | None = None, **fields: Any) -> Json:
        """Answer a question: `{question id: {"selected": [label], "text"?, "value"?}}`, or `agent_decides=True`, or `declined=True`."""
        body: Json = await self.request("POST", *answer(question_id, answers, fields))
        return body

    async def search(self, query: str, *, session: str | None = None, limit: int = 20, cursor: str | None = None) -> Json:
        """What was said, in all sessions or in one: `{hits, next_cursor, complete}`, the newest first."""
        asked = {"q": query, "session": session, "limit": limit, "cursor": cursor}
        body: Json = await self.request("GET", "/v1/search", query=asked)
        return body

    async def export(self, session_id: str, format: str = "json") -> bytes:
        """The whole session as one file, `json` or `html`."""
        return await self._line.connection.fetch(f"/v1/sessions/{quote(session_id, safe='')}/export?format={quote(format)}")

    async def wait(self, until: Callable[[], T], timeout: float | None = None) -> T:
        """The first true value of `until`, which is asked after each thing that happens.

        Raises `TimeoutError`, and the first refusal of what was sent or followed.
        """
        async with asyncio.timeout(timeout):
            while True:
                self._moved.clear()
                if value := until():
                    return value
                self.raise_refusal()
                await self._moved.wait()

    async def events(self, session_id: str | None = None) -> AsyncGenerator[StreamEvent, None]:
        """What happens in a session, `session_restored` first, until `stream_failed`; or in all that are subscribed to."""
        arrived, ready = deque[StreamEvent](), asyncio.Event()

        def take(event: StreamEvent) -> None:
            arrived.append(event)
            ready.set()

        leave = self.listen(session_id, take)
        try:
            while True:
                while arrived:
                    event = arrived.popleft()
                    yield event
                    if session_id is not None and event["type"] == "stream_failed":
                        return
                ready.clear()
                await ready.wait()
        finally:
            leave()

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until all that was handed over is answered; raises the first refusal that nobody has heard of."""
        if not await self._line.drained(timeout):
            raise not_sent()
        self.raise_refusal()

    async def close(self) -> None:
        """Stop at once; what is still on its way may or may not arrive."""
        await self._line.close()

    def _deliver(self, call: Callable[[], object]) -> None:
        call()
        self._moved.set()


@asynccontextmanager
async def connected(url: str | None, token: str | None, data: str | None) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(await open_connection(url, token, data))
    try:
        try:
            yield client
        except Exception:
            await client._line.drained(LEAVING_S)
            raise
        await client.drain(LEAVING_S)
    finally:
        await client.close()


def approval(approval_id: str, action: str, fields: Json) -> tuple[str, Json]:
    """Where an answer to an approval goes, and what it says."""
    body = {"action": action, "client_answer_id": secrets.token_hex(12), **fields}
    return f"/v1/approvals/{quote(approval_id, safe='')}", body


def answer(question_id: str, answers: Json | None, fields: Json) -> tuple[str, Json]:
    body: Json = {"client_answer_id": secrets.token_hex(12), **fields}
    if answers is not None:
        body["answers"] = answers
    return f"/v1/questions/{quote(question_id, safe='')}", body


def not_sent() -> Failed:
    return Failed("not_sent", "The daemon did not answer in time, so not everything that was sent is known to have arrived. Look there.")
