"""Words of code and of questions about it: identifiers taken apart, so that `parseHTTPHeader` is found by "parse http headers"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{1,79}")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STOP = frozenset(
    "a about after all also am an and any are as at be because been before being but by can code could did do does done each "
    "file files find for from function get go had has have he her his how i if implement implemented in into is it its just "
    "kind know like located make me module my need no not of on one or other our out place please project repo repository see "
    "should show so some than that the their them then there these they thing this those to up us use used uses using want "
    "was way we were what when where which while who whose why will with work works would you your".split()
)
_MOST_REPEATS = 6


def words(text: str) -> Iterator[str]:
    """The words of every identifier and every plain word, in lower case."""
    for identifier in IDENTIFIER.findall(text):
        yield from parts(identifier)


def parts(identifier: str) -> list[str]:
    return [part.lower() for part in _HUMP.findall(identifier)]


def joined(identifier: str) -> str:
    """One word of the whole: `foo_bar` and `fooBar` are the same."""
    return identifier.replace("_", "").lower()


def asked(question: str) -> list[str]:
    """What a question is about: its words without those that stand in every question, each once."""
    found = dict.fromkeys(word for word in words(question) if len(word) > 1 and word not in _STOP)
    return list(found)


def names_in(question: str) -> list[str]:
    """What in a question looks like a name of the code: with an underscore or a hump in it, or in backticks."""
    quoted = re.findall(r"`\.?([A-Za-z_]\w+)(?:\(\))?`", question)
    whole = [one for one in IDENTIFIER.findall(question) if "_" in one.strip("_") or re.search(r"[a-z][A-Z]", one)]
    return list(dict.fromkeys(joined(one) for one in [*whole, *quoted]))


def bag(text: str, most: int) -> str:
    """The text's words for an index: each at most a few times, the commonest first where there are too many."""
    counted = Counter(words(text))
    kept: Iterable[tuple[str, int]] = counted.most_common(most)
    return " ".join(" ".join([word] * min(count, _MOST_REPEATS)) for word, count in kept if len(word) > 1)


__all__ = ["asked", "bag", "joined", "names_in", "parts", "words"]
