"""The list of all sessions, ready to be sorted and searched: `<data>/index.sqlite`, which can always be made again.

What keeps it true without a look at every session: a session has its marker in `open/` from before its first event until its newest row
is here for good. So whoever writes events calls `mark_open` first, and later, when the session is idle, `put`, `await flush()` and only
then `clear_open`; a start reads the marked sessions again, puts their rows, and deletes the rows of those that are gone. Everything else
in here is as the last run left it.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from palaver.errors import DiskFailed, Invalid
from palaver.log.disk import FILE_MODE
from palaver.log.threads import in_thread

if TYPE_CHECKING:
    import sqlite3  # imported late: a start does without it

SCHEMA_VERSION = 2
SOON = 0.05
"""Seconds in which changes gather before they are written together."""

T = TypeVar("T")

_TABLE = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, updated_at TEXT NOT NULL, status TEXT NOT NULL, workspace_path TEXT NOT NULL, title TEXT,
  archived INTEGER NOT NULL, parent_session_id TEXT, last_turn_id TEXT, head_seq INTEGER NOT NULL, summary BLOB NOT NULL,
  folded_title TEXT NOT NULL
) WITHOUT ROWID
"""
_NEWEST = "CREATE INDEX newest ON sessions (parent_session_id, updated_at DESC, id DESC)"
_PLACES = "CREATE INDEX places ON sessions (parent_session_id, workspace_path, updated_at)"
_PUT = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS = "id, updated_at, status, workspace_path, title, archived, parent_session_id, last_turn_id, head_seq, summary"


class Row(NamedTuple):
    """One session as the list shows it."""

    id: str
    updated_at: str
    status: str
    workspace_path: str
    title: str | None
    archived: bool
    parent_session_id: str | None
    last_turn_id: str | None
    head_seq: int
    summary: bytes
    """The session as `GET /v1/sessions` gives it, in JSON."""


class Page(NamedTuple):
    rows: list[Row]
    next_cursor: str | None


