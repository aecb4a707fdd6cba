"""Reads the words of a shell line: quotes resolved, expansions found, and what runs inside of them handed on.

A character is read once. `steps` counts them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from palaver.policy.programs import Word

MAX_DEPTH = 32
META = " \t\n;&|<>()"

_BLANK = " \t"
_SPECIAL = "@*#?-$!0123456789"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v", "r": "\r"}
_NUMBER_ESCAPE = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")


class Unparsed(Exception):
    """The reader met what it does not know. Stays inside of this package."""


@dataclass
class Draft:
    """A simple command while it is read; its here-documents come after the line that it stands on."""

    start: int
    words: list[Word] = field(default_factory=list)
    text: str = ""
    assigns: bool = False
    substitutes: bool = False
    head: bool = False
    """The head of a loop or a `case`: no program."""
    opaque: str | None = None
    to: list[Word] = field(default_factory=list)
    source: list[Word] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    depth: int = 0
    guessed: bool = False
    """Words of an opaque wrapper that may be a command."""

    def is_empty(self) -> bool:
        return not (self.words or self.assigns or self.to or self.source or self.substitutes or self.documents or self.opaque)


@dataclass
class Pending:
    """A here-document whose text is still to come."""

    draft: Draft
    end: str
    strip_tabs: bool
    expands: bool


class WordReader(ABC):
    """Reads from left to right. What stands inside of a substitution is commands, which `Reader` knows."""

    def __init__(self, source: str, depth: int, found: list[Draft]) -> None:
        self._source = source
        self._at = 0
        self._depth = depth
        self._indent = 0
        self._found = found
        self._pending: list[Pending] = []
        self._word_end = 0
        """Where the last word ended, blanks and comments behind it left out."""
        self.steps = 0

    @abstractmethod
    def whole(self) -> None:
        """Read everything as commands."""

    @abstractmethod
    def _commands(self, end: str) -> str:
        """Read commands until `end`."""

    # --- words ---

    def _read_word(self, draft: Draft) -> Word:
        return self._shaped_word(draft)[0]

    def _shaped_word(self, draft: Draft) -> tuple[Word, str]:
        """A word and its shape: what was unquoted as it is, NUL for what was quoted, \\1 for an expansion."""
        start = self._at
        builder = _WordBuilder()
        while (char := self._peek()) != "" and (char not in META or self._is_process_substitution(char)):
            match char:
                case "\\":
                    self._backslash(builder)
                case "'":
                    end = self._source.find("'", self._at + 1)
                    if end < 0:
                        raise Unparsed("a quote is not closed")
                    self._no_document_waits(self._source[self._at : end])
                    builder.quote(self._source[self._at + 1 : end])
                    self._take(end + 1 - self._at)
                case '"':
                    self._double_quotes(builder, draft)
                case "$":
                    self._dollar_in_word(builder, draft)
                case "`":
                    builder.expand()
                    self._backticks(draft, quoted=False)
                case "<" | ">":
                    builder.expand()
                    draft.substitutes = True
                    self._take(2)
                    self._substituted()
                case _:
                    builder.plain(char)
                    self._take(1)
        if self._at == start:
            self._stuck()
        self._word_end = self._at
        return builder.word(), "".join(builder.shape)

    def _is_process_substitution(self, char: str) -> bool:
        return char in "<>" and self._source.startswith("(", self._at + 1)

    def _backslash(self, builder: _WordBuilder) -> None:
        following = self._source[self._at + 1 : self._at + 2]
        self._take(min(2, len(self._source) - self._at))
        if following == "\n":
            self._no_document_waits("\n")
        else:
            builder.quote(following or "\\")

    def _double_quotes(self, builder: _WordBuilder, draft: Draft) -> None:
        self._take(1)
        builder.quote("")
        while (char := self._peek()) != '"':
            match char:
                case "":
                    raise Unparsed("a quote is not closed")
                case "\\":
                    following = self._source[self._at + 1 : self._at + 2]
                    if following != "\n":
                        builder.quote(following if following in tuple('$`"\\') else char + following)
                    self._take(min(2, len(self._source) - self._at))
                case "$":
                    if self._dollar(draft, quoted=True):
                        builder.expand()
                    else:
                        builder.quote("$")
                case "`":
                    builder.expand()
                    self._backticks(draft, quoted=True)
                case _:
                    self._no_document_waits(char)
                    builder.quote(char)
                    self._take(1)
        self._take(1)

    def _dollar_in_word(self, builder: _WordBuilder, draft: Draft) -> None:
        if self._source.startswith("$'", self._at):
            self._take(2)
            self._ansi(builder)
        elif self._source.startswith('$"', self._at):
            self._take(1)
            self._double_quotes(builder, draft)
        elif self._dollar(draft, quoted=False):
            builder.expand()
        else:
            builder.plain("$")

    def _ansi(self, builder: _WordBuilder) -> None:
        """`$'…'`, as bash reads it: escapes resolved to what they stand for."""
        text: list[str] = []
        while (char := self._peek()) != "'":
            if char == "":
                raise Unparsed("a quote is not closed")
            self._no_document_waits(char)
            self._take(1)
            text.append(self._escape(builder) if char == "\\" else char)
        self._take(1)
        builder.quote("".join(text))

    def _escape(self, builder: _WordBuilder) -> str:
        char = self._peek()
        if char == "'":
            raise Unparsed("a quote inside of $'…', which shells read differently")
        if number := _NUMBER_ESCAPE.match(self._source, self._at):
            self._take(len(number[0]))
            digits = number[1] or number[2] or number[3]
            code = int(digits, 16) if digits else int(number[4], 8) & 0xFF
            if not 0 < code < 0x80:
                builder.expand()  # a NUL ends the text, and what is not ASCII depends on the locale
                return ""
            return chr(code)
        self._take(min(1, len(self._source) - self._at))
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        if char in ("\\", '"', "?"):
            return char
        builder.expand()
        return ""

    # --- expansions ---

    def _dollar(self, draft: Draft, *, quoted: bool) -> bool:
        """Take what `$` begins; False for a dollar sign that is only itself."""
        following = self._source[self._at + 1 : self._at + 2]
        if following == "(":
            draft.substitutes = True
            if self._source.startswith("$((", self._at):
                self._take(3)
                self._deeper(lambda: self._arithmetic(draft))
            else:
                self._take(2)
                self._substituted()
            return True
        if following == "{":
            draft.substitutes = True
            self._take(2)
            self._deeper(lambda: self._parameter(draft))
            return True
        if following == "[" or self._source.startswith("\\\n", self._at + 1):
            raise Unparsed("it holds a '$' that shells read differently")
        if name := _NAME.match(self._source, self._at + 1):
            draft.substitutes = True
            self._take(1 + len(name[0]))
            return True
        if following and following in _SPECIAL:
            draft.substitutes = True
            self._take(2)
            return True
        self._take(1)
        return False

    def _substituted(self) -> None:
        self._no_document_waits("\n")
        self._deeper(lambda: self._commands(")"))
        self._no_document_waits("\n")

    def _parameter(self, draft: Draft) -> None:
        ignored = _WordBuilder()
        while (char := self._peek()) != "}":
            match char:
                case "":
                    raise Unparsed("a '${' is not closed")
                case "'":
                    raise Unparsed("a quote inside '${'")
                case "\\":
                    self._take(min(2, len(self._source) - self._at))
                case '"':
                    self._double_quotes(ignored, draft)
                case "$":
                    self._dollar(draft, quoted=True)
                case "`":
                    self._backticks(draft, quoted=True)
                case "<" | ">" if self._is_process_substitution(char):
                    raise Unparsed("a process inside '${'")
                case _:
                    self._no_document_waits(char)
                    self._take(1)
        self._take(1)

    def _arithmetic(self, draft: Draft) -> None:
        opened = 0
        while True:
            char = self._peek()
            match char:
                case "":
                    raise Unparsed("a '$((' is not closed")
                case "'" | '"' | "\\" | "#" | ";" | "\n":
                    raise Unparsed("it holds '$((' with more than arithmetic")
                case "$":
                    self._dollar(draft, quoted=True)
                case "`":
                    self._backticks(draft, quoted=True)
                case ")" if opened == 0:
                    if not self._source.startswith("))", self._at):
                        raise Unparsed("it holds '$((' with more than arithmetic")
                    self._take(2)
                    return
                case _:
                    opened += (char == "(") - (char == ")")
                    self._take(1)

    def _backticks(self, draft: Draft, *, quoted: bool) -> None:
        draft.substitutes = True
        self._take(1)
        self._no_document_waits("\n")
        text: list[str] = []
        while (char := self._peek()) != "`":
            if char == "":
                raise Unparsed("a '`' is not closed")
            following = self._source[self._at + 1 : self._at + 2]
            if char == "\\" and following and following in ('`\\$"' if quoted else "`\\$"):
                text.append(following)
                self._take(2)
            else:
                text.append(char)
                self._take(1)
        self._take(1)
        self._deeper(lambda: self._inner("".join(text)))

    def _inner(self, line: str) -> None:
        reader = type(self)(line, self._depth, self._found)
        try:
            reader.whole()
        finally:
            self.steps += reader.steps

    # --- moving ---

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, count: int) -> None:
        self.steps += count
        self._at = min(self._at + count, len(self._source))

    def _skip_blanks(self) -> None:
        """Blanks, continued lines, and a comment where a word could begin."""
        while True:
            if self._source.startswith("\\\n", self._at):
                self._no_document_waits("\n")
                self._take(2)
            elif (char := self._peek()) != "" and char in _BLANK:
                self._take(1)
            elif char == "#":
                end = self._source.find("\n", self._at)
                self._take((len(self._source) if end < 0 else end) - self._at)
            else:
                return

    def _deeper(self, read: Callable[[], object]) -> None:
        self._depth += 1
        self._check_depth()
        read()
        self._depth -= 1

    def _check_depth(self) -> None:
        if self._depth + self._indent > MAX_DEPTH:
            raise Unparsed("it is nested over 32 deep")

    def _no_document_waits(self, text: str) -> None:
        """Shells disagree where a here-document begins when its line is continued by a quote."""
        if self._pending and "\n" in text:
            raise Unparsed("a here-document begins inside of a word")

    def _stuck(self) -> NoReturn:
        raise Unparsed(f"{self._peek() or 'the end'!r} stands where a word should")


class _WordBuilder:
    """A word while it is read: its text as far as it is known, and what may become of it."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._literal = True
        self._known = True
        """Whether what comes still belongs to the text that is certain."""
        self._only_paths = True
        self._bracket: int | None = None
        self._brace: int | None = None
        self._brace_list = False
        self.shape: list[str] = []

    def plain(self, char: str) -> None:
        """A character outside of quotes, which may be part of a pattern, a brace list or a `~`."""
        before = self.shape[-1] if self.shape else ""
        self.shape.append(char)
        match char:
            case "*" | "?":
                self._unknown_from(len(self._text))
            case "[" if self._bracket is None:
                self._bracket = len(self._text)
            case "]" if self._bracket is not None:
                self._unknown_from(self._bracket)
            case "{" if self._brace is None:
                self._brace = len(self._text)
            case "," if self._brace is not None:
                self._brace_list = True
            case "." if self._brace is not None and before == ".":
                self._brace_list = True
            case "}" if self._brace is not None and self._brace_list:
                self._only_paths = False
                self._unknown_from(self._brace)
            case "~" if before in ("", "=", ":"):
                self._literal = False
        self._keep(char)

    def quote(self, text: str) -> None:
        self.shape.append("\0")
        self._keep(text)

    def expand(self) -> None:
        self.shape.append("\1")
        self._only_paths = False
        self._unknown_from(len(self._text))

    def _unknown_from(self, place: int) -> None:
        self._literal = self._known = False
        del self._text[place:]

    def _keep(self, text: str) -> None:
        if self._known:
            self._text.append(text)

    def word(self) -> Word:
        text = "".join(self._text)
        bounded = not self._literal and self._only_paths and text != "" and not text.startswith("-")
        return Word(text, self._literal, bounded)
