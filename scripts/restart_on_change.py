"""Run a command, and run it again whenever a Python file below the named folders changes: `restart_on_change.py src -- command …`.

The old one gets SIGTERM and its time to end well; Ctrl-C ends both.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PAUSE_S = 0.5
PATIENCE_S = 15


def stamps(folders: list[Path]) -> dict[Path, int]:
    """When each file was last written."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*.py"):
            try:
                found[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # an editor replaces files in two steps
                continue
    return found


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        print(f"It did not end within {PATIENCE_S} s of SIGTERM: killed.", file=sys.stderr)
        process.kill()
        process.wait()


def main(arguments: list[str]) -> int:
    if "--" not in arguments:
        print("Usage: restart_on_change.py FOLDER… -- COMMAND…", file=sys.stderr)
        return 2
    split = arguments.index("--")
    folders, command = [Path(name) for name in arguments[:split]], arguments[split + 1 :]
    before = stamps(folders)
    process = subprocess.Popen(command)
    try:
        while True:
            time.sleep(PAUSE_S)
            if (now := stamps(folders)) != before:
                print("The source changed: starting again.", file=sys.stderr)
                stop(process)
                before, process = now, subprocess.Popen(command)
    except KeyboardInterrupt:
        stop(process)
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
