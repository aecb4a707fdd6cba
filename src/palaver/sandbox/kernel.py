"""The calls into Linux that Python has no name for: seccomp, Landlock, privileges, files below a folder. Linux only.

Numbers are the kernel's, for the two machines that we know; on any other nothing here is used.
"""

from __future__ import annotations

import ctypes
import errno
import os

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_BOTH_NEW = {
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
    "clone3": 435,
    "openat2": 437,
    "faccessat2": 439,
    "process_madvise": 440,
    "mount_setattr": 442,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "open_tree_attr": 467,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
}
_X86 = {
    "open": 2,
    "access": 21,
    "creat": 85,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "chmod": 90,
    "fchmod": 91,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "truncate": 76,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
    "mknod": 133,
    "openat": 257,
    "mkdirat": 258,
    "mknodat": 259,
    "fchownat": 260,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "fchmodat": 268,
    "faccessat": 269,
    "utimensat": 280,
    "renameat2": 316,
    "seccomp": 317,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "socket": 41,
    "socketpair": 53,
    "clone": 56,
    "ioctl": 16,
    "prlimit64": 302,
    "setpriority": 141,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "move_pages": 279,
    "migrate_pages": 256,
    "kcmp": 312,
    "shmget": 29,
    "shmat": 30,
    "semget": 64,
    "msgget": 68,
    "mq_open": 240,
    "capset": 126,
}
_ARM = {
    "mknodat": 33,
    "mkdirat": 34,
    "unlinkat": 35,
    "symlinkat": 36,
    "linkat": 37,
    "renameat": 38,
    "truncate": 45,
    "faccessat": 48,
    "fchmod": 52,
    "fchmodat": 53,
    "fchownat": 54,
    "fchown": 55,
    "openat": 56,
    "utimensat": 88,
    "renameat2": 276,
    "seccomp": 277,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "socket": 198,
    "socketpair": 199,
    "clone": 220,
    "ioctl": 29,
    "prlimit64": 261,
    "setpriority": 140,
    "unshare": 97,
    "setns": 268,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "keyctl": 219,
    "add_key": 217,
    "request_key": 218,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "move_pages": 239,
    "migrate_pages": 238,
    "kcmp": 272,
    "shmget": 194,
    "shmat": 196,
    "semget": 190,
    "msgget": 186,
    "mq_open": 180,
    "capset": 91,
}
MACHINE = os.uname().machine
ARCHITECTURE = _MACHINES.get(MACHINE)
"""What the kernel calls this machine; None: one that we have no numbers for."""
NUMBERS = {**(_X86 if MACHINE == "x86_64" else _ARM), **_BOTH_NEW}

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_RESOLVE_BENEATH, _RESOLVE_NO_SYMLINKS, _RESOLVE_NO_MAGICLINKS = 0x08, 0x04, 0x02


def call(name: str, *arguments: object) -> int:
    """One system call. Raises `OSError`."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = _libc.syscall(ctypes.c_long(NUMBERS[name]), *given)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def give_up_privileges() -> None:
    """No capability now, and none by running a program."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


# --- seccomp ------------------------------------------------------------------------------------------------------------------


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(program: bytes) -> int:
    """Filter this process for good; gives the descriptor on which the calls arrive that somebody else is to make."""
    filled = _Program(len(program) // 8, program)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the first since Linux 5.19
        try:
            return call("seccomp", _SET_MODE_FILTER, flags, ctypes.byref(filled))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    raise OSError(errno.EINVAL, "seccomp takes no listener")


# --- landlock -----------------------------------------------------------------------------------------------------------------


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """0 where there is none."""
    try:
        return call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def landlock_ruleset(fs: int, net: int, scoped: int) -> int:
    ruleset = _Ruleset(fs, net, scoped)
    return call("landlock_create_ruleset", ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)


def landlock_allow(ruleset: int, path: str, access: int, access_of_file: int) -> None:
    """What may be done at and below a path. What is not there needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        kind = os.fstat(place).st_mode & 0o170000
        if kind == 0o120000:
            return  # a link is no place; where it leads has a rule of its own or none
        beneath = _Beneath(access if kind == 0o040000 else access & access_of_file, place)
        call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(place)


def landlock_restrict(ruleset: int) -> None:
    call("landlock_restrict_self", ruleset, 0)


# --- files --------------------------------------------------------------------------------------------------------------------


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_below(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path below a folder, through no link at all."""
    how = _How(flags | os.O_CLOEXEC, mode, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    return call("openat2", folder, ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how), ctypes.sizeof(how))


def rename(source: int, old: bytes, target: int, new: bytes, flags: int) -> None:
    call("renameat2", source, ctypes.c_char_p(old), target, ctypes.c_char_p(new), flags)
