"""The same client for programs without an event loop.

What is sent goes out at once, on a thread of its own; what comes back waits until the caller asks for it in `wait`, `events` or
`close`, and only there listeners run, in the caller's thread. So a script needs no lock and no `await`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from palaver.client.address import open_connection
from palaver.client.async_client import LEAVING_S, answer, approval, not_sent
from palaver.client.connect import Connection
from palaver.client.line import Done, Follower, Line, Work, closed
from palaver.client.session import Seam
from palaver.client.types import Json, StreamEvent, Unsubscribe

T = TypeVar("T")


class _Thread:
    """A `Wire` whose line lives on the loop of another thread."""

    def __init__(self, arrived: queue.SimpleQueue[Callable[[], object]], broke: Callable[[BaseException], None]) -> None:
        self._arrived = arrived
        self._broke = broke
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="palaver-client", daemon=True)
        self._thread.start()

    def open(self, url: str | None, token: str | None, data: str | None) -> None:
        async def make() -> Line:
            return Line(await open_connection(url, token, data), self._arrived.put, self._broke)

        try:
            self._line = self.run(make())
        except BaseException:
            self._end()
            raise

    @property
    def connection(self) -> Connection:
        return self._line.connection

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done over there, and wait for it."""
        if self._loop.is_closed():
            work.close()
            raise closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def hand_over(self, key: str | None, work: Work, done: Done) -> None:
        self._check_open()
        self._loop.call_soon_threadsafe(self._line.hand_over, key, work, done)

    def follow(self, session_id: str, follower: Follower) -> Unsubscribe:
        self._check_open()
        stops: list[Unsubscribe] = []
        self._loop.call_soon_threadsafe(lambda: stops.append(self._line.follow(session_id, follower)))

        def stop() -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(lambda: stops.pop()())

        return stop

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        if delay_s > 0 and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._line.later, delay_s, call)
        else:
            self._arrived.put(call)

    def drained(self, timeout_s: float) -> bool:
        return self.run(self._line.drained(timeout_s))

    def close(self) -> None:
        self.run(self._line.close())
        self._end()

    def _check_open(self) -> None:
        if self._loop.is_closed():
            raise closed()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncClient(Seam):
    """A daemon, for one thread of a script. Leave it with `with`, or call `close`."""

    def __init__(self, url: str | None = None, token: str | None = None, data: str | None = None) -> None:
        self._arrived: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._thread = _Thread(self._arrived, self.broke)
        super().__init__(self._thread)
        self._thread.open(url, token, data)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._leave(LEAVING_S if isinstance(error, Exception) else 0)

    @property
    def url(self) -> str:
        return self._thread.connection.url

    def request(self, method: str, path: str, body: Any = None, *, query: Json | None = None) -> Any:
        """Any route of the daemon: the decoded body of its answer. Raises `Refused` and `Failed` as they are answered."""

        async def ask() -> Any:
            return (await self._thread.connection.request(method, path, body, query=query)).body

        return self._thread.run(ask())

    def new_session(self, workspace_path: str, **fields: Any) -> str:
        """The id of a new session that works in that folder; `fields` are those of `POST /v1/sessions`."""
        return str(self.request("POST", "/v1/sessions", {"workspace_path": workspace_path, **fields})["session_id"])

    def approve(self, approval_id: str, action: str = "approve", **fields: Any) -> Json:
        body: Json = self.request("POST", *approval(approval_id, action, fields))
        return body

    def answer(self, question_id: str, answers: Json | None = None, **fields: Any) -> Json:
        """Answer a question: `{question id: {"selected": [label], "text"?, "value"?}}`, or `agent_decides=True`, or `declined=True`."""
        body: Json = self.request("POST", *answer(question_id, answers, fields))
        return body

    def search(self, query: str, *, session: str | None = None, limit: int = 20, cursor: str | None = None) -> Json:
        """What was said, in all sessions or in one: `{hits, next_cursor, complete}`, the newest first."""
        asked = {"q": query, "session": session, "limit": limit, "cursor": cursor}
        body: Json = self.request("GET", "/v1/search", query=asked)
        return body

    def export(self, session_id: str, format: str = "json") -> bytes:
        """The whole session as one file, `json` or `html`."""
        return self._thread.run(self._thread.connection.fetch(f"/v1/sessions/{quote(session_id, safe='')}/export?format={quote(format)}"))

    def wait(self, until: Callable[[], T], timeout: float | None = None) -> T:
        """The first true value of `until`, which is asked after each thing that happens. Listeners run meanwhile.

        Raises `TimeoutError`, and the first refusal of what was sent or followed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not (value := until()):
            self.raise_refusal()
            try:
                call = self._arrived.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"It did not happen within {timeout} s.") from None
            call()
        return value

    def events(self, session_id: str | None = None) -> Iterator[StreamEvent]:
        """What happens in a session, `session_restored` first, until `stream_failed`; or in all that are subscribed to."""
        arrived = deque[StreamEvent]()
        leave = self.listen(session_id, arrived.append)
        try:
            while True:
                while not arrived:
                    self._arrived.get()()
                event = arrived.popleft()
                yield event
                if session_id is not None and event["type"] == "stream_failed":
                    return
        finally:
            leave()

    def close(self) -> None:
        """Wait, at most 5 s, for all that was handed over, and raise the first refusal that nobody has heard of."""
        if not self._leave(LEAVING_S):
            raise not_sent()
        self.raise_refusal()

    def _leave(self, patience_s: float) -> bool:
        if not self._is_open:
            return True
        self._is_open = False
        drained = self._thread.drained(patience_s)
        self._thread.close()
        while not self._arrived.empty():
            self._arrived.get()()
        return drained
