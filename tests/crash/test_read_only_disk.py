"""A data folder that has become read-only: every write is refused and told, nothing that was there is harmed, reading goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palaver.log.disk import Disk
from palaver_daemon import Chat, Here, check_ended, fold, page_of, palaver

pytestmark = pytest.mark.anyio
SAID = {"role": "user", "parts": [{"type": "text", "text": "write 3 words"}], "client_message_id": "once"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ReadOnlyDisk(Disk):
    """A file system that can be mounted read-only, whole or one folder of it: each change fails with `EROFS` and changes nothing."""

    def __init__(self) -> None:
        self.below: Path | None = None
        self._paths: dict[int, Path] = {}

    def _check(self, *paths: Path) -> None:
        if self.below is not None and any(path.is_relative_to(self.below) for path in paths):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open(self, path: Path, *, write: bool) -> int:
        if write:
            self._check(path)
        fd = super().open(path, write=write)
        self._paths[fd] = path
        return fd

    def create(self, path: Path) -> int:
        self._check(path)
        fd = super().create(path)
        self._paths[fd] = path
        return fd

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        self._check(self._paths[fd])
        super().write_at(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._check(self._paths[fd])
        super().truncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self._check(source, target)
        super().rename(source, target)

    def make_folder(self, path: Path) -> None:
        if not path.exists():  # as the system has it: what is there is there
            self._check(path)
        super().make_folder(path)

    def link(self, source: Path, target: Path) -> None:
        self._check(target)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self._check(path)
        super().unlink(path)

    def remove_folder(self, path: Path) -> None:
        self._check(path)
        super().remove_folder(path)


@pytest.fixture
async def disk() -> ReadOnlyDisk:
    return ReadOnlyDisk()


@pytest.fixture
async def here(tmp_path: Path, disk: ReadOnlyDisk) -> AsyncIterator[Here]:
    async with palaver(tmp_path, disk=disk) as here:
        yield here
        disk.below = None


async def reads_on(chat: Chat, before: list[bytes]) -> None:
    """By every way, and the log is byte for byte what it was."""
    assert chat.client.lines(chat.id) == before
    log = await chat.log()
    assert len(log) == len(before) and await chat.transcript() == page_of(fold(log))
    assert (await chat.get())["head_seq"] == len(log)
    assert [row["id"] for row in (await chat.client.ask("GET", "/v1/sessions"))["sessions"]] == [chat.id]
    async with chat.client.reader(chat.id) as late:
        await late.reached(len(log))
        assert late.events == log


@pytest.mark.parametrize("place", [".", "sessions/{id}"], ids=["the data folder", "the session's folder"])
async def test_a_message_to_a_read_only_folder_is_507_and_the_log_stays_whole(here: Here, disk: ReadOnlyDisk, place: str) -> None:
    """S4-48, API, Errors: `disk`; what can be written again is, without a restart, and the message then counts once."""
    async with here.chat() as chat:
        await chat.runs("write 5 words")
        before = here.lines(chat.id)
        disk.below = here.data / place.format(id=chat.id)
        for method, path, body in (
            ("POST", "messages", SAID),
            ("POST", "messages", SAID),
            ("PATCH", "", {"title": "New"}),
            ("PUT", "draft", {"text": "half", "attachments": [], "rev": 0}),
            ("POST", "attachments", {"name": "a.txt", "mime_type": "text/plain", "data": "YWJj"}),
        ):
            refused = await chat.refused(method, path, body)
            assert (refused.status, refused.code) == (507, "disk"), path
        await reads_on(chat, before)
        disk.below = None
        sent = await chat.client.ask("POST", f"{chat.path}/messages", SAID)
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
        log = await chat.check()
        check_ended(log)
        assert [one["data"]["message"].get("client_message_id") for one in chat.of("message_added")] == [None, "once"]
        assert here.lines(chat.id)[: len(before)] == before


async def test_a_session_in_a_read_only_data_folder_is_507_and_leaves_nothing(here: Here, disk: ReadOnlyDisk) -> None:
    """S4-69, API, Errors: `disk`."""
    async with here.chat() as chat:
        await chat.runs("write 5 words")
        before = here.lines(chat.id)
        disk.below = here.data
        for _ in range(3):
            refused = await here.answer("POST", "/v1/sessions", {"workspace_path": str(here.workspace)})
            assert (refused.status, refused.code) == (507, "disk")
            assert (await chat.refused("POST", "fork")).code == "disk"
        await reads_on(chat, before)
        assert [path.name for path in (here.data / "sessions").iterdir()] == [chat.id]
        disk.below = None
        assert await here.new_session()


async def test_a_daemon_on_a_read_only_log_serves_it_and_refuses_to_write(tmp_path: Path) -> None:
    """It was so when the session was opened: the refusal says what to do, and reading goes on."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.runs("write 5 words")
        before = here.lines(chat.id)
    disk = ReadOnlyDisk()
    disk.below = tmp_path / "data" / "sessions"
    async with palaver(tmp_path, disk=disk) as here, here.chat(chat.id) as chat:
        refused = await chat.refused("POST", "messages", SAID)
        assert (refused.status, refused.code) == (507, "disk")
        assert "writable" in refused.json["detail"]
        await reads_on(chat, before)
