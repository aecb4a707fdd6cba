"""Makes the calls of a sandboxed command that change files: those inside its workspace and its temp folder, but for what is guarded.

The command's own floor (Landlock, or a read-only view of all disks) lets it change nothing at all. What it asks for is looked at here,
where it cannot reach, and done here, on the folder that was looked at, through no link. So a name that changes between look and deed
gains nothing, and what lies outside is left to the floor, which refuses it.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable

from palaver.sandbox import kernel
from palaver.sandbox.caller import Caller, Outside, Refusal
from palaver.sandbox.orders import Orders
from palaver.sandbox.places import EMPTY_PATH, Place
from palaver.sandbox.touching import Touching

_RECEIVE, _SEND, _GIVE = 0xC0502100, 0xC0182101, 0x40182103
_CONTINUE = 1
_GIVE_AND_SEND = 2
_REMOVE_FOLDER, _FOLLOW = 0x200, 0x400
_TEMPORARY = 0o20000000


class Supervisor(Touching):
    def __init__(self, orders: Orders, listener: int) -> None:
        super().__init__(orders)
        self._listener = listener
        self._does: dict[int, Callable[[Caller], int | None]] = {
            number: getattr(self, f"_{name}") for name, number in kernel.NUMBERS.items() if hasattr(self, f"_{name}")
        }
        os.umask(0)

    def serve_one(self) -> None:
        """Take one call and answer it. Raises `OSError` when there is nobody left who could call."""
        notification = bytearray(80)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notification, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                return  # it was killed before its call was read
            raise
        caller = Caller(bytes(notification))
        try:
            value = self._does[caller.number](caller)
            if value is not None:
                self._answer(caller, value, 0, 0)
        except Outside:
            self._answer(caller, 0, 0, _CONTINUE)
        except Refusal as refusal:
            self._answer(caller, 0, -refusal.number, 0)
        except OSError as error:
            self._answer(caller, 0, -(error.errno or errno.EIO), 0)
        except (ValueError, OverflowError, struct.error):  # arguments that mean nothing
            self._answer(caller, 0, -errno.EINVAL, 0)

    def _answer(self, caller: Caller, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, struct.pack("QqiI", caller.id, value, error, flags))
        except OSError as gone:
            if gone.errno not in (errno.ENOENT, errno.EINPROGRESS):
                raise

    def _give(self, caller: Caller, descriptor: int, closes: bool) -> None:
        """The descriptor becomes the caller's, and is the answer."""
        given = struct.pack("QIIII", caller.id, _GIVE_AND_SEND, descriptor, 0, os.O_CLOEXEC if closes else 0)
        try:
            fcntl.ioctl(self._listener, _GIVE, given)
        except OSError as gone:
            if gone.errno != errno.ENOENT:
                raise

    # --- opening --------------------------------------------------------------------------------------------------------------

    def _openat(self, caller: Caller) -> int | None:
        return self._opens(caller, 0, 1, caller.signed(2), caller.signed(3))

    def _open(self, caller: Caller) -> int | None:
        return self._opens(caller, None, 0, caller.signed(1), caller.signed(2))

    def _creat(self, caller: Caller) -> int | None:
        return self._opens(caller, None, 0, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, caller.signed(1))

    def _opens(self, caller: Caller, folder: int | None, index: int, flags: int, mode: int) -> int | None:
        if flags & os.O_PATH:
            raise Outside
        follow = not (flags & os.O_NOFOLLOW or (flags & os.O_CREAT and flags & os.O_EXCL))
        text = self._text(caller, folder, index)
        place = self._place(text, follow=follow)
        try:
            if flags & _TEMPORARY:
                raise Refusal(errno.EOPNOTSUPP)
            if text.endswith("/") and flags & os.O_CREAT:
                raise Refusal(errno.EISDIR)
            mode = mode & 0o1777 & ~caller.umask() if flags & os.O_CREAT else 0
            if self._is_pipe(place) and not flags & os.O_NONBLOCK:
                _thread.start_new_thread(self._open_in_time, (caller, os.dup(place.folder), place.name, flags))
                return None
            opened = os.open(place.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY, mode, dir_fd=place.folder)
        finally:
            place.close()
        try:
            self._give(caller, opened, bool(flags & os.O_CLOEXEC))
        finally:
            os.close(opened)
        return None

    def _is_pipe(self, place: Place) -> bool:
        try:
            return stat.S_ISFIFO(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def _open_in_time(self, caller: Caller, folder: int, name: str, flags: int) -> None:
        """Of a pipe: it may be long until somebody reads it, and others want to go on."""
        try:
            opened = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            self._answer(caller, 0, -(error.errno or errno.EIO), 0)
            return
        finally:
            os.close(folder)
        try:
            self._give(caller, opened, bool(flags & os.O_CLOEXEC))
        finally:
            os.close(opened)

    def _truncate(self, caller: Caller) -> int:
        place = self._place(self._text(caller, None, 0), follow=True)
        try:
            opened = os.open(place.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place.folder)
            try:
                os.ftruncate(opened, caller.arguments[1])
            finally:
                os.close(opened)
        finally:
            place.close()
        return 0

    # --- names ----------------------------------------------------------------------------------------------------------------

    def _mkdirat(self, caller: Caller) -> int:
        return self._makes(caller, 0, 1, caller.signed(2) & 0o1777 | stat.S_IFDIR)

    def _mkdir(self, caller: Caller) -> int:
        return self._makes(caller, None, 0, caller.signed(1) & 0o1777 | stat.S_IFDIR)

    def _mknodat(self, caller: Caller) -> int:
        return self._makes(caller, 0, 1, caller.signed(2))

    def _mknod(self, caller: Caller) -> int:
        return self._makes(caller, None, 0, caller.signed(1))

    def _makes(self, caller: Caller, folder: int | None, index: int, mode: int) -> int:
        place = self._place(self._text(caller, folder, index), follow=False)
        try:
            kind, bits = stat.S_IFMT(mode) or stat.S_IFREG, stat.S_IMODE(mode) & 0o1777 & ~caller.umask()
            if place.name == ".":
                raise Refusal(errno.EEXIST)
            if kind == stat.S_IFDIR:
                os.mkdir(place.name, bits, dir_fd=place.folder)
            elif kind in (stat.S_IFREG, stat.S_IFIFO):
                os.mknod(place.name, kind | bits, dir_fd=place.folder)
            else:
                raise Refusal(errno.EPERM)
        finally:
            place.close()
        return 0

    def _unlinkat(self, caller: Caller) -> int:
        return self._removes(caller, 0, 1, bool(caller.signed(2) & _REMOVE_FOLDER))

    def _unlink(self, caller: Caller) -> int:
        return self._removes(caller, None, 0, False)

    def _rmdir(self, caller: Caller) -> int:
        return self._removes(caller, None, 0, True)

    def _removes(self, caller: Caller, folder: int | None, index: int, is_folder: bool) -> int:
        place = self._place(self._text(caller, folder, index), follow=False)
        try:
            if place.name == ".":
                raise Refusal(errno.EACCES)
            (os.rmdir if is_folder else os.unlink)(place.name, dir_fd=place.folder)
        finally:
            place.close()
        return 0

    def _renameat2(self, caller: Caller) -> int:
        return self._renames(caller, (0, 1), (2, 3), caller.signed(4))

    def _renameat(self, caller: Caller) -> int:
        return self._renames(caller, (0, 1), (2, 3), 0)

    def _rename(self, caller: Caller) -> int:
        return self._renames(caller, (None, 0), (None, 1), 0)

    def _renames(self, caller: Caller, old: tuple[int | None, int], new: tuple[int | None, int], flags: int) -> int:
        source, target = self._two(caller, old, new, follow=False)
        try:
            if not (self._may_move(source) and self._may_move(target)):
                raise Refusal(errno.EACCES)
            kernel.rename(source.folder, os.fsencode(source.name), target.folder, os.fsencode(target.name), flags)
        finally:
            source.close()
            target.close()
        return 0

    def _linkat(self, caller: Caller) -> int:
        flags = caller.signed(4)
        if flags & EMPTY_PATH:
            raise Refusal(errno.ENOENT)
        return self._links(caller, (0, 1), (2, 3), bool(flags & _FOLLOW))

    def _link(self, caller: Caller) -> int:
        return self._links(caller, (None, 0), (None, 1), False)

    def _links(self, caller: Caller, old: tuple[int | None, int], new: tuple[int | None, int], follow: bool) -> int:
        source, target = self._two(caller, old, new, follow=follow)
        try:
            os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)
        finally:
            source.close()
            target.close()
        return 0

    def _symlinkat(self, caller: Caller) -> int:
        return self._points(caller, 0, 1, 2)

    def _symlink(self, caller: Caller) -> int:
        return self._points(caller, 0, None, 1)

    def _points(self, caller: Caller, target: int, folder: int | None, index: int) -> int:
        leads_to = caller.path(target)
        place = self._place(self._text(caller, folder, index), follow=False)
        try:
            os.symlink(leads_to, place.name, dir_fd=place.folder)
        finally:
            place.close()
        return 0

    # --- asking what could be done --------------------------------------------------------------------------------------------

    def _faccessat(self, caller: Caller) -> int:
        return self._may(self._text(caller, 0, 1), caller.signed(2))

    def _faccessat2(self, caller: Caller) -> int:
        return self._may(self._named(caller, 0, 1, caller.signed(3)), caller.signed(2))

    def _access(self, caller: Caller) -> int:
        return self._may(self._text(caller, None, 0), caller.signed(1))

    def _may(self, text: str, mode: int) -> int:
        place = self._place(text, follow=True)
        try:
            if not os.access(place.name, os.F_OK, dir_fd=place.folder):
                raise Refusal(errno.ENOENT)
            if not os.access(place.name, mode & 7, dir_fd=place.folder):
                raise Refusal(errno.EACCES)
        finally:
            place.close()
        return 0
