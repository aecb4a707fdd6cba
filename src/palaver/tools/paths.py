"""Files that a tool may open: found one folder at a time, so that no link leads out of the workspace (SECURITY.md 13).

Every step opens the next folder by its descriptor and refuses a link that was swapped in. A link is read and its target walked in
the same way, so links inside the workspace work; only where the walk ends counts. What ends outside the workspace is refused unless a
rule or a grant named it; Palaver's own folders, `/proc`, `/sys` and `/dev` are refused always.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from palaver.errors import ToolFailed
from palaver.tools.base import ToolContext

MAX_FILE = 16 * 1024 * 1024
_MAX_PATH = 4096
_MAX_LINKS = 40
_MAX_STEPS = 10_000
_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""A folder that may only be passed through need not be readable, where the system has a way to say so."""

Reach = Literal["workspace", "shown", "allowed", "outside", "hidden"]
Identity = tuple[int, int]


@dataclass(frozen=True)
class Spot:
    """Where a path leads. Valid while `spot()` is open."""

    folder: int
    """Descriptor of the deepest folder that exists."""
    path: Path
    """Absolute, without links."""
    rest: tuple[str, ...]
    """What lies below `folder`: nothing for a folder, one name for a file, more where folders are missing too."""
    found: os.stat_result | None
    """Of what is there, never through a link. None: nothing is."""
    reach: Reach
    label: str
    """For people and models: relative to the workspace where it is inside; a ref where it is an artifact or attachment."""

    @property
    def name(self) -> str:
        return self.rest[-1]

    @property
    def is_folder(self) -> bool:
        return self.found is not None and stat.S_ISDIR(self.found.st_mode)


@contextmanager
def spot(context: ToolContext, path: str, *, write: bool = False, only_look: bool = False) -> Iterator[Spot]:
    """Find `path`, relative to the workspace. Raises `ToolFailed` for what a tool may not reach.

    `only_look` is for describing a call: it reaches everything, and whoever asked decides by `reach`. What starts with the name of a
    shown folder (`artifacts/…`) and is not in the workspace is looked for there.
    """
    walk = _Walk(context, path)
    try:
        if walk.found is None and (shown := _in_shown(context, path)) is not None:
            walk.close()
            walk = _Walk(context, shown)
        reach = walk.reach(write=write)
        if not only_look:
            _check_reach(context, path, reach)
        yield Spot(walk.folder, walk.path, walk.rest, walk.found, reach, walk.label)
    finally:
        walk.close()


def real_workspace(context: ToolContext) -> Path:
    return Path(os.path.realpath(context.workspace))


