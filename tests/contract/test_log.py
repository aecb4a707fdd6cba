"""What every log promises, whatever stands behind it. Runs once for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from palaver.errors import DiskFailed, Refused
from palaver.log import Checkpoint, Log
from palaver.log.files import FileLog
from palaver.log.memory import MemoryLog

pytestmark = pytest.mark.anyio

KEY = "sessions/sess_1"

MakeLog = Callable[[], Log]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["files", "memory"])
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> MakeLog:
    """The same log each time it is called; of files, one that was opened anew by another process."""
    memory = MemoryLog()
    return (lambda: FileLog(tmp_path)) if request.param == "files" else (lambda: memory)


def line(number: int, text: str = "") -> bytes:
    return b'{"v":1,"seq":%d,"type":"notice","data":{"text":"%s"}}' % (number, text.encode())


def lines(first: int, last: int) -> list[bytes]:
    return [line(number) for number in range(first, last + 1)]


def _note(order: list[int], number: int, _: asyncio.Future[None]) -> None:
    order.append(number)


async def test_a_log_that_is_not_there_is_refused(make_log: MakeLog) -> None:
    with pytest.raises(Refused) as refused:
        await make_log().open(KEY)
    assert refused.value.code == "not_found"


async def test_a_new_log_is_empty_and_numbers_from_one(make_log: MakeLog) -> None:
    log = make_log()
    assert await log.open(KEY, create=True) == (0, None, 0, None, False)
    assert await log.read(KEY, 0) == []
    await log.append(KEY, 0, [line(1)])
    assert await log.read(KEY, 0) == [line(1)]


async def test_what_was_appended_is_there_when_the_log_is_opened_again(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 3))
    await log.append(KEY, 3, lines(4, 5))
    await log.close(KEY)
    log = make_log()
    assert (await log.open(KEY)).head == 5
    assert await log.read(KEY, 0) == lines(1, 5)


async def test_closing_makes_safe_what_was_appended_before(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    done = log.append(KEY, 0, lines(1, 3))
    await log.close(KEY)
    assert done.done()
    assert (await make_log().open(KEY)).head == 3


async def test_lines_are_taken_in_the_order_of_the_calls_and_confirmed_in_it(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    order: list[int] = []
    appends = [log.append(KEY, number - 1, [line(number)]) for number in range(1, 101)]
    for number, done in enumerate(appends, 1):
        done.add_done_callback(partial(_note, order, number))
    await asyncio.gather(*appends)
    assert order == list(range(1, 101))
    assert await log.read(KEY, 0) == lines(1, 100)


async def test_a_line_is_never_read_before_it_is_safe(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    done = log.append(KEY, 0, [line(1)])
    if not done.done():
        assert await log.read(KEY, 0) == []
    await done
    assert await log.read(KEY, 0) == [line(1)]


async def test_an_append_without_lines_waits_for_all_before_it(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, [])
    first = log.append(KEY, 0, [line(1)])
    await log.append(KEY, 1, [])
    assert first.done()
    assert await log.read(KEY, 0) == [line(1)]


async def test_an_append_that_expects_another_head_fails_and_changes_nothing(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 2))
    for wrong in (0, 1, 3):
        with pytest.raises(DiskFailed):
            await log.append(KEY, wrong, [line(9)])
    await log.append(KEY, 2, [line(3)])
    assert await log.read(KEY, 0) == lines(1, 3)


async def test_a_line_end_inside_a_line_is_a_bug_and_changes_nothing(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    with pytest.raises(ValueError, match="line end"):
        log.append(KEY, 0, [line(1), b"two\nlines"])
    await log.append(KEY, 0, [line(1)])
    assert await log.read(KEY, 0) == [line(1)]


async def test_cancelling_an_append_changes_nothing(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    given_up = log.append(KEY, 0, [line(1)])
    other = log.append(KEY, 1, [line(2)])
    given_up.cancel()
    await other
    assert await log.read(KEY, 0) == lines(1, 2)


@pytest.mark.parametrize(("after", "up_to"), [(0, None), (0, 1), (1, 4), (3, 3), (4, 2), (599, None), (299, 600), (600, None), (700, None)])
async def test_reading_gives_the_lines_between_two_numbers(make_log: MakeLog, after: int, up_to: int | None) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 600))
    assert await log.read(KEY, after, up_to=up_to) == lines(1, 600)[after:up_to]


async def test_reading_in_pieces_gives_every_line_once(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    written = [line(number, "x" * (number * 37 % 5_000)) for number in range(1, 501)]
    await log.append(KEY, 0, written)
    read: list[bytes] = []
    while piece := await log.read(KEY, len(read), limit=10_000):
        assert sum(map(len, piece)) < 200_000
        read += piece
    assert read == written


async def test_a_line_longer_than_the_limit_is_read_whole(make_log: MakeLog) -> None:
    """T-18: lines over 64 KiB."""
    log = make_log()
    await log.open(KEY, create=True)
    long = line(1, "y" * (10 * 1024 * 1024))
    await log.append(KEY, 0, [long, line(2)])
    assert await log.read(KEY, 0, limit=10) == [long]
    assert await log.read(KEY, 1, limit=10) == [line(2)]
    await log.close(KEY)
    log = make_log()
    assert (await log.open(KEY)).head == 2
    assert [*await log.read(KEY, 0), *await log.read(KEY, 1)] == [long, line(2)]


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u0085", "\x7f", "\ufeff"])
async def test_only_a_line_feed_ends_a_line(make_log: MakeLog, text: str) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    written = [line(1, f"a{text}b"), line(2, text)]
    await log.append(KEY, 0, written)
    await log.close(KEY)
    log = make_log()
    await log.open(KEY)
    assert await log.read(KEY, 0) == written


async def test_logs_do_not_see_each_other(make_log: MakeLog) -> None:
    log = make_log()
    keys = ["sessions/a", "sessions/b", "workspaces/a"]
    for key in keys:
        await log.open(key, create=True)
    await asyncio.gather(*(log.append(key, 0, [line(1, key)]) for key in keys))
    for key in keys:
        assert await log.read(key, 0) == [line(1, key)]


async def test_a_checkpoint_comes_back_when_the_log_is_opened_and_the_newest_counts(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, lines(1, 600))
    await log.save_checkpoint(KEY, 200, b"old")
    await log.save_checkpoint(KEY, 599, b"state\nof\x00any bytes")
    await log.append(KEY, 600, lines(601, 700))
    await log.close(KEY)
    log = make_log()
    opened = await log.open(KEY)
    assert opened.head == 700
    assert opened.checkpoint == Checkpoint(599, b"state\nof\x00any bytes")
    assert await log.read(KEY, 0) == lines(1, 700)
    await log.append(KEY, 700, [line(701)])
    assert await log.read(KEY, 698) == lines(699, 701)


async def test_a_checkpoint_of_lines_that_are_not_safe_is_a_bug(make_log: MakeLog) -> None:
    log = make_log()
    await log.open(KEY, create=True)
    await log.append(KEY, 0, [line(1)])
    for seq in (0, 2):
        with pytest.raises(ValueError, match="safe lines"):
            await log.save_checkpoint(KEY, seq, b"")
