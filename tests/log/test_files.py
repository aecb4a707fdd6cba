"""The log as files: what survives crashes, full disks and lost power, and what opening and reading cost."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from disks import CountingDisk, FailingDisk, LossyDisk
from palaver.errors import DiskFailed
from palaver.log.files import FileLog
from palaver.log.lines import BLOCK

pytestmark = pytest.mark.anyio

KEY = "sessions/sess_1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def line(number: int, text: str = "", v: int = 1) -> bytes:
    return b'{"v":%d,"seq":%d,"type":"notice","data":{"text":"%s"}}' % (v, number, text.encode())


def lines(first: int, last: int) -> list[bytes]:
    return [line(number) for number in range(first, last + 1)]


def events(root: Path) -> Path:
    return root / KEY / "events.ndjson"


def written(root: Path, *parts: bytes) -> Path:
    """A log's file as some earlier run left it."""
    path = events(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))
    return path


def as_file(some: list[bytes]) -> bytes:
    return b"".join(one + b"\n" for one in some)


async def all_lines(log: FileLog, key: str = KEY) -> list[bytes]:
    found: list[bytes] = []
    while piece := await log.read(key, len(found)):
        found += piece
    return found


# --- torn tails ---------------------------------------------------------------------------------------------------------------


async def test_a_torn_last_line_is_cut_off_kept_beside_and_reported(tmp_path: Path) -> None:
    written(tmp_path, as_file(lines(1, 3)), line(4)[:-5])
    log = FileLog(tmp_path)
    opened = await log.open(KEY)
    assert (opened.head, opened.cut_bytes, opened.read_only) == (3, len(line(4)) - 5, None)
    assert (tmp_path / KEY / "torn-1").read_bytes() == line(4)[:-5]
    await log.append(KEY, 3, [line(4)])
    assert events(tmp_path).read_bytes() == as_file(lines(1, 4))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.binary(max_size=40).filter(lambda junk: not junk.strip().startswith(b"{")))
def test_any_cut_of_the_last_line_leaves_the_lines_before_it(cut: int, junk: bytes) -> None:
    whole = as_file([line(number, "é\u2028" * number) for number in range(1, 9)])
    last = len(line(8, "é\u2028" * 8)) + 1
    torn = whole[: len(whole) - 1 - cut % (last - 1)] + junk.replace(b"\n", b"")
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), torn)
        assert asyncio.run(_opened_twice(Path(folder))) == [line(number, "é\u2028" * number) for number in range(1, 8)]
        assert (Path(folder) / KEY / "torn-1").read_bytes() == torn[len(whole) - last :]


async def _opened_twice(root: Path) -> list[bytes]:
    log = FileLog(root)
    assert (await log.open(KEY)).cut_bytes > 0
    assert (await log.open(KEY)).cut_bytes == 0
    found = await all_lines(log)
    await log.shut()
    return found


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 5_000,
        b"\0" * 100 + b"\n",
        line(4)[:20] + b"\0" * 90_000 + b"\n" + line(6) + b"\n",
        b"garbage\n",
        b"[1]\n17\n",
        b"\n",
        b"\xff\xfe\n" + b"more",
    ],
)
async def test_what_a_power_cut_leaves_after_the_last_line_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    written(tmp_path, as_file(lines(1, 3)), tail)
    log = FileLog(tmp_path)
    opened = await log.open(KEY)
    assert (opened.head, opened.cut_bytes) == (3, len(tail))
    assert (tmp_path / KEY / "torn-1").read_bytes() == tail
    assert await all_lines(log) == lines(1, 3)


async def test_a_log_that_holds_nothing_but_a_torn_line_is_empty(tmp_path: Path) -> None:
    written(tmp_path, b'{"v":1,')
    log = FileLog(tmp_path)
    assert (await log.open(KEY))[:3] == (0, None, 7)
    await log.append(KEY, 0, [line(1)])
    assert await all_lines(log) == [line(1)]


