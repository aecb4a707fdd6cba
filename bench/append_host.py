"""Tasks that append to logs, one line after the other, each waiting for the disk. `python append_host.py FOLDER TASKS LOGS EVENTS`

Prints the events a second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import uvloop

from palaver.life import spare_the_collector
from palaver.log.files import FileLog

LINE = b"x" * 210


async def main(folder: str, tasks: str, logs: str, events: str) -> None:
    sys.setswitchinterval(0.0001)  # as the daemon has it
    spare_the_collector()
    log = FileLog(Path(folder))
    heads = {f"sessions/s{number}": 0 for number in range(int(logs))}
    for key in heads:
        await log.open(key, create=True)
    each = int(events) // int(tasks)

    async def append(key: str) -> None:
        for _ in range(each):
            head, heads[key] = heads[key], heads[key] + 1
            await log.append(key, head, [LINE])

    keys = list(heads)
    began = time.perf_counter()
    await asyncio.gather(*(append(keys[number % len(keys)]) for number in range(int(tasks))))
    print(each * int(tasks) / (time.perf_counter() - began), flush=True)
    await log.shut()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
