"""How many tokens a text takes, about: no service tells its tokenizer, so this guesses, and rather too many than too few."""

from __future__ import annotations

import string

MESSAGE = 4
"""What a message costs beside its text."""
FILE = 800
"""What an image or another file costs."""
_WORDS = (string.ascii_letters + " ").encode()
_ASCII = bytes(range(128))


def estimate(text: str) -> int:
    """Four letters a token; signs, digits and line ends count more than letters, and what is not ASCII by its bytes."""
    data = text.encode("utf-8", "replace")
    signs = data.translate(None, delete=_WORDS)
    other = len(signs.translate(None, delete=_ASCII)) if not text.isascii() else 0
    return int((len(data) - len(signs)) * 0.25 + (len(signs) - other) * 0.7 + other * 0.5) + 1


__all__ = ["FILE", "MESSAGE", "estimate"]
