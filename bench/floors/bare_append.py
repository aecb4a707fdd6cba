"""The floor of the log: a bare loop that writes and syncs groups of lines. `python bare_append.py FOLDER WRITERS FILES EVENTS`

A group is what so many writers have ready on so many files. Prints the events a second.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

LINE = b"x" * 210 + b"\n"


def main(folder: str, writers: str, files: str, events: str) -> None:
    fds = [os.open(Path(folder) / f"{number}", os.O_RDWR | os.O_CREAT) for number in range(int(files))]
    sync = getattr(os, "fdatasync", os.fsync)
    group = LINE * (int(writers) // int(files))
    rounds = int(events) // int(writers)
    began = time.perf_counter()
    for number in range(rounds):
        for fd in fds:
            os.pwrite(fd, group, number * len(group))
            sync(fd)
    print(rounds * int(writers) / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
