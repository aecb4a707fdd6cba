"""Git, run by the daemon, in a way that nothing in the repository can make run anything (SECURITY.md 11, 12).

Their git directory is never git's. Each command gets one of ours, made for it: their index copied (its time too, which tells git what
it must look at again), HEAD as a hash, their objects by `GIT_OBJECT_DIRECTORY`, and of their config the five switches that say how files
are compared. So no hook, filter, textconv, file system monitor, external diff, alias, credential helper or lazy fetch of theirs exists, and
nothing of theirs is written. What filters would make of a file (git-lfs) is not known then: such a file shows as modified once its time
differs from the index.

`find_repository` reads a few small files and starts nothing; the other functions start git, in a group of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from palaver.errors import ToolFailed
from palaver.tools.environment import find_program
from palaver.tools.processes import MARK, run
from palaver.wire.values import Stream

TIMEOUT_S = 30.0
_MOST_OUTPUT = 64 * 1024 * 1024
_MOST_SMALL = 4 * 1024 * 1024
"""Bytes of a config, an exclude file or the packed references: more than that is not read."""
_MOST_INDEX = 512 * 1024 * 1024
_LINKS = 5
"""References that name another one, one after the other."""
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(r"refs/[^\0\n]{1,500}")
_BOOLEAN = frozenset(("true", "false", "yes", "no", "on", "off", "1", "0"))
_COPIED = {
    "core.filemode": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.autocrlf": _BOOLEAN | {"input"},
    "core.eol": frozenset(("lf", "crlf", "native")),
    "extensions.objectformat": frozenset(("sha1", "sha256")),
}
"""Of their config: how files are compared, and how long a hash is. Any other value is left out."""


@dataclass(frozen=True)
class Repository:
    """Where a folder's repository is, as its own files say it."""

    root: Path
    """The work tree, without links."""
    prefix: str
    """Of the folder that was asked about, below the root: `""`, or `a/b/`."""
    git_dir: Path
    common: Path
    """The same, or the main one that a further work tree belongs to: there are the objects, the references and the config."""
    branch: str | None
    """None where HEAD is no branch."""
    head: str | None
    """The commit's hash; None before the first one."""


@dataclass(frozen=True)
class Dirty:
    """A path that differs from HEAD."""

    path: str
    """Below the folder that was asked about."""
    staged: str
    """git's letter for index against HEAD: ` `, `M`, `A`, `D`, `R`, `C`, `T`, `U`; `?` for what is not tracked."""
    unstaged: str
    """The same for files against index."""
    origin: str | None = None
    """What it was called before."""


@dataclass(frozen=True)
class Status:
    branch: str | None
    head: str | None
    dirty: tuple[Dirty, ...]


@dataclass(frozen=True)
class Listed:
    """The files below a folder, as git knows them. A repository inside of it is one entry that ends with `/`."""

    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    """Not tracked, and not ignored either."""


@dataclass(frozen=True)
class Commit:
    hash: str
    at: str
    author: str
    subject: str


# --- finding it ---------------------------------------------------------------------------------------------------------------


def find_repository(folder: Path) -> Repository | None:
    """The repository that a folder is in, itself or a parent; None where there is none that is ours. Blocks on the disk.

    A folder that only looks like a bare repository is none. A `.git` that leads elsewhere (a further work tree, a submodule) counts
    only if what it leads to names this folder: else a file in the workspace could show another repository.
    """
    start = Path(os.path.realpath(folder))
    for root in (start, *start.parents):
        git_dir = _git_dir(root)
        if git_dir is not None:
            prefix = start.relative_to(root).as_posix()
            return _described(root, "" if prefix == "." else f"{prefix}/", git_dir)
    return None


def _git_dir(root: Path) -> Path | None:
    mark = root / ".git"
    try:
        found = mark.lstat()
    except OSError:
        return None
    if found.st_uid != os.getuid():
        return None
    if stat.S_ISDIR(found.st_mode):
        return mark if (mark / "objects").is_dir() else None
    said = _small(mark) if stat.S_ISREG(found.st_mode) else None
    if said is None or not said.startswith("gitdir: "):
        return None
    target = Path(os.path.realpath(root / said.removeprefix("gitdir: ").strip()))
    return target if target.is_dir() and (target.is_relative_to(root) or _names_back(target, root)) else None


def _names_back(git_dir: Path, root: Path) -> bool:
    """Whether a git directory outside of the work tree says that it is this one's."""
    if (back := _small(git_dir / "gitdir")) is not None:
        return os.path.realpath(git_dir / back.strip()) == str(root / ".git")
    for line in (_small(git_dir / "config") or "").splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip().lower() == "worktree":
            return os.path.realpath(git_dir / value.strip().strip('"')) == str(root)
    return False


