"""Write a generated file, or say that it is stale: the one step that every generator here ends with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settle(files: Mapping[str, str], *, check: bool, refresh: str) -> int:
    """Write each file that differs; with `check` only name them, with the command that refreshes them, and return 1."""
    stale = [name for name, text in files.items() if not _same(ROOT / name, text)]
    for name in stale:
        if check:
            print(f"{name} is not what the code says. Run {refresh}.", file=sys.stderr)
        else:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(files[name], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
