"""The seccomp filter of a sandbox, as a program for the kernel: what is refused, and which calls the supervisor makes instead.

What takes the name of a file to change it, or changes what a descriptor stands for beside its bytes, goes to the supervisor
(`supervise.py`). Sockets that could reach anybody, other processes' limits, new namespaces and the rings that would go around a filter
are refused. What is not named here is left to the floor: Landlock or the namespaces of bubblewrap.
"""

from __future__ import annotations

import errno
import os
import struct

from palaver.sandbox.kernel import ARCHITECTURE, NUMBERS

_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_X32 = 0x40000000
_NEW_USER = 0x10000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5

ASKED = tuple(
    """creat rename mkdir rmdir link unlink symlink chmod fchmod chown fchown lchown truncate utime utimes futimesat mknod mkdirat
    mknodat fchownat unlinkat renameat renameat2 linkat symlinkat fchmodat fchmodat2 utimensat""".split()
)
"""Always made by the supervisor."""
_NOT_THERE = tuple(
    """io_uring_setup io_uring_enter io_uring_register openat2 clone3 keyctl add_key request_key bpf userfaultfd file_setattr
    setxattrat removexattrat""".split()
)
"""Answered as by an older kernel: programs then take another way."""
_REFUSED = tuple(
    """unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
    perf_event_open move_pages migrate_pages kcmp process_madvise""".split()
)
_ATTRIBUTES = "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr".split()
_SHARED_MEMORY = "shmget shmat semget msgget mq_open".split()
"""Of System V, which only a namespace keeps apart."""
_IOCTLS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "FS_IOC_SETFLAGS": 0x40086602, "FS_IOC32_SETFLAGS": 0x40046602, "FSSETXATTR": 0x401C5820}


def program(floor: str, network: bool) -> bytes:
    """`network`: sockets of the internet are let through. Those of a bubblewrap without network reach only each other, so they are too."""
    blocks = [*_by_number(floor), _opens("openat", 2), *([_opens("open", 1)] if "open" in NUMBERS else [])]
    if floor == "bubblewrap":  # what is read-only there looks read-only, although the supervisor writes it
        blocks += [_bits(name, 2 if name.startswith("f") else 1, 2) for name in ("access", "faccessat", "faccessat2") if name in NUMBERS]
    blocks += [_families(network or floor == "bubblewrap"), _pairs(), _limits(), _ioctls()]
    blocks.append(_priorities())
    blocks.append(_when("clone", [*_argument(0), _step(_ANY_BIT, _NEW_USER, 0, 1), _error(errno.EPERM)]))
    start = [_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, ARCHITECTURE or 0, 1, 0), _error(errno.ENOSYS), _step(_LOAD, _NUMBER)]
    foreign = [_step(_AT_LEAST, _X32, 0, 1), _error(errno.ENOSYS)]
    return b"".join([*start, *foreign, *(step for block in blocks for step in block), _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _error(number: int) -> bytes:
    return _step(_RETURN, 0x00050000 | number)


def _argument(index: int, high: bool = False) -> list[bytes]:
    return [_step(_LOAD, 16 + 8 * index + (4 if high else 0))]


def _when(name: str, then: list[bytes]) -> list[bytes]:
    """`then` for this call alone; what falls out of it is allowed."""
    return [_step(_EQUAL, NUMBERS[name], 0, len(then) + 1), *then, _step(_RETURN, _ALLOW)]


def _by_number(floor: str) -> list[list[bytes]]:
    errors = {
        **dict.fromkeys(_NOT_THERE, errno.ENOSYS),
        **dict.fromkeys(_REFUSED, errno.EPERM),
        **dict.fromkeys(_ATTRIBUTES, errno.EOPNOTSUPP),
        **(dict.fromkeys(_SHARED_MEMORY, errno.EPERM) if floor == "landlock" else {}),
    }
    asked = [[_step(_EQUAL, NUMBERS[name], 0, 1), _step(_RETURN, _ASK)] for name in ASKED if name in NUMBERS]
    return [*asked, *([_step(_EQUAL, NUMBERS[name], 0, 1), _error(number)] for name, number in errors.items())]


def _bits(name: str, index: int, bits: int) -> list[bytes]:
    """The supervisor makes this call when its argument has one of these bits."""
    return _when(name, [*_argument(index), _step(_ANY_BIT, bits, 0, 1), _step(_RETURN, _ASK)])


def _opens(name: str, index: int) -> list[bytes]:
    return _bits(name, index, _WRITES)


def _families(internet: bool) -> list[bytes]:
    """Never a Unix socket, whatever the network: behind those of the system stand programs that would act for us."""
    allowed = (_INET, _INET6, _NETLINK) if internet else ()
    let = [step for family in allowed for step in (_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW))]
    return _when("socket", [*_argument(0), *let, _error(errno.EPERM)])


def _pairs() -> list[bytes]:
    """Only pairs that stay what they are: one of datagrams can be sent to any address."""
    kinds = [step for kind in (_STREAM, _SEQPACKET) for step in (_step(_EQUAL, kind, 0, 1), _step(_RETURN, _ALLOW))]
    return _when("socketpair", [*_argument(1), _step(_AND, 0xF), *kinds, _error(errno.EPERM)])


def _limits() -> list[bytes]:
    """Of itself only."""
    return _when("prlimit64", [*_argument(0), _step(_EQUAL, 0, 1, 0), _error(errno.EPERM)])


def _priorities() -> list[bytes]:
    """Of itself only: process 0."""
    zero = [_step(_EQUAL, 0, 1, 0), _error(errno.EPERM)]
    return _when("setpriority", [*_argument(0), *zero, *_argument(1), *zero])


def _ioctls() -> list[bytes]:
    refused = [step for number in _IOCTLS.values() for step in (_step(_EQUAL, number, 0, 1), _error(errno.EPERM))]
    return _when("ioctl", [*_argument(1), *refused])
