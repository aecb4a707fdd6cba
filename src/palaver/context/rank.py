"""Which files of a folder a question is about: BM25 over their paths, the names they define and their words, and then over one step of
who uses whom. A file's place says something too: a question is rarely about tests or a changelog unless it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from palaver.context.index import Index
from palaver.context.words import asked, names_in

_WEIGHTS = {"path": 5.0, "names": 4.0, "body": 1.0}
_BY_NAME = {"defs": 6.0, "refs": 0.5}
_SEEDS = 8
_NEIGHBOUR = 0.25
_CANDIDATES = 200
_NAMES = 60
_MOST_WORDS = 40
_TEST = r"(^|/)(tests?|testing|spec|__tests__|fixtures|examples?|benchmarks?)/|(^|/)(test_|conftest)|_test\.|\.(test|spec)\."
_DOC = r"(^|/)(docs?|documentation)/|\.(md|rst|txt|html)$"
_CHANGE = r"(^|/)(CHANGE|HISTORY|NEWS|AUTHORS|LICENSE|LICENCE|CONTRIBUT)|\.lock$|(^|/)vendor/|\.min\.|-lock\.json$"
_PLACES = (
    (re.compile(_TEST), "test", 0.5),
    (re.compile(_DOC, re.IGNORECASE), "doc", 0.6),
    (re.compile(_CHANGE, re.IGNORECASE), "change", 0.3),
)
"""Where a question seldom leads, and the beginning of the word that says it does."""


def ranked(index: Index, question: str, most: int = 50) -> list[tuple[str, float]]:
    """Paths with their scores, the best first; none for a question without a word of its own."""
    wanted = asked(question)[:_MOST_WORDS]
    scores: dict[str, float] = {}
    if wanted:
        _add(scores, index.matching(_any("path names body", wanted), _WEIGHTS, _CANDIDATES), 1.0)
    if names := names_in(question):
        _add(scores, index.matching(_any("defs refs", names), _BY_NAME, _CANDIDATES), 1.0)
    for path in scores:
        scores[path] *= _place(path, wanted)
    _add_neighbours(scores, index)
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:most]


def _any(columns: str, wanted: Iterable[str]) -> str:
    """FTS5's words for it. They are letters and digits alone, so that nothing in a question is an operator."""
    words = " OR ".join(f'"{word}"' for word in wanted)
    return f"{{{columns}}} : ({words})"


def _add(scores: dict[str, float], found: Sequence[tuple[str, float]], share: float) -> None:
    for path, score in found:
        scores[path] = scores.get(path, 0.0) + share * score


def _place(path: str, wanted: Sequence[str]) -> float:
    for place, word, factor in _PLACES:
        if place.search(path) and not any(one.startswith(word) for one in wanted):
            return factor
    return 1.0


def _add_neighbours(scores: dict[str, float], index: Index) -> None:
    """What the best files use is near to them: what defines the names that they hold, rare names more than common ones."""
    seeds = sorted(scores, key=lambda path: (-scores[path], path))[:_SEEDS]
    if not seeds:
        return
    best = scores[seeds[0]]
    for seed in seeds:
        names = index.refs(seed)[:_NAMES]
        found = [(path, score) for path, score in index.matching(_any("defs", names), {"defs": 1.0}, 20) if path != seed] if names else []
        top = max((score for _, score in found), default=0.0)
        if top > 0:
            share = _NEIGHBOUR * scores[seed] / _SEEDS if best > 0 else 0.0
            _add(scores, [(path, score / top * _place(path, ())) for path, score in found], share)


__all__ = ["ranked"]
