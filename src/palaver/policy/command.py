"""A shell line taken apart, so that a rule sees every command in it.

`parse` gives the commands that stand in the line and those that they carry: behind wrappers (`nice`, `env`, `xargs`, `find -exec`), in
the line of `bash -c` and `eval`, in substitutions and in here-documents of a shell. What cannot be taken apart makes the whole line
*unparsed*, which no rule allows. Bounds: a line over 16 KiB and anything nested over 32 deep is unparsed; `Line.steps` counts the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from palaver.policy.programs import ESCALATION, Word, name_of, named_escalation, obstacle
from palaver.policy.reader import Reader
from palaver.policy.words import MAX_DEPTH, Draft, Unparsed
from palaver.policy.wrappers import SHELLS, Unwrapped, unwrap

MAX_BYTES = 16 * 1024
_MAX_STEPS = 16 * MAX_BYTES
_NOWHERE = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"))


@dataclass(frozen=True)
class Part:
    """One command of the line."""

    words: tuple[Word, ...]
    text: str
    """As it stands in the line, or in the word that carried it."""
    has_assignment: bool = False
    has_substitution: bool = False
    has_redirect_to_file: bool = False
    wrapper: bool = False
    """It carries other parts (`nice`, `bash -c`, a loop's head) and needs no rule of its own."""
    opaque: str | None = None
    """Why what it carries cannot be seen."""
    files: tuple[Word, ...] = ()
    """Files that it is redirected to."""
    sources: tuple[Word, ...] = ()
    """Files that it is redirected from."""

    @property
    def obstacle(self) -> str | None:
        """Why no allow rule and no grant matches it, or None."""
        if self.has_assignment:
            return "it sets a variable"
        if self.has_substitution:
            return "it holds a substitution"
        if self.has_redirect_to_file:
            return "it writes a file by redirection"
        if self.opaque:
            return self.opaque
        return obstacle(self.words) if self.words else None

    @property
    def is_literal(self) -> bool:
        """Every word is known, and nothing that it carries is hidden."""
        return not self.opaque and not self.has_substitution and all(word.literal for word in (*self.words, *self.files, *self.sources))

    @property
    def hides_its_program(self) -> bool:
        return bool(self.opaque or (self.words and not self.words[0].literal))


@dataclass(frozen=True)
class Line:
    text: str
    parts: tuple[Part, ...]
    unparsed: str | None = None
    """Why it could not be taken apart; `parts` holds what was found until then."""
    steps: int = 0

    @property
    def escalation(self) -> str | None:
        """The program that runs something with other rights; where programs are hidden, also one that is merely named."""
        for part in self.parts:
            if part.words and (name := name_of(part.words[0])) in ESCALATION:
                return name
        if self.unparsed or any(part.hides_its_program for part in self.parts):
            return named_escalation(self.text)
        return None


def parse(line: str) -> Line:
    """Take a line apart. Never raises; a line that is too long costs nothing."""
    if len(line) > MAX_BYTES or len(line.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Line(line, (), "it is longer than 16 KiB")
    if "\0" in line:
        return Line(line, (), "it holds a NUL")
    return _parse(line)


@lru_cache(maxsize=64)
def _parse(line: str) -> Line:
    found: list[Draft] = []
    reader = Reader(line, 0, found)
    try:
        reader.whole()
        reason = None
    except Unparsed as error:
        reason = str(error)
    parts = _Parts()
    for draft in found:
        try:
            parts.add(draft, 0)
        except Unparsed as error:
            reason = reason or str(error)
    return Line(line, tuple(parts.found), reason, reader.steps + parts.steps)


class _Parts:
    """Drafts turned into parts, with what they carry."""

    def __init__(self) -> None:
        self.found: list[Part] = []
        self.steps = 0

    def add(self, draft: Draft, depth: int) -> None:
        if depth + draft.depth > MAX_DEPTH:
            raise Unparsed("it is nested over 32 deep")
        words = tuple(draft.words)
        self.steps += 1 + len(words)
        if self.steps > _MAX_STEPS:
            raise Unparsed("it carries too many commands")
        carried = unwrap(words) if words and not draft.head and not draft.guessed else None
        opaque = draft.opaque or (carried.unknown if carried else None)
        self.found.append(
            Part(
                words=words,
                text=draft.text,
                has_assignment=draft.assigns or bool(carried and carried.assigns),
                has_substitution=draft.substitutes,
                has_redirect_to_file=any(_is_file(word) for word in draft.to) or any(_is_socket(word) for word in draft.source),
                wrapper=draft.head or carried is not None,
                opaque=opaque,
                files=tuple(draft.to),
                sources=tuple(draft.source),
            )
        )
        if carried is not None:
            self._add_carried(carried, draft, depth + 1)
        if words and name_of(words[0]) in SHELLS:
            for document in draft.documents:
                self._add_line(document, depth + draft.depth + 1)

    def _add_carried(self, carried: Unwrapped, draft: Draft, depth: int) -> None:
        for inner in carried.commands:
            if inner:
                self.add(Draft(0, list(inner), " ".join(map(_shown, inner)), depth=draft.depth), depth)
        for inner in carried.perhaps:
            self.add(Draft(0, list(inner), draft.text, depth=draft.depth, guessed=True), depth)
        for script in carried.scripts:
            self._add_line(script, depth + draft.depth)

    def _add_line(self, line: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Unparsed("it is nested over 32 deep")
        inner: list[Draft] = []
        reader = Reader(line, 0, inner)
        try:
            reader.whole()
        finally:
            self.steps += reader.steps
            for draft in inner:
                self.add(draft, depth)


def _is_file(word: Word) -> bool:
    return not word.literal or word.text not in _NOWHERE


def _is_socket(word: Word) -> bool:
    return word.text.startswith(("/dev/tcp/", "/dev/udp/"))


def _shown(word: Word) -> str:
    """A word as it could stand in a line of its own."""
    if not word.literal:
        return f"{word.text}*" if word.bounded else "$_"
    return word.text if re.fullmatch(r"[\w@%+=:,./-]+", word.text) else "'" + word.text.replace("'", "'\\''") + "'"