def plain(name: str | Path) -> str:
    """A file's name as text that can be written as JSON, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "replace")


def _in_shown(context: ToolContext, path: str) -> str | None:
    first, _, rest = path.partition("/")
    for folder in context.shown:
        if rest and first == folder.name and ".." not in rest.split("/") and (folder / rest).exists():
            return str(folder / rest)
    return None


def _check_reach(context: ToolContext, path: str, reach: Reach) -> None:
    if reach == "hidden":
        raise ToolFailed(f"{path} belongs to Palaver or to the system, and no tool opens it. Leave it alone.")
    if reach == "outside":
        home = plain(context.workspace)
        raise ToolFailed(f"{path} is outside the workspace {home}. Use a path inside it; only a person can allow another.")


class _Walk:
    """The way from `/` to where a path leads, with one descriptor held."""

    def __init__(self, context: ToolContext, path: str) -> None:
        if len(path) > _MAX_PATH:
            raise ToolFailed(f"The path has {len(path)} characters. Use one of at most {_MAX_PATH}.")
        self._context = context
        self._asked = path
        self._home = real_workspace(context)
        self.rest: tuple[str, ...] = ()
        self.found: os.stat_result | None = None
        self.folder = -1
        self._todo = deque(self._home.joinpath(path).parts[1:])  # keeps "..": links are read before it counts
        self._restart(())
        try:
            self._go()
        except OSError as error:
            self.close()
            raise ToolFailed(f"{path} cannot be opened: {error.strerror}.") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1

    def _restart(self, first: Iterable[str]) -> None:
        self.close()
        self.folder = os.open("/", _STEP)
        self._names: list[str] = []
        self._identities: list[Identity] = []
        self._todo.extendleft(reversed(tuple(first)))

    def _go(self) -> None:
        links = steps = 0
        while self._todo:
            name = self._todo.popleft()
            steps += 1
            if steps > _MAX_STEPS:
                raise ToolFailed(f"{self._asked} takes too many steps. Use a simpler path.")
            if name in ("", "."):
                continue
            if name == "..":
                self._restart(self._names[:-1])
                continue
            try:
                found = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                return self._missing(name)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise ToolFailed(f"{self._asked} leads through too many links.")
                self._follow(os.readlink(name, dir_fd=self.folder))
            elif stat.S_ISDIR(found.st_mode):
                self._enter(name)
            else:
                return self._file(name, found)
        self.found = os.fstat(self.folder)

    def _enter(self, name: str) -> None:
        try:
            folder = os.open(name, _STEP, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                raise ToolFailed(f"{self._asked} was changed while it was being opened. Look again before you go on.") from error
            raise
        os.close(self.folder)
        self.folder = folder
        self._names.append(name)
        self._identities.append(_identity(os.fstat(folder)))

    def _follow(self, target: str) -> None:
        self._todo.extendleft(reversed(target.split("/")))
        if target.startswith("/"):
            self._restart(())

    def _missing(self, name: str) -> None:
        self.rest = (name, *(part for part in self._todo if part not in ("", ".")))
        if ".." in self.rest:
            raise ToolFailed(f"{self._asked} is not there: {name} does not exist.")

    def _file(self, name: str, found: os.stat_result) -> None:
        if any(part not in ("", ".") for part in self._todo):
            raise ToolFailed(f"{self._asked} is not there: {name} is not a folder.")
        self.rest, self.found = (name,), found

    @property
    def path(self) -> Path:
        return Path("/", *self._names, *self.rest)

    @property
    def label(self) -> str:
        for folder in self._context.shown:
            real = Path(os.path.realpath(folder))
            if self.path.is_relative_to(real):
                return plain(Path(folder.name, self.path.relative_to(real)))
        inside = self.path.is_relative_to(self._home)
        return plain(self.path.relative_to(self._home) if inside else self.path)

    def reach(self, *, write: bool) -> Reach:
        system = [folder for folder in _SYSTEM if not self._home.is_relative_to(folder)]
        hidden = self._depth_below([*self._context.hidden, *system])
        shown = -1 if write else self._depth_below(self._context.shown)
        if hidden > shown:
            return "hidden"
        if shown >= 0:
            return "shown"
        if self.path.is_relative_to(self._home):
            return "workspace"
        return "allowed" if self._depth_below(self._context.allowed) >= 0 else "outside"

    def _depth_below(self, folders: Iterable[Path]) -> int:
        """How deep the deepest of `folders` lies that the path is in; -1 for none. By name and, where it exists, by identity:
        a second name of the same folder (letter case, a bind mount) is that folder."""
        return max((self._depth_in(folder) for folder in folders), default=-1)

    def _depth_in(self, folder: Path) -> int:
        real = Path(os.path.realpath(folder))
        depth = len(real.parts) - 1 if self.path.is_relative_to(real) else -1
        try:
            identity = _identity(os.stat(real))
        except OSError:
            return depth  # what is not there has a name only
        on_the_way = [*self._identities, *([_identity(self.found)] if self.found else [])]
        return max(depth, on_the_way.index(identity) + 1) if identity in on_the_way else depth


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


# --- reading ------------------------------------------------------------------------------------------------------------------


def read(place: Spot) -> bytes:
    """The whole of a regular file. Raises `ToolFailed` for anything else and for more than 16 MiB."""
    with open_file(place) as file:
        size = os.fstat(file).st_size
        if size > MAX_FILE:
            raise ToolFailed(f"{place.label} has {size} bytes, more than the {MAX_FILE} that can be read. Use search or shell.")
        blocks = []
        left = MAX_FILE + 1
        while left > 0 and (block := os.read(file, min(left, 1 << 20))):
            blocks.append(block)
            left -= len(block)
    if left <= 0:
        raise ToolFailed(f"{place.label} grew past {MAX_FILE} bytes while it was read. Use search, or shell for a part of it.")
    return b"".join(blocks)


@contextmanager
def open_file(place: Spot) -> Iterator[int]:
    """A descriptor of a regular file that never blocks on opening. Raises `ToolFailed` for whatever else is there."""
    check_file(place)
    try:
        file = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolFailed(f"{place.label} became a link while it was being opened. Look again before you go on.") from error
        raise ToolFailed(f"{place.label} cannot be opened: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ToolFailed(f"{place.label} is no regular file.")
        yield file
    finally:
        os.close(file)


def check_file(place: Spot) -> None:
    """Raises `ToolFailed`, with what to do instead, unless a regular file is there."""
    if place.found is None:
        raise ToolFailed(f"{place.label} is not there.{_near(place)}")
    if place.is_folder:
        raise ToolFailed(f"{place.label} is a folder.{_content(place.folder)}")
    if not stat.S_ISREG(place.found.st_mode):
        raise ToolFailed(f"{place.label} is {_kind(place.found.st_mode)}, no regular file, and is not opened.")


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
    return next((words for test, words in kinds if test(mode)), "something special")


def _listing(folder: int) -> list[str]:
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(readable) as entries:
            return sorted(plain(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
    finally:
        os.close(readable)


def _near(place: Spot) -> str:
    """Names close to the one that is missing. Says nothing where the folder cannot be listed."""
    try:
        names = _listing(place.folder)
    except OSError:
        return ""
    missing = place.rest[0]
    bare = {name.rstrip("/").casefold(): name for name in names}
    close = [bare[name] for name in get_close_matches(missing.casefold(), bare, n=3)]
    where = plain(place.label).removesuffix("/".join(place.rest)) or "the workspace"
    return f" In {where} there is: {', '.join(close)}." if close else f" Nothing in {where} has a name like {missing}."


def _content(folder: int, most: int = 40) -> str:
    try:
        names = _listing(folder)
    except OSError as error:
        return f" It cannot be listed: {error.strerror}."
    if not names:
        return " It is empty."
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f" It has: {', '.join(names[:most])}{more}."


def folder_for_child(place: Spot) -> str:
    """What a child can change into and still be where the walk ended. Only Linux names a folder by its descriptor."""
    if sys.platform == "linux" and os.path.isdir(by_descriptor := f"/proc/self/fd/{place.folder}"):
        return by_descriptor
    return str(place.path)


# --- writing ------------------------------------------------------------------------------------------------------------------


def make_folders(place: Spot) -> tuple[int, list[str]]:
    """Create what is missing above the file; gives a descriptor of its folder, which the caller closes, and the names created."""
    folder = os.open(".", _STEP, dir_fd=place.folder)
    made: list[str] = []
    try:
        for name in place.rest[:-1]:
            os.mkdir(name, dir_fd=folder)
            made.append(name)
            below = os.open(name, _STEP, dir_fd=folder)
            os.close(folder)
            folder = below
    except BaseException:
        os.close(folder)
        remove_folders(place.folder, made)
        raise
    return folder, made


def remove_folders(folder: int, made: list[str]) -> None:
    """Take back what `make_folders` created, as far as it is empty still."""
    for depth in range(len(made), 0, -1):
        try:
            os.rmdir("/".join(made[:depth]), dir_fd=folder)
        except OSError:
            return  # somebody put something there: it stays


def stage(folder: int, data: bytes, mode: int | None) -> str:
    """Write `data` into the folder where it belongs, synced; gives the temporary name. `mode` None: as the person's umask has it."""
    temporary = f".palaver-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with memoryview(data) as view:
            done = 0
            while done < len(data):
                done += os.write(file, view[done:])
        if mode is not None:
            os.fchmod(file, stat.S_IMODE(mode) & 0o777)
        os.fsync(file)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(file)
    return temporary


def look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def same(before: os.stat_result | None, now: os.stat_result | None) -> bool:
    """Whether a name still holds the file, with the bytes, that it held."""
    if before is None or now is None:
        return before is now
    return _stamp(before) == _stamp(now)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


__all__ = ["MAX_FILE", "Reach", "Spot", "folder_for_child", "open_file", "plain", "read", "real_workspace", "spot"]
