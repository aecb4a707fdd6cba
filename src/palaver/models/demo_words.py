"""The demo model's phrases: what they are called and how they are read out of a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_WAIT_S = 600.0

WORDS = (
    ("read the file PATH", "`read_file`"),
    ("search for TEXT", "`search`"),
    ("run the command `CMD`", "`shell`"),
    ('change "OLD" to "NEW" in PATH', "`apply_patch`"),
    ('write the file PATH with "TEXT"', "`apply_patch`"),
    ("think about TEXT", "thinking"),
    ("write N words", "text"),
    ("wait N seconds", "a pause"),
    ("ask me TEXT with A or B", "`ask_user`"),
    ("fail", "a failed turn"),
)
"""Every phrase, and what it shows."""


@dataclass(frozen=True)
class UseTool:
    """Call a tool. `subject` is what the report is about."""

    name: str
    input: dict[str, Any]
    subject: str


@dataclass(frozen=True)
class Think:
    about: str


@dataclass(frozen=True)
class Write:
    words: int


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Fail:
    pass


@dataclass(frozen=True)
class Explain:
    """Nothing was understood: say what would be."""


Phrase = UseTool | Think | Write | Wait | Fail | Explain


def read_phrases(text: str) -> list[Phrase]:
    """The phrases of one message in their order; `Explain` alone when there is none."""
    found = [phrase for clause in _clauses(text) if (phrase := _phrase(clause)) is not None]
    return found or [Explain()]


# What stands in quotes or backticks is one thing, whatever words are in it.
_THEN = re.compile(r'`[^`]*`|"[^"]*"|“[^”]*”|([,;.]?\s*\b(?:and\s+)?then\b[,:]?\s*)', re.IGNORECASE)


def _clauses(text: str) -> list[str]:
    clauses, start = [], 0
    for match in _THEN.finditer(text):
        if match.group(1) is not None:
            clauses.append(text[start : match.start()])
            start = match.end()
    return [*clauses, text[start:]]


_QUOTE, _UNQUOTE = '["“]', '["”]'
_PATH = rf"(?P<path>`[^`\n]+`|{_QUOTE}[^\"”\n]+{_UNQUOTE}|\S+)"


def _phrase(clause: str) -> Phrase | None:
    """The first phrase in this clause: words before and after it are let be."""
    hits = [(match.start(), place, match) for place, (pattern, _) in enumerate(_PHRASES) if (match := pattern.search(clause))]
    if not hits:
        return None
    _, place, match = min(hits, key=lambda hit: hit[:2])
    return _PHRASES[place][1](match)


def _read(match: re.Match[str]) -> Phrase:
    path = _path(match["path"])
    return UseTool("read_file", {"path": path}, path)


def _search(match: re.Match[str]) -> Phrase:
    pattern = _text(match["text"])
    return UseTool("search", {"pattern": pattern}, pattern)


def _run(match: re.Match[str]) -> Phrase:
    command = match["command"] if match["command"] is not None else match["bare"].strip()
    return UseTool("shell", {"command": command}, command)


def _change(match: re.Match[str]) -> Phrase:
    """Search and replace, since the file is not known; its marks are longer than any that the texts hold."""
    path, old, new = _path(match["path"]), match["old"], match["new"]
    width = max((len(mark) + 1 for mark in re.findall(r"<{7,}|={7,}|>{7,}", f"{old}\n{new}")), default=7)
    patch = f"{'<' * width} SEARCH {path}\n{old}\n{'=' * width}\n{new}\n{'>' * width} REPLACE\n"
    return UseTool("apply_patch", {"patch": patch}, path)


def _write_file(match: re.Match[str]) -> Phrase:
    path = _path(match["path"])
    lines = "".join(f"+{line}\n" for line in match["text"].removesuffix("\n").split("\n")) if match["text"] else ""
    return UseTool("apply_patch", {"patch": f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"}, path)


def _ask(match: re.Match[str]) -> Phrase:
    text = _text(match["text"])
    labels = [label for part in re.split(r",|\bor\b", match["choices"], flags=re.IGNORECASE) if (label := _text(part))]
    question = {
        "id": "choice",
        "header": "Your choice",
        "text": text,
        "type": "choice",
        "options": [{"label": label} for label in dict.fromkeys(labels)],
        "multiple": False,
        "free_text": False,
    }
    return UseTool("ask_user", {"questions": [question]}, text)


_PHRASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Phrase]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), read)
    for pattern, read in (
        (rf"\bread\s+the\s+file\s+{_PATH}", _read),
        (r"\bsearch\s+for\s+(?P<text>[^\n]*\S[^\n]*)", _search),
        (r"\brun\s+the\s+command\s+(?:`(?P<command>[^`]+)`|(?P<bare>[^\s`][^\n]*))", _run),
        (rf"\bchange\s+{_QUOTE}(?P<old>.+?){_UNQUOTE}\s+to\s+{_QUOTE}(?P<new>.*?){_UNQUOTE}\s+in\s+{_PATH}", _change),
        (rf"\bwrite\s+the\s+file\s+{_PATH}\s+with\s+{_QUOTE}(?P<text>.*){_UNQUOTE}", _write_file),
        (r"\bthink\s+about\s+(?P<text>.*\S)", lambda match: Think(_text(match["text"]))),
        (r"\bwrite\s+(?P<words>\d{1,6})\s+words?\b", lambda match: Write(int(match["words"]))),
        (r"\bwait\s+(?P<seconds>\d{1,6}(?:\.\d+)?)\s+seconds?\b", lambda match: Wait(min(float(match["seconds"]), MAX_WAIT_S))),
        (r"\bask\s+me\s+(?P<text>.+)\s+with\s+(?P<choices>\S.*?\s+or\s+.*\S)", _ask),
        (r"\bfail\b", lambda match: Fail()),
    )
)


def _path(text: str) -> str:
    """Without quotes, or without the mark that ends a sentence."""
    return text[1:-1] if text[0] in '`"“' and len(text) > 2 else text.rstrip(",;:!?").removesuffix(".") or text


def _text(text: str) -> str:
    """Without what politeness and grammar put around it."""
    text = re.sub(r"[\s,]+please\s*[.!]*\s*$", "", text, flags=re.IGNORECASE).strip()
    if len(text) > 2 and text[0] in '`"“' and text[-1] in '`"”':
        return text[1:-1]
    return text.rstrip(".!?").strip() or text
