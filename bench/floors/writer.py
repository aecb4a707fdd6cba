"""The floor of fan-out: ready bytes written to so many sockets. `python writer.py SOCKETS`

A line of stdin is the number of events; each goes to every socket in a write of its own. Prints the CPU seconds that it took.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

PAUSE_S = 0.0003
EVENT = b"id: 1\ndata: " + b"x" * 290 + b"\n\n"


def drain(ends: list[socket.socket]) -> None:
    """In a process of its own: read and forget."""
    import selectors

    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ, end)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.recv(1 << 18):
                    selector.unregister(key.data)


def connected(count: int) -> tuple[list[socket.socket], list[socket.socket]]:
    """TCP, as the readers have it."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        address = server.getsockname()
        theirs: list[socket.socket] = []
        connecting = threading.Thread(target=lambda: theirs.extend(socket.create_connection(address) for _ in range(count)))
        connecting.start()
        ours = [server.accept()[0] for _ in range(count)]
        connecting.join()
    for sock in ours:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def write(sockets: list[socket.socket], events: int) -> float:
    """CPU seconds. Between two events the readers have time to fall asleep: waking them is part of what a write costs."""
    fds = [sock.fileno() for sock in sockets]
    send, clock = os.write, time.process_time
    used = 0.0
    for _ in range(events):
        began = clock()
        for fd in fds:
            send(fd, EVENT)
        used += clock() - began
        time.sleep(PAUSE_S)
    return used


def main(count: str) -> None:
    ours, theirs = connected(int(count))
    if os.fork() == 0:
        for sock in ours:
            sock.close()
        drain(theirs)
        os._exit(0)
    for sock in theirs:
        sock.close()
    print("ready", flush=True)
    for line in sys.stdin:
        print(write(ours, int(line)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
