"""Model servers of others as processes of a test run, each at a port of its own."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[1] / ".peers"
STARTS_S = 120.0


def python_of(name: str) -> Path:
    """Of the environment that `scripts/peers.py` made; skips where it could not."""
    folder = PEERS / name
    if not (folder / "installed").exists() or not (folder / "installed").read_text():
        said = (folder / "failed").read_text()[-300:] if (folder / "failed").exists() else "run make test-peers"
        pytest.skip(f"{name} is not installed here: {said}")
    return folder / "bin" / "python"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int, ready: str, log: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process once `ready` answers; ended afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
        try:
            _wait(process, f"http://127.0.0.1:{port}{ready}", log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + STARTS_S
    while time.monotonic() < end:
        assert process.poll() is None, f"it ended: {log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"it did not start in time: {log.read_text()[-2000:]}")
