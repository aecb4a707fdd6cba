"""The list of sessions: sorted, searched, paged, and made again whenever its file is not to be trusted."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from palaver.errors import DiskFailed, Invalid
from palaver.log.index import Row, SessionIndex

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def row(
    number: int,
    *,
    title: str | None = None,
    status: str = "active",
    workspace: str = "/w",
    archived: bool = False,
    parent: str | None = None,
    updated: int | None = None,
) -> Row:
    at = f"2026-01-01T00:00:{number if updated is None else updated:02d}.000Z"
    return Row(f"sess_{number:02d}", at, status, workspace, title, archived, parent, None, number, b'{"id":"sess_%02d"}' % number)


def nothing_to_read() -> Iterable[Row]:
    return []


def never() -> Iterable[Row]:
    raise AssertionError("the sessions were read")


async def ids(index: SessionIndex, **query: object) -> list[str]:
    page = await index.page(**query)  # type: ignore[arg-type]  # one helper for every filter
    return [found.id for found in page.rows]


async def filled(path: Path, *rows: Row) -> None:
    index = SessionIndex(path, nothing_to_read)
    for one in rows:
        index.put(one)
    await index.close()


async def test_the_newest_session_comes_first_and_equal_times_go_by_id(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    for one in (row(1), row(3, updated=2), row(2), row(4, updated=0)):
        index.put(one)
    assert await ids(index) == ["sess_03", "sess_02", "sess_01", "sess_04"]
    index.put(row(4, updated=9))
    assert await ids(index) == ["sess_04", "sess_03", "sess_02", "sess_01"]
    index.delete("sess_03")
    assert await ids(index) == ["sess_04", "sess_02", "sess_01"]
    assert (await index.page()).rows[1] == row(2)
    await index.close()


async def test_each_filter_leaves_out_what_does_not_match(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    index.put(row(1, title="Fix the LOGIN form", workspace="/a"))
    index.put(row(2, title="Straße 100%", status="failed"))
    index.put(row(3, title="login again", archived=True))
    index.put(row(4, parent="sess_01", title="login child"))
    assert await ids(index) == ["sess_03", "sess_02", "sess_01"]
    assert await ids(index, q="Login") == ["sess_03", "sess_01"]
    assert await ids(index, q="STRASSE") == ["sess_02"]
    assert await ids(index, q="%") == ["sess_02"]
    assert await ids(index, q="sess_01") == []
    assert await ids(index, status="failed") == ["sess_02"]
    assert await ids(index, workspace="/a") == ["sess_01"]
    assert await ids(index, archived=False) == ["sess_02", "sess_01"]
    assert await ids(index, archived=True) == ["sess_03"]
    assert await ids(index, parent="sess_01") == ["sess_04"]
    assert await ids(index, q="login", archived=False, status="active", workspace="/a") == ["sess_01"]
    await index.close()


async def test_paging_gives_every_session_once(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    for number in range(40):
        index.put(row(number, updated=number // 3))
    found: list[str] = []
    cursor = None
    while True:
        page = await index.page(limit=7, cursor=cursor)
        found += [one.id for one in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.rows) == 7
    assert found == await ids(index, limit=100)
    assert len(set(found)) == 40
    assert (await index.page(limit=40)).next_cursor is None
    await index.close()


@pytest.mark.parametrize("cursor", ["", "x", "!!", "e30", "WzEsMl0", "é", "WyJhIl0"])
async def test_a_cursor_that_is_none_is_invalid(tmp_path: Path, cursor: str) -> None:
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    with pytest.raises(Invalid, match="cursor"):
        await index.page(cursor=cursor)
    await index.close()


async def test_rows_are_there_after_the_index_was_closed_and_no_session_is_read_again(tmp_path: Path) -> None:
    await filled(tmp_path / "index.sqlite", row(1), row(2))
    index = SessionIndex(tmp_path / "index.sqlite", never)
    assert await ids(index) == ["sess_02", "sess_01"]
    await index.close()


async def test_a_change_is_written_without_anyone_asking_for_it(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    index.put(row(1))
    deadline = time.monotonic() + 10
    while not (tmp_path / "index.sqlite-wal").exists() or b"sess_01" not in (tmp_path / "index.sqlite-wal").read_bytes():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await index.close()


FLUSH_AND_DIE = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from palaver.log.index import SessionIndex
from test_index import nothing_to_read, row

async def main():
    index = SessionIndex(Path(sys.argv[1]), nothing_to_read)
    index.put(row(1))
    await index.flush()
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    process = subprocess.run([sys.executable, "-c", FLUSH_AND_DIE, str(path), str(Path(__file__).parent)], check=False)
    assert process.returncode == -9
    index = SessionIndex(path, never)
    assert await ids(index) == ["sess_01"]
    await index.close()


def zeros_in_the_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\0" * 8_192)


def other_version(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()


def no_table(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DROP TABLE sessions")
    database.execute("PRAGMA user_version = 0")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database at all" * 1_000),
        zeros_in_the_middle,
        other_version,
        no_table,
    ],
    ids=["missing", "empty", "garbage", "corrupt", "other version", "no table"],
)
async def test_an_index_that_cannot_be_trusted_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """DESIGN.md 4: `index.sqlite` is rebuildable."""
    path = tmp_path / "index.sqlite"
    await filled(path, row(1), row(2))
    damage(path)
    index = SessionIndex(path, lambda: [row(2), row(3)])
    index.put(row(4))
    assert await ids(index) == ["sess_04", "sess_03", "sess_02"]
    await index.close()
    index = SessionIndex(path, never)
    assert await ids(index) == ["sess_04", "sess_03", "sess_02"]
    await index.close()


async def test_a_rebuild_that_breaks_off_is_done_again(tmp_path: Path) -> None:
    def breaks_off() -> Iterator[Row]:
        yield row(1)
        raise KeyError("a bug")

    index = SessionIndex(tmp_path / "index.sqlite", breaks_off)
    with pytest.raises(KeyError):
        await index.page()
    await index.close()
    index = SessionIndex(tmp_path / "index.sqlite", lambda: [row(1), row(2)])
    assert await ids(index) == ["sess_02", "sess_01"]
    await index.close()


async def test_while_the_disk_takes_no_writes_the_list_goes_on_and_flush_says_so(tmp_path: Path) -> None:
    """A folder in the place of the file: nothing can be written there, for root neither."""
    path = tmp_path / "index.sqlite"
    path.mkdir()
    index = SessionIndex(path, lambda: [row(1)])
    index.put(row(2))
    assert await ids(index) == ["sess_02", "sess_01"]
    with pytest.raises(DiskFailed, match=r"index\.sqlite"):
        await index.flush()
    path.rmdir()
    index.put(row(3))
    await index.flush()
    await index.close()
    index = SessionIndex(path, never)
    assert await ids(index) == ["sess_03", "sess_02", "sess_01"]
    await index.close()


async def test_a_disk_that_fills_up_loses_no_row(tmp_path: Path) -> None:
    """The file may not grow beyond what it has: SQLite then says that the disk is full."""
    path = tmp_path / "index.sqlite"
    await filled(path, row(1))
    index = SessionIndex(path, never)
    assert await ids(index) == ["sess_01"]
    await index._run(lambda opened: opened.execute("PRAGMA max_page_count = 1").fetchone())
    for number in range(2, 60):
        index.put(row(number, title="t" * 2_000))
    assert len(await ids(index, limit=100)) == 59
    await index.flush()
    await index.close()
    index = SessionIndex(path, never)
    assert len(await ids(index, limit=100)) == 59
    await index.close()


def test_a_disk_that_is_full_from_the_beginning_leaves_a_list_in_memory(tmp_path: Path) -> None:
    """No file of the process may grow beyond a page: SQLite cannot even make its table."""
    code = """
