"""What every verb of the hub rests on: the parts of the daemon, and small checks that several of them make."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from palaver.engine import big
from palaver.engine.actor import Actor
from palaver.engine.agents import Agents
from palaver.engine.calls import Calls
from palaver.engine.clock import Clock
from palaver.engine.session import Session
from palaver.engine.sessions import Sessions
from palaver.engine.workspaces import Workspaces
from palaver.errors import Invalid, Refused
from palaver.log import Log
from palaver.log.blobs import Blobs
from palaver.sandbox.variants import Found
from palaver.wire import events as e
from palaver.wire.codec import decode_event
from palaver.wire.values import FileRef

NARROW = "prompt"


@dataclass
class Parts:
    sessions: Sessions
    workspaces: Workspaces
    calls: Calls
    agents_: Agents
    blobs: Blobs
    log: Log
    clock: Clock
    epoch: str
    version: str
    models_: Callable[[], Awaitable[list[Any]]]
    settings_: Callable[[], dict[str, Any]]
    change_settings_: Callable[[dict[str, Any]], list[str]]
    """Writes values into the settings file and gives the keys that changed. Waits for the disk."""
    private: tuple[Path, ...]
    """Folders that no workspace of a lesser token may be or hold."""
    sandbox: Callable[[], Awaitable[Found]]
    """What holds a command here; tried out the first time."""

    def __post_init__(self) -> None:
        self._answering: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._changing_settings = asyncio.Lock()
        self._spans: dict[str, tuple[int, int]] = {}

    def may_set_mode(self, mode: str, actor: Actor) -> None:
        if mode not in (self.agents_.mode, "plan", "ask") and not actor.may_approve:
            raise Refused("scope", f"Setting the mode {mode!r} takes a token with the scope approve.", needed="approve")

    async def caution_of(self, mode: str, actor: Actor) -> str | None:
        """What is said when a session runs everything unasked and nothing holds what it runs; choosing that takes `admin`."""
        if mode != "auto":
            return None
        caution = (await self.sandbox()).caution
        if caution is not None and mode != self.agents_.mode and "admin" not in actor.scopes:
            raise Refused("scope", f"Setting the mode 'auto' takes a token with the scope admin. {caution}", needed="admin")
        return caution

    async def workspace_path(self, given: str, actor: Actor, field: str = "workspace_path") -> str:
        """The folder as it is on disk. A token that may not approve works only where one that may has worked before."""
        path = os.path.realpath(os.path.expanduser(given))
        if "\0" in given or not os.path.isabs(os.path.expanduser(given)):
            raise _no_folder(given, field)
        if not actor.may_approve and not (self._may_be_narrow(Path(path)) and (await self.workspaces.get(path)).used):
            raise Refused(  # whether the folder is there is nothing that such a token learns
                "scope", f"This token works only in folders that a token with the scope approve has used: {path}", needed="approve"
            )
        if not await asyncio.to_thread(os.path.isdir, path):
            raise _no_folder(given, field)
        if actor.may_approve:
            await (await self.workspaces.get(path)).use(actor.name)
        return path

    def _may_be_narrow(self, path: Path) -> bool:
        """Whether a token that may not approve could work there: the folder holds nothing private and is not in what is Palaver's own."""
        holds = any(own.is_relative_to(path) for own in self.private)
        return not holds and not any(path.is_relative_to(own) for own in self.calls.protected)

    async def recorded(self, session: Session, after: int = 0, up_to: int | None = None) -> AsyncIterator[e.Recorded]:
        async for line in self.lines(session, after, up_to):
            yield decode_event(line)

    async def lines(self, session: Session, after: int = 0, up_to: int | None = None) -> AsyncIterator[bytes]:
        last = session.safe.seq if up_to is None else up_to
        while after < last and (lines := await self.log.read(session.key, after, up_to=last)):
            for line in lines:
                yield line
            after += len(lines)

    def store(self, session: Session) -> big.Store:
        async def store(data: bytes) -> FileRef:
            return await self.calls.files.put(session.id, "attachments", "message.txt", data)

        return store


def _no_folder(given: str, field: str) -> Invalid:
    return Invalid(f"{given!r} is not a folder of this machine. Give the absolute path of one.", path=field)


def narrow(actor: Actor) -> str | None:
    return None if actor.may_approve else NARROW


def plain(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def check_open(session: Session) -> None:
    if session.safe.closed:
        raise Refused("session_closed", "This session is closed. Fork it to go on from here.")


def check_writable(session: Session) -> None:
    check_open(session)
    session.check_writable()


def no_sandbox(caution: str) -> e.Notice:
    """What a session says that goes on in mode auto where nothing holds what it runs."""
    return e.Notice(level="warning", code="no_sandbox", text=f"Mode auto runs commands without asking. {caution}")