async def test_every_torn_write_is_kept(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        with written(tmp_path, as_file(lines(1, 2))).open("ab") as file:
            file.write(b"torn %d" % number)
        log = FileLog(tmp_path)
        await log.open(KEY)
        await log.shut()
    assert [(tmp_path / KEY / f"torn-{number}").read_bytes() for number in (1, 2, 3)] == [b"torn 1", b"torn 2", b"torn 3"]


async def test_a_torn_write_that_cannot_be_kept_leaves_the_log_readable(tmp_path: Path) -> None:
    content = as_file(lines(1, 3)) + b'{"v":'
    written(tmp_path, content)
    disk = FailingDisk()
    disk.fail("create")
    log = FileLog(tmp_path, disk)
    opened = await log.open(KEY)
    assert opened.read_only is not None and "could not be cut off" in opened.read_only
    assert await all_lines(log) == lines(1, 3)
    assert events(tmp_path).read_bytes() == content
    with pytest.raises(DiskFailed):
        await log.append(KEY, 3, [line(4)])
    disk.heal()
    assert (await log.open(KEY))[2:] == (5, None, False)
    await log.append(KEY, 3, [line(4)])


# --- failing disks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write_at", "sync"])
async def test_a_failed_write_or_sync_fails_whoever_waits_and_leaves_the_safe_lines(tmp_path: Path, call: str) -> None:
    """DESIGN.md 1: the file is cut back to its last safe line, every client that waited gets 507."""
    disk = FailingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 3))
    disk.fail(call, times=1)
    first = [log.append(KEY, 3, [line(4)]), log.append(KEY, 4, lines(5, 6))]
    await asyncio.sleep(0)
    meanwhile = log.append(KEY, 6, [line(7)])
    for done in (*first, meanwhile):
        with pytest.raises(DiskFailed, match="could not be written"):
            await done
    assert events(tmp_path).read_bytes() == as_file(lines(1, 3))
    assert await all_lines(log) == lines(1, 3)
    with pytest.raises(DiskFailed):
        await log.append(KEY, 7, [line(8)])
    await log.append(KEY, 3, [line(4, "again")])
    assert events(tmp_path).read_bytes() == as_file([*lines(1, 3), line(4, "again")])


async def test_a_disk_that_stays_full_takes_nothing_and_works_again_when_it_has_room(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY, create=True)
    disk.fail("write_at")
    for _ in range(3):
        with pytest.raises(DiskFailed, match="No space left"):
            await log.append(KEY, 0, [line(1)])
    disk.heal()
    await log.append(KEY, 0, [line(1)])
    assert events(tmp_path).read_bytes() == as_file([line(1)])


async def test_a_write_that_cannot_be_cut_back_makes_the_log_read_only_until_it_is_opened_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 3))
    disk.fail("write_at", times=1)
    disk.fail("truncate", times=1, code=errno.EIO)
    with pytest.raises(DiskFailed):
        await log.append(KEY, 3, [line(4)])
    with pytest.raises(DiskFailed, match="open the log again"):
        await log.append(KEY, 3, [line(4)])
    assert await all_lines(log) == lines(1, 3)
    opened = await log.open(KEY)
    assert (opened.head, opened.read_only) == (3, None)
    assert opened.cut_bytes > 0
    await log.append(KEY, 3, [line(4)])
    assert events(tmp_path).read_bytes() == as_file(lines(1, 4))


async def test_one_log_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = FileLog(tmp_path, disk)
    for key in ("sessions/a", "sessions/b"):
        await log.open(key, create=True)
    disk.fail("write_at", times=1)
    with pytest.raises(DiskFailed):
        await log.append("sessions/a", 0, [line(1)])
    await log.append("sessions/b", 0, [line(1)])
    assert await all_lines(log, "sessions/b") == [line(1)]


async def test_a_folder_that_cannot_be_written_opens_read_only_and_says_so(tmp_path: Path) -> None:
    written(tmp_path, as_file(lines(1, 3)))
    disk = FailingDisk()
    disk.fail("open", code=errno.EROFS)
    log = FileLog(tmp_path, disk)
    opened = await log.open(KEY)
    assert opened.read_only is not None and "cannot be written" in opened.read_only
    assert await all_lines(log) == lines(1, 3)
    with pytest.raises(DiskFailed, match="cannot be written"):
        await log.append(KEY, 3, [line(4)])


@pytest.mark.parametrize("call", ["make_folder", "create", "sync_folder"])
async def test_a_log_that_cannot_be_made_is_a_failure_of_the_disk(tmp_path: Path, call: str) -> None:
    disk = FailingDisk()
    disk.fail(call)
    log = FileLog(tmp_path, disk)
    with pytest.raises(DiskFailed, match="No space left"):
        await log.open(KEY, create=True)
    disk.heal()
    assert (await log.open(KEY, create=True)).head == 0


