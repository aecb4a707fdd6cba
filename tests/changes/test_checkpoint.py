from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from workspaces import Work

from palaver.changes.scan import Entry, TooLate, TooMany, scan


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path)
    work.write("a.txt", "one\ntwo\n")
    work.write("src/b.py", "b = 1\n")
    return work


def test_whatever_a_turn_did_is_found_and_nothing_else(work: Work) -> None:
    """By patch or by shell."""
    work.write("gone", "g\n")
    work.begin()
    work.write("a.txt", "one\n2\n")
    work.write("new/c.txt", "c\n")
    (work.root / "gone").unlink()
    (work.root / "src" / "b.py").chmod(0o755)
    (work.root / "link").symlink_to("a.txt")
    assert work.end() == {"a.txt": "modified", "gone": "deleted", "link": "added", "new/c.txt": "added", "src/b.py": "modified"}
    assert work.diffs() == {
        "a.txt": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        "gone": "--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-g\n",
        "link": "new file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1,1 @@\n+a.txt\n\\ No newline at end of file\n",
        "new/c.txt": "--- /dev/null\n+++ b/new/c.txt\n@@ -0,0 +1,1 @@\n+c\n",
        "src/b.py": "old mode 100644\nnew mode 100755\n",
    }


def test_what_a_person_changed_before_the_turn_began_to_write_is_not_the_turns(work: Work) -> None:
    """Nothing that a person changed before the turn's first writing call."""
    work.begin("t0")
    assert work.end("t0") == {}
    work.write("a.txt", "by hand\n")
    work.begin("t1")
    work.write("src/b.py", "b = 2\n")
    assert work.end("t1") == {"src/b.py": "modified"}


def test_what_is_as_it_was_at_the_end_counts_as_untouched(work: Work) -> None:
    work.begin()
    work.write("a.txt", "other\n")
    work.checkpoints.look()
    work.write("a.txt", "one\ntwo\n")
    work.write("new", "")
    work.checkpoints.look()
    (work.root / "new").unlink()
    assert work.end() == {}


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(work: Work) -> None:
    for number in range(30):
        turn = f"t{number}"
        work.begin(turn)
        work.write("a.txt", f"one\n{number:03}\n")
        assert work.end(turn) == {"a.txt": "modified"}


def test_a_file_that_changed_just_before_it_was_read_is_read_again_next_time(work: Work) -> None:
    """Within one tick of the disk's clock a second change leaves no trace in its times."""
    changed = (work.root / "a.txt").stat().st_ctime_ns
    young = scan(work.root, {}, lambda hash, data: None, now_ns=changed + 1).changed["a.txt"]
    old = scan(work.root, {}, lambda hash, data: None, now_ns=changed + 10_000_000_000).changed["a.txt"]
    assert young is not None and old is not None
    assert (young.stamp, bool(old.stamp)) == ((), True)


