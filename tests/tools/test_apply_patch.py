from __future__ import annotations

import asyncio
import os
import stat
import threading
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from tool_bench import Bench

from palaver.errors import ToolFailed
from palaver.wire.ids import CallId
from palaver.wire.values import Location, ToolCall


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "ws")
    bench.write("a.txt", "one\ntwo\nthree\n")
    return bench


def _sections(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def _tree(bench: Bench) -> dict[str, bytes]:
    return {str(path.relative_to(bench.workspace)): path.read_bytes() for path in sorted(bench.workspace.rglob("*")) if path.is_file()}


def test_one_patch_adds_changes_moves_and_deletes(bench: Bench) -> None:
    """S4-61."""
    bench.write("gone.txt", "x\n")
    bench.write("old.txt", "1\n2\n")
    told = bench.text(
        "apply_patch",
        patch=_sections(
            "*** Update File: a.txt", "-two", "+TWO", "*** Add File: sub/dir/new.txt", "+n", "*** Delete File: gone.txt",
            "*** Update File: old.txt", "*** Move to: moved/new.txt", "-2", "+3",
        ),
    )  # fmt: skip
    assert _tree(bench) == {"a.txt": b"one\nTWO\nthree\n", "sub/dir/new.txt": b"n\n", "moved/new.txt": b"1\n3\n"}
    assert told.split("\n") == [
        "Changed a.txt (+1 −1)",
        "Added sub/dir/new.txt (+1 −0)",
        "Deleted gone.txt (+0 −1)",
        "Moved old.txt to moved/new.txt (+1 −1)",
    ]


def test_a_call_is_described_by_the_diff_of_what_will_happen(bench: Bench) -> None:
    bench.write("old.txt", "1\n2\n")
    before = _tree(bench)
    told = bench.describe(
        "apply_patch",
        patch=_sections("*** Update File: a.txt", "-two", "+TWO", "*** Update File: old.txt", "*** Move to: new.txt", "-2", "+3"),
    )
    assert told.preview.diff is not None
    bare = "".join(line + "\n" for line in told.preview.diff.splitlines() if not line.startswith("index "))
    assert told.preview.diff.startswith("index 4cb29ea38f70d7c6.."), "the name that git gives these bytes"
    assert bare == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
        "rename from old.txt\nrename to new.txt\n--- a/old.txt\n+++ b/new.txt\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"
    )
    home = os.path.realpath(bench.workspace)
    assert told.writes == (f"{home}/a.txt", f"{home}/old.txt", f"{home}/new.txt")
    assert told.preview.paths == ("a.txt", "old.txt", "new.txt")
    assert told.locations == tuple(map(Location, told.preview.paths))
    assert told.title == "Change a.txt, Move old.txt to new.txt"
    assert _tree(bench) == before


def test_all_of_a_patch_is_done_or_nothing(bench: Bench) -> None:
    """DESIGN 5: a conflict in one file leaves every file as it was."""
    before = _tree(bench)
    message = bench.fails("apply_patch", patch=_sections("*** Add File: new/x.txt", "+n", "*** Update File: a.txt", "-nowhere", "+x"))
    assert "a.txt: the hunk does not fit" in message
    assert _tree(bench) == before
    assert not (bench.workspace / "new").exists()


def test_what_was_done_is_taken_back_when_a_later_step_fails(bench: Bench) -> None:
    bench.write("b.txt", "b\n")
    bench.write("c/d.txt", "d\n")
    os.chmod(bench.workspace / "a.txt", 0o640)
    before = _tree(bench)
    patch = _sections(
        "*** Update File: a.txt",
        "-one",
        "+ONE",
        "*** Delete File: b.txt",
        "*** Add File: deep/er/new.txt",
        "+n",
        "*** Add File: c/d.txt/e",
        "+n",
    )
    bench.fails("apply_patch", patch=patch)
    assert _tree(bench) == before
    # Two names of one file: the second one finds it changed when its turn comes, after the first was written.
    os.link(bench.workspace / "a.txt", bench.workspace / "same.txt")
    (bench.workspace / "same.txt").unlink()
    os.symlink("c", bench.workspace / "door")
    patch = _sections("*** Update File: a.txt", "-one", "+ONE", "*** Add File: c/x/new.txt", "+n", "*** Add File: door/x", "+n")
    bench.fails("apply_patch", patch=patch)
    assert _tree(bench) == before
    assert not (bench.workspace / "c/x").exists()
    assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o640


