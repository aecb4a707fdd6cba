"""Where a name of a sandboxed command leads, and whether what stands there may be changed."""

from __future__ import annotations

import errno
import os
from itertools import pairwise

from palaver.sandbox import kernel
from palaver.sandbox.caller import Caller, Outside, Refusal
from palaver.sandbox.orders import Orders

EMPTY_PATH = 0x1000
_HERE = -100
_MAX_LINKS = 40
_BY_DESCRIPTOR = ("/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/")
_STREAMS = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}
_SETTINGS_OF_GIT = frozenset(("config", "config.worktree", "hooks", "commondir", "gitdir"))


class Root:
    """A folder in which the command may change files."""

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


class Place:
    """Where a name leads: its folder, held open, and the name in it."""

    def __init__(self, root: Root, folder: int, name: str, parts: tuple[str, ...]) -> None:
        self.root = root
        self.folder = folder
        self.name = name
        self.parts = parts
        """From the root; lower case, as a forgiving file system takes them."""

    def close(self) -> None:
        os.close(self.folder)


class Places:
    """Everything that the command may change, by name."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._roots = [Root(orders.work, "work"), Root(orders.temp, "temp")]
        self._roots += [Root(path, "git") for path in orders.git if not _is_below(path, orders.work)]

    def _text(self, caller: Caller, folder: int | None, index: int) -> str:
        """A path of the caller's, absolute, its links not followed yet. `folder`: the argument that says where it starts."""
        path = caller.path(index)
        if path.startswith("/"):
            number = path.rpartition("/")[2] if path.startswith(_BY_DESCRIPTOR) else _STREAMS.get(path, "")
            return caller.descriptor(number) or path if number.isdigit() else path
        start = _HERE if folder is None else caller.signed(folder)
        return f"{caller.link('cwd' if start == _HERE else f'fd/{start}')}/{path}"

    def _place(self, text: str, *, follow: bool) -> Place:
        """Raises `Outside` for what lies in no root, `Refusal` for what is guarded."""
        for _ in range(_MAX_LINKS):
            bare = text.rstrip("/") or "/"
            above, _, name = bare.rpartition("/")
            if name in (".", "..", ""):
                above, _, name = os.path.realpath(bare).rpartition("/")
            parent = os.path.realpath(above or "/")
            place = self._in_root(parent, name)
            if not follow:
                break
            try:
                target = os.readlink(name, dir_fd=place.folder)
            except OSError:
                break
            place.close()
            text = target if target.startswith("/") else f"{parent}/{target}"
        else:
            raise Refusal(errno.ELOOP)
        if not self._is_open(place):
            place.close()
            raise Refusal(errno.EACCES)
        return place

    def _in_root(self, parent: str, name: str) -> Place:
        whole = f"{parent.rstrip('/')}/{name}"
        for root in self._roots:
            if whole == root.path:  # the root itself: its times and mode, nothing else of it
                return Place(root, os.dup(root.folder), ".", ())
            if _is_below(parent, root.path):
                below = parent[len(root.path) :].strip("/")
                folder = kernel.open_below(root.folder, below or ".", os.O_PATH | os.O_DIRECTORY)
                names = (*below.split("/"), name) if below else (name,)
                return Place(root, folder, name, tuple(one.lower() for one in names))
        raise Outside

    def _is_open(self, place: Place) -> bool:
        """Whether what stands there may be changed."""
        root, parts = place.root, place.parts
        if root.kind == "temp":
            return True
        whole = "/".join((root.path, *parts)).lower()
        if any(_is_below(whole, path.lower()) for path in (*self._orders.hidden, *self._orders.guarded)):
            return False
        if root.kind == "git":
            return bool(self._orders.git) and _is_open_in_git(parts)
        if ".git" in parts:
            below = parts[parts.index(".git") + 1 :]
            return bool(self._orders.git) and _is_open_in_git(below)
        names = self._orders.names
        return not any(part in names for part in parts) and not any(f"{a}/{b}" in names for a, b in pairwise(parts))

    def _may_move(self, place: Place) -> bool:
        """Whether it carries nothing guarded away with it: a guarded name that only counts where it stands."""
        if place.root.kind == "temp":
            return True
        if not place.parts or any(name.startswith(f"{place.parts[-1]}/") for name in self._orders.names):
            return False
        whole = "/".join((place.root.path, *place.parts)).lower()
        return not any(_is_below(path.lower(), whole) for path in (*self._orders.guarded, *self._orders.hidden))

    def _named(self, caller: Caller, folder: int, index: int, flags: int) -> str:
        """The path of a call that may name a descriptor by an empty one."""
        if flags & EMPTY_PATH and caller.memory(caller.arguments[index], 1) == b"\0":
            return caller.link(f"fd/{caller.signed(folder)}")
        return self._text(caller, folder, index)

    def _two(self, caller: Caller, old: tuple[int | None, int], new: tuple[int | None, int], *, follow: bool) -> tuple[Place, Place]:
        """Both in roots of ours, or it is as if they lay on two disks."""
        first, second = self._text(caller, *old), self._text(caller, *new)
        source = self._place_or_none(first, follow=follow)
        try:
            target = self._place_or_none(second, follow=False)
        except BaseException:
            if source is not None:
                source.close()
            raise
        if source is not None and target is not None:
            return source, target
        if source is None and target is None:
            raise Outside
        for place in (source, target):
            if place is not None:
                place.close()
        raise Refusal(errno.EXDEV)

    def _place_or_none(self, text: str, *, follow: bool) -> Place | None:
        try:
            return self._place(text, follow=follow)
        except Outside:
            return None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_open_in_git(parts: tuple[str, ...]) -> bool:
    """What git itself changes there, other than what says which programs it runs."""
    if not parts or parts[0] in _SETTINGS_OF_GIT:
        return False
    return parts[0] not in ("modules", "worktrees") or not any(part in _SETTINGS_OF_GIT for part in parts)
