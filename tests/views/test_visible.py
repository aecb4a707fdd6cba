"""What a screen shows of a text: one golden table for every language (SECURITY 19)."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.views.visible import visible

GOLDEN = Path(__file__).parents[2] / "golden" / "visible.json"
ROWS: list[dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))

TRICKY = st.text(
    st.sampled_from("ab \t\n⟨⟩U+0123456789 blanks tabs line ends\u202e\u200b\u200d\u00a0\ufe0f\x1b\r\U000e0041") | st.characters(),
    max_size=40,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row["in"])[:40])
def test_a_text_is_shown_as_the_golden_table_says(row: dict[str, Any]) -> None:
    """SECURITY 19. `prose` stands only where it differs."""
    assert visible(row["in"]) == row["out"]
    assert visible(row["in"], prose=True) == row.get("prose", row["out"])


def back(shown: str) -> str:
    """Reads a shown text again: only possible because nothing that is shown can mean two things."""
    names = {"blanks": " ", "tabs": "\t", "line ends": "\n"}

    def original(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else names[found[3]] * int(found[2])

    return re.sub(r"⟨(?:U\+([0-9A-F]+)|(\d+) (blanks|tabs|line ends))⟩", original, shown)


@given(TRICKY)
def test_two_different_texts_never_look_the_same(text: str) -> None:
    """SECURITY 19: the rendered text is injective."""
    assert back(visible(text)) == text
    assert back(visible(text, prose=True)) == text


@given(TRICKY)
def test_nothing_that_is_shown_is_obeyed_or_invisible(text: str) -> None:
    """SECURITY 19."""
    for character in visible(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs", "Co", "Zl", "Zp")
        assert character == " " or unicodedata.category(character) != "Zs"
    for character in visible(text, prose=True):
        assert character in "\n\t" or unicodedata.category(character) != "Cc"


@given(st.lists(TRICKY, max_size=5))
def test_prose_may_be_shown_piece_by_piece(pieces: list[str]) -> None:
    assert "".join(visible(piece, prose=True) for piece in pieces) == visible("".join(pieces), prose=True)


def test_a_lone_surrogate_is_shown_by_its_number() -> None:
    assert visible("a\ud83db") == "a⟨U+D83D⟩b"