class SessionIndex:
    """Rows by id, from one event loop; SQLite runs in a thread of its own.

    `rebuild` gives all rows, in that thread, when the file is missing, broken or of another version. `put` and `delete` return at once;
    `page` sees all that came before it. While the disk takes no writes the index goes on in memory, and `flush` says so.
    """

    def __init__(self, path: Path, rebuild: Callable[[], Iterable[Row]]) -> None:
        self._path = path
        self._rebuild = rebuild
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="index")
        self._database: sqlite3.Connection | None = None
        self.in_memory = False
        """The disk takes no writes; set in the thread."""
        self._changes: dict[str, Row | None] = {}
        self._saving: asyncio.Future[None] | None = None

    def put(self, row: Row) -> None:
        """Replace the row of this id, or add it."""
        self._change(row.id, row)

    def delete(self, session_id: str) -> None:
        self._change(session_id, None)

    async def page(
        self,
        *,
        status: str | None = None,
        workspace: str | None = None,
        q: str | None = None,
        parent: str | None = None,
        archived: bool | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """Newest first. `q` is looked for in titles, in any case; children are there only with their `parent`.

        Raises `Invalid` for a cursor that is none.
        """
        where: list[tuple[str, Any]] = [("parent_session_id IS ?", parent)]
        if status is not None:
            where.append(("status = ?", status))
        if workspace is not None:
            where.append(("workspace_path = ?", workspace))
        if q:
            where.append(("instr(folded_title, ?) > 0", q.casefold()))
        if archived is not None:
            where.append(("archived = ?", archived))
        values = [value for _, value in where]
        if cursor is not None:
            where.append(("(updated_at, id) < (?, ?)", None))
            values += _from_cursor(cursor)
        conditions = " AND ".join(condition for condition, _ in where)
        query = f"SELECT {_COLUMNS} FROM sessions WHERE {conditions} ORDER BY updated_at DESC, id DESC LIMIT ?"
        await self._save()
        rows = await self._run(lambda database: [_row(*found) for found in database.execute(query, (*values, limit + 1))])
        return Page(rows[:limit], _to_cursor(rows[limit - 1]) if len(rows) > limit else None)

    async def workspaces(self) -> dict[str, tuple[int, str]]:
        """For each folder its sessions, children not counted, and the newest `updated_at`."""
        query = "SELECT workspace_path, COUNT(*), MAX(updated_at) FROM sessions WHERE parent_session_id IS NULL GROUP BY workspace_path"
        rows = await self.run(lambda database: database.execute(query).fetchall())
        return {path: (count, last) for path, count, last in rows}

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Other work on the same file, after every change so far. What it raises of SQLite is taken for the disk's fault."""
        await self._save()
        return await self._run(work)

    async def flush(self) -> None:
        """Every change so far is on the medium. Raises `DiskFailed`: nothing is forgotten then, and a later flush may go well."""
        await self._save()
        await self._run(self._sync)

    async def close(self) -> None:
        """Write what waits and let go of the file. The index is not used after this."""
        if self._saving is not None:
            self._saving.cancel()
        await self._save()
        await in_thread(self._let_go, self._thread)
        self._thread.shutdown()

    def _change(self, session_id: str, row: Row | None) -> None:
        self._changes[session_id] = row
        if self._saving is None or self._saving.done():
            self._saving = asyncio.ensure_future(self._save_soon())

    async def _save_soon(self) -> None:
        await asyncio.sleep(SOON)
        await self._save()

    async def _save(self) -> None:
        if self._changes:
            changes, self._changes = self._changes, {}
            await self._run(partial(_write, changes))

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In the order of the calls."""
        return await in_thread(partial(self._work, work), self._thread)

    # --- in the thread ------------------------------------------------------------------------------------------------------------

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3

        try:
            return work(self._database or self._open())
        except sqlite3.OperationalError:  # the disk is full or takes no writes: what we have is whole, and goes on in memory
            return work(self._go_to_memory())
        except sqlite3.DatabaseError:  # not a database, or a broken one: it holds nothing that cannot be made again
            self._let_go()
            for ending in ("", "-wal", "-shm", "-journal"):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            return work(self._open())

    def _open(self) -> sqlite3.Connection:
        self._database = database = self._connect_file()
        if _version(database) != SCHEMA_VERSION:
            self._fill(database)
        return database

    def _connect_file(self) -> sqlite3.Connection:
        import sqlite3

        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            raise sqlite3.OperationalError(str(error)) from error
        os.close(fd)  # SQLite gives its other files the mode of this one
        database = sqlite3.connect(self._path)
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")  # whole after a power cut, without a sync for each change
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA checkpoint_fullfsync = ON")
        return database

    def _fill(self, database: sqlite3.Connection) -> None:
        self._make(database, map(_values, self._rebuild()))

    def _make(self, database: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
        """Make the table anew, in one transaction: half a list is never there."""
        with database:
            database.execute("BEGIN")
            database.execute("DROP TABLE IF EXISTS sessions")
            database.execute(_TABLE)
            database.execute(_NEWEST)
            database.execute(_PLACES)
            database.executemany(_PUT, rows)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _go_to_memory(self) -> sqlite3.Connection:
        import sqlite3

        memory = sqlite3.connect(":memory:")
        try:
            if self._database is None:
                raise sqlite3.OperationalError("no file was opened")
            self._database.rollback()
            if _version(self._database) == SCHEMA_VERSION:  # the list alone: what else is in the file may be too much
                rows = self._database.execute("SELECT * FROM sessions").fetchall()
                self._make(memory, rows)
        except sqlite3.DatabaseError:
            memory.rollback()
        if _version(memory) != SCHEMA_VERSION:  # the file never got its table, or could not be read
            self._fill(memory)
        self._let_go()
        self._database, self.in_memory = memory, True
        return memory

    def _sync(self, database: sqlite3.Connection) -> None:
        import sqlite3

        try:
            if self.in_memory:
                database = self._return_to_file(database)
            (busy, _, _) = database.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        except sqlite3.OperationalError as error:
            raise DiskFailed(f"The list of sessions could not be written to {self._path} ({error}). Make room for it.") from error
        if busy:
            raise DiskFailed(f"Another program holds {self._path}. End it, and the list of sessions is written.")

    def _return_to_file(self, memory: sqlite3.Connection) -> sqlite3.Connection:
        file = self._connect_file()
        try:
            memory.backup(file)
        except BaseException:
            file.close()
            raise
        self._let_go()
        self._database = file
        return file

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self.in_memory = None, False


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _write(changes: dict[str, Row | None], database: sqlite3.Connection) -> None:
    with database:
        database.executemany(_PUT, [_values(row) for row in changes.values() if row is not None])
        database.executemany("DELETE FROM sessions WHERE id = ?", [(gone,) for gone, row in changes.items() if row is None])


def _values(row: Row) -> tuple[Any, ...]:
    return (*row, (row.title or "").casefold())


def _row(*columns: Any) -> Row:
    row = Row(*columns)
    return row._replace(archived=bool(row.archived))


def _to_cursor(row: Row) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((row.updated_at, row.id))).decode().rstrip("=")


def _from_cursor(cursor: str) -> tuple[str, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=tuple[str, str])
    except ValueError as error:
        raise Invalid("This cursor is none of ours. Leave it out to start at the newest session.", path="cursor") from error
