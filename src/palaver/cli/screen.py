"""Writing to a terminal, or to whatever stdout is: width, colours and whole lines.

What came from a model, a tool or a file passes through `visible` before it gets here; the only control sequences that reach a
terminal are the colours below.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TextIO

from palaver.views.visible import visible

Kind = Literal["text", "thinking", "end", "note", "good", "bad", "card", "person"]

_STYLES: dict[Kind, str] = {"thinking": "2;3", "note": "2", "good": "32", "bad": "31", "card": "1", "person": "36"}


class Said(NamedTuple):
    """Something to print. `text` and `thinking` go on where they stopped, `end` ends their line, the others are lines."""

    kind: Kind
    text: str = ""


def has_colours(stream: TextIO, env: Mapping[str, str]) -> bool:
    """NO_COLOR is honoured when it is set to anything but the empty string, as its page says."""
    return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def one_line(text: str) -> str:
    """`text` on a single line, safe to look at."""
    return visible(text).replace("\n", " ⏎ ").replace("\t", " ")


def clip(text: str, width: int) -> str:
    """At most `width` columns of it; what is missing shows as an ellipsis."""
    if text.isascii():
        return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1)).rstrip()}…"


def pad(text: str, width: int) -> str:
    if text.isascii():
        return text.ljust(width)
    from rich.cells import cell_len

    return text + " " * (width - cell_len(text))


class Screen:
    """Two streams that may be one terminal: a line left open on one is ended before the other is written to."""

    def __init__(self, out: TextIO, notes: TextIO, env: Mapping[str, str] = os.environ) -> None:
        self._out = out
        self._notes = notes
        self._painted = {out: has_colours(out, env), notes: has_colours(notes, env)}
        self._open: TextIO | None = None

    def say(self, said: Said) -> None:
        match said.kind:
            case "text":
                self._go_on(self._out, said)
            case "thinking" if self._notes.isatty():
                self._go_on(self._notes, said)
            case "thinking":
                pass  # only worth something to somebody who watches
            case "end":
                self._finish()
            case _:
                self._line(said)

    def _go_on(self, stream: TextIO, said: Said) -> None:
        if not said.text:
            return
        if self._open is not None and self._open is not stream:
            self._finish()
        self._write(stream, self._paint(stream, said))
        self._open = None if said.text.endswith("\n") else stream

    def _line(self, said: Said) -> None:
        self._finish()
        text = said.text
        if said.kind in ("note", "good") and self._notes.isatty():  # what failed, was asked or said is never shortened
            text = "\n".join(clip(line, width(self._notes)) for line in text.split("\n"))
        self._write(self._notes, self._paint(self._notes, Said(said.kind, text)) + "\n")

    def _finish(self) -> None:
        if self._open is not None:
            self._write(self._open, "\n")
            self._open = None

    def _paint(self, stream: TextIO, said: Said) -> str:
        style = _STYLES.get(said.kind)
        return f"\x1b[{style}m{said.text}\x1b[0m" if style and said.text and self._painted[stream] else said.text

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], widest: int, out: TextIO = sys.stdout, columns: int | None = None
) -> None:
    """In a terminal columns that fit, the one numbered `widest` giving way; elsewhere whole cells with tabs between them."""
    safe = [[one_line(cell) for cell in row] for row in rows]
    if not out.isatty():
        for row in (list(header), *safe):
            print("\t".join(row), file=out)
        return
    painted = has_colours(out, os.environ)
    room = width(out) if columns is None else columns
    sizes = [max(_cells(row[at]) for row in (header, *safe)) for at in range(len(header))]
    others = sum(sizes) - sizes[widest] + 2 * (len(sizes) - 1)
    sizes[widest] = max(8, min(sizes[widest], room - others))
    for number, row in enumerate((list(header), *safe)):
        line = "  ".join(pad(clip(cell, size), size) for cell, size in zip(row, sizes, strict=True))
        line = clip(line.rstrip(), room)
        print(f"\x1b[2m{line}\x1b[0m" if painted and number == 0 else line, file=out)


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
