"""How much the page loads before it stands. Needs no browser: the built page's own links say it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import palaver

STATIC = Path(palaver.__file__).parent / "static"
LIMIT_KIB = 140


def first_loaded() -> set[Path]:
    """The scripts that `index.html` names, and what they import without being asked to."""
    page = (STATIC / "index.html").read_text()
    found: set[Path] = set()
    todo = [STATIC / name for name in re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', page)]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [path.parent / name for name in re.findall(r'(?:import|from)\s*"\./([^"]+\.js)"', path.read_text())]
    return found


def test_the_scripts_that_the_page_loads_first_are_within_140_kib() -> None:
    """UI 8, gate 2: the scripts as gzip."""
    files = first_loaded()
    assert files
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) / 1024 for path in files}
    assert sum(sizes.values()) <= LIMIT_KIB, sizes
