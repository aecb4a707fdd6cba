"""What a model is shown of a folder before it asks: git's state, the tree, the files its question is about with what they define, and
excerpts of them; in at most so many tokens. Pure: it only writes down what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palaver.context.chunks import Chunk
from palaver.context.index import Known
from palaver.models.tokens import estimate
from palaver.tools.repo_tree import Folder, grown, tree_text

NAMED = 10
"""Files that are named in order of relevance."""
_TREE_LINES = 200
SECRET = re.compile(
    r"(^|/)(\.env[^/]*|\.npmrc|\.netrc|\.pypirc|\.git-credentials|id_[a-z0-9]+|[^/]*credentials?[^/]*|[^/]*secrets?[^/]*"
    r"|[^/]*\.(pem|key|p12|pfx|kdbx|keystore|jks))$",
    re.IGNORECASE,
)
"""Files that are named and never quoted unasked."""


@dataclass(frozen=True)
class Found:
    """What there is to tell."""

    paths: Sequence[str]
    """All files, sorted."""
    more: bool
    """There are more."""
    git: str | None
    ranked: Sequence[Known]
    """The files that the question is about, the best first."""
    excerpts: Sequence[tuple[str, Chunk]]
    """Pieces of them, the best first."""


def bundle(found: Found, room: int) -> str:
    """As much of it as fits, relevant files first; nothing where the folder has no files."""
    if not found.paths:
        return ""
    count = f"{len(found.paths)}{' or more' if found.more else ''} file{'' if len(found.paths) == 1 else 's'}"
    head = f"# The workspace when this turn began: {count}" + (f"\n\n{found.git}" if found.git else "")
    left = room - estimate(head)
    relevant = _fitted(lambda lines: _relevant(found.ranked, lines), (8, 4, 2, 0), int(left * 0.45))
    left -= estimate(relevant) if relevant else 0
    root = grown(found.paths)
    tree = _fitted(lambda depth: _tree(root, depth), (4, 3, 2, 1), int(left * 0.4))
    left -= estimate(tree) if tree else 0
    return "\n\n".join(part for part in (head, tree, relevant, _excerpts(found.excerpts, left - 40)) if part)


def _fitted(write: Callable[[int], str], sizes: Sequence[int], room: int) -> str:
    """The largest that fits, of the smallest as many lines as do."""
    text = ""
    for size in sizes:
        text = write(size)
        if estimate(text) <= room:
            return text
    lines = text.split("\n")
    while lines and estimate("\n".join(lines)) + 8 > room:
        lines = lines[: len(lines) * 4 // 5]
    return "\n".join([*lines, "…"]) if len(lines) > 2 else ""


def _tree(root: Folder, depth: int) -> str:
    text, _ = tree_text(root, depth, _TREE_LINES)
    return f"## Tree\n\n{text}"


def _relevant(ranked: Sequence[Known], lines: int) -> str:
    if not ranked:
        return ""
    told = [f"{place}. {known.path} ({known.lines} lines)" + _map(known, lines) for place, known in enumerate(ranked[:NAMED], 1)]
    return "## Files that the message may be about, the likeliest first\n\n" + "\n".join(told)


def _map(known: Known, lines: int) -> str:
    return "".join(f"\n   {symbol[1]}: {'  ' * symbol[3]}{symbol[4]}" for symbol in _top(known.symbols, lines))


def _top(symbols: Sequence[tuple[str, int, int, int, str]], most: int) -> Sequence[tuple[str, int, int, int, str]]:
    """The outermost ones, in the order of the file; deeper ones where there is room for them."""
    for depth in (3, 2, 1, 0):
        kept = [symbol for symbol in symbols if symbol[3] <= depth]
        if len(kept) <= most:
            return kept
    return [symbol for symbol in symbols if symbol[3] == 0][:most]


def _excerpts(excerpts: Sequence[tuple[str, Chunk]], room: int) -> str:
    told = list[str]()
    for path, chunk in excerpts:
        text = f"{path}:{chunk.start}-{chunk.end}\n```\n{chunk.text}\n```"
        price = estimate(text) + 2
        if price <= room:
            told.append(text)
            room -= price
    return "## Excerpts\n\n" + "\n\n".join(told) if told else ""


__all__ = ["NAMED", "SECRET", "Found", "bundle"]