def test_mode_and_umask_are_kept(bench: Bench) -> None:
    os.chmod(bench.workspace / "a.txt", 0o750)
    umask = os.umask(0o027)
    try:
        bench.text("apply_patch", patch=_sections("*** Update File: a.txt", "-one", "+ONE", "*** Add File: new.txt", "+n"))
    finally:
        os.umask(umask)
    assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o750
    assert stat.S_IMODE((bench.workspace / "new.txt").stat().st_mode) == 0o640


def test_a_file_becomes_executable_where_the_diff_says_so(bench: Bench) -> None:
    patch = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
    os.chmod(bench.workspace / "a.txt", 0o644)
    assert bench.describe("apply_patch", patch=patch).preview.diff is not None
    bench.text("apply_patch", patch=patch)
    assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o755


def test_the_three_forms_do_the_same(bench: Bench) -> None:
    forms = (
        _sections("*** Update File: a.txt", "-two", "+TWO"),
        "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-two\n+TWO\n",
        "<<<<<<< SEARCH a.txt\ntwo\n=======\nTWO\n>>>>>>> REPLACE",
    )
    for patch in forms:
        bench.write("a.txt", "one\ntwo\nthree\n")
        assert bench.text("apply_patch", patch=patch) == "Changed a.txt (+1 −1)"
        assert _tree(bench) == {"a.txt": b"one\nTWO\nthree\n"}


def test_sections_on_one_file_build_on_each_other(bench: Bench) -> None:
    patch = _sections(
        "*** Update File: a.txt",
        "-two",
        "+TWO",
        "*** Update File: ./a.txt",
        "-TWO",
        "+2",
        "*** Delete File: a.txt",
        "*** Add File: a.txt",
        "+new",
    )
    bench.text("apply_patch", patch=patch)
    assert _tree(bench) == {"a.txt": b"new\n"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("*** Add File: a.txt", "+x"), "a.txt is there already"),
        (("*** Update File: b.txt", "-x", "+y"), "b.txt is not there"),
        (("*** Delete File: b.txt",), "b.txt is not there"),
        (("*** Update File: a.txt", "*** Move to: b.txt", "*** Add File: b.txt", "+x"), "b.txt is there already"),
        (("*** Update File: sub", "-x", "+y"), "sub is a folder"),
        (("*** Update File: pipe", "-x", "+y"), "a named pipe"),
        (("*** Update File: bin", "-x", "+y"), "binary file"),
        (("*** Update File: a.txt", "-one", "+one"), "changes nothing"),
        (("*** Add File: a.txt/b", "+x"), "not a folder"),
    ],
)
def test_what_cannot_be_done_is_told(bench: Bench, lines: tuple[str, ...], says: str) -> None:
    (bench.workspace / "sub").mkdir()
    os.mkfifo(bench.workspace / "pipe")
    bench.write("bin", b"x\0y\n")
    assert says in bench.fails("apply_patch", patch=_sections(*lines))


def test_moves_in_a_chain_and_over_deleted_files_are_told_as_what_they_come_to(bench: Bench) -> None:
    chain = _sections(
        "*** Update File: a.txt", "*** Move to: b.txt", "-two", "+2", "*** Update File: b.txt", "*** Move to: c.txt", "-one", "+1"
    )
    assert bench.describe("apply_patch", patch=chain).preview.paths == ("a.txt", "c.txt")
    assert bench.text("apply_patch", patch=chain) == "Moved a.txt to c.txt (+2 −2)"
    assert _tree(bench) == {"c.txt": b"1\n2\nthree\n"}
    bench.write("d.txt", "d\n")
    over = _sections("*** Delete File: d.txt", "*** Update File: c.txt", "*** Move to: d.txt", "-1", "+one")
    told = bench.describe("apply_patch", patch=over)
    assert told.preview.diff is not None
    assert "-d\n+one\n+2\n+three\n" in told.preview.diff
    assert bench.text("apply_patch", patch=over) == "Changed d.txt (+3 −1)\nDeleted c.txt (+0 −3)"
    assert _tree(bench) == {"d.txt": b"one\n2\nthree\n"}
    again = _sections("*** Update File: d.txt", "*** Move to: e.txt", "*** Add File: d.txt", "+new")
    assert bench.text("apply_patch", patch=again) == "Changed d.txt (+1 −3)\nAdded e.txt (+3 −0)"
    gone = _sections("*** Update File: d.txt", "*** Move to: f.txt", "*** Delete File: f.txt")
    assert bench.text("apply_patch", patch=gone) == "Deleted d.txt (+0 −1)"
    back = _sections("*** Update File: e.txt", "*** Move to: x.txt", "*** Update File: x.txt", "*** Move to: e.txt", "-2", "+two")
    assert bench.text("apply_patch", patch=back).startswith("Changed e.txt")
    assert _tree(bench) == {"e.txt": b"one\ntwo\nthree\n"}


