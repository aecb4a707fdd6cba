"""Files of a session: safe names, safe reads, and nothing named before it is on disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from disks import FailingDisk, LossyDisk
from palaver.errors import DiskFailed, Refused, ToolFailed
from palaver.log.blobs import Blobs, safe_name
from palaver.log.folders import DataFolder

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.prepare()
    for session_id in ("sess_1", "sess_2"):
        await folder.write_session_json(session_id, b"{}")
    return folder


@pytest.fixture
def blobs(folder: DataFolder) -> Blobs:
    return Blobs(folder)


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("photo.png", "photo.png"),
        ("Grüße aus Köln.txt", "Grüße aus Köln.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        ("/", "file"),
        ("", "file"),
        ("...", "file"),
        (".bashrc", "bashrc"),
        ("a\0b\n\r\x1b[31m.txt", "ab[31m.txt"),
        ("gpj.\u202eexe.txt", "gpj.exe.txt"),
        ("a\u200b\ufeffb\U000e0041", "ab"),
        ("\ud800x", "x"),
        ('a:b*c?"d<e>f|', "a_b_c__d_e_f_"),
        ("x" * 500 + ".png", "x" * 116 + ".png"),
        ("é" * 500, "é" * 60),
        (".png", "png"),
        ("a." + "b" * 300, "a." + "b" * 118),
    ],
)
def test_a_name_is_made_safe_and_stays_readable(name: str, safe: str) -> None:
    """T-18: attachment name tricks."""
    assert safe_name(name) == safe


@given(st.text(st.characters()))
@example("a/.. ")
def test_a_safe_name_is_never_a_path_hidden_or_too_long(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= 120
    assert not set(safe) & set("/\\\0\n\u202e")
    assert not safe.startswith(".")
    assert safe_name(safe) == safe


async def test_what_was_put_is_read_back_with_its_size_and_hash(blobs: Blobs) -> None:
    stored = await blobs.put("sess_1", "attachments", "a.txt", b"hello")
    assert stored == ("attachments/a.txt", 5, hashlib.sha256(b"hello").hexdigest())
    streamed = await blobs.put("sess_1", "artifacts/turn_1", "a.txt", in_pieces(b"hel", b"", b"lo"))
    assert streamed == ("artifacts/turn_1/a.txt", 5, stored.sha256)
    for ref in (stored.ref, streamed.ref):
        assert await blobs.read_blob("sess_1", ref) == b"hello"
    assert await blobs.list_blobs("sess_1", "attachments") == [("attachments/a.txt", 5)]
    assert await blobs.list_blobs("sess_1", "artifacts") == [("artifacts/turn_1/a.txt", 5)]
    assert await blobs.list_blobs("sess_1", "artifacts/turn_2") == []


async def test_a_name_that_is_taken_gets_a_number(blobs: Blobs) -> None:
    stored = await asyncio.gather(*(blobs.put("sess_1", "attachments", "a.tar.gz", b"%d" % number) for number in range(3)))
    assert {one.ref for one in stored} == {f"attachments/a.tar{number}.gz" for number in ("", "-2", "-3")}
    assert [await blobs.read_blob("sess_1", one.ref) for one in stored] == [b"0", b"1", b"2"]


async def test_what_is_too_large_is_refused_and_leaves_nothing(blobs: Blobs, folder: DataFolder) -> None:
    for data in (b"12345", in_pieces(b"123", b"45")):
        with pytest.raises(Refused) as refused:
            await blobs.put("sess_1", "attachments", "a", data, limit=4)
        assert refused.value.code == "too_large"
    assert await blobs.list_blobs("sess_1", "attachments") == []
    await blobs.put("sess_1", "attachments", "a", b"1234", limit=4)


async def test_an_upload_that_breaks_off_leaves_nothing(blobs: Blobs) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await blobs.put("sess_1", "attachments", "a", broken())
    upload = asyncio.ensure_future(blobs.put("sess_1", "attachments", "a", b"x" * 1_000_000))
    await asyncio.sleep(0)
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await blobs.list_blobs("sess_1", "attachments") == []


async def test_a_session_that_is_gone_gets_no_files(blobs: Blobs, folder: DataFolder) -> None:
    with pytest.raises(Refused, match="no session"):
        await blobs.put("sess_gone", "attachments", "a", b"")
    assert "sess_gone" not in set(folder.session_ids())


@pytest.mark.parametrize(
    "ref",
    [
        "attachments/../session.json",
        "attachments/..",
        "attachments/.",
        "attachments/",
        "../sess_2/session.json",
        "session.json",
        "events.ndjson",
        "artifacts/../attachments/a.txt",
        "artifacts/turn_1/../../session.json",
        "/etc/passwd",
        "attachments//etc/passwd",
        "attachments/a.txt\0",
        "attachments/a.txt/b",
        "attachments/missing",
        "attachments/link",
        "attachments/pipe",
        "attachments/folder",
        "artifacts/linked/session.json",
        "attachments/" + "n" * 5_000,
        "attachments/\ud800",
    ],
)
async def test_a_ref_never_leads_to_anything_but_a_file_of_its_session(blobs: Blobs, folder: DataFolder, ref: str) -> None:
    """T-18: path escape and symlinks."""
    await blobs.put("sess_1", "attachments", "a.txt", b"a")
    await blobs.put("sess_1", "artifacts/turn_1", "a.txt", b"a")
    place = folder.session_folder("sess_1")
    (place / "attachments/link").symlink_to(place / "session.json")
    (place / "attachments/folder").mkdir()
    (place / "artifacts/linked").symlink_to(place)
    os.mkfifo(place / "attachments/pipe")
    with pytest.raises(Refused) as refused:
        blobs.open_blob("sess_1", ref)
    assert refused.value.code == "not_found"


async def test_a_file_and_its_name_are_on_disk_before_anyone_learns_its_ref(tmp_path: Path, folder: DataFolder) -> None:
    lose_at, lost = 1, True
    while lost:
        disk = LossyDisk(tmp_path / "graveyard" / str(lose_at), lose_at=lose_at)
        ref = ""
        try:
            ref = (await Blobs(folder, disk).put("sess_1", f"artifacts/turn_{lose_at}", "a.txt", in_pieces(b"one", b"two"))).ref
        except DiskFailed:
            assert disk.lost
        lost = disk.lost
        disk.lose()
        if ref:
            assert await Blobs(folder).read_blob("sess_1", ref) == b"onetwo"
        lose_at += 1
    assert lose_at > 6


@pytest.mark.parametrize("call", ["create", "write_at", "sync", "sync_folder"])
async def test_a_file_that_cannot_be_written_is_a_failure_and_leaves_nothing(folder: DataFolder, call: str) -> None:
    disk = FailingDisk()
    blobs = Blobs(folder, disk)
    (folder.session_folder("sess_1") / "attachments").mkdir()
    disk.fail(call)
    with pytest.raises(DiskFailed):
        await blobs.put("sess_1", "attachments", "a", b"1234")
    assert await blobs.list_blobs("sess_1", "attachments") == []


# --- copies -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [True, False])
async def test_a_copy_has_the_same_ref_and_outlives_its_original(folder: DataFolder, linked: bool) -> None:
    disk = FailingDisk()
    if not linked:
        disk.fail("link")
    blobs = Blobs(folder, disk)
    stored = await blobs.put("sess_1", "artifacts/turn_1", "a.txt", b"hello")
    await blobs.copy("sess_1", stored.ref, "sess_2")
    await blobs.copy("sess_1", stored.ref, "sess_2")
    await folder.remove_session("sess_1")
    await folder.empty_trash()
    assert await blobs.read_blob("sess_2", stored.ref) == b"hello"
    assert os.listdir(folder.session_folder("sess_2") / "artifacts/turn_1") == ["a.txt"]


async def test_what_is_not_there_cannot_be_copied(blobs: Blobs) -> None:
    with pytest.raises(Refused, match="no file"):
        await blobs.copy("sess_1", "attachments/a", "sess_2")


# --- growing ------------------------------------------------------------------------------------------------------------------


async def test_an_artifact_grows_in_the_order_of_the_writes(blobs: Blobs) -> None:
    artifact = await blobs.grow("sess_1", "turn_1", "output.txt")
    expected = b""
    for number in range(1_000):
        piece = b"%d," % number
        artifact.write(piece)
        expected += piece
        if number % 100 == 0:
            await asyncio.sleep(0)
    stored = await artifact.finish()
    assert stored == (artifact.ref, len(expected), hashlib.sha256(expected).hexdigest())
    assert await blobs.read_blob("sess_1", stored.ref) == expected


async def test_an_artifact_without_a_write_is_an_empty_file(blobs: Blobs) -> None:
    stored = await (await blobs.grow("sess_1", "turn_1", "output.txt")).finish()
    assert (stored.size, await blobs.read_blob("sess_1", stored.ref)) == (0, b"")


async def test_an_artifact_beyond_its_limit_fails_its_call_and_keeps_what_it_has(blobs: Blobs) -> None:
    artifact = await blobs.grow("sess_1", "turn_1", "output.txt", limit=10)
    artifact.write(b"12345")
    with pytest.raises(ToolFailed, match="passed 10 bytes"):
        artifact.write(b"123456")
    artifact.write(b"67890")
    assert await blobs.read_blob("sess_1", (await artifact.finish()).ref) == b"1234567890"


async def test_an_artifact_that_cannot_be_written_says_so_at_its_end_at_the_latest(folder: DataFolder) -> None:
    disk = FailingDisk()
    artifact = await Blobs(folder, disk).grow("sess_1", "turn_1", "output.txt")
    disk.fail("write_at")
    artifact.write(b"12345")
    with pytest.raises(DiskFailed):
        await artifact.finish()
    with pytest.raises(DiskFailed):
        artifact.write(b"67890")