import asyncio, pathlib, resource, signal, sys
from palaver.errors import DiskFailed
from palaver.log.index import Row, SessionIndex

async def main():
    index = SessionIndex(pathlib.Path(sys.argv[1]), lambda: [])
    index.put(Row("sess_1", "2026", "active", "/w", None, False, None, None, 1, b"{}"))
    print([row.id for row in (await index.page()).rows])
    try:
        await index.flush()
    except DiskFailed:
        print("said so")
    await index.close()

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path / "index.sqlite")], check=True, capture_output=True, text=True)
    assert ran.stdout == "['sess_1']\nsaid so\n"


@pytest.fixture(params=[0o000, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
async def test_its_files_are_0600_whatever_the_umask(tmp_path: Path) -> None:
    """SECURITY 7."""
    index = SessionIndex(tmp_path / "index.sqlite", nothing_to_read)
    index.put(row(1))
    await index.page()
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert found == {"index.sqlite": 0o600, "index.sqlite-wal": 0o600}
    await index.close()


async def test_ten_thousand_sessions_are_listed_and_searched(tmp_path: Path) -> None:
    def many() -> Iterator[Row]:
        for number in range(10_000):
            yield row(1)._replace(id=f"sess_{number:05d}", title=f"session {number}", updated_at=f"2026-01-01T00:{number:05d}")

    index = SessionIndex(tmp_path / "index.sqlite", many)
    await index.page()
    page = await index.page(limit=50)
    assert page.rows[0].id == "sess_09999"
    assert await ids(index, q="SESSION 4242") == ["sess_04242"]
    await index.close()


def test_sqlite_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, palaver.log.index; print('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"
