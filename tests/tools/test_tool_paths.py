from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tool_bench import Bench

from palaver.errors import ToolFailed
from palaver.tools import paths


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("the secret\n")
    return Bench(workspace)


def _read(bench: Bench, path: str) -> bytes:
    with paths.spot(bench.context(), path) as place:
        return paths.read(place)


@pytest.mark.parametrize(
    "path", ["a/b.txt", "./a/b.txt", "a/../a/b.txt", "a//b.txt", "link/b.txt", "to_file", "absolute/b.txt", "a/up/a/b.txt", "loop_free"]
)
def test_a_path_that_ends_in_the_workspace_is_opened(bench: Bench, path: str) -> None:
    bench.write("a/b.txt", "here")
    (bench.workspace / "link").symlink_to("a")
    (bench.workspace / "to_file").symlink_to("a/b.txt")
    (bench.workspace / "absolute").symlink_to(bench.workspace / "a")
    (bench.workspace / "a" / "up").symlink_to("..")
    (bench.workspace / "loop_free").symlink_to("to_file")
    assert _read(bench, path) == b"here"
    assert _read(bench, str(bench.workspace / path)) == b"here"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "out/secret.txt",
        "file",
        "chain/secret.txt",
        "a/../../outside/secret.txt",
        "relative",
        "up/outside/secret.txt",
    ],
)
def test_a_path_that_ends_outside_is_refused(bench: Bench, path: str) -> None:
    """SECURITY 13: never out through a link."""
    outside = bench.workspace.parent / "outside"
    (bench.workspace / "a").mkdir()
    (bench.workspace / "out").symlink_to(outside)
    (bench.workspace / "file").symlink_to(outside / "secret.txt")
    (bench.workspace / "chain").symlink_to("out")
    (bench.workspace / "relative").symlink_to("../outside/secret.txt")
    (bench.workspace / "up").symlink_to("..")
    with pytest.raises(ToolFailed, match="outside the workspace"):
        _read(bench, path)


def test_an_absolute_path_outside_is_opened_only_where_it_was_allowed(bench: Bench) -> None:
    outside = bench.workspace.parent / "outside"
    with pytest.raises(ToolFailed, match="outside the workspace"):
        _read(bench, str(outside / "secret.txt"))
    bench.allowed = (outside,)
    assert _read(bench, str(outside / "secret.txt")) == b"the secret\n"
    bench.allowed = (outside / "other.txt",)
    with pytest.raises(ToolFailed, match="outside the workspace"):
        _read(bench, str(outside / "secret.txt"))


def test_a_workspace_that_is_itself_behind_a_link_works(bench: Bench) -> None:
    bench.write("a.txt", "here")
    (bench.workspace.parent / "door").symlink_to(bench.workspace)
    bench.workspace = bench.workspace.parent / "door"
    assert _read(bench, "a.txt") == b"here"
    assert _read(bench, str(bench.workspace / "a.txt")) == b"here"


def test_a_hidden_folder_is_refused_though_it_is_allowed_and_inside(bench: Bench) -> None:
    """SECURITY 13: built-in reads refuse the data and the config folder."""
    bench.write("data/token", "t")
    bench.write("data/sessions/s1/artifacts/turn_1/out.txt", "whole")
    (bench.workspace / "alias").symlink_to("data")
    bench.hidden = (bench.workspace / "data",)
    bench.allowed = (bench.workspace,)
    bench.shown = (bench.workspace / "data/sessions/s1/artifacts",)
    for path in ("data/token", "alias/token", "data/sessions/s1/artifacts/../../../token", "data/sessions/s1/events.ndjson"):
        with pytest.raises(ToolFailed, match="belongs to Palaver"):
            _read(bench, path)
    assert _read(bench, "data/sessions/s1/artifacts/turn_1/out.txt") == b"whole"
    with pytest.raises(ToolFailed, match="belongs to Palaver"), paths.spot(bench.context(), "data/sessions/s1/artifacts/x", write=True):
        pass


def test_a_ref_of_an_artifact_is_a_path_too(bench: Bench) -> None:
    data = bench.workspace.parent / "data"
    (data / "artifacts/turn_1").mkdir(parents=True)
    (data / "artifacts/turn_1/out.txt").write_text("whole")
    (data / "token").write_text("t")
    bench.hidden, bench.shown = (data,), (data / "artifacts",)
    assert _read(bench, "artifacts/turn_1/out.txt") == b"whole"
    assert bench.describe("read_file", path="artifacts/turn_1/out.txt").title == "Read artifacts/turn_1/out.txt"
    for path in ("artifacts/../token", "artifacts/turn_1/../../token"):
        with pytest.raises(ToolFailed):
            _read(bench, path)


@pytest.mark.skipif(sys.platform != "linux", reason="what there is in /proc is Linux's")
@pytest.mark.parametrize("path", ["/proc/self/environ", "/sys/kernel/notes", "/dev/null", "p/self/environ"])
def test_the_systems_own_folders_are_refused_though_they_are_allowed(bench: Bench, path: str) -> None:
    """SECURITY 13."""
    (bench.workspace / "p").symlink_to("/proc")
    bench.allowed = (Path("/"),)
    with pytest.raises(ToolFailed, match="belongs to Palaver or to the system"):
        _read(bench, path)