async def test_a_bug_in_a_thread_reaches_those_who_wait(tmp_path: Path) -> None:
    def reached(point: str) -> None:
        raise LookupError(point)

    log = FileLog(tmp_path, reached=reached)
    await log.open(KEY, create=True)
    with pytest.raises(LookupError, match=r"log\.written"):
        await log.append(KEY, 0, [line(1)])
    assert events(tmp_path).read_bytes() == b""


# --- lost power ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [0.0, 0.4, 1.0])
async def test_what_was_confirmed_is_there_after_the_power_went_at_any_change(tmp_path: Path, torn: float) -> None:
    """Promise 4: what is answered is on disk, wherever the power goes."""
    lose_at, lost = 1, True
    while lost:
        root = tmp_path / f"{lose_at}"
        disk = LossyDisk(tmp_path / f"{lose_at}-graveyard", lose_at=lose_at, torn=torn)
        confirmed, asked = await _write_until_the_power_goes(root, disk)
        lost = disk.lost
        disk.lose()
        found, checkpointed = await _after_the_cut(root)
        assert confirmed <= len(found) <= asked
        assert found == lines(1, len(found))
        assert checkpointed <= len(found)
        lose_at += 1
    assert lose_at > 20


async def _write_until_the_power_goes(root: Path, disk: LossyDisk) -> tuple[int, int]:
    """How many lines were confirmed, and how many were asked for."""
    confirmed = asked = 0
    log = FileLog(root, disk)
    try:
        await log.open(KEY, create=True)
        for size in (1, 3, 2, 5):
            asked += size
            await log.append(KEY, confirmed, lines(confirmed + 1, confirmed + size))
            confirmed += size
            if size == 3:
                await log.save_checkpoint(KEY, confirmed, b"fold of %d" % confirmed)
        await log.save_checkpoint(KEY, confirmed, b"fold of %d" % confirmed)
    except DiskFailed:
        assert disk.lost
    return confirmed, asked


async def _after_the_cut(root: Path) -> tuple[list[bytes], int]:
    root.mkdir(exist_ok=True)
    log = FileLog(root)
    opened = await log.open(KEY, create=True)
    found = await all_lines(log)
    await log.shut()
    if opened.checkpoint is not None:
        assert opened.checkpoint.data == b"fold of %d" % opened.checkpoint.seq
    return found, opened.checkpoint.seq if opened.checkpoint else 0


@pytest.mark.parametrize("point", ["log.written", "log.synced", "checkpoint.written", "checkpoint.renamed"])
async def test_each_point_between_two_effects_is_named(tmp_path: Path, point: str) -> None:
    seen: list[str] = []
    log = FileLog(tmp_path, reached=seen.append)
    await log.open(KEY, create=True)
    await log.append(KEY, 0, [line(1)])
    assert seen == ["log.written", "log.synced"]
    await log.save_checkpoint(KEY, 1, b"fold")
    assert point in seen


# --- cost ---------------------------------------------------------------------------------------------------------------------


async def test_a_late_line_of_100_000_is_read_and_its_log_opened_without_reading_the_whole_file(tmp_path: Path) -> None:
    """Opening a session never costs its whole past."""
    content = as_file([line(number, "x" * 150) for number in range(1, 100_001)])
    written(tmp_path, content)
    disk = CountingDisk()
    log = FileLog(tmp_path, disk)
    assert (await log.open(KEY)).head == 100_000
    assert disk.read_bytes < len(content) + 4 * BLOCK
    for after in (0, 50_000, 99_000):
        disk.read_bytes = 0
        assert await log.read(KEY, after, up_to=after + 10) == [line(number, "x" * 150) for number in range(after + 1, after + 11)]
        assert disk.read_bytes <= 2 * BLOCK
    await log.save_checkpoint(KEY, 100_000, b"state")
    await log.append(KEY, 100_000, [line(100_001)])
    await log.close(KEY)
    disk.read_bytes = 0
    opened = await log.open(KEY)
    assert (opened.head, opened.checkpoint) == (100_001, (100_000, b"state"))
    assert disk.read_bytes < 6 * BLOCK
    disk.read_bytes = 0
    assert await log.read(KEY, 12_344, up_to=12_345) == [line(12_345, "x" * 150)]
    assert disk.read_bytes <= 2 * BLOCK


