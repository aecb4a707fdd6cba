"""The data folder: who may be in it, who may write to it, and what a start finds there."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import FailingDisk, LossyDisk
from palaver.errors import DiskFailed, Refused
from palaver.log.blobs import Blobs
from palaver.log.files import FileLog
from palaver.log.folders import DataFolder, check_private

pytestmark = pytest.mark.anyio

HOLD_THE_LOCK = """
import sys
from pathlib import Path
from palaver.log.folders import DataFolder

folder = DataFolder(Path(sys.argv[1]))
lock = folder.lock()
print("held" if lock else "busy", folder.holder(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    made.prepare()
    return made


# --- who may be in it ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
async def test_everything_in_it_is_for_one_person_whatever_the_umask(tmp_path: Path) -> None:
    """SECURITY 7, in the layout of S4-20."""
    folder = DataFolder(tmp_path / "data")
    folder.prepare()
    lock = folder.lock()
    await folder.write_session_json("sess_1", b"{}")
    await folder.write_local_json("sess_1", b"{}")
    await folder.mark_open("sess_1")
    await Blobs(folder).put("sess_1", "attachments", "a.txt", b"a")
    await Blobs(folder).put("sess_1", "artifacts/turn_1", "b.txt", b"b")
    found = [folder.root, *folder.root.rglob("*")]
    assert len(found) == 14
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()} == {0o600}
    assert lock is not None


def test_a_folder_that_others_could_look_into_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    DataFolder(tmp_path).prepare()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o720, 0o777])
def test_what_others_can_write_is_refused_with_the_line_that_mends_it(tmp_path: Path, mode: int) -> None:
    """SECURITY 7."""
    tmp_path.chmod(mode)
    with pytest.raises(Refused, match=f"chmod go-w {tmp_path}") as refused:
        DataFolder(tmp_path).prepare()
    assert refused.value.code == "unsafe_folder"
    tmp_path.chmod(0o700)
    (tmp_path / "token").touch()
    (tmp_path / "token").chmod(mode)
    with pytest.raises(Refused, match=f"chmod go-w {tmp_path / 'token'}"):
        DataFolder(tmp_path).prepare()
    (tmp_path / "token").chmod(mode & ~0o022)
    DataFolder(tmp_path).prepare()


def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    """SECURITY 7."""
    with pytest.raises(Refused, match="belongs to another user") as refused:
        DataFolder(tmp_path).prepare(uid=os.getuid() + 1)
    assert refused.value.code == "unsafe_folder"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_that_another_user_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").touch()
    os.chown(tmp_path / "tokens.json", 12_345, -1)
    with pytest.raises(Refused, match="belongs to another user"):
        DataFolder(tmp_path).prepare()


def test_a_path_that_is_not_there_is_safe(tmp_path: Path) -> None:
    check_private(tmp_path / "config")


