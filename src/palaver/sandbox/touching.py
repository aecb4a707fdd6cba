"""Modes, owners and times of files: what no floor but a read-only disk judges, so that all of it is made here or refused."""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Callable

from palaver.sandbox.caller import Caller, Outside, Refusal
from palaver.sandbox.places import Places

_NO_FOLLOW = 0x100
_NOW, _OMIT = 0x3FFFFFFF, 0x3FFFFFFE


class Touching(Places):
    def _fchmodat(self, caller: Caller) -> int:
        return self._modes(self._text(caller, 0, 1), caller.signed(2))

    def _fchmodat2(self, caller: Caller) -> int:
        flags = caller.signed(3)
        return self._modes(self._named(caller, 0, 1, flags), caller.signed(2), follow=not flags & _NO_FOLLOW)

    def _chmod(self, caller: Caller) -> int:
        return self._modes(self._text(caller, None, 0), caller.signed(1))

    def _fchmod(self, caller: Caller) -> int:
        return self._modes(caller.link(f"fd/{caller.signed(0)}"), caller.signed(1), follow=False)

    def _modes(self, text: str, mode: int, *, follow: bool = True) -> int:
        def change(path: str, is_link: bool) -> None:
            if is_link:
                raise Refusal(errno.EOPNOTSUPP)
            os.chmod(path, mode & 0o1777)

        return self._touches(text, follow, change)

    def _fchownat(self, caller: Caller) -> int:
        flags = caller.signed(4)
        return self._owns(self._named(caller, 0, 1, flags), caller.signed(2), caller.signed(3), follow=not flags & _NO_FOLLOW)

    def _chown(self, caller: Caller) -> int:
        return self._owns(self._text(caller, None, 0), caller.signed(1), caller.signed(2), follow=True)

    def _lchown(self, caller: Caller) -> int:
        return self._owns(self._text(caller, None, 0), caller.signed(1), caller.signed(2), follow=False)

    def _fchown(self, caller: Caller) -> int:
        return self._owns(caller.link(f"fd/{caller.signed(0)}"), caller.signed(1), caller.signed(2), follow=False)

    def _owns(self, text: str, user: int, group: int, *, follow: bool) -> int:
        def change(path: str, is_link: bool) -> None:
            found = os.stat(path)
            if (user not in (-1, found.st_uid)) or (group not in (-1, found.st_gid)):
                raise Refusal(errno.EPERM)

        return self._touches(text, follow, change)

    def _utimensat(self, caller: Caller) -> int:
        flags = caller.signed(3)
        if caller.arguments[1] == 0:
            text = caller.link(f"fd/{caller.signed(0)}")
        else:
            text = self._named(caller, 0, 1, flags)
        return self._times(caller, text, 2, 1, follow=not flags & _NO_FOLLOW)

    def _utimes(self, caller: Caller) -> int:
        return self._times(caller, self._text(caller, None, 0), 1, 1000)

    def _futimesat(self, caller: Caller) -> int:
        return self._times(caller, self._text(caller, 0, 1), 2, 1000)

    def _utime(self, caller: Caller) -> int:
        seconds = struct.unpack("qq", caller.memory(caller.arguments[1], 16)) if caller.arguments[1] else None
        return self._stamps(self._text(caller, None, 0), seconds and (seconds[0], 0, seconds[1], 0), 1, follow=True)

    def _times(self, caller: Caller, text: str, index: int, unit: int, *, follow: bool = True) -> int:
        times = struct.unpack("4q", caller.memory(caller.arguments[index], 32)) if caller.arguments[index] else None
        return self._stamps(text, times, unit, follow=follow)

    def _stamps(self, text: str, times: tuple[int, ...] | None, unit: int, *, follow: bool) -> int:
        def stamp(seconds: int, fraction: int, old: int) -> int:
            if unit == 1 and fraction in (_NOW, _OMIT):
                return old if fraction == _OMIT else time.time_ns()
            return seconds * 1_000_000_000 + fraction * unit

        def change(path: str, is_link: bool) -> None:
            found = os.stat(path)
            if times is None:
                os.utime(path)
            elif not is_link:  # nobody builds on the times of a link
                os.utime(path, ns=(stamp(times[0], times[1], found.st_atime_ns), stamp(times[2], times[3], found.st_mtime_ns)))

        return self._touches(text, follow, change)

    def _touches(self, text: str, follow: bool, change: Callable[[str, bool], None]) -> int:
        """Landlock judges none of these, so what is outside is refused here."""
        try:
            place = self._place(text, follow=follow)
        except Outside:
            if self._orders.floor == "bubblewrap":
                raise
            raise Refusal(errno.EPERM) from None
        try:
            found = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
        finally:
            place.close()
        try:
            change(f"/proc/self/fd/{found}", stat.S_ISLNK(os.fstat(found).st_mode))
        finally:
            os.close(found)
        return 0
