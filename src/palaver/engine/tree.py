"""The names in a workspace, a few levels deep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

MOST = 5000
_LEFT_OUT = {".git", "node_modules", "__pycache__", ".venv"}


def tree(root: Path, depth: int) -> dict[str, Any]:
    """Folders first, by name; links are named and not followed."""
    entries: list[dict[str, Any]] = []
    truncated = not _add(entries, root, "", depth)
    return {"entries": entries, "truncated": truncated}


def readable(name: str) -> str:
    """A name as JSON can have it: bytes that are no UTF-8 are shown as what they are, unreadable."""
    return os.fsencode(name).decode("utf-8", "replace")


def _add(entries: list[dict[str, Any]], folder: Path, prefix: str, depth: int) -> bool:
    """False when there is more than fits."""
    try:
        found = sorted(os.scandir(folder), key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    except OSError:
        return True  # a folder that cannot be read has no names to show
    for entry in found:
        if len(entries) >= MOST:
            return False
        path = f"{prefix}{readable(entry.name)}"
        if entry.is_symlink():
            entries.append({"path": path, "kind": "link", "size": None})
        elif entry.is_dir():
            entries.append({"path": path, "kind": "folder", "size": None})
            if depth > 1 and entry.name not in _LEFT_OUT and not _add(entries, Path(entry.path), f"{path}/", depth - 1):
                return False
        else:
            entries.append({"path": path, "kind": "file", "size": entry.stat(follow_symlinks=False).st_size})
    return True
