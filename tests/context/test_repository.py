"""What is known of a folder: kept up to date by what changed, ranked, written down in a budget, and never more than a tool may read."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import Room

from palaver.context.bundle import Found, bundle
from palaver.context.chunks import Chunk, chunks
from palaver.context.index import Index, Known
from palaver.context.rank import ranked
from palaver.context.repository import Repositories
from palaver.context.symbols import DEFINES, language_of, symbols
from palaver.context.words import asked, names_in, parts
from palaver.errors import ToolFailed
from palaver.models.tokens import estimate
from palaver_daemon import palaver, scripted
from scripted_model import ScriptedModel, calls, text

PLANETS = ("mercury", "venus", "earth", "mars", "jupiter", "saturn", "uranus", "neptune", "pluto", "ceres")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A workspace of ten modules, each about another planet."""
    room = Room(tmp_path / "ws")
    for planet in PLANETS:
        room.write(f"src/{planet}.py", f'"""Everything about {planet}."""\n\n\ndef orbit_{planet}(days):\n    return days * 2\n')
    return room


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path / "cache", 30.0)


def best(repositories: Repositories, room: Room, question: str) -> list[str]:
    return [known.path for known in asyncio.run(repositories.ranked(room.reach(), question))]


def test_the_files_that_a_question_is_about_come_first(room: Room, repositories: Repositories) -> None:
    room.write("tests/test_mars.py", "from mars import orbit_mars\n\n\ndef test_mars():\n    assert orbit_mars(1) == 2\n")
    room.write("CHANGELOG.md", "mars mars mars\n")
    for place in ("tests", "zeta"):
        room.write(f"{place}/comet.py", "def tail_of_comet():\n    return 'ice'\n")
    assert best(repositories, room, "What is the tail of the comet?") == ["zeta/comet.py", "tests/comet.py"]
    room.write("src/probe.py", "from mars import orbit_mars\n\n\ndef fly():\n    return orbit_mars(3)\n")
    assert best(repositories, room, "How long is a year on Mars?")[0] == "src/mars.py"
    assert best(repositories, room, "Why does orbitMars() return twice?")[0] == "src/mars.py"
    assert best(repositories, room, "Which test covers mars?")[0] == "tests/test_mars.py"
    assert "src/mars.py" in best(repositories, room, "How does the probe fly?"), "what the best file uses is near"
    assert best(repositories, room, '"" OR NEAR( * : {path} -') == [], "no word of a question is an operator"


def test_only_what_changed_is_read_again(room: Room, repositories: Repositories) -> None:
    """Keyed by size, time and inode."""
    best(repositories, room, "mars")
    [index] = (repositories.cache).iterdir()
    assert index.stat().st_mode & 0o777 == 0o600 and repositories.cache.stat().st_mode & 0o777 == 0o700

    def rows() -> dict[str, int]:
        return dict(sqlite3.connect(index).execute("SELECT path, id FROM files").fetchall())

    before = rows()
    room.write("src/mars.py", "def red_planet():\n    pass\n")
    (room.workspace / "src" / "pluto.py").unlink()
    room.write("src/vulcan.py", "def spock():\n    pass\n")
    replaced = room.workspace / "src" / "venus.py"
    twin = room.write("twin", replaced.read_bytes())
    os.utime(twin, ns=(replaced.stat().st_atime_ns, replaced.stat().st_mtime_ns))
    twin.rename(replaced)
    assert best(repositories, room, "Where is the red planet?")[0] == "src/mars.py"
    after = rows()
    assert after.keys() == before.keys() - {"src/pluto.py"} | {"src/vulcan.py"}
    assert {path for path in before.keys() & after.keys() if before[path] != after[path]} == {"src/mars.py", "src/venus.py"}
    assert best(repositories, room, "pluto") == []


def test_an_index_that_is_torn_or_of_another_version_is_made_anew(room: Room, repositories: Repositories) -> None:
    best(repositories, room, "mars")
    [index] = repositories.cache.iterdir()
    for broken in (b"", b"no database at all" * 100, index.read_bytes()[:5000]):
        index.write_bytes(broken)
        assert best(repositories, room, "mars")[0] == "src/mars.py"


def test_what_is_not_read_in_time_is_read_the_next_time(room: Room, tmp_path: Path) -> None:
    hurried = Repositories(tmp_path / "cache", 0.0)
    answers = [best(hurried, room, "venus") for _ in range(len(PLANETS) + 1)]
    assert answers[0] == [] and answers[-1] == ["src/venus.py"]