def test_a_patch_outside_the_workspace_is_described_for_policy_and_not_done(bench: Bench) -> None:
    """SECURITY 13."""
    outside = bench.workspace.parent / "outside.txt"
    outside.write_text("x\n")
    (bench.workspace / "link.txt").symlink_to(outside)
    (bench.workspace / "door").symlink_to(bench.workspace.parent)
    for path in ("../outside.txt", "link.txt", str(outside), "door/outside.txt"):
        patch = _sections(f"*** Update File: {path}", "-x", "+y")
        told = bench.describe("apply_patch", patch=patch)
        assert told.writes == (os.path.realpath(outside),)
        assert "outside the workspace" in bench.fails("apply_patch", patch=patch)
    assert "outside the workspace" in bench.fails("apply_patch", patch=_sections("*** Add File: door/new.txt", "+x"))
    assert outside.read_text() == "x\n"
    bench.allowed = (outside,)
    bench.text("apply_patch", patch=_sections(f"*** Update File: {outside}", "-x", "+y"))
    assert outside.read_text() == "y\n"


def test_what_is_outside_is_not_told_to_the_model_when_a_patch_does_not_fit_it(bench: Bench) -> None:
    """SECURITY 13."""
    (bench.workspace.parent / "key").write_text("BEGIN PRIVATE\nxyz\n")
    for lines in (
        ("*** Update File: ../key", "-BEGIN PRIVATES", "+x"),
        ("*** Update File: ..", "-x", "+y"),
        ("*** Add File: ../key", "+x"),
    ):
        with pytest.raises(ToolFailed) as caught:
            bench.describe("apply_patch", patch=_sections(*lines))
        assert "the patch cannot be applied there" in caught.value.message
        assert "PRIVATE\n" not in caught.value.message


def test_a_patch_of_palavers_own_files_is_named_for_policy_and_neither_read_nor_done(bench: Bench) -> None:
    """T-12, SECURITY 13."""
    bench.write("data/token", "secret\n")
    bench.hidden = bench.shown = (bench.workspace / "data",)
    patch = _sections("*** Update File: data/token", "-secret", "+x")
    told = bench.describe("apply_patch", patch=patch)
    assert told.writes == (os.path.realpath(bench.workspace / "data/token"),)
    assert told.preview.diff is None
    assert "belongs to Palaver" in bench.fails("apply_patch", patch=patch)
    assert "belongs to Palaver" in bench.fails("apply_patch", patch=_sections("*** Add File: data/new", "+x"))


def test_a_link_inside_the_workspace_is_followed_and_stays_a_link(bench: Bench) -> None:
    (bench.workspace / "link.txt").symlink_to("a.txt")
    assert bench.text("apply_patch", patch=_sections("*** Update File: link.txt", "-two", "+TWO")) == "Changed a.txt (+1 −1)"
    assert (bench.workspace / "link.txt").is_symlink()
    assert (bench.workspace / "a.txt").read_text() == "one\nTWO\nthree\n"


