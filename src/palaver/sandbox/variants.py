"""Which sandbox holds on this machine, and how a command is started in it: the daemon's side.

A variant either holds all of SECURITY.md 14 or counts as absent. Which one does is tried out when it is first asked for, with a command
that attempts what it must not be able to do, and then known for as long as the daemon runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import palaver
from palaver.errors import ToolFailed
from palaver.sandbox import seatbelt
from palaver.sandbox.orders import Orders
from palaver.sandbox.private import hidden_paths

Variant = Literal["bubblewrap", "landlock", "seatbelt"]
VARIANTS: tuple[Variant, ...] = ("bubblewrap", "landlock") if sys.platform == "linux" else ("seatbelt",)
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where a bubblewrap may stand: never in a workspace, whatever PATH says."""
_START = "import sys; sys.path.append(sys.argv[1]); from palaver.sandbox.launch import main; main()"
_PROBE_S = 20.0
_ATTEMPTS = """
echo in > "$1/in" || exit 10
(echo out > "$2/out") 2>/dev/null && exit 11
cat "$2/hidden/secret" 2>/dev/null && exit 12
kill -0 "$3" 2>/dev/null && exit 13
(echo hook > "$1/.git/hooks/hook") 2>/dev/null && exit 14
(echo name > "$1/guarded") 2>/dev/null && exit 15
cat "/proc/$3/environ" 2>/dev/null && exit 16
exit 0
"""
_OUTCOMES = {
    10: "nothing can be written in the workspace",
    11: "it lets writes out",
    12: "it lets what is hidden be read",
    13: "it lets signals out",
    14: "it lets .git be written",
    15: "it lets guarded paths be written",
    16: "it lets the daemon's environment be read",
}


@dataclass(frozen=True)
class Found:
    """What holds here."""

    variant: Variant | None
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why the others do not, by their names."""

    @property
    def reason(self) -> str:
        """Why none holds, in words for people."""
        return "; ".join(f"{name}: {why}" for name, why in self.absent.items())

    @property
    def told(self) -> dict[str, str | None]:
        """For clients."""
        return {"variant": self.variant, "reason": self.reason or None}

    @property
    def caution(self) -> str | None:
        """What a person should know before they let a command run here."""
        if self.variant is not None:
            return None
        return f"No sandbox holds here ({self.reason}): what you let run can do all that you can, and answer approvals too."


@dataclass(frozen=True)
class Launch:
    """A command as it is started."""

    command: Sequence[str]
    folder: str
    env: Mapping[str, str]


def try_out(variant: Variant) -> str | None:
    """Start a command in it that tries to get out. None: it holds; else why it does not. Blocks for some hundredths of a second."""
    if (missing := _missing(variant)) is not None:
        return missing
    import shutil
    import subprocess
    import tempfile

    place = os.path.realpath(tempfile.mkdtemp(prefix="palaver-probe-"))
    try:
        for name in ("work/.git/hooks", "temp", "out/hidden"):
            os.makedirs(f"{place}/{name}")
        Path(f"{place}/out/hidden/secret").write_text("secret")
        orders = Orders(variant, f"{place}/work", f"{place}/temp", f"{place}/work", [f"{place}/out/hidden"], ["guarded"])
        arguments = [f"{place}/work", f"{place}/out", str(os.getpid())]
        command = started(orders, ["/bin/sh", "-c", _ATTEMPTS, "probe", *arguments])
        ended = subprocess.run(command, cwd="/", capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=_PROBE_S)
        if ended.returncode == 0:
            return None
        said = ended.stderr.decode("utf-8", "replace").strip().split("\n")[-1][:300]
        return _OUTCOMES.get(ended.returncode) or said or f"it ended with status {ended.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be tried: {error}"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _missing(variant: Variant) -> str | None:
    if variant == "seatbelt":
        return None if os.access(seatbelt.PROGRAM, os.X_OK) else f"{seatbelt.PROGRAM} is not there"
    from palaver.sandbox import kernel, landlock  # ctypes: not before a command is to run

    if kernel.ARCHITECTURE is None:
        return f"there is no filter for machines of the kind {kernel.MACHINE}"
    if variant == "bubblewrap":
        return None if _bubblewrap() else "bwrap is not installed"
    version = kernel.landlock_version()
    if version == 0:
        return "this kernel has no Landlock"
    if version < landlock.LEAST_VERSION:
        return f"this kernel's Landlock is of version {version}; {landlock.LEAST_VERSION} is the first that keeps signals in"
    return None


def _bubblewrap() -> str | None:
    return next((path for place in _PLACES if os.access(path := f"{place}/bwrap", os.X_OK)), None)


def started(orders: Orders, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` under these orders."""
    if orders.floor == "seatbelt":
        return seatbelt.command(orders, list(command))
    if orders.floor == "landlock":
        return _launcher("launch", orders, command)
    hidden = [word for path in orders.hidden for word in _covered(path)]
    apart = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", *([] if orders.network else ["--unshare-net"])]
    view = ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *hidden]
    return _launcher("launch", orders, [_bubblewrap() or "bwrap", *apart, *view, "--", *_launcher("enter", orders, command)])


def _covered(path: str) -> list[str]:
    """What is not there needs no cover, and can have none: the folders above it cannot be written."""
    if not os.path.exists(path):
        return []
    return ["--tmpfs", path, "--remount-ro", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]