def _described(root: Path, prefix: str, git_dir: Path) -> Repository:
    said = _small(git_dir / "commondir")
    common = Path(os.path.realpath(git_dir / said.strip())) if said else git_dir
    head = (_small(git_dir / "HEAD") or "").strip()
    name = head.removeprefix("ref: ").strip() if head.startswith("ref: ") else None
    branch = name.removeprefix("refs/heads/") if name and name.startswith("refs/heads/") else None
    return Repository(root, prefix, git_dir, common, branch, _resolved(head, git_dir, common))


def _resolved(said: str, git_dir: Path, common: Path) -> str | None:
    for _ in range(_LINKS):
        if _HASH.fullmatch(said):
            return said
        name = said.removeprefix("ref: ").strip()
        if not _REF.fullmatch(name) or ".." in name.split("/"):
            return None
        said = next((text.strip() for place in (git_dir, common) if (text := _small(place / name)) is not None), _packed(common, name))
    return None


def _packed(common: Path, name: str) -> str:
    for line in (_small(common / "packed-refs", most=_MOST_INDEX) or "").splitlines():
        commit, _, named = line.partition(" ")
        if named == name:
            return commit
    return ""


def _small(path: Path, most: int = _MOST_SMALL) -> str | None:
    data = _plain_file(path, most)
    return None if data is None else data.decode("utf-8", "replace")


def _plain_file(path: Path, most: int) -> bytes | None:
    """A plain file's bytes, never through a link at its end and without waiting for a pipe; None for everything else."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        return opened.read(most)


# --- running it ---------------------------------------------------------------------------------------------------------------


async def git_status(folder: Path, env: Mapping[str, str]) -> Status | None:
    """The branch and what differs from HEAD below the folder; None where there is no repository. Raises `ToolFailed`.

    `env`: where to look for git (`PATH`), where temporary folders go (`TMPDIR`), and the mark of the call it runs for; nothing else of it
    reaches git.
    """
    repository = await asyncio.to_thread(find_repository, folder)
    if repository is None:
        return None
    command = ["status", "--porcelain=v1", "-z", "--ignore-submodules=all", "--untracked-files=all", "--no-ahead-behind"]
    async with _prepared(repository, env) as git:
        printed = await git.run([*command, "--", repository.prefix or "."])
    return Status(repository.branch, repository.head, tuple(_dirty(printed, repository.prefix)))


async def git_files(folder: Path, env: Mapping[str, str]) -> Listed | None:
    """The tracked files below a folder, and those that are neither tracked nor ignored. As `git_status`."""
    repository = await asyncio.to_thread(find_repository, folder)
    if repository is None:
        return None
    place = ["--", repository.prefix or "."]
    async with _prepared(repository, env) as git:
        tracked = await git.run(["ls-files", "-z", "--cached", "--deduplicate", *place])
        untracked = await git.run(["ls-files", "-z", "--others", "--exclude-standard", *place])
    return Listed(_below(tracked, repository.prefix), _below(untracked, repository.prefix))


async def git_tracked_though_ignored(folder: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The files that git tracks though a rule ignores them; none where there is no repository. As `git_status`."""
    repository = await asyncio.to_thread(find_repository, folder)
    if repository is None:
        return ()
    async with _prepared(repository, env) as git:
        printed = await git.run(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--", repository.prefix or "."])
    return _below(printed, repository.prefix)


async def git_log(folder: Path, env: Mapping[str, str], most: int = 10) -> tuple[Commit, ...]:
    """The latest commits, the newest first; none where there is no repository or no commit. As `git_status`."""
    repository = await asyncio.to_thread(find_repository, folder)
    if repository is None or repository.head is None:
        return ()
    command = [
        "log",
        f"--max-count={most}",
        "-z",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--format=%H%x1f%cI%x1f%an%x1f%s",
    ]
    async with _prepared(repository, env) as git:
        printed = await git.run([*command, repository.head, "--"])
    rows = (record.decode("utf-8", "replace").strip("\n").split("\x1f") for record in printed.split(b"\0") if record.strip())
    return tuple(Commit(*row) for row in rows if len(row) == 4)


def _dirty(printed: bytes, prefix: str) -> list[Dirty]:
    found, records = [], iter(printed.split(b"\0"))
    for record in records:
        if len(record) < 4:
            continue
        letters, path = record[:2].decode("ascii", "replace"), _text(record[3:])
        origin = _text(next(records, b"")) if letters[0] in "RC" else None
        found.append(Dirty(path.removeprefix(prefix), letters[0], letters[1], origin))
    return found


def _below(printed: bytes, prefix: str) -> tuple[str, ...]:
    return tuple(_text(path).removeprefix(prefix) for path in printed.split(b"\0") if path)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")


@dataclass(frozen=True)
class _Git:
    """One git directory of ours, and the program."""

    program: str
    folder: Path
    work_tree: Path
    env: Mapping[str, str]

    async def run(self, arguments: Sequence[str]) -> bytes:
        """What it printed. Raises `ToolFailed` when it failed, took too long or printed too much."""
        printed, said = bytearray(), bytearray()

        def take(stream: Stream, data: bytes) -> bool:
            into = said if stream == "stderr" else printed
            into.extend(data)
            return len(into) <= _MOST_OUTPUT

        command = [self.program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *arguments]
        ended = await run(command, folder=str(self.work_tree), env=self.env, sink=take, timeout_s=TIMEOUT_S)
        if ended.why == "timeout":
            raise ToolFailed(f"git {arguments[0]} took longer than {TIMEOUT_S:g} s here. Name a smaller folder.", code="tool_timeout")
        if ended.why == "enough":
            raise ToolFailed(f"git {arguments[0]} printed more than {_MOST_OUTPUT} bytes. Name a smaller folder.")
        if ended.status != 0:
            why = bytes(said[-500:]).decode("utf-8", "replace").strip() or f"it ended with {ended.status}"
            raise ToolFailed(f"git {arguments[0]} failed: {why}. The repository may be damaged; `git fsck` says more.")
        return bytes(printed)


@asynccontextmanager
async def _prepared(repository: Repository, env: Mapping[str, str]) -> AsyncIterator[_Git]:
    program = find_program("git", env.get("PATH", os.defpath), repository.root / repository.prefix)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="palaver-git-", dir=env.get("TMPDIR")))
    try:
        clean = _environment(repository, folder, program, env)
        git = _Git(program, folder, repository.root, clean)
        theirs = await asyncio.to_thread(_copied, repository, folder)
        listed = b"" if theirs is None else await _config(program, theirs, clean)
        (folder / "config").write_text(_our_config(listed))
        yield git
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _environment(repository: Repository, folder: Path, program: str, env: Mapping[str, str]) -> dict[str, str]:
    """All that git gets to know."""
    mark = {MARK: env[MARK]} if MARK in env else {}
    return {
        "PATH": str(Path(program).parent),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "GIT_DIR": str(folder),
        "GIT_WORK_TREE": str(repository.root),
        "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        **mark,
    }


