"""So many readers of one stream, who read and count. `python readers.py PORT TOKEN SESSION QUERY COUNT MARK`

Prints `ready` when each has caught up. A line of stdin is a number: it is printed back when `MARK` has come to each reader that often.
"""

from __future__ import annotations

import selectors
import socket
import sys
from dataclasses import dataclass

BLOCK = 1 << 18


@dataclass
class Reader:
    sock: socket.socket
    mark: bytes
    count: int = 0
    rest: bytes = b""

    def read(self) -> None:
        data = self.sock.recv(BLOCK)
        if not data:
            raise SystemExit("a stream ended")
        seen = self.rest + data
        self.count += seen.count(self.mark)
        keep = len(self.mark) - 1
        self.rest = seen[-keep:]


def main(port: str, token: str, session_id: str, query: str, count: str, mark: str) -> None:
    readers = [_open(int(port), token, session_id, query, mark.encode()) for _ in range(int(count))]
    print("ready", flush=True)
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            reader.sock.setblocking(False)
            selector.register(reader.sock, selectors.EVENT_READ, reader)
        selector.register(0, selectors.EVENT_READ, None)
        _read(selector, readers)


def _read(selector: selectors.BaseSelector, readers: list[Reader]) -> None:
    wanted: int | None = None
    while True:
        for key, _ in selector.select():
            if key.data is None:
                line = sys.stdin.readline()
                if not line:
                    return
                wanted = int(line)
            else:
                key.data.read()
        if wanted is not None and all(reader.count >= wanted for reader in readers):
            print(wanted, flush=True)
            wanted = None


def _open(port: int, token: str, session_id: str, query: str, mark: bytes) -> Reader:
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    path = f"/v1/sessions/{session_id}/events?{query}"
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    seen = b""
    while b"event: caught_up" not in seen:
        data = sock.recv(BLOCK)
        if not data:
            raise SystemExit(f"no stream: {seen.decode()}")
        seen += data
    return Reader(sock, mark, seen.count(mark))


if __name__ == "__main__":
    main(*sys.argv[1:])
