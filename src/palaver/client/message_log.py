"""The messages of a session, taken from the ends of its executions, with how long each tool took."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from types import MappingProxyType

from palaver.client.store import Store
from palaver.client.transforms import default_transform
from palaver.client.types import (
    ChatMessage,
    ClientSeam,
    ExecutionEndEvent,
    MessageLogState,
    MessageTransform,
    MessageTransformContext,
    SessionRestoredEvent,
    StreamEvent,
    TimelineEntry,
)

_FALLBACK = re.compile(r"msg-(\d+)")


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


class MessageLog(Store[MessageLogState]):
    """Messages accumulate at each `execution_end`. With `subscribe=False` somebody else feeds `process_event`.

    A message whose id came before (a retry reads it again, a restored turn goes on) takes its own place again.
    """

    def __init__(
        self,
        client: ClientSeam,
        *,
        session_id: str | None = None,
        initial_messages: Sequence[ChatMessage] = (),
        transform: MessageTransform | None = None,
        subscribe: bool = True,
        now: Callable[[], float] = milliseconds,
    ) -> None:
        super().__init__()
        self._messages = list(initial_messages)
        self._message_count = len(self._messages)
        """Of those that came from a timeline: where the next full one is cut."""
        self._has_initial = bool(self._messages)
        self._known = {message["id"] for message in self._messages}
        self._tool_timers: dict[str, float] = {}
        self._tool_durations: dict[str, float] = {}
        self._transform = transform or default_transform
        self._now = now
        self._snapshot = self._take_snapshot()
        if subscribe and session_id:
            accessor = client.session(session_id)
            self._ends = [accessor.on_event(self.process_event), accessor.unsubscribe]
            accessor.subscribe()

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        return self._snapshot.messages

    def process_event(self, event: StreamEvent) -> None:
        """Take the next event. Only `execution_end` and `session_restored` change the state, and each tells so once."""
        if event["type"] == "tool_call_start":
            self._tool_timers[event["callId"]] = self._now()
        elif event["type"] == "tool_result":
            self._end_timer(event["callId"], event.get("durationMs"))
        elif event["type"] == "execution_end":
            self._end_execution(event)
            self._changed()
        elif event["type"] == "session_restored" and not self._has_initial:
            self._restore(event)
            self._changed()

    def clear(self) -> None:
        self._messages = []
        self._message_count = 0
        self._known.clear()
        self._tool_timers.clear()
        self._tool_durations.clear()
        self._changed()

    def _end_timer(self, call_id: str, measured: float | None) -> None:
        """What was measured beside the tool is preferred to our clock, which also counts the way of the news."""
        begun = self._tool_timers.pop(call_id, None)
        if measured is not None:
            self._tool_durations[call_id] = measured
        elif begun is not None:
            self._tool_durations[call_id] = self._now() - begun

    def _end_execution(self, event: ExecutionEndEvent) -> None:
        if entries := event.get("newTimelineEntries"):
            self._add(entries)
        elif (timeline := (event.get("output") or {}).get("timeline")) is not None:
            self._append(self._transform(timeline, self._context())[self._message_count :])
        self._tool_timers.clear()
        self._tool_durations.clear()

    def _add(self, entries: Sequence[TimelineEntry]) -> None:
        ids = {id for entry in entries if (id := entry.get("message", {}).get("id"))}
        again, self._known = ids & self._known, self._known | ids
        places = {message["id"]: place for place, message in enumerate(self._messages)} if again else {}
        new = []
        for message in self._transform(entries, self._context()):
            if message["id"] in again and message["id"] in places:
                self._messages[places[message["id"]]] = message
            else:
                new.append(message)
        self._append(new)

    def _append(self, new: Sequence[ChatMessage]) -> None:
        self._messages = [*self._messages, *new]
        self._message_count += len(new)

    def _restore(self, event: SessionRestoredEvent) -> None:
        """A later one begins anew: the log that the messages came from is no longer there."""
        timeline = event.get("timeline")
        self._messages = []
        self._tool_timers.clear()
        self._tool_durations = dict(event.get("toolDurations", {}))
        self._messages = list(event["messages"] if timeline is None else self._transform(timeline, self._context()))
        self._message_count = len(self._messages)
        self._known = {message["id"] for message in event["messages"]}

    def _context(self) -> MessageTransformContext:
        return MessageTransformContext(MappingProxyType(dict(self._tool_durations)), self._first_fallback())

    def _first_fallback(self) -> int:
        taken = [int(match[1]) for message in self._messages if (match := _FALLBACK.fullmatch(message["id"]))]
        return max(taken, default=-1) + 1

    def _take_snapshot(self) -> MessageLogState:
        return MessageLogState(tuple(self._messages))