def test_what_is_no_regular_file_is_refused_at_once(bench: Bench) -> None:
    """SECURITY 13: a FIFO, a socket, a folder; none of them blocks."""
    os.mkfifo(bench.workspace / "pipe")
    server = socket.socket(socket.AF_UNIX)
    folder = os.getcwd()
    os.chdir(bench.workspace)
    try:
        server.bind("sock")  # by a short name: the path of a socket is bounded
    finally:
        os.chdir(folder)
    with pytest.raises(ToolFailed, match="a named pipe, no regular file"):
        _read(bench, "pipe")
    with pytest.raises(ToolFailed, match="a socket, no regular file"):
        _read(bench, "sock")
    with pytest.raises(ToolFailed, match="is a folder"):
        _read(bench, ".")
    server.close()


def test_a_sparse_file_of_50_gb_is_refused_by_its_size(bench: Bench) -> None:
    """SECURITY 13."""
    with (bench.workspace / "sparse").open("wb") as file:
        file.truncate(50_000_000_000)
    with pytest.raises(ToolFailed, match=r"50000000000 bytes, more than the 16777216"):
        _read(bench, "sparse")
    with (bench.workspace / "fits").open("wb") as file:
        file.truncate(paths.MAX_FILE)
    assert len(_read(bench, "fits")) == paths.MAX_FILE


@pytest.mark.parametrize("path", ["loop", "a/b.txt/c", "missing/../x", "x" * 300, "y/" * 3000])
def test_a_path_that_leads_nowhere_is_a_tool_error(bench: Bench, path: str) -> None:
    bench.write("a/b.txt", "here")
    (bench.workspace / "loop").symlink_to("loop")
    with pytest.raises(ToolFailed) as caught:
        _read(bench, path)
    assert caught.value.code == "tool_error"


def test_a_file_that_became_a_link_after_the_walk_is_refused(bench: Bench) -> None:
    """SECURITY 13."""
    bench.write("a.txt", "here")
    with paths.spot(bench.context(), "a.txt") as place:
        (bench.workspace / "a.txt").unlink()
        (bench.workspace / "a.txt").symlink_to("../outside/secret.txt")
        with pytest.raises(ToolFailed, match="became a link"):
            paths.read(place)


def test_no_descriptor_is_left_open(bench: Bench) -> None:
    bench.write("a/b.txt", "here")
    before = len(os.listdir("/dev/fd"))
    for path in ("a/b.txt", "a/../a/b.txt", "a/missing", "..", "a/b.txt/c"):
        try:
            _read(bench, path)
        except ToolFailed:
            continue
    assert len(os.listdir("/dev/fd")) == before


# --- an attacker between any two steps -----------------------------------------------------------------------------------------


class _Attacker:
    """Does its deed just before the n-th step that touches a file. Python tells it of each; it cannot be taken off, so it sleeps."""

    def __init__(self) -> None:
        self.deed: Callable[[], None] | None = None
        self.left = 0
        sys.addaudithook(self._hook)

    def arm(self, step: int, deed: Callable[[], None]) -> None:
        self.left, self.deed = step, deed

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if self.deed is None or event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.chmod"):
            return
        if self.left > 0:
            self.left -= 1
            return
        deed, self.deed = self.deed, None
        deed()


@pytest.fixture(scope="module")
def attacker() -> Iterator[_Attacker]:
    attacker = _Attacker()
    yield attacker
    attacker.deed = None


def _fresh(root: Path) -> Bench:
    bench = Bench(root / "ws")
    bench.write("dir/file.txt", "one\ntwo\n")
    outside = root / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text("one\ntwo\nsecret\n")
    return bench


def _swap_folder(bench: Bench) -> None:
    (bench.workspace / "dir").rename(bench.workspace / "moved")
    (bench.workspace / "dir").symlink_to("../outside")


def _swap_file(bench: Bench) -> None:
    (bench.workspace / "dir/file.txt").rename(bench.workspace / "moved.txt")
    (bench.workspace / "dir/file.txt").symlink_to("../../outside/file.txt")


_CALLS: dict[str, dict[str, str]] = {
    "read_file": {"path": "dir/file.txt"},
    "search": {"pattern": "secret", "path": "dir/file.txt"},
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Update File: dir/file.txt\n-one\n+ONE\n*** Add File: dir/sub/new.txt\n+n\n*** End Patch",
    },
}


@pytest.mark.parametrize("swap", [_swap_folder, _swap_file])
@pytest.mark.parametrize("tool", _CALLS)
def test_a_link_swapped_in_at_any_step_leads_nothing_outside(
    tmp_path: Path, attacker: _Attacker, tool: str, swap: Callable[[Bench], None]
) -> None:
    """SECURITY 13: a link swapped in at every step."""
    for step in range(100):
        root = tmp_path / str(step)
        root.mkdir()
        bench = _fresh(root)
        attacker.arm(step, lambda bench=bench: swap(bench))  # type: ignore[misc]  # mypy cannot type a lambda with a default
        try:
            said = "".join(part.text or "" for part in bench.run(tool, **_CALLS[tool]).parts)
        except ToolFailed as error:
            said = error.message
        finished, attacker.deed = attacker.deed is not None, None
        assert "secret" not in said.replace("matches secret", "")
        assert sorted(path.name for path in (root / "outside").iterdir()) == ["file.txt"]
        assert (root / "outside/file.txt").read_text() == "one\ntwo\nsecret\n"
        if finished:
            assert step >= 3
            return
    raise AssertionError("the call takes more steps than were tried")
