"""Width, colours and whole lines."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from palaver.cli.screen import Said, Screen, clip, has_colours, one_line, pad, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm"}, True)],
)
def test_colours_go_to_terminals_that_want_them(env: dict[str, str], coloured: bool) -> None:
    assert has_colours(Terminal(), env) is coloured
    assert not has_colours(io.StringIO(), env)
    terminal = Terminal()
    Screen(terminal, terminal, env).say(Said("bad", "no"))
    assert terminal.getvalue() == ("\x1b[31mno\x1b[0m\n" if coloured else "no\n")


def test_a_line_never_goes_on_where_another_one_stopped() -> None:
    out = io.StringIO()
    screen = Screen(out, out, {})
    for said in (
        Said("text", "half a li"),
        Said("text", "ne"),
        Said("note", "a call"),
        Said("text", "more\n"),
        Said("end"),
        Said("note", "end"),
    ):
        screen.say(said)
    assert out.getvalue() == "half a line\na call\nmore\nend\n"


def test_two_streams_that_are_one_terminal_share_their_lines() -> None:
    out, notes = io.StringIO(), io.StringIO()
    screen = Screen(out, notes, {})
    for said in (Said("text", "answer"), Said("note", "a call"), Said("text", "more"), Said("end")):
        screen.say(said)
    assert (out.getvalue(), notes.getvalue()) == ("answer\nmore\n", "a call\n")


def test_thinking_is_only_shown_to_somebody_who_watches() -> None:
    out, notes, watched = io.StringIO(), io.StringIO(), Terminal()
    Screen(out, notes, {}).say(Said("thinking", "hm"))
    Screen(out, watched, {"NO_COLOR": "1"}).say(Said("thinking", "hm"))
    assert (out.getvalue(), notes.getvalue(), watched.getvalue()) == ("", "", "hm")


@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("日本語", 4, "日…"), ("", 0, "")],
)
def test_a_line_is_cut_by_columns_and_not_by_characters(text: str, width: int, clipped: str) -> None:
    assert clip(text, width) == clipped


def test_cells_are_filled_up_by_columns() -> None:
    assert pad("日本", 6) == "日本  " and pad("ab", 3) == "ab "


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\tc\x1b") == "a ⏎ b c⟨U+001B⟩"


def test_a_table_in_a_pipe_has_whole_cells_with_tabs_between() -> None:
    out = io.StringIO()
    print_table(("a", "b"), [["x" * 500, "y\tz"]], 0, out)
    assert out.getvalue() == f"a\tb\n{'x' * 500}\ty z\n"


def test_a_table_in_a_terminal_fits_its_width() -> None:
    out = Terminal()
    print_table(("id", "title", "when"), [["1", "日本語" * 30, "now"], ["22", "short", "then"]], 1, out, 40)
    lines = [line.replace("\x1b[2m", "").replace("\x1b[0m", "") for line in out.getvalue().splitlines()]
    assert max(map(cell_len, lines)) <= 40
    assert lines[1].endswith("now") and lines[2].endswith("then")
