from __future__ import annotations

import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest
from test_checkpoint import meanwhile
from workspaces import Work, actions

from palaver.changes.undo import perform


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path)
    work.write("a.txt", "one\ntwo\n")
    work.write("gone", "g\n").chmod(0o640)
    work.write("src/b.py", "b = 1\r\n").chmod(0o755)
    (work.root / "link").symlink_to("a.txt")
    return work


def turn(work: Work, name: str = "t1") -> None:
    """Changes of every kind."""
    work.begin(name)
    work.write("a.txt", "one\n2\n")
    work.write("new/deep/c.txt", "c\n")
    (work.root / "gone").unlink()
    (work.root / "src" / "b.py").rename(work.root / "moved.py")
    (work.root / "moved.py").chmod(0o600)
    (work.root / "src").rmdir()
    (work.root / "link").unlink()
    (work.root / "link").symlink_to("elsewhere")
    work.end(name)


def test_undo_puts_every_byte_mode_link_and_folder_back_and_redo_does_it_again(work: Work) -> None:
    """Undo of a turn is itself undoable."""
    before = work.tree()
    turn(work)
    after = work.tree()
    done, left = work.undo()
    assert (work.tree(), left) == (before, {})
    assert done == {
        "a.txt": "restored",
        "gone": "recreated",
        "link": "restored",
        "moved.py": "deleted",
        "new/deep/c.txt": "deleted",
        "src/b.py": "recreated",
    }
    _, left = work.undo(redo=True)
    assert (work.tree(), left) == (after, {})
    work.undo()
    assert work.tree() == before


def test_what_was_changed_since_is_left_and_said(work: Work) -> None:
    """Restores only what still is as the agent left it, previews conflicts."""
    turn(work)
    work.write("a.txt", "mine\n")
    work.write("gone", "back by hand\n")
    (work.root / "new" / "deep" / "c.txt").unlink()
    work.write("new/own", "o\n")
    previewed = work.planned()
    assert actions(previewed.steps) == {"link": "restored", "moved.py": "deleted", "src/b.py": "recreated"}
    done, left = work.undo()
    assert done == actions(previewed.steps)
    assert left == {"a.txt": "It has been changed since.", "gone": "Something else stands there by now."}
    assert (work.root / "a.txt").read_text() == "mine\n"
    assert (work.root / "new" / "own").read_text() == "o\n", "a folder that holds something else by now stays"


def test_undo_of_some_paths_leaves_the_others(work: Work) -> None:
    turn(work)
    assert work.undo(paths=["a.txt"]) == ({"a.txt": "restored"}, {})
    assert not (work.root / "gone").exists()
    done, left = work.undo()
    assert "a.txt" not in done
    assert left == {}


def test_an_undo_is_no_change_of_any_turn(work: Work) -> None:
    turn(work)
    work.begin("t2", "other")
    work.undo()
    assert work.end("t2", "other") == {}
    work.begin("t3")
    assert work.end("t3") == {}


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_come_back(work: Work) -> None:
    before = work.tree()
    work.begin()
    (work.root / "a.txt").unlink()
    work.write("a.txt/inner", "i\n")
    (work.root / "src" / "b.py").unlink()
    (work.root / "src").rmdir()
    work.write("src", "now a file\n")
    work.end()
    after = work.tree()
    work.undo()
    assert work.tree() == before
    work.undo(redo=True)
    assert work.tree() == after