def test_a_change_that_sets_the_files_time_back_is_seen(work: Work) -> None:
    found = (work.root / "a.txt").stat()
    work.begin()
    work.write("a.txt", "ONE\nTWO\n")
    os.utime(work.root / "a.txt", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert work.end() == {"a.txt": "modified"}


def test_only_what_changed_is_read(work: Work) -> None:
    """DESIGN 7: it costs by what changed since the last one."""
    for number in range(50):
        os.utime(work.write(f"d/{number}", f"{number}\n"), ns=(1, 1))
    os.utime(work.write("a.txt", "a\n"), ns=(1, 1))
    known: dict[str, Entry] = {}
    kept: list[bytes] = []

    def looked() -> list[bytes]:
        kept.clear()
        found = scan(work.root, known, lambda hash, data: kept.append(data), now_ns=1 << 62)
        known.update({path: entry for path, entry in found.changed.items() if entry is not None})
        return sorted(kept)

    assert len(looked()) == 52
    assert looked() == []
    work.write("d/7", "seven\n")
    assert looked() == [b"seven\n"]


def test_a_renamed_file_is_told_as_one_rename(work: Work) -> None:
    work.write("long.py", "".join(f"line {number}\n" for number in range(40)))
    work.begin()
    (work.root / "a.txt").rename(work.root / "moved.txt")
    text = (work.root / "long.py").read_text().replace("line 7\n", "line seven\n")
    (work.root / "long.py").unlink()
    work.write("other/longer.py", text)
    assert work.end() == {"moved.txt": "renamed", "other/longer.py": "renamed"}
    diffs = work.diffs()
    assert diffs["moved.txt"] == "rename from a.txt\nrename to moved.txt\n"
    assert diffs["other/longer.py"].startswith(
        "rename from long.py\nrename to other/longer.py\n--- a/long.py\n+++ b/other/longer.py\n@@ -5,7"
    )


def test_what_is_ignored_is_not_tracked_and_what_a_patch_names_is(work: Work) -> None:
    work.write(".gitignore", "*.log\n.env\n")
    work.write(".env", "A=1\n")
    work.write("node_modules/x/index.js", "1\n")
    work.begin()
    work.write("x.log", "noise\n")
    work.write("node_modules/x/index.js", "2\n")
    work.write("__pycache__/a.pyc", "2\n")
    work.begin("t1", "s", ".env", "local.log")
    work.write(".env", "A=2\n")
    work.write("local.log", "named\n")
    assert work.end() == {".env": "modified", "local.log": "added"}


def test_a_rule_that_a_turn_writes_hides_nothing_that_it_did(work: Work) -> None:
    work.begin()
    work.write(".gitignore", "*\n")
    work.write("a.txt", "changed\n")
    (work.root / "src" / "b.py").unlink()
    assert work.end() == {".gitignore": "added", "a.txt": "modified", "src/b.py": "deleted"}


def test_a_rule_that_a_turn_removes_makes_nothing_look_new(work: Work) -> None:
    """Else an undo would delete what was there all the time."""
    work.write(".gitignore", "precious/\n")
    work.write("precious/data", "years of work\n")
    work.begin()
    (work.root / ".gitignore").unlink()
    assert work.end() == {".gitignore": "deleted"}
    work.undo()
    assert (work.root / "precious" / "data").read_text() == "years of work\n"


def test_turns_of_two_sessions_at_once_each_have_what_changed_while_they_were_open(work: Work) -> None:
    work.begin("t1", "s1")
    work.write("a.txt", "by one\n")
    work.begin("t2", "s2")
    work.write("src/b.py", "by two\n")
    assert work.end("t2", "s2") == {"src/b.py": "modified"}
    work.write("c", "by one again\n")
    assert work.end("t1", "s1") == {"a.txt": "modified", "c": "added", "src/b.py": "modified"}


def test_a_turn_that_a_crash_left_open_is_ended_later_with_all_it_did(work: Work) -> None:
    work.begin()
    work.write("a.txt", "half\n")
    work.reopen()
    work.begin()
    work.write("b.txt", "the rest\n")
    work.reopen()
    assert work.end() == {"a.txt": "modified", "b.txt": "added"}
    assert work.end() == {"a.txt": "modified", "b.txt": "added"}


def test_the_hash_of_a_workspace_follows_its_content_alone(work: Work) -> None:
    """A later write makes a check stale."""
    first = work.checkpoints.look()[0]
    os.utime(work.root / "a.txt", ns=(1, 1))
    assert work.checkpoints.look()[0] == first
    work.write("a.txt", "ONE\ntwo\n")
    changed = work.checkpoints.look()[0]
    assert changed != first
    work.write("a.txt", "one\ntwo\n")
    assert work.checkpoints.look()[0] == first
    (work.root / "a.txt").chmod(0o600)
    assert work.checkpoints.look()[0] != first


def test_the_sessions_net_changes_join_its_turns(work: Work) -> None:
    work.begin("t1")
    work.write("a.txt", "first\n")
    work.write("tmp", "x\n")
    work.end("t1")
    work.begin("t2")
    work.write("a.txt", "second\n")
    (work.root / "tmp").unlink()
    work.end("t2")
    [net] = work.checkpoints.store.net("s")
    content = work.checkpoints.store.content
    assert net.before is not None and net.after is not None
    assert (net.path, content(net.before.hash), content(net.after.hash)) == ("a.txt", b"one\ntwo\n", b"second\n")


# --- what stands there is not always a file -------------------------------------------------------------------------------------


def test_pipes_sockets_and_sparse_files_block_nothing_and_are_not_kept(work: Work) -> None:
    """SECURITY 13: FIFO, socket, sparse 50 GB file."""
    os.mkfifo(work.root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(work.root / "socket"))
    with (work.root / "sparse").open("wb") as sparse:
        sparse.truncate(50 << 30)
    work.begin()
    with (work.root / "sparse").open("r+b") as sparse:
        sparse.write(b"x")
    (work.root / "pipe").unlink()
    os.mkfifo(work.root / "pipe2")
    assert work.end() == {"pipe": "deleted", "pipe2": "added", "sparse": "modified"}
    assert "bytes, of which none are kept" in work.diffs()["sparse"]
    done, left = work.undo()
    assert done == {"pipe2": "deleted"}
    assert set(left) == {"pipe", "sparse"}
    assert "16 MiB" in left["sparse"]


def test_beyond_the_limit_the_oldest_ended_turns_give_up_theirs_and_then_nothing_more_is_kept(work: Work) -> None:
    """SECURITY 13: 1 GiB in all (here: 100 kB)."""
    work.reopen(limit=100_000)
    for turn in ("t1", "t2", "t3"):
        work.begin(turn)
        work.write("big", os.urandom(40_000))
        work.end(turn)
    assert not work.checkpoints.knows("t1")
    assert work.undo("t3") == ({"big": "restored"}, {})
    work.begin("t4")
    work.write("huge", os.urandom(99_000))
    assert work.end("t4") == {"huge": "added"}
    (work.root / "huge").unlink()
    assert work.undo("t4", redo=True) == (
        {},
        {"huge": "Its 99000 bytes were not kept: files over 16 MiB and what is over 1 GiB in all are not."},
    )


def test_folders_of_palavers_own_are_not_looked_into(work: Work) -> None:
    work.write("secret/token", "hidden\n")
    work.begin()
    work.write("secret/token", "other\n")
    assert work.end() == {}


def test_a_workspace_that_is_too_large_is_said_to_be(work: Work) -> None:
    scan(work.root, {}, lambda hash, data: None, now_ns=0, most=3)
    work.write("one more", "")
    with pytest.raises(TooMany):
        scan(work.root, {}, lambda hash, data: None, now_ns=0, most=3)


def test_a_checkpoint_that_takes_too_long_is_not_taken_and_the_next_try_comes_further(work: Work) -> None:
    with pytest.raises(TooLate):
        work.checkpoints.begin("t1", "s", seconds=-1)
    assert not work.checkpoints.knows("t1")
    work.begin("t1")
    work.write("a.txt", "x\n")
    assert work.end() == {"a.txt": "modified"}


# --- races ----------------------------------------------------------------------------------------------------------------------


@contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """`step` over and over in a thread, until the block ends."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_link_swapped_in_for_a_folder_or_a_file_leads_nothing_out(work: Work, tmp_path: Path) -> None:
    """SECURITY 13: a link swapped in at every step of a checkpoint."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("SECRET\n")
    src, was, door = work.root / "src", work.root / "was", work.root / "door"
    door.symlink_to(outside)
    file, link = work.root / "a.txt", work.root / "file-link"
    link.symlink_to(outside / "b.py")

    def swap() -> None:
        src.rename(was)
        door.rename(src)
        src.rename(door)
        was.rename(src)
        file.rename(work.root / "aside")
        link.rename(file)
        file.rename(link)
        (work.root / "aside").rename(file)

    kept: list[bytes] = []
    with meanwhile(swap):
        for _ in range(300):
            scan(work.root, {}, lambda hash, data: kept.append(data), now_ns=0)
    assert b"b = 1\n" in kept
    assert b"SECRET\n" not in kept
