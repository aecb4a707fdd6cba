"""Who is asking: the token in a header, the ticket in a URL, or, where the daemon asks for neither, the user whose connection it is."""

from __future__ import annotations

from collections.abc import Callable

from palaver.engine.actor import EVERYONE, Actor
from palaver.errors import Refused
from palaver.serve.codes import Codes
from palaver.serve.guard import Header, Scope, values
from palaver.serve.leases import Leases
from palaver.serve.peer import Address
from palaver.serve.tickets import Tickets
from palaver.serve.tokens import Identity, Tokens

NOBODY = Identity(Actor("user", EVERYONE), None)
"""Whoever comes to a daemon that asks for no token."""


class Doors:
    """`same_user` is asked only where no token is: it tells whether a connection belongs to the user who runs the daemon."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        clock: Callable[[], float],
        no_token: bool = False,
        same_user: Callable[[Address, Address], bool] | None = None,
    ) -> None:
        self.tokens = tokens
        self.codes = Codes(tokens, clock=clock)
        self.tickets = Tickets(clock=clock)
        self.leases = Leases(clock)
        self.clock = clock
        self.no_token = no_token
        self._same_user = same_user
        tokens.ended = self.leases.end_token

    def check_peer(self, scope: Scope) -> None:
        """Raises `Refused("peer")` where no token is asked and another user's program is at the other end."""
        if not self.no_token or self._same_user is None:
            return
        client, server = scope.get("client"), scope.get("server")
        if not client or not server or not self._same_user((client[0], client[1]), (server[0], server[1])):
            raise Refused("peer", "Without a token this daemon serves only the user who runs it: use a daemon of your own")

    def identify(self, headers: list[Header]) -> Identity | None:
        """Whose token the request carries."""
        bearers = [value[7:].strip() for value in values(headers, b"authorization") if value[:7].lower() == "bearer "]
        known = self.tokens.authenticate(bearers[0]) if len(bearers) == 1 else None
        return known or (NOBODY if self.no_token else None)

    def by_token(self, token: str) -> Identity | None:
        return self.tokens.authenticate(token) or (NOBODY if self.no_token else None)

    def by_ticket(self, ticket: str, path: str) -> Identity | None:
        """Whose ticket the URL carries, if its token still counts."""
        identity = self.tickets.identity(ticket, path)
        if identity is None or (identity.token_id is not None and not self.tokens.lives(identity.token_id)):
            return None
        return identity

    def still(self, identity: Identity) -> bool:
        """Whether what counted when a socket opened counts now."""
        return identity.token_id is None or self.tokens.use(identity.token_id)


def no_token(detail: str = "This needs a token: send `Authorization: Bearer …`, `palaver token` makes one") -> Refused:
    return Refused("no_token", detail)