async def test_following_a_log_reads_no_file(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY, create=True)
    disk.read_bytes = 0
    for number in range(1, 501):
        await log.append(KEY, number - 1, [line(number, "x" * 200)])
        assert await log.read(KEY, number - 1) == [line(number, "x" * 200)]
    assert disk.read_bytes == 0


async def test_what_waits_for_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY, create=True)
    disk.calls.clear()
    await asyncio.gather(*(log.append(KEY, number - 1, [line(number)]) for number in range(1, 1_001)))
    assert disk.calls == {"write_at": 1, "sync": 1}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 70_000), max_size=12), max_size=8), st.integers(0, 2**32))
def test_reading_from_any_line_gives_what_was_written_whatever_the_sizes(groups: list[list[int]], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_written_and_read(Path(folder), groups, seed))


async def _written_and_read(root: Path, groups: list[list[int]], seed: int) -> None:
    log = FileLog(root)
    await log.open(KEY, create=True)
    expected: list[bytes] = []
    for sizes in groups:
        new = [line(len(expected) + place, "z" * size) for place, size in enumerate(sizes, 1)]
        await log.append(KEY, len(expected), new)
        expected += new
    after = seed % (len(expected) + 1)
    assert (await log.read(KEY, after, limit=1 + seed % 100_000)) == expected[after:][
        : len(await log.read(KEY, after, limit=1 + seed % 100_000))
    ]
    await log.close(KEY)
    assert (await log.open(KEY)).head == len(expected)
    assert await log.read(KEY, after, limit=1 << 30) == expected[after:]
    await log.shut()


# --- checkpoints and versions -------------------------------------------------------------------------------------------------


@pytest.fixture
async def checkpointed(tmp_path: Path) -> Path:
    log = FileLog(tmp_path)
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 20))
    await log.save_checkpoint(KEY, 10, b"fold of ten")
    await log.shut()
    return tmp_path / KEY / "checkpoint"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (line(10), line(10).replace(b'"text":""', b'"text":"?"')),
        (line(10), line(10).replace(b"notice", b"eciton")),
        (b"\n" + line(5), b""),
        (as_file(lines(10, 20)), b""),
        (as_file(lines(1, 20)), b""),
    ],
    ids=["longer line", "other line", "earlier line gone", "cut before", "empty"],
)
async def test_a_checkpoint_that_the_log_does_not_agree_with_does_not_count(
    tmp_path: Path, checkpointed: Path, old: bytes, new: bytes
) -> None:
    content = events(tmp_path).read_bytes().replace(old, new)
    events(tmp_path).write_bytes(content)
    log = FileLog(tmp_path)
    opened = await log.open(KEY)
    assert opened.checkpoint is None
    assert opened.head == content.count(b"\n")
    assert await all_lines(log) == content.splitlines()


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: b"",
        lambda kept: kept[:-1],
        lambda kept: kept.replace(b"fold", b"bold"),
        lambda kept: kept.replace(b'"format":1', b'"format":0'),
        lambda kept: b"pickled" + kept,
    ],
    ids=["empty", "cut", "changed", "older format", "something else"],
)
async def test_a_checkpoint_that_is_none_does_not_count(tmp_path: Path, checkpointed: Path, damage: object) -> None:
    assert callable(damage)
    checkpointed.write_bytes(damage(checkpointed.read_bytes()))
    log = FileLog(tmp_path)
    assert (await log.open(KEY))[:2] == (20, None)
    assert await all_lines(log) == lines(1, 20)


async def test_a_checkpoint_that_cannot_be_kept_leaves_the_one_before(tmp_path: Path, checkpointed: Path) -> None:
    disk = FailingDisk()
    log = FileLog(tmp_path, disk)
    await log.open(KEY)
    for call in ("create", "write_at", "sync", "rename"):
        disk.fail(call)
        with pytest.raises(DiskFailed):
            await log.save_checkpoint(KEY, 20, b"fold of twenty")
        disk.heal()
        assert (await log.open(KEY)).checkpoint == (10, b"fold of ten")


