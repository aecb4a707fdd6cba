"""A session of 100 000 events: served, replayed and paged for what is shown, not for what has happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from disks import CountingDisk
from palaver.views.transcript import Page, Transcript, show
from palaver.wire.codec import encode_event
from palaver_daemon import Here, Json, page_of, palaver
from story import Story

EVENTS = 100_000
FEW = 0.04
"""The part of the file that may be read for a page, a late cursor, or opening."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def long_story() -> Story:
    """Turns with text in pieces, thinking and calls, as a daemon would have logged them."""
    story = Story("sess_long")
    story.created()
    while len(story.recorded) < EVENTS:
        story.asks(f"Question {len(story.recorded)}, and what of the café?")
        for _ in range(3):
            read = story.call(path="notes.txt")
            said = story.says(*(f"piece {number} of some length " for number in range(8)), thinks="hm", calls=[read])
            story.works(said, read, text="remember the milk " * 5)
        story.says("That is ", "all.")
        story.ends()
    return story


@pytest.fixture(scope="module")
def story() -> Story:
    return long_story()


@pytest.fixture(scope="module")
def shown(story: Story) -> Page:
    transcript = Transcript()
    for recorded in story.recorded:
        show(transcript, recorded)
    return page_of(transcript)


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory, story: Story) -> Path:
    """The session on disk, opened once before: that leaves its checkpoint."""
    folder = tmp_path_factory.mktemp("long")
    place = folder / "data" / "sessions" / story.session_id
    place.mkdir(parents=True, mode=0o700)
    (place / "events.ndjson").write_bytes(b"".join(encode_event(recorded) + b"\n" for recorded in story.recorded))
    async with palaver(folder) as here:
        assert (await here.ask("GET", f"/v1/sessions/{story.session_id}"))["head_seq"] == len(story.recorded)
    return folder


@pytest.fixture
async def long(folder: Path) -> AsyncIterator[tuple[Here, CountingDisk, int]]:
    disk = CountingDisk()
    async with palaver(folder, disk=disk) as here:
        yield here, disk, (folder / "data" / "sessions" / "sess_long" / "events.ndjson").stat().st_size


PATH = "/v1/sessions/sess_long"


@pytest.mark.anyio
async def test_the_newest_page_costs_what_it_shows(long: tuple[Here, CountingDisk, int], shown: Page) -> None:
    """A transcript page of a session that was just opened reads its checkpoint and its own turns."""
    here, disk, size = long
    page = await here.ask("GET", f"{PATH}/transcript?limit=50")
    assert page["entries"] == shown["entries"][-len(page["entries"]) :] and len(page["entries"]) >= 50
    assert (page["as_of_seq"], page["open"], page["later"]) == (shown["as_of_seq"], shown["open"], None)
    assert disk.read_bytes < FEW * size


@pytest.mark.anyio
@pytest.mark.parametrize("left", [0, 7, 500])
async def test_a_replay_from_a_late_cursor_reads_only_the_end(long: tuple[Here, CountingDisk, int], story: Story, left: int) -> None:
    """Promise 1: from any cursor, by a seek and not by a search."""
    here, disk, size = long
    await here.ask("GET", PATH)
    before, head = disk.read_bytes, len(story.recorded)
    async with here.stream(f"{PATH}/events?after={head - left}") as stream:
        frames = await stream.until(lambda one: one.event == "caught_up")
    assert [frame.id for frame in frames if frame.event == "message"] == list(range(head - left + 1, head + 1))
    assert disk.read_bytes - before < FEW * size


@pytest.mark.anyio
async def test_a_page_of_events_from_the_middle_reads_only_the_middle(long: tuple[Here, CountingDisk, int], story: Story) -> None:
    here, disk, size = long
    for after in (0, 33_333, 50_000, 99_000):
        before = disk.read_bytes
        page = await here.ask("GET", f"{PATH}/events?format=json&after={after}&limit=20")
        assert [event["seq"] for event in page["events"]] == list(range(after + 1, after + 21))
        assert [event["type"] for event in page["events"]] == [one.type for one in story.recorded[after : after + 20]]
        assert disk.read_bytes - before < FEW * size


@pytest.mark.anyio
async def test_paging_back_to_the_beginning_gives_the_whole_fold(long: tuple[Here, CountingDisk, int], shown: Page) -> None:
    """T-01: no entry is missing, none is there twice, none differs."""
    here, _, _ = long
    pages: list[list[Json]] = []
    where = ""
    while True:
        page = await here.ask("GET", f"{PATH}/transcript?limit=1000{where}")
        pages.append(page["entries"])
        if page["earlier"] is None:
            break
        where = f"&before={page['earlier']}"
    assert [entry for page in reversed(pages) for entry in page] == shown["entries"]


@pytest.mark.anyio
async def test_a_page_around_a_message_is_a_piece_of_the_whole(long: tuple[Here, CountingDisk, int], shown: Page) -> None:
    """CLIENTS 1: `around=<message id>`, from the middle, reading little."""
    here, disk, size = long
    middle = len(shown["entries"]) // 2
    message = shown["entries"][middle]["message"]
    assert message is not None
    await here.ask("GET", PATH)
    before = disk.read_bytes
    page = await here.ask("GET", f"{PATH}/transcript?around={message['id']}&limit=20")
    place = shown["entries"].index(page["entries"][0])
    assert page["entries"] == shown["entries"][place : place + 20] and place <= middle < place + 20
    assert page["earlier"] and page["later"] and disk.read_bytes - before < FEW * size


@pytest.mark.anyio
async def test_a_reader_of_all_gets_all_of_it(long: tuple[Here, CountingDisk, int], story: Story) -> None:
    """Replay from 0: every line as it stands on disk."""
    here, _, _ = long
    found = b""
    async with here.stream(f"{PATH}/events?after=0") as stream:
        while b'"caught_up"' not in found[-400:]:
            found += await anext(stream._chunks)
    lines = [line.removeprefix(b"data: ") for line in found.split(b"\n") if line.startswith(b"data: ") and b'"seq":' in line[:30]]
    assert lines == [encode_event(recorded) for recorded in story.recorded]
