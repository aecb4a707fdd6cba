"""Pieces of a file that answer a question best: by what it defines where that is known, else by lines; each with its range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from palaver.context.words import words

WHOLE = 40
"""Lines of a file that is shown whole."""
LONGEST = 60
"""Lines of one piece."""


class Chunk(NamedTuple):
    start: int
    """Its first line, from 1."""
    end: int
    score: float
    text: str


def chunks(text: str, symbols: Sequence[tuple[str, int, int, int, str]], wanted: Sequence[str]) -> list[Chunk]:
    """The pieces that hold any of the wanted words, the best first."""
    lines = text.split("\n")
    found = [_scored(lines, start, end, wanted) for start, end in _ranges(len(lines), symbols)]
    return sorted((chunk for chunk in found if chunk.score > 0), key=lambda chunk: (-chunk.score, chunk.start))


def _ranges(count: int, symbols: Sequence[tuple[str, int, int, int, str]]) -> Iterator[tuple[int, int]]:
    if count <= WHOLE:
        yield 1, count
        return
    if not symbols:
        yield from ((start, min(count, start + LONGEST - 1)) for start in range(1, count + 1, LONGEST * 2 // 3))
        return
    for _, start, end, _, _ in symbols:
        yield start, min(end, start + LONGEST - 1, count)
    first = min(symbol[1] for symbol in symbols)
    if first > 1:
        yield 1, min(first - 1, LONGEST)  # what stands above the first definition: the file's own words about itself


def _scored(lines: Sequence[str], start: int, end: int, wanted: Sequence[str]) -> Chunk:
    text = "\n".join(lines[start - 1 : end])
    held = Counter(words(text))
    head = set(words(lines[start - 1] if start <= len(lines) else ""))
    score = sum(min(held[word], 4) ** 0.5 + 2.0 * (word in head) for word in wanted if held[word] or word in head)
    return Chunk(start, end, score / (1 + (end - start) / 80), text)


__all__ = ["LONGEST", "WHOLE", "Chunk", "chunks"]
