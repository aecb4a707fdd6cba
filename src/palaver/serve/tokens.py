"""Who is who: tokens that read `ID.SECRET`, of which the daemon keeps hashes only.

- `<data>/token` holds the admin token for the programs of the person who runs the daemon; `<data>/tokens.json` holds the rest, hashed.
- A token ends when it is revoked, when it expires, and when the token that minted it ends.
- A token that a sign-in gave is renewed while it is used; the others keep the end that they were given.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from palaver.engine.actor import Actor
from palaver.errors import DiskFailed, Invalid, Refused
from palaver.serve.scopes import expand

SIGN_IN_SECONDS = 30 * 86_400.0
_RENEW_AFTER = 86_400.0
"""A renewal is a write: at most one a day."""


class TokenRecord(msgspec.Struct, frozen=True):
    id: str
    name: str
    sha256: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None
    parent: str | None
    renewed: bool = False
    """Its end moves while it is used."""


class Identity(NamedTuple):
    """Who sends this request."""

    actor: Actor
    token_id: str | None
    """None where the daemon asks for no token."""


class Minted(NamedTuple):
    token: str
    record: TokenRecord


class Tokens:
    """All tokens of one data folder. `ended` is called with the id of each token that stops counting before its time."""

    def __init__(self, folder: Path, *, clock: Callable[[], float], ended: Callable[[str], None] = lambda token_id: None) -> None:
        self._path = folder / "tokens.json"
        self._clock = clock
        self.ended = ended
        self._admin = _admin_token(folder / "token", clock())
        self._records = {record.id: record for record in _load(self._path)}

    def authenticate(self, token: str) -> Identity | None:
        """None for a token that is unknown, revoked or expired. Compares in constant time."""
        token_id = token.partition(".")[0]
        record = self._record(token_id)
        known = record.sha256 if record else sha256(b"").hexdigest()
        if not hmac.compare_digest(known, sha256(token.encode()).hexdigest()) or record is None or not self.lives(token_id):
            return None
        self._renew(record)
        return self._identity(record)

    def use(self, token_id: str) -> bool:
        """Whether a token that was shown before still counts; one that is renewed in use is."""
        record = self._record(token_id)
        if record is None or not self.lives(token_id):
            return False
        self._renew(record)
        return True

    def _identity(self, record: TokenRecord) -> Identity:
        name = "user" if record.id == self._admin.id else record.name
        return Identity(Actor(name, expand(record.scopes)), record.id)

    def proof(self, token_id: str, nonce: str, port: int) -> str | None:
        """Shows whoever has the token that this daemon knows it: see `docs/api.md`, health."""
        record = self._record(token_id)
        if record is None or not self.lives(token_id):
            return None
        return hmac.new(bytes.fromhex(record.sha256), f"{nonce}{port}".encode(), sha256).hexdigest()

    def mint(self, by: Identity, *, name: str, scopes: tuple[str, ...], seconds: float | None, renewed: bool = False) -> Minted:
        """A new token, no wider than the one that asks (403 `scope`) and no longer (422, or cut where it is renewed)."""
        wider = expand(scopes) - by.actor.scopes
        if wider:
            raise Refused("scope", f"A token cannot mint the scope `{max(wider)}`, which it does not have itself", needed=max(wider))
        limit = self.expires(by.token_id)
        wanted = None if seconds is None else self._clock() + seconds
        if limit is not None and wanted is not None and wanted > limit and not renewed:
            raise Invalid("The new token would outlive the one that mints it: ask for fewer days", path="days")
        ends = min((end for end in (limit, wanted) if end is not None), default=None)
        token_id = f"tok_{secrets.token_hex(8)}"
        token = f"{token_id}.{secrets.token_urlsafe(32)}"
        parent = by.token_id or self._admin.id
        record = TokenRecord(token_id, name, sha256(token.encode()).hexdigest(), scopes, self._clock(), ends, parent, renewed)
        self._save({**self._alive(), token_id: record})
        return Minted(token, record)

    def revoke(self, token_id: str) -> None:
        """Ends a token and all that it minted. Raises `Refused("not_found")`."""
        if token_id == self._admin.id:
            raise Invalid("The admin token is the file `token` in the data folder: delete it and start the daemon again", path="id")
        if token_id not in self._alive():
            raise Refused("not_found", f"There is no token {token_id}: `GET /v1/tokens` lists those that there are")
        gone = self._with_children(token_id)
        self._save({id: record for id, record in self._alive().items() if id not in gone})
        for each in gone:
            self.ended(each)

    def list(self) -> list[TokenRecord]:
        return [self._admin, *self._alive().values()]

    def expires(self, token_id: str | None) -> float | None:
        record = None if token_id is None else self._record(token_id)
        return None if record is None else record.expires

    def lives(self, token_id: str) -> bool:
        """Not revoked, not expired, and the same of the one that minted it."""
        record = self._record(token_id)
        if record is None or (record.expires is not None and record.expires <= self._clock()):
            return False
        return record.parent is None or self.lives(record.parent)

    def _record(self, token_id: str) -> TokenRecord | None:
        return self._admin if token_id == self._admin.id else self._records.get(token_id)

    def _alive(self) -> dict[str, TokenRecord]:
        return {id: record for id, record in self._records.items() if self.lives(id)}

    def _with_children(self, token_id: str) -> set[str]:
        children = {record.id for record in self._records.values() if record.parent == token_id}
        return {token_id}.union(*map(self._with_children, children))

    def _renew(self, record: TokenRecord) -> None:
        now = self._clock()
        if not record.renewed or record.expires is None or record.expires - now > SIGN_IN_SECONDS - _RENEW_AFTER:
            return
        limit = self.expires(record.parent)
        ends = min(end for end in (now + SIGN_IN_SECONDS, limit) if end is not None)
        if ends > record.expires:
            self._save({**self._alive(), record.id: msgspec.structs.replace(record, expires=ends)})

    def _save(self, records: dict[str, TokenRecord]) -> None:
        """The file first: what is on disk is what counts after a restart."""
        try:
            write_private(self._path, msgspec.json.format(msgspec.json.encode(list(records.values()))))
        except OSError as error:
            raise DiskFailed(f"The tokens could not be saved ({error.strerror}): make room in the data folder and try again") from error
        self._records = records


def write_private(path: Path, data: bytes) -> None:
    """Replaces a file in one synced step, readable by its owner only, whatever the umask is."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _admin_token(path: Path, now: float) -> TokenRecord:
    """Reads the admin token, or makes it. Raises `Refused("bad_token_file")` for a file that holds none."""
    if not path.exists():
        write_private(path, f"tok_{secrets.token_hex(8)}.{secrets.token_urlsafe(32)}\n".encode())
    token = path.read_text("utf-8").strip()
    token_id, dot, secret = token.partition(".")
    if not token_id or not dot or len(secret) < 32:
        raise Refused("bad_token_file", f"{path} holds no token: delete it, the next start makes a new one")
    return TokenRecord(token_id, "user", sha256(token.encode()).hexdigest(), ("admin",), now, None, None)


def _load(path: Path) -> list[TokenRecord]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[TokenRecord])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        raise Refused("bad_token_file", f"{path} cannot be read ({error}): delete it; every token in it ends") from error