def test_a_reader_never_sees_half_a_file(bench: Bench) -> None:
    whole = {b"x" * 500_000 + b"\n", b"y" * 500_000 + b"\n"}
    bench.write("big.txt", b"x" * 500_000 + b"\n")
    seen: set[bytes] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((bench.workspace / "big.txt").read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for old, new in ("xy", "yx", "xy"):
            bench.text("apply_patch", patch=_sections("*** Update File: big.txt", "-" + old * 500_000, "+" + new * 500_000))
    finally:
        stop.set()
        watcher.join()
    assert seen <= whole


def test_input_that_makes_no_sense_is_refused(bench: Bench) -> None:
    for input in ({}, {"patch": ""}, {"patch": "nothing of the kind"}, {"diff": "x"}, {"patch": 3}):
        bench.refuses("apply_patch", **input)


# --- where a patch may go -----------------------------------------------------------------------------------------------------


def test_an_approved_patch_goes_only_onto_the_bytes_that_its_diff_was_made_from(bench: Bench) -> None:
    """SECURITY 18: also where what changed stands far from what was shown."""
    text = "".join(f"line {number}\n" for number in range(100))
    file = bench.write("long.txt", text)
    patch = _sections("*** Update File: long.txt", "-line 3", "+line three")
    shown = bench.describe("apply_patch", patch=patch).preview.diff
    assert shown is not None and "line 99" not in shown
    file.write_text(text.replace("line 99", "line 9x"))
    call = ToolCall(CallId("call_1"), "apply_patch", {"patch": patch})
    for approved in (shown, sha256(shown.encode()).hexdigest()):
        with pytest.raises(ToolFailed, match="after the patch was approved"):
            asyncio.run(bench.tools().invoke(replace(bench.context(), approved=approved), call))
    assert "line three" not in file.read_text()
    file.write_text(text)
    asyncio.run(bench.tools().invoke(replace(bench.context(), approved=shown), call))
    assert "line three" in file.read_text()


@pytest.mark.parametrize(
    "path", ["../out.txt", "sub/../../out.txt", "/proc/self/comm", "/proc/self/cwd/../out.txt", "door/out.txt", "/etc/x"]
)
def test_no_path_leads_a_patch_out_of_the_workspace(bench: Bench, tmp_path: Path, path: str) -> None:
    """`..`, absolute paths, links, /proc paths."""
    (tmp_path / "outside").mkdir()
    (bench.workspace / "door").symlink_to(tmp_path / "outside")
    (bench.workspace / "sub").mkdir()
    for patch in (
        _sections(f"*** Add File: {path}", "+x"),
        _sections("*** Update File: a.txt", f"*** Move to: {path}", "-two", "+2"),
        f"<<<<<<< SEARCH {path}\n=======\nx\n>>>>>>> REPLACE",
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
    ):
        try:
            bench.run("apply_patch", patch=patch)
        except ToolFailed:
            pass
        else:
            assert patch.startswith("---"), "only git's own prefix makes such a path one of the workspace"
    assert not (tmp_path / "out.txt").exists() and list((tmp_path / "outside").iterdir()) == []
    assert (bench.workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_second_name_of_a_file_outside_keeps_its_bytes(bench: Bench, tmp_path: Path) -> None:
    """Hard links. A patched file is a new one under the old name, so the other name still has what it had."""
    outside = tmp_path / "outside.txt"
    outside.write_text("one\ntwo\n")
    os.link(outside, bench.workspace / "linked.txt")
    bench.run("apply_patch", patch=_sections("*** Update File: linked.txt", "-two", "+2"))
    assert outside.read_text() == "one\ntwo\n"
    assert (bench.workspace / "linked.txt").read_text() == "one\n2\n"


def test_another_spelling_of_git_and_of_a_hidden_folder_reaches_no_hidden_folder(tmp_path: Path) -> None:
    """Case tricks. Where a disk takes both for one name, the folder is known by what it is."""
    bench = Bench(tmp_path / "ws", hidden=(tmp_path / "ws" / "data",))
    secret = bench.write("data/token", "old\n")
    for path in ("DATA/token", "Data/token", "./data/token", "data//token", "x/../data/token"):
        with pytest.raises(ToolFailed) if (bench.workspace / path).exists() else suppress(ToolFailed):
            bench.run("apply_patch", patch=_sections(f"*** Update File: {path}", "-old", "+new"))
    assert secret.read_text() == "old\n"


def test_a_link_swapped_in_at_any_step_of_a_patch_leads_nothing_out(bench: Bench, tmp_path: Path) -> None:
    """SECURITY 13, symlink races."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("one\ntwo\nthree\n")
    bench.write("sub/a.txt", "one\ntwo\nthree\n")
    sub, was, door = bench.workspace / "sub", bench.workspace / "was", bench.workspace / "door"
    door.symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            sub.rename(was)
            door.rename(sub)
            sub.rename(door)
            was.rename(sub)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(150):
            old, new = ("two", "2") if number % 2 == 0 else ("2", "two")
            with suppress(ToolFailed):
                bench.run("apply_patch", patch=_sections("*** Update File: sub/a.txt", f"-{old}", f"+{new}"))
    finally:
        over.set()
        thread.join()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.txt": "one\ntwo\nthree\n"}
