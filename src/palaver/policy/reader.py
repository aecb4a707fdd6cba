"""Reads a shell line from left to right and keeps each command that it finds, as a *draft*.

The grammar is the one that bash and sh share. The reader may find more commands than a shell would run, never fewer: what it does not
know raises `Unparsed`. Reserved words that only surround commands (`if`, `then`, `{`, …) are stepped over, since every command between
them counts whichever way the line runs. Each character is read once; `steps` counts them.
"""

from __future__ import annotations

import re

from palaver.policy.programs import Word
from palaver.policy.words import META, Draft, Pending, Unparsed, WordReader

_STEPPED_OVER = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"))
_OPENING, _CLOSING = frozenset(("if", "while", "until", "{")), frozenset(("fi", "done", "}"))
_LONGEST_RESERVED = len("function") + 1
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\0]*?\])?\+?=")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_DOCUMENT_END = re.compile(r"\\?[\w.-]+|'[\w. -]*'|\"[\w. -]*\"")


class Reader(WordReader):
    """Reads a line from left to right and keeps each command that it finds."""

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
        draft.text = draft.text or self._source[draft.start : self._word_end]

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
        draft.text = self._source[draft.start : self._word_end]

    def _bare_word(self, only: str | None = None) -> str | None:
        """Take the unquoted word that stands here, if it is short enough to be a reserved one."""
        at, text = self._at, ""
        while at < len(self._source) and len(text) < _LONGEST_RESERVED:
            if self._source.startswith("\\\n", at):
                at += 2
            elif self._source[at] in META:
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
        if self._peek() == "" or (self._peek() in META and not self._source.startswith(("<(", ">("), self._at)):
            raise Unparsed(f"nothing follows {operator!r}")
        start = self._at
        word, shape = self._shaped_word(draft)
        match operator:
            case "<<" | "<<-":
                if not _DOCUMENT_END.fullmatch(self._source[start : self._at]):
                    raise Unparsed("the end of a here-document is not a plain word")
                self._pending.append(Pending(draft, word.text, operator == "<<-", "\0" not in shape))
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

    def _finish(self, document: Pending, text: str) -> None:
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

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self._peek() == "\n":
            self._newline()
            self._skip_blanks()
