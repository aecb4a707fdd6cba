"""What a folder's own log says: which rules were granted there, and that somebody who may approve has used it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from palaver.engine.clock import Clock
from palaver.errors import Refused
from palaver.log import Log
from palaver.log.folders import DataFolder
from palaver.wire import events as e
from palaver.wire.codec import decode_event, encode_event
from palaver.wire.ids import AskId, SessionId, new_id
from palaver.wire.values import Rule

NONE = SessionId("")
"""A workspace's events are of no session."""


class Workspace:
    """One folder's rules. Few events, so they are folded whole when it is first needed."""

    def __init__(self, name: str, log: Log, clock: Clock, begun: Callable[[Workspace], None]) -> None:
        self.name = name
        self.path = ""
        """Given by its first event, which says that the folder is used, or by whoever asks for the folder."""
        self.rules: tuple[Rule, ...] = ()
        self.used = False
        self._key = f"workspaces/{name}"
        self._log, self._clock, self._begun = log, clock, begun
        self._head = 0
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        try:
            await self._log.open(self._key)
        except Refused:
            return  # nobody has ruled anything here yet
        while lines := await self._log.read(self._key, self._head):
            for line in lines:
                self._note(decode_event(line))
        await self._log.close(self._key)  # most are only read, and there may be more of them than files may be open

    async def use(self, by: str) -> None:
        """Somebody who may approve works here."""
        if not self.used:
            await self._write(e.WorkspaceUsed(path=self.path, by=by))

    async def add_rule(self, rule: Rule, by: str, approval_id: AskId | None = None) -> Rule:
        await self.use(by)
        kept = msgspec.structs.replace(rule, id=new_id("rule"))
        await self._write(e.RuleAdded(rule=_fields(kept), by=by, approval_id=approval_id))
        return kept

    async def remove_rule(self, rule_id: str, by: str) -> None:
        await self._write(e.RuleRemoved(rule_id=rule_id, by=by))

    async def _write(self, event: e.AnyEvent) -> None:
        """Whole, though the caller gives up: what the log took is noted here too."""
        await asyncio.shield(self._write_now(event))

    async def _write_now(self, event: e.AnyEvent) -> None:
        async with self._writing:
            await self._log.open(self._key, create=True)
            try:
                recorded = e.Recorded(self._head + 1, self._clock.now(), NONE, None, event)
                await self._log.append(self._key, self._head, [encode_event(recorded)])
                self._note(recorded)
            finally:
                await self._log.close(self._key)  # few writes, and there may be more of them than files may be open

    def _note(self, recorded: e.Recorded) -> None:
        if self._head == 0:
            self._begun(self)
        self._head = recorded.seq
        match recorded.data:
            case e.RuleAdded(rule=rule):
                self.rules = (*self.rules, msgspec.convert(rule, Rule))
            case e.RuleRemoved(rule_id=rule_id):
                self.rules = tuple(rule for rule in self.rules if rule.id != rule_id)
            case e.WorkspaceUsed(path=path):
                self.path, self.used = path, True


def _fields(rule: Rule) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(rule)
    return fields


class Workspaces:
    def __init__(self, log: Log, folder: DataFolder, clock: Clock) -> None:
        self._log, self._folder, self._clock = log, folder, clock
        self._known: dict[str, Workspace] = {}
        """Those that have a log."""
        self._asked: WeakValueDictionary[str, Workspace] = WeakValueDictionary()
        """And those that somebody is only asking about: one of each, while it is asked about."""
        self._loading: dict[str, asyncio.Task[Workspace]] = {}

    async def get(self, path: str) -> Workspace:
        workspace = await self._named(sha256(path.encode(errors="surrogateescape")).hexdigest()[:32])
        workspace.path = path
        return workspace

    async def all(self) -> list[Workspace]:
        """Every folder that has been used, in this run or before."""
        names = await asyncio.to_thread(self._folder.workspace_names)
        found = [await self._named(name) for name in names]
        return [workspace for workspace in found if workspace.path]

    async def _named(self, name: str) -> Workspace:
        if (found := self._known.get(name) or self._asked.get(name)) is not None:
            return found
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._load(name))
            task.add_done_callback(lambda _: self._loading.pop(name))
        return await asyncio.shield(task)

    async def _load(self, name: str) -> Workspace:
        workspace = Workspace(name, self._log, self._clock, self._begun)
        await workspace.load()
        self._asked[name] = workspace
        return workspace

    def _begun(self, workspace: Workspace) -> None:
        self._known[workspace.name] = workspace
