"""The daemon's queue as one client sees it: what is there, and what is on its way there or away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from palaver.client.connect import Connection
from palaver.client.line import Done, Work
from palaver.client.store import Listeners
from palaver.client.timeline import message_of
from palaver.client.types import Json, Message, QueueItem, Unsubscribe
from palaver.errors import PalaverError


class Poster(Protocol):
    """What the queue needs of its session. Commands are done in the order in which they are given."""

    path: str

    def post(self, message: Message, delivery: str) -> Sent: ...
    def command(self, work: Work, done: Done) -> None: ...
    def refused(self, error: PalaverError) -> None: ...


class Sent(Protocol):
    """A message on its way."""

    client_message_id: str

    @property
    def item_id(self) -> str | None:
        """Where the daemon put it, once it answered; None if it waits nowhere."""


@dataclass
class _Adding:
    message: Message
    sent: Sent
    removed: bool = False


class MirroredQueue:
    """A `DurableQueue`. What is added shows at once and goes again if it is refused; what is removed is gone at once."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster
        self._items: list[Json] = []
        self._messages: dict[str, Json] = {}
        """Of the whole log, as the timeline has them too."""
        self._adding: dict[str, _Adding] = {}
        self._removing: set[str] = set()
        self._changes: Listeners[[]] = Listeners()
        self.paused = False

    @property
    def items(self) -> tuple[QueueItem, ...]:
        there = [self._shown(item) for item in self._items if item["id"] not in self._removing]
        return (*there, *(_coming(adding) for adding in self._adding.values() if not adding.removed))

    def on_change(self, listener: Callable[[], object]) -> Unsubscribe:
        return self._changes.add(listener)

    # --- what a person does -------------------------------------------------------------------------------------------------

    def add(self, message: Message) -> Sent:
        sent = self._poster.post(message, "queue")
        self._adding[sent.client_message_id] = _Adding(message, sent)
        self._changes.call()
        return sent

    def remove(self, item: QueueItem) -> None:
        """One that is gone or running already is no error."""
        self._hide(item, True)
        self._command("DELETE", item, "", lambda: self._hide(item, False))

    def clear(self) -> None:
        for item in self.items:
            self.remove(item)

    def resume(self) -> None:
        async def work(connection: Connection) -> None:
            await connection.request("POST", f"{self._poster.path}/queue/resume", {})

        self._poster.command(work, self._refused_unless_gone)

    def promote(self, item: QueueItem) -> None:
        """To the turn that runs, or to a turn of its own at once."""
        self._command("POST", item, "/promote", None)

    # --- what happens -------------------------------------------------------------------------------------------------------

    def take(self, envelope: Json) -> bool:
        """Fold the next logged event; whether it changed the queue."""
        data = envelope["data"]
        if envelope["type"] == "message_added":
            self._messages[data["message"]["id"]] = data["message"]  # a steer that is not read goes back to the queue
            return self._arrived(data["message"])
        if envelope["type"] != "queue_changed":
            return False
        self._items, self.paused = data["items"], data["paused"]
        for item in self._items:
            if "message" in item:
                self._messages[item["message_id"]] = item["message"]
                self._arrived(item["message"])
        self._removing &= {item["id"] for item in self._items}
        return True

    def withdraw(self, client_message_id: str) -> None:
        """What was on its way will not come, or did not stay. Tells nobody: `changed` does."""
        self._adding.pop(client_message_id, None)

    def changed(self) -> None:
        self._changes.call()

    def forget(self) -> None:
        """The log comes again from its beginning. What is on its way stays."""
        self._items, self._messages, self.paused = [], {}, False
        self._removing.clear()

    def _arrived(self, message: Json) -> bool:
        return self._adding.pop(message.get("client_message_id") or "", None) is not None

    def _shown(self, item: Json) -> QueueItem:
        return {"id": item["id"], "message": message_of(self._messages[item["message_id"]], {}), "paused": item["paused"]}

    def _hide(self, item: QueueItem, hidden: bool) -> None:
        if (adding := self._adding.get(item.get("clientMessageId", ""))) is not None:
            adding.removed = hidden
        elif item["id"] is not None and hidden:
            self._removing.add(item["id"])
        elif item["id"] is not None:
            self._removing.discard(item["id"])
        self._changes.call()

    def _command(self, method: str, item: QueueItem, what: str, undo: Callable[[], None] | None) -> None:
        adding = self._adding.get(item.get("clientMessageId", ""))

        async def work(connection: Connection) -> None:
            # one that was on its way has its id by now: commands are done in order
            id = item["id"] if adding is None else adding.sent.item_id
            if id is not None:
                await connection.request(method, f"{self._poster.path}/queue/{id}{what}", None if method == "DELETE" else {})

        def done(answer: object, error: PalaverError | None) -> None:
            if error is not None and getattr(error, "code", "") != "item_gone" and undo is not None:
                undo()
            self._refused_unless_gone(answer, error)

        self._poster.command(work, done)

    def _refused_unless_gone(self, answer: object, error: PalaverError | None) -> None:
        if error is not None and getattr(error, "code", "") != "item_gone":
            self._poster.refused(error)


def _coming(adding: _Adding) -> QueueItem:
    return {"id": None, "message": adding.message, "paused": False, "clientMessageId": adding.sent.client_message_id}
