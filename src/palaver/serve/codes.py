"""Sign-in codes: one use, one minute, kept in memory as hashes. A browser exchanges one for a token of its own."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from palaver.errors import Refused
from palaver.serve.scopes import expand
from palaver.serve.tokens import SIGN_IN_SECONDS, Identity, Minted, Tokens

CODE_SECONDS = 60.0
WRONG_PER_MINUTE = 10


class _Code(NamedTuple):
    by: Identity
    scopes: tuple[str, ...]
    expires: float


class Codes:
    def __init__(self, tokens: Tokens, *, clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock
        self._codes: dict[bytes, _Code] = {}
        self._wrong: deque[float] = deque(maxlen=WRONG_PER_MINUTE)
        self._shut_until = 0.0

    def mint(self, by: Identity, scopes: tuple[str, ...]) -> tuple[str, float]:
        """A code and when it ends. Raises `Refused("scope")` for more than the token itself may do."""
        wider = expand(scopes) - by.actor.scopes
        if wider:
            raise Refused("scope", f"A code cannot give the scope `{max(wider)}`, which this token does not have", needed=max(wider))
        now = self._clock()
        self._codes = {key: code for key, code in self._codes.items() if code.expires > now}
        secret = secrets.token_urlsafe(16)
        self._codes[_hash(secret)] = _Code(by, scopes, now + CODE_SECONDS)
        return secret, now + CODE_SECONDS

    def exchange(self, secret: str) -> Minted:
        """A token for a code, once. Raises `Refused`: `bad_code`, or `too_many` for a minute after ten wrong ones in a minute."""
        now = self._clock()
        if now < self._shut_until:
            raise Refused("too_many", "There were too many wrong sign-in codes: wait a minute, then run `palaver open` again")
        code = self._codes.pop(_hash(secret), None)
        if code is None or code.expires <= now or not self._lives(code.by):
            self._note_wrong(now)
            raise Refused("bad_code", "This sign-in code is wrong, used or older than a minute: run `palaver open` again")
        return self._tokens.mint(code.by, name="browser", scopes=code.scopes, seconds=SIGN_IN_SECONDS, renewed=True)

    def _lives(self, by: Identity) -> bool:
        return by.token_id is not None and self._tokens.lives(by.token_id)

    def _note_wrong(self, now: float) -> None:
        self._wrong.append(now)
        if len(self._wrong) == WRONG_PER_MINUTE and now - self._wrong[0] < 60:
            self._shut_until = now + 60
            self._wrong.clear()


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
