"""Landlock as a floor: everything may be read but what is hidden, nothing may be changed, nobody outside gets a signal.

Its rules only ever open, and always with everything below. So what is not hidden is opened piece by piece, around what is: the folders
on the way to a hidden one can be passed through, and not listed.
"""

from __future__ import annotations

import os

from palaver.sandbox import kernel

LEAST_VERSION = 6
"""The first that keeps signals and abstract sockets in."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_EVERYTHING = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def restrict(hidden: tuple[str, ...], network: bool) -> None:
    """Hold this process, and whatever it becomes and starts, for good."""
    ruleset = kernel.landlock_ruleset(_EVERYTHING, 0 if network else _BIND | _CONNECT, _ABSTRACT_SOCKETS | _SIGNALS)
    try:
        for path in _around("/", {"/dev", *hidden}):
            kernel.landlock_allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR, _OF_A_FILE)
        for name in _DEVICES:
            kernel.landlock_allow(ruleset, f"/dev/{name}", _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE, _OF_A_FILE)
        kernel.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def _around(folder: str, hidden: set[str]) -> list[str]:
    """The largest pieces below a folder that hold nothing hidden."""
    if folder in hidden:
        return []
    start = folder.rstrip("/") + "/"
    if not any(path.startswith(start) for path in hidden):
        return [folder]
    try:
        names = os.listdir(folder)
    except OSError:
        return []  # it is closed to us as well
    return [piece for name in names for piece in _around(start + name, hidden)]
