"""One call of a sandboxed command that waits for its answer, and what it points at: numbers, memory, paths, descriptors."""

from __future__ import annotations

import errno
import os
import struct

_PATH_MAX = 4096


class Refusal(Exception):
    """The call fails with this number."""

    def __init__(self, number: int) -> None:
        self.number = number


class Outside(Exception):
    """Nothing of ours: the command makes the call itself, and the floor judges it."""


class Caller:
    """One call that waits for its answer."""

    def __init__(self, notification: bytes) -> None:
        self.id, self.pid, _, self.number, _, _, *self.arguments = struct.unpack("QIIiIQ6Q", notification)

    def signed(self, index: int) -> int:
        """An argument that is an int: a descriptor, flags."""
        value: int = self.arguments[index] & 0xFFFFFFFF
        return value - (1 << 32) if value >= 1 << 31 else value

    def memory(self, address: int, size: int) -> bytes:
        try:
            memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Refusal(errno.EACCES) from error
        try:
            return os.pread(memory, size, address)
        except OSError as error:
            raise Refusal(errno.EFAULT) from error
        finally:
            os.close(memory)

    def path(self, index: int) -> str:
        data = self.memory(self.arguments[index], _PATH_MAX)
        end = data.find(b"\0")
        if end < 0:
            raise Refusal(errno.ENAMETOOLONG)
        if end == 0:
            raise Refusal(errno.ENOENT)
        return os.fsdecode(data[:end])

    def link(self, name: str) -> str:
        """What `cwd` or a descriptor of the caller stands for, as it sees it."""
        try:
            text = os.readlink(f"/proc/{self.pid}/{name}")
        except OSError as error:
            raise Refusal(errno.EBADF) from error
        if text.endswith(" (deleted)") or not text.startswith("/"):
            raise Refusal(errno.EPERM)
        return text

    def descriptor(self, number: str) -> str | None:
        """The file that a descriptor stands for; none for a pipe and its like."""
        try:
            return self.link(f"fd/{number}")
        except Refusal:
            return None

    def umask(self) -> int:
        with open(f"/proc/{self.pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
        return 0o077
