"""What a child may know of the daemon's environment, and which programs the daemon starts (SECURITY.md 9, 10, 11)."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from palaver.errors import ToolFailed
from palaver.tools.processes import MARK

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def child_environment(base: Mapping[str, str], *, keep: Collection[str] = (), secret_names: Collection[str] = ()) -> dict[str, str]:
    """What of `base` the child of a tool gets.

    `secret_names`: variables that settings or discovery read keys from. `keep`: names that the person gives back (`[sandbox] env`);
    nothing gives back a `PALAVER_` one. The call's mark is added by whoever makes the call.
    """
    return {name: value for name, value in base.items() if _passes(name, keep, secret_names)}


def _passes(name: str, keep: Collection[str], secret_names: Collection[str]) -> bool:
    upper = name.upper()
    if upper.startswith("PALAVER_"):
        return False
    if name in keep:
        return True
    if name in secret_names or upper == "SSH_AUTH_SOCK" or upper.startswith("DBUS_"):
        return False
    return not any(word in upper for word in _SECRET_WORDS)


def drop_mark() -> str | None:
    """Take the mark of a call out of this process's own environment; gives what it was.

    A daemon that was started inside a call is nobody's leftover. The block that the system shows of a process is the one it was started
    with, so the value is overwritten in place there too. Only Linux was tested.
    """
    mark = os.environ.get(MARK)
    if mark is None:
        return None
    import ctypes  # costs milliseconds that only a daemon inside a call should pay

    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    address = libc.getenv(MARK.encode())
    if address:
        ctypes.memset(address, ord("-"), len(os.fsencode(mark)))
    del os.environ[MARK]
    return mark


def keep_private() -> None:
    """Let no other process of this user read this one's memory or environment. Children are as open as ever once they run a program.

    Linux only: macOS shows another process's environment to its user, and has no call against it.
    """
    if sys.platform != "linux":
        return
    import ctypes  # as above

    set_dumpable = 4
    if ctypes.CDLL(None, use_errno=True).prctl(set_dumpable, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


@lru_cache(maxsize=64)
def find_program(name: str, search_path: str, workspace: Path) -> str:
    """The absolute path of a program that the daemon starts: one that came with us, else from `search_path`.

    Entries that are relative or inside the workspace do not count, also through links. Raises `ToolFailed` when there is none.
    """
    ours = dict.fromkeys([sysconfig.get_path("scripts"), str(Path(sys.executable).parent)])
    home = Path(os.path.realpath(workspace))
    theirs = [entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry)]
    for entry, trusted in [*((entry, True) for entry in ours), *((entry, False) for entry in theirs)]:
        program = Path(entry, name)
        if not (program.is_file() and os.access(program, os.X_OK)):
            continue
        within = Path(os.path.realpath(entry)).is_relative_to(home) or Path(os.path.realpath(program)).is_relative_to(home)
        if trusted or not within:
            return str(program)
    raise ToolFailed(f"The program {name} was not found. Install it, or put it on the PATH of the daemon.")


__all__ = ["child_environment", "drop_mark", "find_program", "keep_private"]
