"""The folders that sessions work in: their files by name, what git says of them, and where on this machine a new session could work."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from palaver.engine.parts import Parts
from palaver.engine.tree import readable, tree
from palaver.engine.workspaces import Workspace
from palaver.errors import Invalid, Refused, ToolFailed
from palaver.tools.base import ToolContext
from palaver.tools.listing import Listing, list_files
from palaver.tools.paths import spot
from palaver.views.fuzzy import best
from palaver.wire.ids import CallId

MOST_FOLDERS = 2000
MOST_GIT = 30
"""Workspaces of which git is asked: the latest."""
FRESH_S = 3.0
"""How long a list of files is good for: a person types a name letter by letter."""
_KEPT = 4

Kept = dict[str, tuple[float, "asyncio.Task[Listing]"]]


class Folders(Parts):
    def __post_init__(self) -> None:
        super().__post_init__()
        self._listings: Kept = {}

    async def workspace_tree(self, path: str, depth: int) -> dict[str, Any]:
        return await asyncio.to_thread(tree, await self._known(path), depth)

    async def workspace_files(self, workspace: str, q: str, limit: int) -> dict[str, Any]:
        """What .gitignore names is left out."""
        listing = await self._listed(await self._known(workspace))
        found = await asyncio.to_thread(best, q, listing.paths, limit)
        return {
            "files": [{"path": readable(one.path), "kind": one.kind} for one in found.files],
            "truncated": found.truncated or listing.more,
        }

    async def workspaces_used(self) -> dict[str, Any]:
        """Every folder that somebody who may approve has used, the latest first."""
        uses = await self.sessions.uses()
        found = [_workspace(one, uses.get(one.path)) for one in await self.workspaces.all() if one.used]
        found.sort(key=lambda one: (one["last_used_at"] or "", one["path"]), reverse=True)
        latest = [one["path"] for one in found[:MOST_GIT]]
        await self.sessions.git.known(latest)
        states = {path: state for path in latest if (state := self.sessions.git.of(path))}
        return {"workspaces": [{**one, "git": states[one["path"]]} if one["path"] in states else one for one in found]}

    async def folders(self, path: str | None) -> dict[str, Any]:
        given = os.path.expanduser(path or "~")
        if not os.path.isabs(given):
            raise Invalid(f"{given!r} is not an absolute path.", path="path")
        return await asyncio.to_thread(_folders, os.path.realpath(given))

    async def _known(self, path: str) -> Path:
        """The folder, where it is one that a session works in, or lies in one. Raises `Refused("workspace_unknown")`."""
        real = Path(os.path.realpath(path))
        known = any(one.used and real.is_relative_to(one.path) for one in await self.workspaces.all())
        if not known or any(real.is_relative_to(own) for own in self.calls.protected):
            raise Refused("workspace_unknown", f"No session works in {path}. Create one there first.")
        return real

    async def _listed(self, folder: Path) -> Listing:
        now = self.clock.ticks()
        at, task = self._listings.pop(str(folder), (now - 2 * FRESH_S, None))
        if task is None or now - at > FRESH_S or (task.done() and (task.cancelled() or task.exception())):
            at, task = now, asyncio.ensure_future(self._list(folder))
        self._listings[str(folder)] = (at, task)
        while len(self._listings) > _KEPT:
            self._listings.pop(next(iter(self._listings)))
        return await asyncio.shield(task)

    async def _list(self, folder: Path) -> Listing:
        env = self.calls.environment(CallId("files"))
        context = ToolContext(folder, "", "", "files", env, lambda stream, text: None, _nothing_kept, hidden=self.calls.protected)
        try:
            with spot(context, ".") as place:
                return await list_files(context, place)
        except ToolFailed as failed:
            raise Refused("workspace_unknown", f"{folder} cannot be listed: {failed.message}") from failed


def _workspace(workspace: Workspace, use: tuple[int, str] | None) -> dict[str, Any]:
    """`trusted`: its own commands may run unasked, while the files that they rest on stay as they are."""
    path, (sessions, last) = workspace.path, use or (0, None)
    trusted = any(rule.decision == "allow" and rule.files is not None for rule in workspace.rules)
    return {"path": path, "name": os.path.basename(path) or path, "sessions": sessions, "last_used_at": last, "trusted": trusted}


async def _nothing_kept(name: str, data: bytes, mime_type: str) -> str:
    raise ToolFailed("A list of files keeps nothing.")


def _folders(path: str) -> dict[str, Any]:
    try:
        with os.scandir(path) as entries:
            names = sorted((entry.name for entry in entries if _is_folder(entry)), key=lambda name: (name.startswith("."), name.lower()))
    except OSError as error:
        raise Invalid(f"{path} cannot be looked into ({error.strerror}). Give the path of a folder.", path="path") from error
    shown = [{"name": readable(name), "git": os.path.exists(os.path.join(path, name, ".git"))} for name in names[:MOST_FOLDERS]]
    parent = os.path.dirname(path)
    return {
        "path": readable(path),
        "parent": None if parent == path else readable(parent),
        "folders": shown,
        "truncated": len(names) > MOST_FOLDERS,
    }


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False