def test_a_folder_that_became_a_link_is_not_followed(work: Work, tmp_path: Path) -> None:
    """SECURITY 13: never out through a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("b = 2\n")
    (outside / "b.py").chmod(0o755)  # all but the way there is as the turn left it
    work.begin()
    work.write("src/b.py", "b = 2\n")
    work.end()
    (work.root / "src").rename(work.root / "was")
    (work.root / "src").symlink_to(outside)
    done, left = work.undo()
    assert done == {}
    assert set(left) == {"src/b.py"}
    assert (outside / "b.py").read_text() == "b = 2\n"


def test_no_link_swapped_in_at_any_step_of_an_undo_leads_it_out(work: Work, tmp_path: Path) -> None:
    """SECURITY 13: a link swapped in at every step of an undo."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("b = 2\n")
    (outside / "b.py").chmod(0o755)  # all but the way there is as the turn left it
    work.begin()
    work.write("src/b.py", "b = 2\n")
    work.write("src/new", "n\n")
    work.end()
    door, src, was = work.root / "door", work.root / "src", work.root / "was"
    door.symlink_to(outside)

    def swap() -> None:
        src.rename(was)
        door.rename(src)
        src.rename(door)
        was.rename(src)

    with meanwhile(swap):
        for number in range(200):
            steps, _ = work.planned(redo=bool(number % 2))
            perform(work.checkpoints, steps, "undo_1")
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"b.py": "b = 2\n"}
    assert (src / "b.py").read_bytes() in (b"b = 1\r\n", b"b = 2\n")


def test_undo_never_touches_the_state_of_git(work: Work) -> None:
    """Never touches the user's git state."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(work.folder)}
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=work.root, env=env, check=True)
    git = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (work.root / ".git").rglob("*") if path.is_file()}
    turn(work)
    work.undo()
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (work.root / ".git").rglob("*") if path.is_file()} == git


# --- cut off in the middle ------------------------------------------------------------------------------------------------------


def _undo_and_die(folder: Path, renames: int) -> None:
    """Ends the process, as kill -9 does, when that many names have changed hands."""
    work = object.__new__(Work)
    work.folder, work.root = folder, folder / "ws"
    work.reopen()
    left = renames

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
            left -= 1
            if left < 0:
                os._exit(9)

    import sys

    sys.addaudithook(watch)
    steps, _ = work.planned()
    perform(work.checkpoints, steps, "undo_1")
    os._exit(0)


@pytest.mark.parametrize("renames", range(16))
def test_a_kill_at_any_point_leaves_each_file_whole_and_the_undo_can_be_finished(work: Work, renames: int) -> None:
    """Promise 2's spirit: old or new, never half."""
    before = work.tree()
    turn(work)
    after = work.tree()
    child = multiprocessing.get_context("spawn").Process(target=_undo_and_die, args=(work.folder, renames))
    steps, _ = work.planned()
    work.checkpoints.close()
    child.start()
    child.join()
    assert child.exitcode in (0, 9)
    found = {path: what for path, what in work.tree().items() if not Path(path).name.startswith(".palaver-")}
    for path, what in found.items():
        assert what in (before.get(path), after.get(path))
    work.reopen()
    assert perform(work.checkpoints, steps, "undo_1") == steps
    assert work.tree() == before


def test_a_file_that_is_not_kept_is_never_deleted_or_replaced(work: Work) -> None:
    """Undo is undoable, and no work of a person is lost by it."""
    work.write("big", b"b" * (17 << 20))
    work.write("small", "s\n")
    work.begin()
    (work.root / "big").rename(work.root / "moved")
    work.write("small", b"c" * (17 << 20))
    work.end()
    after = work.tree()
    done, left = work.undo()
    assert (done, set(left)) == ({}, {"big", "moved", "small"})
    assert "for good" in left["moved"] and work.tree() == after


def test_what_was_moved_stays_where_its_place_is_taken(work: Work) -> None:
    """A person's file that a turn moved is nowhere else."""
    work.begin()
    (work.root / "gone").rename(work.root / "moved")
    work.write("new", "n\n")
    work.end()
    work.write("gone", "mine\n")
    done, left = work.undo()
    assert (done, set(left)) == ({"new": "deleted"}, {"gone", "moved"})
    assert ((work.root / "gone").read_text(), (work.root / "moved").read_text()) == ("mine\n", "g\n")
    (work.root / "gone").unlink()
    assert work.undo() == ({"gone": "recreated", "moved": "deleted"}, {})