@pytest.mark.parametrize("versions", [(2, 2, 2), (1, 1, 2), (2, 1, 1)])
async def test_a_log_of_a_newer_version_opens_read_only_says_so_and_is_left_as_it_is(tmp_path: Path, versions: tuple[int, ...]) -> None:
    content = as_file([line(number, v=v) for number, v in enumerate(versions, 1)]) + b'{"v":2,"torn'
    written(tmp_path, content)
    log = FileLog(tmp_path)
    opened = await log.open(KEY)
    assert opened.head == 3
    assert opened.read_only is not None and "newer version" in opened.read_only
    assert len(await all_lines(log)) == 3
    with pytest.raises(DiskFailed, match="newer version"):
        await log.append(KEY, 3, [line(4)])
    await log.shut()
    assert events(tmp_path).read_bytes() == content
    assert os.listdir(tmp_path / KEY) == ["events.ndjson"]


# --- modes, names, closing ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
async def test_folders_are_0700_and_files_0600_whatever_the_umask(tmp_path: Path) -> None:
    """SECURITY 7."""
    root = tmp_path / "data"
    log = FileLog(root)
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 3))
    await log.save_checkpoint(KEY, 3, b"fold")
    with events(root).open("ab") as file:
        file.write(b"torn")
    await log.open(KEY)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    files = {"events.ndjson", "checkpoint", "torn-1"}
    assert modes == {"sessions": 0o700, "sess_1": 0o700, **dict.fromkeys(files, 0o600)}
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "key", ["sessions/../x", "sessions/.trash-1", "sessions/", "sessions/a/b", "other/a", "/etc/passwd", "sessions/a\0"]
)
async def test_a_key_never_leads_out_of_the_data_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(Exception, match="There is no log"):
        await FileLog(tmp_path).open(key, create=True)
    assert list(tmp_path.iterdir()) == []


async def test_a_log_behind_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / KEY).mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(as_file(lines(1, 2)))
    events(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskFailed):
        await FileLog(tmp_path).open(KEY, create=True)


async def test_a_log_is_closed_only_after_those_who_read_it_are_done(tmp_path: Path) -> None:
    written(tmp_path, as_file([line(number, "x" * 1_000) for number in range(1, 2_001)]))
    log = FileLog(tmp_path)
    await log.open(KEY)
    reads = [asyncio.ensure_future(log.read(KEY, after)) for after in range(0, 1_900, 100)]
    await asyncio.sleep(0)
    reads[0].cancel()
    await log.close(KEY)
    assert all(await asyncio.gather(*reads[1:]))


async def test_many_logs_open_append_and_close_side_by_side(tmp_path: Path) -> None:
    log = FileLog(tmp_path)

    async def live(key: str) -> None:
        for round_ in range(3):
            assert (await log.open(key, create=True)).head == round_ * 20
            for number in range(round_ * 20, round_ * 20 + 20):
                await log.append(key, number, [line(number + 1, key)])
            await log.close(key)

    keys = [f"sessions/s{number}" for number in range(20)]
    await asyncio.gather(*map(live, keys))
    for key in keys:
        assert (tmp_path / key / "events.ndjson").read_bytes() == as_file([line(number, key) for number in range(1, 61)])


# --- a busy loop --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spin", [0.00002, 0.00005, 0.0002, 0.001])
@pytest.mark.parametrize("switch", [0.0001, 0.005])
def test_an_append_is_confirmed_soon_while_the_loop_is_never_idle(tmp_path: Path, spin: float, switch: float) -> None:
    """STACK 3's trap: a thread that only waits for the interpreter can wait for seconds, the more with Python's own switch interval."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(switch)
    try:
        took = uvloop.run(_appends_under_load(tmp_path, spin))
    finally:
        sys.setswitchinterval(before)
    assert sorted(took)[-10] < 0.25, "nine in ten; the rest is this machine's"


async def _appends_under_load(root: Path, spin: float) -> list[float]:
    """How long each append took, beside a callback of `spin` seconds that is always due."""
    loop = asyncio.get_running_loop()
    log = FileLog(root)
    await log.open(KEY, create=True)
    busy = True

    def callback() -> None:
        end = time.perf_counter() + spin
        while time.perf_counter() < end:
            pass
        if busy:
            loop.call_soon(callback)

    loop.call_soon(callback)
    took: list[float] = []
    for number in range(100):
        start = time.perf_counter()
        await log.append(KEY, number, [line(number + 1)])
        took.append(time.perf_counter() - start)
    busy = False
    await log.shut()
    return took
