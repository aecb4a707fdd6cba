"""What goes on in all sessions, for whoever shows a list of them: no events, but the newest state of what changed.

A watcher that is slow finds the newest state of each session when it looks again, and nothing in between: nobody waits for it. While
nobody watches, nothing is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.core.state import State
from palaver.engine.follow import Bell
from palaver.engine.session import Session
from palaver.views.session import inbox_item

EVERY_S = 0.25
"""Between two states of one session."""
LEFT_S = 5.0
"""After nobody looks at a session any more, its person is told of what happens there."""

Type = Literal["session_changed", "session_removed", "draft_changed", "notify"]
Kind = Literal["needs_you", "finished", "failed"]


class News(NamedTuple):
    type: Type
    session_id: str
    data: msgspec.Raw


@dataclass(frozen=True)
class Notice:
    """Something that a person wants to be told of, until they have seen it."""

    session: Session
    id: str
    kind: Kind
    seq: int
    text: str


class Watcher:
    """One socket: what it looks at, and what it has not been given yet."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._news: dict[str, News] = {}
        self._bell = Bell()
        self.watches = False
        self.notices = True
        """Whether it tells its person of what happens."""
        self.focus: str | None = None

    def look_at(self, session_id: str | None) -> None:
        before, self.focus = self.focus, session_id
        if before is not None and before != session_id:
            self._watch.looked_away(before)

    def put(self, key: str, news: News) -> None:
        """In place of what came before under this key."""
        if self.watches:
            self._news.pop(key, None)
            self._news[key] = news
            self._bell.ring()

    async def news(self) -> list[News]:
        """What came since the last time; waits until there is something."""
        while True:
            rings = self._bell.rings
            if self._news:
                news, self._news = list(self._news.values()), {}
                return news
            await self._bell.wait(rings)

    def leave(self) -> None:
        self._watch.leave(self)


class Watch:
    """All watchers. `read_seq` and `shown` say what is not in a session's state."""

    def __init__(
        self,
        shown: Callable[[Session], Mapping[str, Any]],
        read_seq: Callable[[str], int],
        *,
        every_s: float = EVERY_S,
        left_s: float = LEFT_S,
    ) -> None:
        self._shown, self._read_seq = shown, read_seq
        self._every_s, self.left_s = every_s, left_s
        self._watchers: set[Watcher] = set()
        self._resting: dict[str, Session | None] = {}
        """Sessions that were told of just now, and which of them changed since."""
        self._left: dict[str, asyncio.TimerHandle] = {}
        """Sessions that somebody looked at just now."""
        self._held: dict[str, dict[str, Notice]] = {}
        """What waits until nobody looks at the session."""

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def join(self) -> Watcher:
        watcher = Watcher(self)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        watcher.look_at(None)

    def changed(self, session: Session, first: int | None = None) -> None:
        """Its state is a new one; `first` is the number of the first event that made it so."""
        if not self._watchers:
            return
        if first is not None:
            for notice in _notices(session, first):
                self._held.setdefault(session.id, {})[notice.id] = notice
            self._tell_notices(session.id)
        if session.id in self._resting:
            self._resting[session.id] = session
        else:
            self._resting[session.id] = session
            asyncio.get_running_loop().call_soon(self._tell, session.id)  # what else becomes safe in this pass goes along

    def removed(self, session_id: str) -> None:
        self._held.pop(session_id, None)
        if session_id in self._resting:
            self._resting[session_id] = None
        self._put(session_id, News("session_removed", session_id, msgspec.Raw(msgspec.json.encode({"session_id": session_id}))))

    def draft(self, session_id: str, draft: Mapping[str, Any], client: str) -> None:
        data = msgspec.json.encode({"session_id": session_id, **draft, "client": client})
        self._put(f"draft {session_id}", News("draft_changed", session_id, msgspec.Raw(data)))

    def looked_away(self, session_id: str) -> None:
        """A watcher does not look at it any more."""
        if timer := self._left.pop(session_id, None):
            timer.cancel()
        if not self._looks(session_id):
            self._left[session_id] = asyncio.get_running_loop().call_later(self.left_s, self._is_left, session_id)

    def _put(self, key: str, news: News) -> None:
        for watcher in self._watchers:
            watcher.put(key, news)

    # --- states -------------------------------------------------------------------------------------------------------------

    def _tell(self, session_id: str) -> None:
        session = self._resting[session_id]
        if session is None or session.deleted or not self._watchers:
            del self._resting[session_id]
            return
        self._resting[session_id] = None
        data = msgspec.json.encode({"session": self._shown(session)})
        self._put(session_id, News("session_changed", session_id, msgspec.Raw(data)))
        asyncio.get_running_loop().call_later(self._every_s, self._tell, session_id)

    # --- notices ------------------------------------------------------------------------------------------------------------

    def _looks(self, session_id: str) -> bool:
        return any(watcher.focus == session_id for watcher in self._watchers)

    def _is_left(self, session_id: str) -> None:
        del self._left[session_id]
        self._tell_notices(session_id)

    def _tell_notices(self, session_id: str) -> None:
        """Tell what is held, unless somebody looks there or did just now; then it is tried again when they have gone."""
        if session_id not in self._held or session_id in self._left or self._looks(session_id):
            return
        for notice in self._held.pop(session_id).values():
            if not self._is_seen(notice):
                for watcher in self._watchers:
                    if watcher.notices:
                        watcher.put(notice.id, News("notify", session_id, _notify(notice)))

    def _is_seen(self, notice: Notice) -> bool:
        """It was answered, or read, or the agent went on: there is nothing to tell any more."""
        state = notice.session.safe
        if notice.kind == "needs_you":
            return notice.id not in state.asks
        return state.turn is not None or self._read_seq(notice.session.id) >= notice.seq


def _notices(session: Session, first: int) -> list[Notice]:
    """What the events from `first` on ask a person, or tell them."""
    state = session.safe
    notices = [
        Notice(session, ask.id, "needs_you", ask.seq, inbox_item(state, ask)["title"]) for ask in state.asks.values() if ask.seq >= first
    ]
    return [*notices, *_ended(session, state, first)]


def _ended(session: Session, state: State, first: int) -> list[Notice]:
    """The end of a turn after which nothing runs; that of a child is its parent's affair, a cancelled one its person's own doing."""
    last = state.last_turn
    if last is None or last.seq < first or last.outcome == "cancelled" or state.turn is not None or state.created.parent_session_id:
        return []
    if last.outcome == "completed":
        files = f"{last.files} files changed" if last.files > 1 else "1 file changed" if last.files else "Finished"
        return [Notice(session, last.id, "finished", last.seq, files)]
    return [Notice(session, last.id, "failed", last.seq, last.error.message if last.error else "Interrupted")]


def _notify(notice: Notice) -> msgspec.Raw:
    session = notice.session
    title = session.safe.created.title or "Untitled"
    data = {"id": notice.id, "kind": notice.kind, "session_id": session.id, "title": title, "text": notice.text}
    return msgspec.Raw(msgspec.json.encode(data))
