"""A session as a reader sees it, live: the daemon's page, folded on with every event by the fold that made the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from palaver.client.store import Store
from palaver.client.types import ChatError, ClientSeam, Json
from palaver.errors import Failed, PalaverError, Refused
from palaver.views import transcript as fold
from palaver.wire.codec import decode_event

FRAME_S = 1 / 60


@dataclass(frozen=True)
class TranscriptState:
    page: fold.Page | None
    """As `GET …/transcript` would answer; None until it is loaded."""
    provisional: dict[str, str]
    """Text in flight beyond the page, by `<message>/<part>` or `<call>/<stream>`."""
    error: ChatError | None = None
    """Why there is none."""


class Transcript(Store[TranscriptState]):
    """The newest `limit` entries and all that follow. Listeners are told at most once a frame; `flush` tells them at once."""

    def __init__(self, client: ClientSeam, *, session_id: str, limit: int = 100, frame_s: float = FRAME_S) -> None:
        super().__init__()
        self._limit = limit
        self._frame_s = frame_s
        self._fold: fold.Transcript | None = None
        self._early: list[Json] = []
        """What was logged while the page was on its way."""
        self._error: ChatError | None = None
        self._loads = 0
        self._is_stale = False
        self._snapshot = self._take_snapshot()
        self._accessor: Any = client.session(session_id)
        self._ends = [
            self._accessor.on_canonical_event(self.process_event),
            self._accessor.on_event(self._restored),
            self._accessor.unsubscribe,
        ]
        self._accessor.subscribe()

    @property
    def entries(self) -> list[fold.Entry]:
        page = self._snapshot.page
        return [] if page is None else page["entries"]

    def process_event(self, event: Json) -> None:
        """Take the next envelope, logged or not."""
        if self._fold is None:
            if "seq" in event:
                self._early.append(event)
            return
        if event["type"] == "hello":
            fold.drop_provisional(self._fold)
        elif "seq" not in event:
            fold.show_tail(self._fold, decode_event(msgspec.json.encode(event)))
        elif event["seq"] > self._fold.as_of_seq:
            fold.show(self._fold, decode_event(msgspec.json.encode(event)))
        self._touch()

    def flush(self) -> None:
        """Bring the state up to date now, and tell."""
        self._is_stale = False
        self._changed()

    def destroy(self) -> None:
        super().destroy()
        self._loads += 1  # what is still on its way comes to nobody

    def _restored(self, event: Any) -> None:
        """The session is read from here on: a page of now and the events after it leave nothing out."""
        if event["type"] == "session_restored":
            self._fold, self._early, self._loads = None, [], self._loads + 1
            load = self._loads
            self._accessor.get("/transcript", {"limit": self._limit}, lambda page, error: self._loaded(load, page, error))
        elif event["type"] == "stream_failed":
            self._error = ChatError(event["code"], event["message"], "")
            self._touch()

    def _loaded(self, load: int, page: Any, error: PalaverError | None) -> None:
        if load != self._loads:
            return
        if error is not None:
            code = error.code if isinstance(error, Refused | Failed) else "failed"
            self._error = ChatError(code, str(error), "")
        else:
            self._fold, self._error = fold.from_page(page), None
            early, self._early = self._early, []
            for event in early:
                self.process_event(event)
        self.flush()

    def _touch(self) -> None:
        if not self._is_stale:
            self._is_stale = True
            self._accessor.later(self._frame_s, self._frame)

    def _frame(self) -> None:
        if self._is_stale:
            self.flush()

    def _take_snapshot(self) -> TranscriptState:
        if self._fold is None:
            return TranscriptState(None, {}, self._error)
        provisional = {key: tail.text for key, tail in self._fold.tails.items()}
        page: fold.Page = msgspec.json.decode(msgspec.json.encode(fold.to_page(self._fold)))  # lists, as from the daemon
        return TranscriptState(page, provisional, self._error)