def _launcher(role: str, orders: Orders, command: Sequence[str]) -> list[str]:
    ours = str(Path(palaver.__file__).parents[1])
    return [sys.executable, "-I", "-S", "-P", "-c", _START, ours, role, *orders.words(), *command]


class Sandbox:
    """Starts commands as the settings and this machine have it. `own`: Palaver's folders, which no command reads."""

    def __init__(
        self,
        *,
        mode: Literal["auto", "off"] = "auto",
        network: bool = False,
        own: Iterable[Path] = (),
        home: str = "/",
        names: Callable[[], Iterable[str]] = tuple,
        guarded: Callable[[Path], Sequence[str]] = lambda workspace: (),
        is_plain_git: Callable[[str], bool] = lambda line: False,
        variants: Sequence[Variant] = VARIANTS,
    ) -> None:
        self._network = network
        self._own = tuple(own)
        self._home = home
        self._names = names
        self._guarded = guarded
        self._is_plain_git = is_plain_git
        self._variants = variants
        self._found = Found(None, {"settings": 'mode = "off"'}) if mode == "off" else None
        self._trying = threading.Lock()
        self._temps: dict[str, str] = {}

    def look(self) -> Found:
        """What holds here. Blocks the first time."""
        with self._trying:
            if self._found is None:
                self._found = self._tried()
            return self._found

    async def found(self) -> Found:
        if self._found is None:
            return await asyncio.to_thread(self.look)
        return self._found

    def _tried(self) -> Found:
        absent: dict[str, str] = {}
        for variant in self._variants:
            if (why := try_out(variant)) is None:
                return Found(variant, absent)
            absent[variant] = why
        return Found(None, absent)

    async def launch(
        self,
        command: Sequence[str],
        lines: Sequence[str],
        *,
        workspace: Path,
        session_id: str,
        folder: Path,
        env: Mapping[str, str],
        network: bool | None = None,
    ) -> Launch | None:
        """How to start it; None where no sandbox holds. `lines`: what it will run, by which git is told from the rest.

        `network` False: none, whatever the settings say.
        """
        variant = (await self.found()).variant
        if variant is None:
            return None
        orders, extra = await asyncio.to_thread(self._orders, variant, lines, workspace, session_id, folder, network)
        start = "/" if sys.platform == "linux" else str(folder)  # there the launcher goes to the folder itself
        return Launch(started(orders, command), start, {**env, **extra, **_hooks_off(env, bool(orders.git))})

    def _orders(
        self, variant: Variant, lines: Sequence[str], workspace: Path, session_id: str, folder: Path, network: bool | None
    ) -> tuple[Orders, dict[str, str]]:
        work = os.path.realpath(workspace)
        temp = self._temp(session_id)
        git = git_folders(work) if lines and all(map(self._is_plain_git, lines)) else ()
        orders = Orders(
            variant,
            work,
            temp,
            str(folder),
            hidden_paths(self._own, self._home, work),
            self._names(),
            self._guarded(Path(work)),
            git,
            self._network if network is None else network and self._network,
        )
        return orders, {"TMPDIR": temp, "TMP": temp, "TEMP": temp}

    def _temp(self, session_id: str) -> str:
        """Of the session, so that one command finds what another one left."""
        import tempfile  # with the first command, as everything here

        with self._trying:
            if session_id not in self._temps or not os.path.isdir(self._temps[session_id]):
                try:
                    self._temps[session_id] = os.path.realpath(tempfile.mkdtemp(prefix="palaver-"))
                except OSError as error:
                    raise ToolFailed(f"There is no room for the command's temporary files: {error.strerror}.") from error
            return self._temps[session_id]

    def forget(self, session_id: str | None = None) -> None:
        """Remove the temporary files of a session, or of all. Blocks."""
        import shutil

        for id in [session_id] if session_id is not None else list(self._temps):
            shutil.rmtree(self._temps.pop(id, ""), ignore_errors=True)


def git_folders(workspace: str) -> tuple[str, ...]:
    """Where the repository that holds this folder keeps itself; of a linked work tree the folder that it shares."""
    for folder in (Path(workspace), *Path(workspace).parents):
        place = folder / ".git"
        if place.is_dir() and not place.is_symlink():
            return (str(place),)
        if place.is_file() and not place.is_symlink():
            own = Path(os.path.realpath(folder / place.read_text("utf-8", "replace").removeprefix("gitdir:").strip()))
            try:
                return (os.path.realpath(own / (own / "commondir").read_text("utf-8", "replace").strip()),)
            except OSError:
                return (str(own),) if own.is_dir() else ()
    return ()


def _hooks_off(env: Mapping[str, str], is_git: bool) -> dict[str, str]:
    if not is_git:
        return {}
    count = int(found) if (found := env.get("GIT_CONFIG_COUNT", "")).isdigit() else 0
    settings = {"core.hooksPath": "/dev/null", "core.fsmonitor": "false"}
    words = {"GIT_CONFIG_COUNT": str(count + len(settings))}
    for number, (key, value) in enumerate(settings.items(), count):
        words |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return words


__all__ = ["VARIANTS", "Found", "Launch", "Sandbox", "Variant", "git_folders", "started", "try_out"]