def test_nothing_outside_is_read_and_nothing_hangs(room: Room, repositories: Repositories, tmp_path: Path) -> None:
    """SECURITY 13: links, pipes, binary and huge files, ignored files, git's own, Palaver's own."""
    (tmp_path / "outside.py").write_text("def kryptonite(): ...\n")
    (room.workspace / "link.py").symlink_to(tmp_path / "outside.py")
    (room.workspace / "folder").symlink_to(tmp_path)
    os.mkfifo(room.workspace / "pipe.py")
    room.write("binary.py", b"kryptonite\0" * 9)
    with open(room.workspace / "sparse.py", "wb") as file:
        file.truncate(50 << 30)
    room.write("big.py", "kryptonite = 1\n" * 200_000)
    room.write(".gitignore", "ignored/\n")
    room.write("ignored/a.py", "def kryptonite(): ...\n")
    room.write(".git/hooks/a.py", "def kryptonite(): ...\n")
    room.write("data/a.py", "def kryptonite(): ...\n")
    room.hidden = (room.workspace / "data",)
    assert best(repositories, room, "kryptonite") == []
    told = asyncio.run(repositories.bundle(room.reach(), "Where is the kryptonite? And mars?", 3_000))
    assert "kryptonite" not in told and "src/mars.py" in told


def test_a_folder_swapped_for_a_link_is_not_followed_by_the_indexer(room: Room, repositories: Repositories, tmp_path: Path) -> None:
    """SECURITY 13: the listing is older than the reading."""
    from palaver.context.indexer import _Folders

    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mars.py").write_text("secret")
    root = os.open(room.workspace, os.O_RDONLY)
    folders = _Folders(root)
    assert b"mars" in (folders.read("src/mars.py") or b"")
    folders.close()
    (room.workspace / "src").rename(room.workspace / "old")
    (room.workspace / "src").symlink_to(tmp_path / "outside")
    assert folders.read("src/mars.py") is None
    (room.workspace / "old" / "mars.py").unlink()
    (room.workspace / "old" / "mars.py").symlink_to(tmp_path / "outside" / "mars.py")
    assert folders.read("old/mars.py") is None
    assert folders.read("no/such/file") is None
    folders.close()
    os.close(root)


def test_a_planted_module_or_program_is_not_run(room: Room, repositories: Repositories) -> None:
    """SECURITY 11: our Python child runs with `-P` and cwd `/`."""
    for name in ("msgspec.py", "sqlite3.py", "tree_sitter.py", "palaver.py"):
        room.write(name, f"open({str(room.workspace / 'canary')!r}, 'w')\n")
    room.write("rg", "#!/bin/sh\ntouch canary\n").chmod(0o755)
    assert best(repositories, room, "mars")[0] == "src/mars.py"
    assert not (room.workspace / "canary").exists()


