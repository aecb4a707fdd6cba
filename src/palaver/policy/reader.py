"""Reads a shell line from left to right and keeps each command that it finds, as a *draft*.

The grammar is the one that bash and sh share. The reader may find more commands than a shell would run, never fewer: what it does not
know raises `Unparsed`. Reserved words that only surround commands (`if`, `then`, `{`, …) are stepped over, since every command between
them counts whichever way the line runs. Each character is read once; `steps` counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from palaver.policy.programs import Word

MAX_DEPTH = 32

_BLANK = " \t"
_META = " \t\n;&|<>()"
_SPECIAL = "@*#?-$!0123456789"
_STEPPED_OVER = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"))
_OPENING, _CLOSING = frozenset(("if", "while", "until", "{")), frozenset(("fi", "done", "}"))
_LONGEST_RESERVED = len("function") + 1
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\0]*?\])?\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_DOCUMENT_END = re.compile(r"\\?[\w.-]+|'[\w. -]*'|\"[\w. -]*\"")
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
class _Pending:
    draft: Draft
    end: str
    strip_tabs: bool
    expands: bool


class Reader:
    """Reads a line from left to right and keeps each command that it finds."""

    def __init__(self, source: str, depth: int, found: list[Draft]) -> None:
        self._source = source
        self._at = 0
        self._depth = depth
        self._indent = 0
        self._found = found
        self._pending: list[_Pending] = []
        self.steps = 0

    def whole(self) -> None:
        self._commands("")
        if self._pending:
            raise Unparsed("a here-document has no text")

    # --- commands ---

    def _commands(self, end: str) -> str:
        """Until `end`, or nothing for the whole line; a branch of a case ends at `;;` or `esac`. Says what ended it."""
        while True:
            self._skip_blanks()
            char = self._peek()
            if char == "":
                if end:
                    raise Unparsed(f"a {end!r} is missing")
                return end
            if char == ")":
                if end != ")":
                    raise Unparsed("a ')' stands alone")
                self._take(1)
                return end
            if char == "\n":
                self._newline()
            elif char == ";" and self._source.startswith((";;", ";&"), self._at):
                if end != ";;":
                    raise Unparsed("';;' stands outside of a case")
                self._take(3 if self._source.startswith(";;&", self._at) else 2)
                return end
            elif char in ";|" or (char == "&" and not self._source.startswith("&>", self._at)):
                self._take(1)
            elif char == "(":
                self._subshell()
            elif end == ";;" and self._reserved("esac"):
                return "esac"
            else:
                self._command()

    def _subshell(self) -> None:
        if self._source.startswith("((", self._at):
            raise Unparsed("it holds '(('")
        self._take(1)
        self._deeper(lambda: self._commands(")"))

    def _command(self) -> None:
        draft = Draft(self._at, depth=self._depth)
        before = len(self._found)
        self._found.append(draft)
        self._redirections(draft)
        if draft.is_empty() and self._stepped_over(draft):
            if draft.is_empty():
                del self._found[before]
            return
        while self._word_follows(draft):
            pass
        draft.text = draft.text or self._source[draft.start : self._at].strip()

    def _stepped_over(self, draft: Draft) -> bool:
        """Whether a reserved word was consumed here. Another command may follow it without a separator."""
        start = self._at
        word = self._bare_word()
        if word in _STEPPED_OVER:
            self._indent = max(0, self._indent + (word in _OPENING) - (word in _CLOSING))
            self._check_depth()
            return True
        match word:
            case "time":
                self._skip_blanks()
                if self._bare_word(only="-p"):
                    self._skip_blanks()
                return True
            case "for" | "select":
                self._loop(draft)
                return True
            case "case":
                self._case(draft)
                return True
            case "function":
                self._skip_blanks()
                self._function(draft, self._read_word(draft))
                return True
            case "[[":
                self._condition(draft)
                return True
            case "coproc":
                draft.head, draft.opaque, draft.text = True, "coproc runs beside the line", "coproc"
                return True
            case _:
                self._at = start
                return False

    def _loop(self, draft: Draft) -> None:
        """`for NAME in WORDS` sets NAME, whatever it is called."""
        draft.head = draft.assigns = True
        self._skip_blanks()
        draft.words.append(self._read_word(draft))
        self._skip_lines()
        if self._reserved("in"):
            while self._word_follows(draft):
                pass
        draft.text = self._source[draft.start : self._at].strip()

    def _bare_word(self, only: str | None = None) -> str | None:
        """Take the unquoted word that stands here, if it is short enough to be a reserved one."""
        at, text = self._at, ""
        while at < len(self._source) and len(text) < _LONGEST_RESERVED:
            if self._source.startswith("\\\n", at):
                at += 2
            elif self._source[at] in _META:
                break
            else:
                text += self._source[at]
                at += 1
        if only is not None and text != only:
            return None
        self._take(at - self._at)
        return text

    def _reserved(self, word: str) -> bool:
        return self._bare_word(only=word) is not None

    def _word_follows(self, draft: Draft) -> bool:
        """Take the next word or redirection of this command; False at its end."""
        self._skip_blanks()
        self._redirections(draft)
        char = self._peek()
        if char == "" or (char in "\n;&|)" and not self._source.startswith("&>", self._at)):
            return False
        if char == "(":
            self._parenthesis(draft)
            return False
        draft_word, shape = self._shaped_word(draft)
        if not draft.words and _ASSIGNMENT.match(shape):
            if self._peek() == "(":
                raise Unparsed("it sets an array")
            draft.assigns = True
        else:
            draft.words.append(draft_word)
        return True

    def _parenthesis(self, draft: Draft) -> None:
        """After a first word it can only be `name()`, a function."""
        start = self._at
        self._take(1)
        self._skip_blanks()
        if len(draft.words) != 1 or draft.head or self._peek() != ")":
            self._at = start
            raise Unparsed("it holds a parenthesis that is not known")
        self._at = start
        self._function(draft, draft.words[0])

    def _function(self, draft: Draft, name: Word) -> None:
        """Its body is read as commands that follow: they are parts whether it is called or not."""
        self._skip_blanks()
        if self._peek() == "(":
            self._take(1)
            self._skip_blanks()
            if self._peek() != ")":
                raise Unparsed("it holds a parenthesis that is not known")
            self._take(1)
        draft.words, draft.head, draft.opaque = [name], True, "it defines a function"
        draft.text = self._source[draft.start : self._at]

    def _case(self, draft: Draft) -> None:
        draft.head = True
        self._skip_blanks()
        draft.words.append(self._read_word(draft))
        draft.text = self._source[draft.start : self._at]
        self._skip_lines()
        if not self._reserved("in"):
            raise Unparsed("a case without its 'in'")
        self._deeper(lambda: self._branches(draft))

    def _branches(self, draft: Draft) -> None:
        while True:
            self._skip_lines()
            if self._reserved("esac"):
                return
            if self._peek() == "(":
                self._take(1)
                self._skip_blanks()
            while self._peek() != ")":
                if self._peek() == "|":
                    self._take(1)
                else:
                    self._read_word(draft)
                self._skip_blanks()
            self._take(1)
            if self._commands(";;") == "esac":
                return

    def _condition(self, draft: Draft) -> None:
        """`[[ … ]]`: its words are no commands, but a subscript in it may run one, so it is never allowed by rule."""
        draft.head, draft.opaque = True, "[[ … ]] cannot be seen through"
        while True:
            while self._peek() != "" and self._peek() in " \t\n":
                self._no_document_waits("\n")
                self._take(1)
            if self._reserved("]]"):
                break
            if self._peek() in ("", "#"):
                raise Unparsed("a '[[' is not closed")
            if self._peek() in ";&|<>()" and not self._source.startswith(("<(", ">("), self._at):
                self._take(1)
            else:
                self._read_word(draft)
        draft.text = self._source[draft.start : self._at]

    # --- redirections and here-documents ---

    def _redirections(self, draft: Draft) -> None:
        while True:
            self._skip_blanks()
            at = self._at
            while at < len(self._source) and self._source[at].isascii() and self._source[at].isdigit():
                at += 1
            operator = _REDIRECT.match(self._source, at)
            if operator is None or (at > self._at and operator[0].startswith("&")) or self._source.startswith(("<(", ">("), at):
                return
            self._take(operator.end() - self._at)
            self._redirection(draft, operator[0])

    def _redirection(self, draft: Draft, operator: str) -> None:
        self._skip_blanks()
        if self._peek() == "" or (self._peek() in _META and not self._source.startswith(("<(", ">("), self._at)):
            raise Unparsed(f"nothing follows {operator!r}")
        start = self._at
        word, shape = self._shaped_word(draft)
        match operator:
            case "<<" | "<<-":
                if not _DOCUMENT_END.fullmatch(self._source[start : self._at]):
                    raise Unparsed("the end of a here-document is not a plain word")
                self._pending.append(_Pending(draft, word.text, operator == "<<-", "\0" not in shape))
            case "<<<":
                draft.documents.append(word.text if word.literal else "$_")
            case "<":
                draft.source.append(word)
            case ">&" | "<&" if word.text.startswith("-") and word.text != "-":
                raise Unparsed(f"a word stands right behind {operator}-")
            case ">&" | "<&" if re.fullmatch(r"\d*-?", word.text) and word.literal:
                return
            case _:
                draft.to.append(word)

    def _newline(self) -> None:
        self._take(1)
        pending, self._pending = self._pending, []
        for document in pending:
            lines: list[str] = []
            while True:
                if self._at >= len(self._source):
                    raise Unparsed("a here-document is not ended")
                end = self._source.find("\n", self._at)
                end = len(self._source) if end < 0 else end
                line = self._source[self._at : end]
                self._take(min(end + 1, len(self._source)) - self._at)
                bare = line.lstrip("\t") if document.strip_tabs else line
                if bare == document.end:
                    break
                if document.expands and bare.endswith("\\"):
                    raise Unparsed("a line of a here-document is continued")
                lines.append(bare)
            self._finish(document, "\n".join(lines))

    def _finish(self, document: _Pending, text: str) -> None:
        document.draft.documents.append(text)
        if not document.expands or not ("$" in text or "`" in text):
            return
        inner = Reader(text, self._depth, self._found)
        try:
            inner._expansions(document.draft)
        finally:
            self.steps += inner.steps

    def _expansions(self, draft: Draft) -> None:
        """What runs inside a text that is not a command: the body of a here-document."""
        while (char := self._peek()) != "":
            if char == "\\":
                self._take(2)
            elif char == "$":
                self._dollar(draft, quoted=True)
            elif char == "`":
                self._backticks(draft, quoted=False)
            else:
                self._take(1)

    # --- words ---

    def _read_word(self, draft: Draft) -> Word:
        return self._shaped_word(draft)[0]

    def _shaped_word(self, draft: Draft) -> tuple[Word, str]:
        """A word and its shape: what was unquoted as it is, NUL for what was quoted, \\1 for an expansion."""
        start = self._at
        builder = _WordBuilder()
        while (char := self._peek()) != "" and (char not in _META or self._is_process_substitution(char)):
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
        reader = Reader(line, self._depth, self._found)
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

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self._peek() == "\n":
            self._newline()
            self._skip_blanks()

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
