"""What a model or a tool printed, made safe to look at: nothing in it is obeyed and nothing in it hides.

The characters that a screen obeys, reorders by or does not show (control, bidi, zero-width, tag, other blanks than the space) come
out by their number, as `⟨U+202E⟩`; a run of more than eight blanks comes out as a count, as `⟨12 blanks⟩`, since it could push the
rest of a line out of sight. Line ends and tabs stay. Different texts always come out different (a `⟨` of the text itself is shown
by its number too), so what a person approved is what they saw. `golden/visible.json` holds the same table for every language: the
ranges stand here in full, because two languages never agree on the categories of Unicode.
"""

from __future__ import annotations

import re

_OBEYED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control, but for line end and tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi
    "\u2028\u2029"  # line ends of another kind
    "\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb\ufffe\uffff"  # zero-width and format
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters without ink
    "\ud800-\udfff\ue000-\uf8ff"  # surrogates, private use
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"  # formats of scripts and music
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"  # tags, variation selectors, private use
    "\u27e8"  # our own bracket
)
_WRITTEN = "\u00a0\u00ad\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000\ufe00-\ufe0f"
"""Invisible too, but part of ordinary writing: joiners, emoji variants, soft hyphens, the blanks of other scripts."""

_PROSE = re.compile(f"[{_OBEYED}]")
_STRICT = re.compile(f"[{_OBEYED}{_WRITTEN}]|[ \t]{{9,}}|\n{{9,}}")
_SAME = re.compile(r" +|\t+|\n+")
_NAMES = {" ": "blanks", "\t": "tabs", "\n": "line ends"}


def visible(text: str, *, prose: bool = False) -> str:
    """`text` as a screen may show it.

    As it stands it is for whatever somebody decides upon: commands, paths, diffs, inputs, rules. With `prose` it is for answers and
    output that are merely read: blanks keep their number and ordinary writing its joiners. Prose may be given piece by piece.
    """
    return _PROSE.sub(_shown, text) if prose else _STRICT.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    run = found[0]
    if run[0] in _NAMES:
        return _SAME.sub(_counted, run)
    return f"⟨U+{ord(run):04X}⟩"


def _counted(found: re.Match[str]) -> str:
    return f"⟨{len(found[0])} {_NAMES[found[0][0]]}⟩"