def _copied(repository: Repository, folder: Path) -> Path | None:
    """Fill our git directory; gives a copy of their config, where there is one."""
    for name in ("refs", "objects", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text(f"{repository.head or 'ref: refs/heads/none'}\n")
    (folder / "config").write_text(_our_config(b""))
    for source in (repository.git_dir / "index", *sorted(repository.git_dir.glob("sharedindex.*"))[:4]):
        _copy(source, folder / source.name, _MOST_INDEX)
    for name in ("info/exclude", "info/attributes", "shallow"):
        _copy(repository.common / name, folder / name, _MOST_SMALL)
    return _copy(repository.common / "config", folder / "theirs", _MOST_SMALL)


def _copy(source: Path, target: Path, most: int) -> Path | None:
    try:
        found = source.lstat()
    except OSError:
        return None
    data = _plain_file(source, most)
    if data is None:
        return None
    target.write_bytes(data)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return target


async def _config(program: str, theirs: Path, env: Mapping[str, str]) -> bytes:
    """Their config as names and values, from a copy: reading one never runs anything. Nothing where it makes no sense."""
    names = "|".join(name.replace(".", "\\.") for name in _COPIED)
    command = [program, "config", "--file", str(theirs), "--no-includes", "-z", "--get-regexp", f"^({names})$"]
    printed = bytearray()

    def take(stream: Stream, data: bytes) -> bool:
        if stream == "stdout":
            printed.extend(data)
        return len(printed) <= _MOST_SMALL

    await run(command, folder="/", env=env, sink=take, timeout_s=TIMEOUT_S)
    return bytes(printed)


def _our_config(listed: bytes) -> str:
    switches = dict[str, str]()
    for record in listed.decode("utf-8", "replace").split("\0"):
        name, _, value = record.partition("\n")
        if name in _COPIED and value.lower() in _COPIED[name]:
            switches[name] = value.lower()
    hashes = switches.pop("extensions.objectformat", "sha1")
    version, extensions = ("1", f"[extensions]\n\tobjectformat = {hashes}\n") if hashes != "sha1" else ("0", "")
    copied = "".join(f"\t{name.removeprefix('core.')} = {value}\n" for name, value in switches.items())
    ours = f"\trepositoryformatversion = {version}\n\tbare = false\n\tfsmonitor = false\n\tuntrackedCache = false\n"
    nowhere = "".join(f"\t{name} = {os.devnull}\n" for name in ("hooksPath", "excludesFile", "attributesFile"))
    return f"[core]\n{ours}{nowhere}{copied}{extensions}"


__all__ = [
    "Commit",
    "Dirty",
    "Listed",
    "Repository",
    "Status",
    "find_repository",
    "git_files",
    "git_log",
    "git_status",
    "git_tracked_though_ignored",
]
