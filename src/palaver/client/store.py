"""A state that is replaced as a whole, and whoever wants to hear of it: what the primitives have in common."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from palaver.client.types import Unsubscribe

P = ParamSpec("P")
S = TypeVar("S")

_log = logging.getLogger("palaver.client")


class Listeners(Generic[P]):
    """Called in the order in which they came. One that raises is reported in the log and harms no other."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[P, object]] = {}

    def add(self, listener: Callable[P, object]) -> Unsubscribe:
        key = object()
        self._listeners[key] = listener
        return lambda: self._remove(key)

    def clear(self) -> None:
        self._listeners.clear()

    def call(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """One that is removed meanwhile is no longer called, one that is added is called from the next time on."""
        for key, listener in list(self._listeners.items()):
            if key in self._listeners:
                call_safely(listener, *args, **kwargs)

    def _remove(self, key: object) -> None:
        self._listeners.pop(key, None)


def call_safely(listener: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call what others wrote: its error is theirs to see, and stops nothing here."""
    try:
        listener(*args, **kwargs)
    except Exception:
        _log.exception("A listener raised; the others were called")


class Store(ABC, Generic[S]):
    """`state` is a snapshot: a new object after each change, and equal to what listeners are told of."""

    _snapshot: S

    def __init__(self) -> None:
        self._listeners: Listeners[[]] = Listeners()
        self._ends: list[Unsubscribe] = []

    @property
    def state(self) -> S:
        return self._snapshot

    def on_state_change(self, listener: Callable[[], object]) -> Unsubscribe:
        """Have `listener()` called after each change, until what this returns is called."""
        return self._listeners.add(listener)

    def destroy(self) -> None:
        """Hear no more, tell no more. A second time does nothing."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()
        self._listeners.clear()

    @abstractmethod
    def _take_snapshot(self) -> S:
        """The state as it is now."""

    def _changed(self) -> None:
        self._snapshot = self._take_snapshot()
        self._listeners.call()