def test_the_bundle_shows_git_tree_relevant_files_and_excerpts_with_their_range(room: Room, repositories: Repositories) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(room.workspace)], check=True)
    room.write("src/long.py", "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(60)) + "def zebra():\n    return 'stripes'\n")
    told = asyncio.run(repositories.bundle(room.reach(), "What does zebra return?", 3_000))
    assert told.startswith("# The workspace when this turn began: 11 files\n\nOn branch main, without a commit yet. Changed: ")
    assert "## Tree\n\nsrc/\n  ceres.py" in told
    assert "\n1. src/long.py (243 lines)\n" in told
    assert "src/long.py:241-242\n```\ndef zebra():\n    return 'stripes'\n```" in told


def test_what_looks_like_a_secret_is_named_and_never_quoted(room: Room, repositories: Repositories) -> None:
    for name in (".env", "deploy/id_rsa", "tls/server.key", "aws_credentials.py"):
        room.write(name, "the password of mars is 4711\n")
    told = asyncio.run(repositories.bundle(room.reach(), "What is the password of mars?", 4_000))
    assert "4711" not in told and "src/mars.py" in told


def test_an_empty_folder_has_no_bundle_and_a_small_one_is_only_listed(tmp_path: Path, repositories: Repositories) -> None:
    room = Room(tmp_path / "ws")
    room.workspace.mkdir()
    assert asyncio.run(repositories.bundle(room.reach(), "mars", 3_000)) == ""
    room.write("a.txt", "mars")
    assert asyncio.run(repositories.bundle(room.reach(), "mars", 3_000)).endswith("1 file\n\n## Tree\n\na.txt")
    assert not repositories.cache.exists(), "nothing was indexed"


def test_an_index_that_cannot_be_written_is_said(room: Room, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises((ToolFailed, OSError)):
        best(Repositories(tmp_path / "cache"), room, "mars")


names = st.lists(
    st.text("abc/d.é", min_size=1, max_size=40).map(lambda name: name.strip("/") or "x"), min_size=1, max_size=120, unique=True
)


@settings(max_examples=60, deadline=None)
@given(names, st.integers(60, 4_000), st.integers(0, 12), st.text(max_size=300))
def test_a_bundle_fits_its_room_whatever_the_folder_holds(paths: Sequence[str], room: int, relevant: int, words: str) -> None:
    symbols = [(words[:30] or "f", 1, 2, depth, words[:100] or "f") for depth in range(4)] * 5
    known = [Known(path, 9, symbols) for path in sorted(paths)[:relevant]]
    excerpts = [(one.path, Chunk(1, 9, 1.0, words * 5)) for one in known]
    text = bundle(Found(sorted(paths), True, "On branch main." if room % 2 else None, known, excerpts), room)
    assert estimate(text) <= max(room, 60)


# --- parts --------------------------------------------------------------------------------------------------------------------

SOURCES = {
    "a.py": ("class A:\n    def b(self):\n        def c(): ...\n\nasync def d(): ...\n", ["A 0", "b 1", "c 2", "d 0"]),
    "a.js": ("function a() {}\nclass B { c() {} }\nconst d = () => 1;\nconst e = 2;\n", ["a 0", "B 0", "c 1", "d 0"]),
    "a.ts": ("interface A { b: string }\ntype C = 1;\nenum D { E }\nfunction f(): void {}\n", ["A 0", "C 0", "D 0", "f 0"]),
    "a.tsx": ("export const A = () => <div/>;\nfunction b() { return <A/>; }\n", ["A 0", "b 0"]),
    "a.go": ("package p\ntype A struct{}\nfunc (a A) B() {}\nfunc c() {}\n", ["A 0", "B 0", "c 0"]),
    "a.rs": ("struct A;\nimpl A { fn b(&self) {} }\ntrait C {}\nfn d() {}\n", ["A 0", "A 0", "b 1", "C 0", "d 0"]),
    "A.java": ("class A { int b() { return 1; } interface C {} }\n", ["A 0", "b 1", "C 1"]),
    "a.c": ("struct a { int x; };\nstatic int *b(int c) { return 0; }\nstruct a d;\n", ["a 0", "b 0"]),
    "a.cpp": ("namespace n { class A { void b() {} }; }\nint A::c() { return 1; }\n", ["n 0", "A 1", "b 2", "A::c 0"]),
    "a.rb": ("module A\n  class B\n    def c; end\n  end\nend\n", ["A 0", "B 1", "c 2"]),
    "a.sh": ("a() { echo; }\nfunction b { echo; }\n", ["a 0", "b 0"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_file_defines_is_found_in_every_language(name: str) -> None:
    source, expected = SOURCES[name]
    language = language_of(name)
    assert language is not None
    assert [f"{symbol.name} {symbol.depth}" for symbol in symbols(source.encode(), language)] == expected


def test_every_language_has_a_case_and_broken_source_is_read_as_far_as_it_goes() -> None:
    assert {language_of(name) for name in SOURCES} == set(DEFINES)
    assert [symbol.name for symbol in symbols(b"def a(:\n\n\ndef b():\n  pass\n", "python")][-1:] == ["b"]
    assert symbols(b"(" * 100_000, "python") == []
    assert language_of("notes.txt") is None


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [("parseHTTPHeader2", ["parse", "http", "header", "2"]), ("snake_case__x", ["snake", "case", "x"]), ("ID", ["id"]), ("_", [])],
)
def test_identifiers_are_taken_apart(identifier: str, expected: list[str]) -> None:
    assert parts(identifier) == expected


def test_a_question_is_its_own_words_and_the_names_in_it() -> None:
    assert asked("Where is the parseHeader function that we use for headers?") == ["parse", "header", "headers"]
    assert names_in("Why does `close` call read_all and parseHeader?") == ["readall", "parseheader", "close"]


def test_a_long_file_without_symbols_is_cut_by_lines() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 301)).replace("line 250", "the needle")
    [first, *_] = chunks(text, (), ["needle"])
    assert first.start <= 250 <= first.end and first.end - first.start < 60
    assert chunks(text, (), ["nothing"]) == []


def test_an_index_answers_nothing_for_no_words(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    assert ranked(index, "where is the") == []
    index.close()


# --- the whole way ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_turn_is_shown_what_its_message_is_about_and_keeps_it_to_its_end(tmp_path: Path) -> None:
    """S4-41. Its tokens are told as `files`; the next turn's is its own."""
    async with ScriptedModel([calls(("repo_map", {"query": "mars"})), text("ok"), text("ok")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
            for planet in PLANETS:
                (here.workspace / f"{planet}.py").write_text(f"def orbit_{planet}(days):\n    return days * 2\n")
            await chat.runs("What is the orbit of mars?")
            (here.workspace / "venus.py").write_text("def evening_star(): ...\n")
            await chat.runs("And which is the evening star?")
            first, second, third = (one["messages"][0]["content"] for one in model.requests)
            assert first == second and "\n1. mars.py (3 lines)\n   1: def orbit_mars(days)" in first
            assert "\n1. venus.py (2 lines)\n   1: def evening_star()" in third
            result = chat.of("tool_call_completed")[0]["data"]["tool_result"]["parts"][0]["text"]
            assert result.startswith("mars.py (3 lines)\n     1: def orbit_mars(days)")
            usage = {one["name"]: one["tokens"] for one in chat.of("context_usage")[0]["data"]["categories"]}
            assert 100 < usage["files"] < 3_000
