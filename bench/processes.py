"""The processes that a measurement runs, each ended when it is done with, and the plainest clients to ask them."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

HERE = Path(__file__).parent
FLOORS = HERE / "floors"
PALAVER = Path(sys.executable).with_name("palaver")
DEADLINE_S = 60.0


def environment() -> dict[str, str]:
    """As a user has it: modules are compiled once and kept, and nothing of ours is set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PALAVER_", "PYTHON"))}
    return kept | {"PALAVER_DISCOVER": "0"}


def raise_limits() -> None:
    """A thousand readers need as many descriptors, here and in what is started from here."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(hard, 8192)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="palaver-bench-", ignore_cleanup_errors=True) as made:
        yield Path(made)


class Process:
    """A program with pipes; says and hears lines."""

    def __init__(self, *command: str | Path) -> None:
        self._command = [str(word) for word in command]
        self._started = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that waiting for the pipe means waiting for the line
            env=environment(),
            start_new_session=True,
            cwd=tempfile.gettempdir(),
        )
        assert self._started.stdin is not None and self._started.stdout is not None
        self.stdin: IO[bytes] = self._started.stdin
        self.stdout: IO[bytes] = self._started.stdout
        self.pid = self._started.pid

    @classmethod
    def python(cls, script: Path, *arguments: object) -> Self:
        return cls(sys.executable, script, *map(str, arguments))

    def tell(self, line: str) -> None:
        self.stdin.write(line.encode() + b"\n")

    def hear(self) -> str:
        if not select.select([self.stdout], [], [], DEADLINE_S)[0]:
            raise SystemExit(f"{self._command} said nothing for {DEADLINE_S:g} s")
        line = self.stdout.readline()
        if not line:
            raise SystemExit(f"{self._command} ended with {self._started.wait()} where a line was due")
        return line.decode().strip()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.hear()

    def end(self) -> None:
        self._started.terminate()
        try:
            self._started.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._started.kill()
            self._started.wait()
        self.stdin.close()
        self.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Http:
    """One connection that is kept. Answers must have a length."""

    def __init__(self, port: int, token: str = "") -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: 127.0.0.1:{port}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer, which must be a success."""
        self._sock.sendall(self.request(method, path, body))
        head, _, rest = self._until(b"", b"\r\n\r\n")
        fields = head.lower().partition(b"content-length:")[2]
        length = int(fields.partition(b"\r\n")[0]) if fields else 0
        while len(rest) < length:
            rest += self.more()
        if not head.startswith(b"HTTP/1.1 2"):
            raise SystemExit(f"{method} {path}: {head.decode()} {rest.decode()}")
        return json.loads(rest) if rest else None

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        kind = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n" if content else ""
        return f"{method} {path} HTTP/1.1\r\n{self._head}{kind}\r\n".encode() + content

    def begin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Ask for what is read with `more`."""
        self._sock.sendall(self.request(method, path, body))

    def more(self) -> bytes:
        """What comes next, head and chunk framing too. The connection must not end here."""
        data = self._sock.recv(1 << 20)
        if not data:
            raise SystemExit("The connection was closed where an answer was due")
        return data

    def close(self) -> None:
        self._sock.close()

    def _until(self, data: bytes, mark: bytes) -> tuple[bytes, bytes, bytes]:
        while mark not in data:
            data += self.more()
        return data.partition(mark)


class Stream:
    """One reader of a session's events."""

    def __init__(self, daemon: Daemon, session_id: str, query: str = "tail=1") -> None:
        self._http = Http(daemon.port, daemon.token)
        self._http.begin("GET", f"/v1/sessions/{session_id}/events?{query}")
        self.until(b"event: caught_up")

    def more(self) -> bytes:
        return self._http.more()

    def until(self, mark: bytes) -> bytes:
        """Everything up to the read that brings `mark`."""
        got = [self.more()]
        seen = got[0]
        while mark not in seen:
            got.append(self.more())
            seen = seen[-len(mark) :] + got[-1]
        return b"".join(got)

    def close(self) -> None:
        self._http.close()


TURN_ENDED = b'"type":"turn_completed"'


class Daemon:
    """A daemon on `home`, which it makes ready: settings with one model for each scenario of `model.py`, a workspace, a data folder."""

    def __init__(self, home: Path, *, model_port: int = 0, scenarios: tuple[str, ...] = ()) -> None:
        self.home = home
        self.data = home / "data"
        self.workspace = home / "work"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.config = home / "config.toml"
        models = [f'[models."{name}"]\nbase_url = "http://127.0.0.1:{model_port}/{name}/v1"\nmodel = "bench"\n' for name in scenarios]
        self.config.write_text("".join(models))
        self.port = 0

    def start(self) -> Self:
        self.port = free_port()
        self._process = Process(PALAVER, "serve", "--data", self.data, "--config", self.config, "--port", str(self.port))
        self.pid = self._process.pid
        return self

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def answering(self) -> Self:
        """Returns once `/v1/health` has answered."""
        until_answered(self.port, "/v1/health")
        return self

    def http(self) -> Http:
        return Http(self.port, self.token)

    def session(self, http: Http, model: str | None = None, **fields: Any) -> str:
        chosen = {"agent": "palaver", "model": model} if model else {}
        answer = http.ask("POST", "/v1/sessions", {"workspace_path": str(self.workspace), **chosen, **fields})
        session_id: str = answer["session_id"]
        return session_id

    def end(self) -> None:
        self._process.end()

    def __enter__(self) -> Self:
        return self.start().answering()

    def __exit__(self, *_: object) -> None:
        self.end()


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "text": text}], **fields}


def until_answered(port: int, path: str, token: str = "") -> float:
    """Ask again and again until there is an answer. Returns the moment when it came."""
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.0005)
            continue
        with sock:
            bearer = f"Authorization: Bearer {token}\r\n" if token else ""
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n".encode())
            if sock.recv(100).startswith(b"HTTP/1.1 200"):
                return time.perf_counter()
