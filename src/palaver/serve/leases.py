"""What stays open: streams and sockets, each of which ends with the token that opened it, or with the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LONGEST_WAIT = 86_400.0
"""A timer is set anew at least once a day: clocks of timers and of calendars drift apart, and tokens are renewed."""


@dataclass(eq=False)
class _Lease:
    token_id: str | None
    expires: Callable[[], float | None]
    end: Callable[[], None]
    timer: asyncio.TimerHandle | None = None


class Leases:
    """Knows everything that is open. `end` callbacks are called once, from the event loop, and must not wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: set[_Lease] = set()
        self.closing = False
        """The daemon is going away."""

    @contextmanager
    def hold(self, token_id: str | None, expires: Callable[[], float | None], end: Callable[[], None]) -> Iterator[None]:
        """Keep a stream for the time of the block. `expires` is asked again whenever the time seems to be over."""
        lease = _Lease(token_id, expires, end)
        self._open.add(lease)
        try:
            if self.closing:
                end()
            self._wait(lease)
            yield
        finally:
            self._drop(lease)

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def end_token(self, token_id: str) -> None:
        self._end(lambda lease: lease.token_id == token_id)

    def end_all(self) -> None:
        """Also for what is opened from now on: the daemon is going away."""
        self.closing = True
        self._end(lambda lease: True)

    def _end(self, chosen: Callable[[_Lease], bool]) -> None:
        for lease in [lease for lease in self._open if chosen(lease)]:
            self._drop(lease)
            lease.end()

    def _wait(self, lease: _Lease) -> None:
        expires = lease.expires()
        if expires is None:
            return
        left = expires - self._clock()
        if left <= 0:
            self._drop(lease)
            lease.end()
        else:
            lease.timer = asyncio.get_running_loop().call_later(min(left, _LONGEST_WAIT), self._wait, lease)

    def _drop(self, lease: _Lease) -> None:
        self._open.discard(lease)
        if lease.timer is not None:
            lease.timer.cancel()
