"""Whose connection is this? On Linux the kernel's table of TCP sockets says which user holds the other end.

Tested on Linux only. Elsewhere nothing tells, `peer_uid` is never called, and the warning of `serve --no-token` says what that means.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

Address = tuple[str, int]

can_tell = sys.platform == "linux"


def is_our_user(client: Address, server: Address) -> bool:
    """Whether the program at `client` runs as the user who runs this daemon. A connection that the table does not name is not ours."""
    return any(
        peer_uid(Path(table).read_text("utf-8").splitlines(), client, server) == os.getuid() for table in _TABLES if os.path.exists(table)
    )


def peer_uid(rows: Iterable[str], client: Address, server: Address) -> int | None:
    """The user id in the row whose own end is `client` and whose other end is `server`."""
    wanted = {f"{mine} {theirs}" for mine, theirs in zip(_spellings(client), _spellings(server), strict=True)}
    for row in rows:
        fields = row.split()
        # A socket that no process holds any more (inode 0) is listed under user 0.
        if len(fields) > 9 and f"{fields[1]} {fields[2]}" in wanted and fields[9] != "0":
            return int(fields[7])
    return None


def _spellings(address: Address) -> tuple[str, str]:
    """The address as tcp and tcp6 write it: words of the machine's byte order in hex, then the port."""
    host = ip_address(address[0])
    four = host if isinstance(host, IPv4Address) else host.ipv4_mapped
    six = host if isinstance(host, IPv6Address) else IPv6Address(f"::ffff:{host}")
    port = f"{address[1]:04X}"
    return (f"{_words(four.packed)}:{port}" if four else f"-:{port}", f"{_words(six.packed)}:{port}")


def _words(packed: bytes) -> str:
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
