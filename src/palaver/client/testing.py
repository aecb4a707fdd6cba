"""A client without a daemon, for tests of programs that use the primitives: it is told what happens, and keeps what was sent."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from palaver.client.store import Listeners
from palaver.client.types import (
    ConfirmationHandler,
    EventHandler,
    Json,
    Message,
    QueueItem,
    Respond,
    SendInput,
    StreamEvent,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    Unsubscribe,
)

F = TypeVar("F", bound=Callable[..., Any])


def make_event(type: str, **fields: Any) -> Any:
    """A stream event with all that every event has."""
    return {"type": type, "id": f"evt-{type}", "sequence": 1, "timestamp": "2026-01-01T00:00:00.000Z", **fields}


class MockHandle:
    """A message that arrived."""

    def __init__(self) -> None:
        self.reply: Json = {"message_id": "msg_mock", "turn_id": "turn_mock", "delivered": "started"}

    @property
    def result(self) -> MockHandle:
        return self

    def __await__(self) -> Generator[Any, None, Json]:
        yield from ()
        return self.reply


class MockQueue:
    """A durable queue in memory; `items` can be set, and `changed` called, as another client would."""

    def __init__(self) -> None:
        self.items: tuple[QueueItem, ...] = ()
        self.paused = False
        self.promoted: list[QueueItem] = []
        self.resumed = 0
        self._changes: Listeners[[]] = Listeners()
        self._number = 0

    def add(self, message: Message) -> MockHandle:
        self._number += 1
        self._set((*self.items, {"id": f"item_{self._number}", "message": message, "paused": False}))
        return MockHandle()

    def remove(self, item: QueueItem) -> None:
        self._set(tuple(other for other in self.items if other["id"] != item["id"]))

    def clear(self) -> None:
        self._set(())

    def resume(self) -> None:
        self.resumed += 1
        self.paused = False
        self._set(self.items[1:])

    def promote(self, item: QueueItem) -> None:
        self.promoted.append(item)
        self.remove(item)

    def on_change(self, listener: Callable[[], object]) -> Unsubscribe:
        return self._changes.add(listener)

    def changed(self) -> None:
        self._changes.call()

    def _set(self, items: tuple[QueueItem, ...]) -> None:
        self.items = items
        self.changed()


class MockAccessor:
    def __init__(self, session_id: str, fn: Callable[[Any], Any]) -> None:
        self.session_id = session_id
        self.subscriptions = 0
        self.interrupted: list[SendInput] = []
        self._events: Listeners[[StreamEvent]] = Listeners()
        self._confirmations: Listeners[[ToolConfirmationRequest, Respond]] = Listeners()
        self._canonical: Listeners[[Json]] = Listeners()
        self.subscribe = fn(self._subscribe)
        self.unsubscribe = fn(self._unsubscribe)
        self.interrupt = fn(self._interrupt)
        self.abort = fn(lambda: None)
        self.send = fn(lambda input: MockHandle())

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        return self._events.add(handler)

    def on_tool_confirmation(self, handler: ConfirmationHandler) -> Unsubscribe:
        return self._confirmations.add(handler)

    def on_canonical_event(self, handler: Callable[[Json], object]) -> Unsubscribe:
        return self._canonical.add(handler)

    def _subscribe(self) -> None:
        self.subscriptions += 1

    def _unsubscribe(self) -> None:
        self.subscriptions -= 1

    def _interrupt(self, input: SendInput) -> MockHandle:
        self.interrupted.append(input)
        return MockHandle()


class MockDurableAccessor(MockAccessor):
    """One whose client keeps the queue."""

    def __init__(self, session_id: str, fn: Callable[[Any], Any]) -> None:
        super().__init__(session_id, fn)
        self.queue = MockQueue()


class MockClient:
    """The seam that the primitives use. `sent` has what they sent, `answered` what was answered to confirmations without a `respond`."""

    def __init__(self, fn: Callable[[Any], Any], durable_queue: bool) -> None:
        self.sent: list[Json] = []
        self.answered: list[ToolConfirmationResponse] = []
        self._fn = fn
        self._accessors: dict[str, MockAccessor] = {}
        self._kind = MockDurableAccessor if durable_queue else MockAccessor
        self.send = fn(self._send)
        self.session = fn(self.get_accessor)

    def get_accessor(self, session_id: str) -> Any:
        if session_id not in self._accessors:
            self._accessors[session_id] = self._kind(session_id, self._fn)
        return self._accessors[session_id]

    def emit_session_event(self, session_id: str, event: Any) -> None:
        self.get_accessor(session_id)._events.call(event)

    def emit_canonical_event(self, session_id: str, envelope: Json) -> None:
        self.get_accessor(session_id)._canonical.call(envelope)

    def emit_tool_confirmation(self, session_id: str, request: ToolConfirmationRequest, respond: Respond | None = None) -> None:
        self.get_accessor(session_id)._confirmations.call(request, respond or self.answered.append)

    def _send(self, input: SendInput, *, session_id: str | None = None, **options: Any) -> MockHandle:
        self.sent.append({"input": input, "session_id": session_id, **options})
        return MockHandle()


def create_mock_client(fn: Callable[[Any], Any] | None = None, *, durable_queue: bool = False) -> MockClient:
    """`fn` wraps `send`, `session`, `abort`, `interrupt`, `subscribe` and `unsubscribe`, for spies: `lambda f: Mock(side_effect=f)`."""
    return MockClient(fn or (lambda function: function), durable_queue)
