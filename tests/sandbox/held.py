"""A place with everything that a sandboxed command must not get at, and a way to run one there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from palaver.policy.paths import GUARDED
from palaver.sandbox.orders import Orders
from palaver.sandbox.variants import VARIANTS, Sandbox, Variant, started, try_out

SECRET = "the-secret-that-nobody-may-see"
DEADLINE_S = 30.0
WHY = {variant: try_out(variant) for variant in VARIANTS}
"""Of each variant, why it is absent here; None: it holds, and is tested."""


def is_absent(variant: Variant) -> bool:
    """Not there: then it is told so, with its reason, and there is nothing more to test."""
    why = WHY[variant]
    if why is not None:
        found = Sandbox(variants=[variant]).look()
        assert found.variant is None and found.absent == {variant: why} and why
    return why is not None


class World:
    """`work` is the workspace; `out` is everybody else's."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.work, self.temp, self.out, self.hidden = (self.folder / name for name in ("work", "temp", "out", "hidden"))
        for place in (self.work / ".git" / "hooks", self.work / ".github" / "workflows", self.temp, self.out, self.hidden):
            place.mkdir(parents=True)
        (self.hidden / "token").write_text(SECRET)
        (self.out / "file").write_text("theirs")
        (self.work / ".git" / "config").write_text("[core]\n")
        (self.work / "Makefile").write_text("all:\n")
        (self.work / "file").write_text("ours")
        self.sockets = [
            _bound(socket.AF_UNIX, socket.SOCK_STREAM, str(self.out / "stream")),
            _bound(socket.AF_UNIX, socket.SOCK_DGRAM, str(self.out / "datagrams")),
            _bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.folder}"),
            _bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            _bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ]
        self.other = subprocess.Popen(["/bin/sleep", "600"], env={"SECRET": SECRET}, stdin=subprocess.DEVNULL, start_new_session=True)

    @property
    def names(self) -> dict[str, str]:
        """For a command's environment."""
        return {
            "OUT": str(self.out),
            "HIDDEN": str(self.hidden),
            "ABSTRACT": str(self.folder),
            "TCP": str(self.sockets[3].getsockname()[1]),
            "UDP": str(self.sockets[4].getsockname()[1]),
            "OTHER": str(self.other.pid),
        }

    def orders(self, variant: Variant, *, git: bool = False, network: bool = False, guarded: tuple[str, ...] = ()) -> Orders:
        own = [str(self.work / ".git")] if git else []
        places = (str(self.work), str(self.temp), str(self.work))
        return Orders(variant, *places, [str(self.hidden)], GUARDED, guarded, own, network)

    def run(self, orders: Orders, command: list[str]) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(self.temp), **self.names}
        line = started(orders, command)
        return subprocess.run(
            line, cwd="/", env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False
        )

    def sh(self, orders: Orders, script: str) -> subprocess.CompletedProcess[str]:
        return self.run(orders, ["/bin/sh", "-c", script])

    def python(self, orders: Orders, script: str) -> subprocess.CompletedProcess[str]:
        return self.run(orders, [sys.executable, "-I", "-c", f"import os, socket, sys\nget = os.environ.get\n{script}"])

    def look(self) -> dict[str, tuple[int, int, int, bytes]]:
        """Everything of everybody else, and what is guarded: mode, owner, time, content."""
        return {str(path): _facts(path) for path in self._others()}

    def _others(self) -> Iterator[Path]:
        yield from (self.out, self.hidden, *self.out.rglob("*"), *self.hidden.rglob("*"))
        guarded = [path for name in (".git", ".github", "Makefile") if (path := self.work / name).exists()]
        yield from (*guarded, *(path for place in guarded for path in place.rglob("*")))

    def heard(self) -> list[str]:
        """What came in on any of the sockets."""
        heard = []
        for one in self.sockets:
            with contextlib.suppress(BlockingIOError):
                heard.append(str(one.accept() if one.type == socket.SOCK_STREAM else one.recv(100)))
        return heard

    def close(self) -> None:
        self.other.kill()
        self.other.wait()
        for one in self.sockets:
            one.close()


def _bound(family: int, kind: int, address: object) -> socket.socket:
    one = socket.socket(family, kind)
    one.setblocking(False)
    one.bind(address)  # type: ignore[arg-type]  # of its family
    if kind == socket.SOCK_STREAM:
        one.listen()
    return one


def _facts(path: Path) -> tuple[int, int, int, bytes]:
    found = path.lstat()
    return found.st_mode, found.st_uid, found.st_mtime_ns, path.read_bytes() if path.is_file() else b""
