from __future__ import annotations

import os
from pathlib import Path

import pytest
from tool_bench import Bench, words

from palaver.tools.output import SHOWN
from palaver.wire.values import Location, Part

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"one\ntwo\n", "     1\tone\n     2\ttwo"),
        (b"one\ntwo", "     1\tone\n     2\ttwo"),
        (b"\n\nx\n", "     1\t\n     2\t\n     3\tx"),
        (b"", "f.txt is empty."),
        ("\ufeffbom\n".encode(), "     1\tbom"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end with CRLF]"),
        ("a\u2028b\u0085c\x0cd\n".encode(), "     1\ta\u2028b\u0085c\x0cd"),
        (b"caf\xe9\n", "     1\tcaf\ufffd\n[bytes that are not UTF-8 are shown as \ufffd]"),
        (b"a\0b", "f.txt: binary file, 3 bytes."),
    ],
)
def test_a_file_is_shown_with_line_numbers(bench: Bench, content: bytes, shown: str) -> None:
    """S4-58."""
    bench.write("f.txt", content)
    assert bench.text("read_file", path="f.txt") == shown


def test_a_range_of_lines_is_shown(bench: Bench) -> None:
    bench.write("f.txt", "".join(f"l{n}\n" for n in range(1, 11)))
    assert bench.text("read_file", path="f.txt", start_line=3, end_line=4) == "     3\tl3\n     4\tl4\n[lines 3–4 of 10]"
    assert bench.text("read_file", path="f.txt", start_line=10) == "    10\tl10\n[lines 10–10 of 10]"
    assert bench.text("read_file", path="f.txt", end_line=1) == "     1\tl1\n[lines 1–1 of 10]"
    assert bench.text("read_file", path="f.txt", start_line=9, end_line=99).endswith("    10\tl10\n[lines 9–10 of 10]")
    assert "has 10 lines" in bench.fails("read_file", path="f.txt", start_line=11)


def test_a_long_file_says_how_to_read_on(bench: Bench) -> None:
    bench.write("f.txt", "".join(f"{n}\n" for n in range(1, 5_001)))
    result = bench.run("read_file", path="f.txt")
    assert result.truncated
    assert words(result).endswith("  2000\t2000\n[lines 1–2000 of 5000; read on with start_line 2001]")
    bench.write("wide.txt", ("x" * 500 + "\n") * 100)
    text = bench.text("read_file", path="wide.txt")
    assert len(text) < SHOWN + 100
    assert "read on with start_line 60]" in text


def test_a_long_line_is_cut_and_says_so(bench: Bench) -> None:
    bench.write("f.txt", "x" * 100_000)
    text = bench.text("read_file", path="f.txt")
    assert len(text) < 2_100
    assert text.endswith("[… 98000 characters more in this line]")


def test_an_image_comes_as_a_part(bench: Bench) -> None:
    bench.write("shot.png", PNG)
    result = bench.run("read_file", path="shot.png")
    assert result.parts[1] == Part(type="image", ref="artifacts/turn_1/call_1.png", mime_type="image/png", name="shot.png")
    assert bench.artifacts == {"call_1.png": PNG}
    bench.write("huge.png", PNG + b"\0" * 6_000_000)
    assert "Make it smaller" in bench.fails("read_file", path="huge.png")


def test_what_is_missing_is_told_with_near_names(bench: Bench) -> None:
    bench.write("src/README.md", "")
    assert bench.fails("read_file", path="src/readme.md") == "src/readme.md is not there. In src/ there is: README.md."
    assert "Nothing in the workspace has a name like zzz" in bench.fails("read_file", path="zzz/b")


def test_a_folder_is_told_with_what_it_has(bench: Bench) -> None:
    bench.write("src/a.py", "")
    bench.write("src/sub/b.py", "")
    assert bench.fails("read_file", path="src") == "src is a folder. It has: a.py, sub/."
    (bench.workspace / "empty").mkdir()
    assert bench.fails("read_file", path="empty") == "empty is a folder. It is empty."


def test_names_that_are_no_unicode_do_not_break_the_answer(bench: Bench) -> None:
    with open(os.fsencode(bench.workspace) + b"/caf\xe9.txt", "wb"):
        pass
    assert "caf\ufffd.txt" in bench.fails("read_file", path=".")
    assert "caf\ufffd.txt" in bench.fails("read_file", path="caf.txt")


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"path": ""},
        {"path": "a", "start_line": 0},
        {"path": "a", "start_line": 3, "end_line": 2},
        {"path": "a", "lines": 3},
        {"path": ["a"]},
        {"path": "a\0b"},
    ],
)
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, object]) -> None:
    bench.refuses("read_file", **input)


def test_a_call_is_described_by_where_its_path_leads(bench: Bench) -> None:
    bench.write("a.txt", "")
    (bench.workspace / "link").symlink_to("a.txt")
    (bench.workspace / "out").symlink_to("/etc/hostname")
    told = bench.describe("read_file", path="link", start_line=3)
    assert told.title == "Read a.txt, lines 3–end"
    assert told.locations == (Location("a.txt", 3),)
    assert told.reads == (os.path.realpath(bench.workspace / "a.txt"),)
    assert bench.describe("read_file", path="out").reads == ("/etc/hostname",)
