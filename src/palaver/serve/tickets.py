"""Tickets: what an EventSource carries in its URL, since it cannot send a header.

A ticket opens one event route within 30 s and opens the same one again until 5 min after its last stream ended, because EventSource
reconnects to the same URL by itself. It counts only while its token does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from palaver.serve.tokens import Identity

OPEN_WITHIN = 30.0
REOPEN_WITHIN = 300.0


@dataclass
class _Ticket:
    by: Identity
    expires: float
    path: str | None = None
    """The route that it opened; from then on the only one."""
    streams: int = 0


class Tickets:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}

    def mint(self, by: Identity) -> tuple[str, float]:
        """A ticket and when it must have been used."""
        now = self._clock()
        self._tickets = {key: ticket for key, ticket in self._tickets.items() if ticket.streams or ticket.expires > now}
        secret = secrets.token_urlsafe(24)
        self._tickets[_hash(secret)] = _Ticket(by, now + OPEN_WITHIN)
        return secret, now + OPEN_WITHIN

    def identity(self, secret: str, path: str) -> Identity | None:
        """Whose ticket it is, if it may open this path now. The first path that it opens is the only one that it opens."""
        ticket = self._tickets.get(_hash(secret))
        if ticket is None or ticket.path not in (None, path):
            return None
        if not ticket.streams and ticket.expires <= self._clock():
            return None
        ticket.path = path
        return ticket.by

    @contextmanager
    def streaming(self, secret: str | None) -> Iterator[None]:
        """The time in which a stream that this ticket opened is open."""
        ticket = None if secret is None else self._tickets.get(_hash(secret))
        if ticket is None:
            yield
            return
        ticket.streams += 1
        try:
            yield
        finally:
            ticket.streams -= 1
            ticket.expires = self._clock() + REOPEN_WITHIN


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