def test_a_folder_that_cannot_be_made_is_a_failure_of_the_disk(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.fail("make_folder")
    with pytest.raises(DiskFailed, match="No space left"):
        DataFolder(tmp_path / "data", disk).prepare()


# --- one writer ---------------------------------------------------------------------------------------------------------------


def test_one_process_holds_the_lock_and_the_others_see_its_pid(folder: DataFolder) -> None:
    first = hold_the_lock(folder)
    assert said(first) == ["held", str(first.pid)]
    assert folder.lock() is None
    assert folder.holder() == first.pid
    first.kill()
    first.communicate()
    lock = folder.lock()
    assert lock is not None, "a process that died holds nothing"
    assert folder.holder() == os.getpid()
    second = hold_the_lock(folder)
    assert said(second) == ["busy", str(os.getpid())]
    end(second)
    lock.release()
    third = hold_the_lock(folder)
    assert said(third) == ["held", str(third.pid)]
    end(third)


def test_a_child_does_not_keep_the_lock_of_a_parent_that_ended(folder: DataFolder) -> None:
    lock = folder.lock()
    assert lock is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    lock.release()
    again = folder.lock()
    assert again is not None
    again.release()
    end(child)


def hold_the_lock(folder: DataFolder) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOLD_THE_LOCK, str(folder.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def said(process: subprocess.Popen[bytes]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().decode().split()


def end(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"\n")
    assert process.returncode == 0


# --- open sessions ------------------------------------------------------------------------------------------------------------


async def test_a_start_finds_what_was_marked_and_not_cleared(folder: DataFolder) -> None:
    for session_id in ("sess_c", "sess_a", "sess_b"):
        await folder.mark_open(session_id)
    await folder.mark_open("sess_a")
    folder.clear_open("sess_b")
    folder.clear_open("sess_never")
    assert DataFolder(folder.root).open_sessions() == ["sess_a", "sess_c"]


async def test_a_session_that_was_cleared_is_marked_again(folder: DataFolder) -> None:
    await folder.mark_open("sess_a")
    folder.clear_open("sess_a")
    await folder.mark_open("sess_a")
    assert DataFolder(folder.root).open_sessions() == ["sess_a"]


async def test_clearing_while_a_mark_is_being_synced_leaves_the_next_mark_to_be_made(folder: DataFolder) -> None:
    marking = asyncio.ensure_future(folder.mark_open("sess_a"))
    await asyncio.sleep(0)
    folder.clear_open("sess_a")
    await folder.mark_open("sess_a")
    await marking
    assert folder.open_sessions() == ["sess_a"]
    folder.clear_open("sess_a")
    assert folder.open_sessions() == []


async def test_a_marker_is_on_disk_when_marking_returns(tmp_path: Path) -> None:
    DataFolder(tmp_path / "data").prepare()
    disk = LossyDisk(tmp_path / "graveyard")
    seen: list[str] = []
    folder = DataFolder(tmp_path / "data", disk, reached=seen.append)
    await asyncio.gather(folder.mark_open("sess_a"), folder.mark_open("sess_a"), folder.mark_open("sess_b"))
    disk.lose()
    assert DataFolder(tmp_path / "data").open_sessions() == ["sess_a", "sess_b"]
    assert seen == ["open.marked", "open.marked"]


async def test_a_marker_that_cannot_be_synced_is_a_failure_and_is_tried_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    folder = DataFolder(tmp_path / "data", disk)
    folder.prepare()
    for call in ("create", "sync_folder"):
        disk.fail(call)
        with pytest.raises(DiskFailed, match="could not be marked"):
            await folder.mark_open("sess_a")
        disk.heal()
    await folder.mark_open("sess_a")
    assert folder.open_sessions() == ["sess_a"]


# --- sessions -----------------------------------------------------------------------------------------------------------------


async def test_session_json_is_on_disk_when_writing_returns(tmp_path: Path) -> None:
    """S4-69."""
    DataFolder(tmp_path / "data").prepare()
    lose_at, lost = 1, True
    while lost:
        disk = LossyDisk(tmp_path / "graveyard" / str(lose_at), lose_at=lose_at)
        folder = DataFolder(tmp_path / "data", disk)
        session_id, done = f"sess_{lose_at}", 0
        try:
            for done_then, data in enumerate((b"first", b"second"), 1):
                await folder.write_session_json(session_id, data)
                done = done_then
        except DiskFailed:
            assert disk.lost
        lost = disk.lost
        disk.lose()
        found = DataFolder(tmp_path / "data").read_session_json(session_id)
        assert found in [(None, b"first"), (b"first", b"second"), (b"second",)][done]
        lose_at += 1
    assert lose_at > 10


async def test_the_newest_of_many_writes_stays(folder: DataFolder) -> None:
    await asyncio.gather(*(folder.write_session_json("sess_1", b"%d" % number, durable=number % 3 == 0) for number in range(30)))
    assert folder.read_session_json("sess_1") == b"29"
    assert os.listdir(folder.session_folder("sess_1")) == ["session.json"]


async def test_a_file_that_was_never_written_reads_as_none(folder: DataFolder) -> None:
    assert folder.read_session_json("sess_1") is None
    await folder.write_local_json("sess_1", b"draft")
    assert folder.read_local_json("sess_1") is None, "a session that is not there, or was removed meanwhile, does not come back"
    await folder.write_session_json("sess_1", b"{}")
    await folder.write_local_json("sess_1", b"draft")
    assert folder.read_local_json("sess_1") == b"draft"


async def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    disk = FailingDisk()
    folder = DataFolder(tmp_path / "data", disk)
    folder.prepare()
    await folder.write_session_json("sess_1", b"old")
    for call in ("create", "write_at", "sync", "rename"):
        disk.fail(call)
        with pytest.raises(DiskFailed):
            await folder.write_session_json("sess_1", b"new")
        disk.heal()
        assert folder.read_session_json("sess_1") == b"old"
    await folder.write_session_json("sess_1", b"new")
    assert folder.read_session_json("sess_1") == b"new"


async def test_a_removed_session_is_gone_for_every_start_even_when_the_power_goes(tmp_path: Path) -> None:
    before = DataFolder(tmp_path / "data")
    before.prepare()
    for session_id in ("sess_1", "sess_2"):
        await before.write_session_json(session_id, b"{}")
    disk = LossyDisk(tmp_path / "graveyard")
    folder = DataFolder(tmp_path / "data", disk)
    await folder.remove_session("sess_1")
    disk.lose()
    after = DataFolder(tmp_path / "data")
    assert list(after.session_ids()) == ["sess_2"]
    with pytest.raises(Refused, match="no session"):
        await after.remove_session("sess_1")
    assert len(os.listdir(after.sessions)) == 2
    await after.empty_trash()
    assert os.listdir(after.sessions) == ["sess_2"]


async def test_a_removed_session_has_no_log(folder: DataFolder) -> None:
    log = FileLog(folder.root)
    await log.open("sessions/sess_1", create=True)
    await log.close("sessions/sess_1")
    await folder.remove_session("sess_1")
    with pytest.raises(Refused, match="no log"):
        await log.open("sessions/sess_1")


@pytest.mark.parametrize("session_id", ["", ".", "..", "../x", "a/b", ".trash-1", "a\0", "é"])
def test_a_name_that_is_no_session_leads_nowhere(folder: DataFolder, session_id: str) -> None:
    with pytest.raises(Refused) as refused:
        folder.session_folder(session_id)
    assert refused.value.code == "not_found"
