"""The reader of shell lines: what it finds, what it costs, and that a real shell runs nothing that it did not find."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from cases_of_policy import allow, deny, shell
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palaver.policy import judge
from palaver.policy.command import MAX_BYTES, Line, parse
from palaver.policy.programs import name_of


def words(line: Line) -> list[list[str]]:
    return [[word.text for word in part.words] for part in line.parts]


FOUND = [
    ("a b; c", [["a", "b"], ["c"]]),
    ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
    ("nice a b", [["nice", "a", "b"], ["a", "b"]]),
    ("bash -c 'a; b'", [["bash", "-c", "a; b"], ["a"], ["b"]]),
    ("find . -exec a {} \\;", [["find", ".", "-exec", "a", "{}", ";"], ["a", "{}"]]),
    ("a $(b `c`)", [["a", ""], ["b", ""], ["c"]]),
    ("a <<E; b\nx\nE\nc", [["a"], ["b"], ["c"]]),
    ("for x in 1 2; do a; done", [["x", "1", "2"], ["a"]]),
    ("case $x in a|b) c;; (d) e;& *) f; esac", [[""], ["c"], ["e"], ["f"]]),
    ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("a 2>&1 >f <g b", [["a", "b"]]),
    ("a ''", [["a", ""]]),
]


@pytest.mark.parametrize(("line", "found"), FOUND)
def test_each_command_of_a_line_is_found(line: str, found: list[list[str]]) -> None:
    parsed = parse(line)
    assert parsed.unparsed is None
    assert words(parsed) == found


FLAGS = [
    ("X=1 a", "has_assignment"),
    ("env X=1 a", "has_assignment"),
    ("for x in a; do b; done", "has_assignment"),
    ("a $x", "has_substitution"),
    ("a $(b)", "has_substitution"),
    ("a > f", "has_redirect_to_file"),
    ("a &> f", "has_redirect_to_file"),
    ("a >& f", "has_redirect_to_file"),
    ("nice a", "wrapper"),
]


@pytest.mark.parametrize(("line", "flag"), FLAGS)
def test_a_part_says_what_stands_around_its_words(line: str, flag: str) -> None:
    assert getattr(parse(line).parts[0], flag)
    assert not getattr(parse("a b 2>&1 > /dev/null").parts[0], flag)


# --- what it costs ------------------------------------------------------------------------------------------------------------

REPEATED = [
    "a;",
    "a ",
    "'a' ",
    '"$(a)"',
    "`a`",
    "$(a)",
    "{ ",
    "((",
    "[",
    "\\\n",
    "a|",
    "parallel ",
    "watch 'a b' ",
    "bash -c 'a' ",
    "a <<E\nE\n",
    "${x} ",
]
"""Beginnings of lines that grow; each is read once, or a bounded number of times."""


@pytest.mark.parametrize("piece", REPEATED)
def test_the_work_grows_with_the_line_and_not_faster(piece: str) -> None:
    """SECURITY 17."""
    count = MAX_BYTES // len(piece) // 2
    half, whole = parse(piece * (count // 2)).steps, parse(piece * count).steps
    assert whole <= 2.5 * half + 1000


NESTED = ["eval " * 32 + "a " * 7000, "nice " * 31 + "a " * 7000, "watch " * 2000, "sh -c " * 2000, '"$(' * 33, "`" * 16_000, "(" * 16_000]


@pytest.mark.parametrize("line", NESTED, ids=range(len(NESTED)))
def test_nesting_costs_a_bounded_number_of_steps(line: str) -> None:
    """SECURITY 17."""
    assert parse(line).steps <= 20 * MAX_BYTES


@pytest.mark.parametrize("line", ["a" * 4 * 2**20, "sudo " * 800_000, "(" * 4 * 2**20, "'" * 4 * 2**20])
def test_a_line_of_4_mib_is_not_read_at_all(line: str) -> None:
    """SECURITY 17: a time bound at 4 MiB."""
    assert parse(line).steps == 0
    assert judge(shell(line, grants=(allow("a"),))).decision == "ask"
    assert judge(shell(line, rules=(deny("rm"),), mode="auto")).decision == "ask"


# --- fuzz ---------------------------------------------------------------------------------------------------------------------

PIECES = [
    *"; & | && || < > >> << <<< ( ) { } $ ` ' \" \\ # ! * ? [ ] = - ~ $( ${ $(( )) <( 2>&1 if then fi else while do done".split(),
    *"for in case esac ;; function eval env nice xargs bash sh -c command exec {} A=1 A EOF <<EOF $' time [[ ]] -- ()".split(),
    *"nohup builtin echo $A , .. git rm".split(),
    *(
        " ",
        "  ",
        "\n",
        "\t",
        "\\\n",
        "\0",
        "timeout 1 ",
        "find . -exec ",
        "\\;",
        "\nEOF\n",
        "--output=f",
        "git status",
        "ls",
        "sudo ",
        "\ud800",
        "é",
    ),
]
GRANTS = (allow("git status"), allow("ls"))


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.text(max_size=20))
def test_no_line_makes_the_reader_raise(pieces: list[str], text: str) -> None:
    for line in ("".join(pieces), " ".join(pieces), text, "".join(pieces) + text):
        verdict = judge(shell(line, grants=GRANTS, rules=(deny("rm"),)))
        assert verdict.decision in ("allow", "ask", "deny")


ALLOWED = [
    "git status",
    "git status -s; ls",
    "ls | ls -la",
    "nice git status",
    "bash -c 'git status && ls'",
    "if ls; then git status; fi",
    "(ls)",
]


@given(st.sampled_from(ALLOWED), st.integers(0, 40), st.lists(st.sampled_from(PIECES), max_size=3), st.booleans())
def test_adding_characters_to_an_allowed_line_never_allows_a_part_that_alone_is_not(
    line: str, place: int, pieces: list[str], spaced: bool
) -> None:
    """SECURITY 17."""
    added = (" ".join(pieces) + " ") if spaced else "".join(pieces)
    changed = line[: place % (len(line) + 1)] + added + line[place % (len(line) + 1) :]
    assume(judge(shell(changed, grants=GRANTS)).decision == "allow")
    for part in parse(changed).parts:
        if part.words and not part.wrapper:
            alone = " ".join(shlex.quote(word.text) + ("" if word.literal else "*") for word in part.words)
            assert judge(shell(alone, grants=GRANTS)).decision == "allow", part


# --- a real shell -------------------------------------------------------------------------------------------------------------

RECORDED = ("git", "ls", "rm", "x")
CARRIERS = ("nice", "env", "timeout", "xargs", "find", "bash", "sh", "nohup")

plain = st.sampled_from(
    ["git status", "ls", "ls -a", "rm x", "x", "A=1 ls", "r''m x", "'ls'", "git status x", 'x "a b"', "ls '#'", "x > f", "ls 2>&1", "ls *"]
)
separators = st.sampled_from([" ; ", ";", "&&", " || ", "|", " & ", "\n", " \\\n; "])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    carried = st.sampled_from(
        ["nice ", "nice -n 3 ", "env ", "timeout 5 ", "xargs ", "nohup ", "command ", "! ", "exec ", "time ", "env A=1 "]
    )
    shells = st.sampled_from(["bash -c ", "sh -c ", "eval ", "bash -ec "])
    return st.one_of(
        st.builds(lambda a, by, b: a + by + b, inner, separators, inner),
        st.builds(lambda by, a: by + a, carried, inner),
        st.builds(lambda by, a: by + quoted(a), shells, inner),
        inner.map(lambda a: f"({a})"),
        inner.map(lambda a: f"{{ {a}\n}}"),
        inner.map(lambda a: f"ls $({a})"),
        inner.map(lambda a: f'ls "$({a})"'),
        inner.map(lambda a: f"find . -maxdepth 0 -exec {a} \\;"),
        inner.map(lambda a: f"f() {{ {a}\n}}; f"),
        st.builds(lambda a, b: f"if {a}\nthen {b}\nfi", inner, inner),
        st.builds(lambda a, b: f"for A in 1 2; do {a}\ndone; {b}", inner, inner),
        st.builds(lambda a, b: f"case x in y) {a};; *) {b};; esac", inner, inner),
        st.builds(lambda a, b, c: f"{a} <<EOF\n{b}\nEOF\n{c}", inner, inner, inner),
        st.builds(lambda a, b, c: f"{a} <<'EOF'\n{b}\nEOF\n{c}", inner, inner, inner),
        st.builds(lambda a, b: f"{a} # {b}", inner, inner),
    )


lines = st.recursive(plain, nested, max_leaves=4)
damage = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([piece for piece in PIECES if "\0" not in piece and "\ud800" not in piece])), max_size=2
)


class Stage:
    """A folder in which a real shell finds only programs that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.calls, self.here = folder / "bin", folder / "calls", folder / "here"
        for made in (self.programs, self.calls, self.here):
            made.mkdir()
        for name in RECORDED:
            (self.programs / name).write_text(f"#!/bin/sh\nprintf '%s\\0' {name} \"$@\" > '{self.calls}'/$$\n")
            (self.programs / name).chmod(0o755)
        for name in CARRIERS:
            if (found := shutil.which(name)) is not None:
                (self.programs / name).symlink_to(found)

    def run(self, shell_path: str, line: str) -> list[list[str]]:
        for left in (*self.calls.iterdir(), *self.here.iterdir()):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        process = subprocess.Popen(
            [shell_path, "-c", line],
            cwd=self.here,
            env={"PATH": str(self.programs), "HOME": str(self.here)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass  # it loops or waits: what it called until now counts all the same
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return [text.split("\0")[:-1] for path in self.calls.iterdir() if (text := path.read_bytes().decode(errors="replace"))]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"))


@pytest.mark.parametrize("shell_path", [path for path in ("/bin/bash", "/bin/sh") if Path(path).exists()])
@settings(max_examples=int(os.environ.get("PALAVER_STORM", "100")), deadline=None)
@given(line=lines, changes=damage)
def test_a_real_shell_runs_nothing_that_was_not_found(stage: Stage, shell_path: str, line: str, changes: list[tuple[int, str]]) -> None:
    """SECURITY 17: under grants it runs only what they name and writes no file; otherwise only commands that rules could see."""
    for place, piece in changes:
        line = line[: place % (len(line) + 1)] + piece + line[place % (len(line) + 1) :]
    parsed = parse(line)
    allowed = judge(shell(line, grants=GRANTS)).decision == "allow"
    # A program that is only known when it runs is what `is_literal` is there to say; a word with / could leave the stage.
    assume(parsed.unparsed is None and "/" not in line and (allowed or not any(part.hides_its_program for part in parsed.parts)))
    called = stage.run(shell_path, line)
    if allowed:
        assert all(call[:2] == ["git", "status"] or call[0] == "ls" for call in called)
        assert list(stage.here.iterdir()) == []
    # `bash ls` runs the file of that name, which this stage happens to have.
    names = {name for part in parsed.parts if part.words for name in (name_of(part.words[0]), *(word.text for word in part.words[1:2]))}
    assert {call[0] for call in called} <= names
    if all(part.is_literal for part in parsed.parts) and "bash" not in line and "$'" not in line:
        assert all(call in words(parsed) for call in called)
