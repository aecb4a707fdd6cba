"""What a person says while an agent works: at once, in its turn, or instead of what runs.

Without a durable queue the messages that wait are kept here. With one (`accessor.queue`) that queue is shown as it is and every change
goes there: two clients see the same, nothing is flushed from here, and what was removed does not run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from palaver.client.store import Store
from palaver.client.types import (
    ChatError,
    ClientSeam,
    ContentBlock,
    DurableQueue,
    ExecutionEndEvent,
    FlushMode,
    Message,
    MessageRefusedEvent,
    MessageSteeringState,
    QueueItem,
    SendInput,
    SteeringMode,
    StreamEvent,
    Text,
)

_STOPPED = frozenset(("error", "limit", "cancelled", "interrupted"))


def user_message(text: Text) -> Message:
    content: list[ContentBlock] = [{"type": "text", "text": text}] if isinstance(text, str) else list(text)
    return {"role": "user", "content": content}


def text_of(content: str | Sequence[ContentBlock]) -> str:
    """The words of a content, without what else is in it."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content if block["type"] == "text")


class MessageSteering(Store[MessageSteeringState]):
    """Mode `steer` sends at once; mode `queue` keeps what comes while an execution runs. `steer` and `queue` say it for one message.

    With `subscribe=False` somebody else feeds `process_event`, and calls `process_queue` when a durable queue changed.
    """

    def __init__(
        self,
        client: ClientSeam,
        *,
        session_id: str | None = None,
        mode: SteeringMode = "steer",
        flush_mode: FlushMode = "sequential",
        auto_flush: bool = True,
        subscribe: bool = True,
    ) -> None:
        super().__init__()
        self._client = client
        self._session_id = session_id
        self._accessor: Any = client.session(session_id) if session_id else None
        self._durable: DurableQueue | None = getattr(self._accessor, "queue", None)
        self._mode: SteeringMode = mode
        self._flush_mode = flush_mode
        self._auto_flush = auto_flush
        self._is_executing = False
        self._is_starting = False
        """Something was sent while idle, and its execution has not begun: in mode `queue` the next one waits already."""
        self._queue: list[QueueItem] = []
        self._items: tuple[QueueItem, ...] = ()
        """As the snapshot shows them."""
        self._sent: set[str] = set()
        self._error: ChatError | None = None
        self._acting = False
        self._snapshot = self._take_snapshot()
        if subscribe and self._accessor is not None:
            self._ends = [self._accessor.on_event(self.process_event), self._accessor.unsubscribe]
            if self._durable is not None:
                self._ends.append(self._durable.on_change(self.process_queue))
            self._accessor.subscribe()

    @property
    def queued(self) -> tuple[Message, ...]:
        return self._snapshot.queued

    @property
    def is_executing(self) -> bool:
        return self._snapshot.is_executing

    @property
    def mode(self) -> SteeringMode:
        return self._snapshot.mode

    @property
    def error(self) -> ChatError | None:
        return self._snapshot.error

    # --- what a person does -------------------------------------------------------------------------------------------------

    def submit(self, text: Text) -> bool:
        """Send it, or keep it where an execution runs and the mode says so. Whether it was sent."""
        if self._mode == "queue" and (self._is_executing or self._is_starting):
            self.queue(text)
            return False
        if self._durable is not None and self._mode == "queue":
            self._send([user_message(text)], delivery="queue")  # another client may have been quicker
        else:
            self._send([user_message(text)])
        self._forget_error()
        return True

    def steer(self, text: Text) -> None:
        """Send it, whatever the mode is."""
        self._send([user_message(text)])
        self._forget_error()

    def queue(self, text: Text) -> None:
        """Keep it. On a durable queue its turn begins by itself."""
        with self._one_change():
            if self._durable is None:
                self._queue.append({"id": None, "message": user_message(text), "paused": False})
            else:
                self._note_sent(self._durable.add(user_message(text)))

    def interrupt(self, text: Text) -> Awaitable[Any]:
        """Stop what runs and send this instead: both happen at once, what this returns can be awaited for the answer."""
        input: SendInput = {"messages": [user_message(text)]}
        handle = self._client.send(input) if self._accessor is None else self._accessor.interrupt(input)
        self._note_sent(handle)
        self._forget_error()
        return handle if inspect.isawaitable(handle) else _settled(handle)

    def flush(self) -> None:
        """Send what waits: the first message, or all of it in one piece. A durable queue is resumed, or its items steer what runs."""
        if self._items:
            with self._one_change():
                self._flush()

    def remove_queued(self, index: int) -> None:
        """Take out the message that stands at `index` of `queued`; out of range does nothing."""
        if 0 <= index < len(self._items):
            item = self._items[index]
            with self._one_change():
                if self._durable is None:
                    self._queue = [other for other in self._queue if other is not item]
                else:
                    self._durable.remove(item)

    def clear_queued(self) -> None:
        with self._one_change():
            if self._durable is None:
                self._queue = []
            else:
                self._durable.clear()

    def clear_kept(self) -> None:
        """Forget what is kept here alone; a durable queue is everybody's and stays."""
        if self._durable is None:
            self.clear_queued()

    def set_mode(self, mode: SteeringMode) -> None:
        with self._one_change():
            self._mode = mode

    # --- what happens -------------------------------------------------------------------------------------------------------

    def process_event(self, event: StreamEvent) -> None:
        """Take the next event; tells once if it is one that matters here."""
        if event["type"] == "execution_start":
            self._is_executing, self._is_starting = True, False
        elif event["type"] == "execution_end":
            self._is_executing = self._is_starting = False
            if self._auto_flush and self._durable is None and not _was_stopped(event):
                self._flush()
        elif event["type"] == "session_restored":
            self._is_executing, self._is_starting = event["executionId"] is not None, False
        elif event["type"] == "message_refused" and self._is_mine(event):
            self._is_starting = False
            self._error = ChatError(event["code"], event["message"], event["text"])
        else:
            return
        self._changed()

    def process_queue(self) -> bool:
        """Look at the durable queue again; whether it is another one than the state shows."""
        if self._acting or self._durable is None or tuple(self._durable.items) == self._items:
            return False
        self._changed()
        return True

    def _flush(self) -> None:
        if self._durable is not None:
            self._flush_durable(self._durable)
        elif self._queue:
            count = len(self._queue) if self._flush_mode == "batched" else 1
            self._send([item["message"] for item in self._queue[:count]])  # what could not be sent is still there
            self._queue = self._queue[count:]

    def _flush_durable(self, queue: DurableQueue) -> None:
        if self._flush_mode == "batched":
            for item in self._items:
                queue.promote(item)
        elif self._is_executing:
            queue.promote(self._items[0])
        else:
            queue.resume()

    def _send(self, messages: list[Message], **options: str) -> None:
        input: SendInput = {"messages": messages}
        if self._session_id:
            self._note_sent(self._client.send(input, session_id=self._session_id, **options))
        else:
            self._note_sent(self._client.send(input))
        self._is_starting = bool(self._session_id) and not self._is_executing

    def _note_sent(self, handle: object) -> None:
        if isinstance(id := getattr(handle, "client_message_id", None), str):
            self._sent.add(id)

    def _is_mine(self, event: MessageRefusedEvent) -> bool:
        """A refusal is told to all; it concerns whoever sent the text."""
        id = event.get("clientMessageId")
        return id is None or id in self._sent

    def _forget_error(self) -> None:
        """Whoever sends again has seen it."""
        if self._error is not None:
            self._error = None
            self._changed()

    @contextmanager
    def _one_change(self) -> Iterator[None]:
        """What a person does is told once, however many parts of a durable queue change."""
        self._error = None
        self._acting = True
        try:
            yield
        finally:
            self._acting = False
        self._changed()

    def _take_snapshot(self) -> MessageSteeringState:
        self._items = tuple(self._queue if self._durable is None else self._durable.items)
        queued = tuple(item["message"] for item in self._items)
        return MessageSteeringState(queued, self._is_executing, self._mode, self._error)


def _was_stopped(event: ExecutionEndEvent) -> bool:
    """Nobody wants the next message to be sent because the last one failed or was stopped."""
    return bool(event.get("aborted") or event.get("error")) or event.get("stopReason") in _STOPPED


async def _settled(value: Any) -> Any:
    return value
