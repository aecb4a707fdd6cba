"""Twenty questions about three public packages, with the files that answer them."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    package: str
    text: str
    answers: frozenset[str]


PINNED = ("click==8.1.7", "httpx==0.27.2", "pytest==8.3.3")


def _of(package: str, folder: str, *questions: tuple[str, str]) -> list[Question]:
    return [Question(package, text, frozenset(f"{folder}/{name}" for name in names.split())) for text, names in questions]


QUESTIONS = [
    *_of(
        "click",
        "src/click",
        ("How is it decided whether colors are stripped when the output is no terminal?", "_compat.py globals.py utils.py"),
        ("Where are the completion scripts for zsh and fish made?", "shell_completion.py"),
        ("Where does the progress bar compute how much time is left?", "_termui_impl.py"),
        ("How does a wrong usage become a message with exit code 2?", "exceptions.py"),
        ("Where is help text wrapped to the width of the terminal?", "formatting.py _textwrap.py"),
        ("How is the value of an option clamped to a range of integers?", "types.py"),
        ("How can a test invoke a command and capture what it prints?", "testing.py"),
    ),
    *_of(
        "httpx",
        "httpx",
        ("When a redirect is followed to another host, which headers are dropped?", "_client.py"),
        ("Where is the boundary of a multipart upload generated?", "_multipart.py"),
        ("How does digest authentication answer a challenge?", "_auth.py"),
        ("Which code decodes gzip and brotli bodies?", "_decoders.py"),
        ("How do the proxy variables of the environment get read?", "_utils.py"),
        ("How can I send requests straight into a WSGI application?", "_transports/wsgi.py"),
        ("Where are the characters of a URL's path percent encoded?", "_urlparse.py"),
    ),
    *_of(
        "pytest",
        "src/_pytest",
        ("How are assert statements rewritten so that a failure shows the values in between?", "assertion/rewrite.py"),
        ("What undoes setenv at the end of a test?", "monkeypatch.py"),
        ("How is the base folder of tmp_path chosen, and when are old ones removed?", "tmpdir.py pathlib.py"),
        ("Where are the file descriptors of stdout and stderr captured?", "capture.py"),
        ("How do parametrized tests get their ids?", "python.py"),
        ("Where is the expression of the option -k evaluated?", "mark/expression.py mark/__init__.py"),
    ),
]
