"""What was said in all sessions, ready to be searched: tables of `index.sqlite`, filled from the logs when somebody searches.

The list's row of a session says how long its log is, `searched` how much of it is in here; so nobody has to say what changed, and what is
missing, or does not fit the log, is read again. A row's number begins with its time: newest first is the order of the table. Where
SQLite has no trigrams (FTS5), and for queries too short for them, rows are looked at one by one. Every job on the index's thread is short,
so that the list waits for none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from palaver.errors import DiskFailed, Invalid
from palaver.log.index import SessionIndex
from palaver.wire.codec import decode_head

if TYPE_CHECKING:
    import sqlite3  # imported late: a start does without it

VERSION = 1
SLICE = 262_144
"""Bytes of a log that one job reads."""
JOB_S = 0.05
FIND_S = 1.0
"""Seconds after which a search gives what it has, and a cursor to go on from."""
MOST_TRIGRAMS = 24
_SPREAD = 20
"""Bits of a row's number below its milliseconds."""
_END = (1 << 63) - 1


class Said(Protocol):
    """One text of a log."""

    @property
    def seq(self) -> int: ...
    @property
    def ts(self) -> str: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def call_id(self) -> str | None: ...
    @property
    def role(self) -> str: ...
    @property
    def text(self) -> str: ...


class Fold(Protocol):
    """How texts are taken from lines and compared; `views/search.py` is the one there is."""

    def passages(self, lines: Iterable[bytes]) -> Iterable[Said]: ...
    def folded(self, text: str) -> str: ...
    def words(self, query: str) -> Sequence[str]: ...
    def excerpt(self, query: str, text: str) -> tuple[str, str, str] | None: ...


class Hit(NamedTuple):
    session_id: str
    session_title: str | None
    message_id: str | None
    seq: int
    role: str
    ts: str
    before: str
    match: str
    after: str


class Found(NamedTuple):
    hits: list[Hit]
    next_cursor: str | None


class _Looked(NamedTuple):
    """What one job found."""

    hits: list[tuple[int, Hit]]
    last: int | None
    """The row from which on to look further; None at the end."""


_TABLES = """
CREATE TABLE searched (session_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, offset INTEGER NOT NULL, head INTEGER) WITHOUT ROWID;
CREATE TABLE said (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL, message_id TEXT, call_id TEXT,
  role TEXT NOT NULL, ts TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX said_in ON said (session_id, id);
"""
_WORDS = "CREATE VIRTUAL TABLE said_words USING fts5(text, content='', detail=none, tokenize='trigram case_sensitive 1')"
_GATHER = "INSERT INTO said_words (said_words, rank) VALUES ('hashsize', 8388608)"
"""Bytes of words that one transaction gathers before they are written: fewer pieces to be merged, half the time."""
_BEHIND = """
SELECT sessions.id, sessions.head_seq FROM sessions LEFT JOIN searched ON searched.session_id = sessions.id
WHERE searched.head IS NOT sessions.head_seq ORDER BY sessions.id = ? DESC, sessions.updated_at DESC LIMIT 200
"""
_GONE = "SELECT session_id FROM searched WHERE session_id NOT IN (SELECT id FROM sessions) LIMIT 1"
_COLUMNS = "said.id, said.session_id, sessions.title, said.message_id, said.seq, said.role, said.ts, said.text"
_JOINED = "JOIN sessions ON sessions.id = said.session_id"


class SearchIndex:
    """From one event loop; everything happens in the list's thread. `log_of` names a session's log."""

    def __init__(
        self, index: SessionIndex, log_of: Callable[[str], Path], fold: Fold, *, can_do: Callable[[], bool] = lambda: has_trigrams()
    ) -> None:
        """`can_do` says whether SQLite knows trigrams."""
        self._index, self._log_of, self._fold, self._can_do = index, log_of, fold, can_do
        self._prepared: object = None
        """The database that is known to have our tables."""
        self._trigrams = False

    async def catch_up(self, first: str | None = None) -> bool:
        """Take in some of what is missing, of the session `first` before all others. False when nothing is."""
        return await self._index.run(lambda database: self._catch_up(self._ready(database), first))

    async def find(self, query: str, *, session: str | None, limit: int, cursor: str | None) -> Found:
        """The newest first. Raises `Invalid` for a cursor that is none."""
        last: int | None = _END if cursor is None else _from_cursor(cursor)
        hits: list[tuple[int, Hit]] = []
        end = time.monotonic() + FIND_S
        while last is not None and len(hits) <= limit and time.monotonic() < end:
            looked = await self._index.run(self._look_from(query, session, limit + 1 - len(hits), last))
            hits, last = hits + looked.hits, looked.last
        if len(hits) > limit:
            last = hits[limit - 1][0]
        return Found([hit for _, hit in hits[:limit]], None if last is None else str(last))

    async def forget(self, session_id: str) -> None:
        """What a deleted session said, if it was ever taken in."""
        await self._index.run(lambda database: self._forget_deleted(database, session_id))

    # --- in the thread ------------------------------------------------------------------------------------------------------------

    def _ready(self, database: sqlite3.Connection) -> sqlite3.Connection:
        """Raises `DiskFailed` while the list itself is in memory only: what was said is too much for that."""
        if self._index.in_memory:
            raise DiskFailed("The disk takes no writes, so what was said cannot be searched. Make room on it.")
        if self._prepared is not database:
            self._prepare(database)
            self._prepared = database
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables anew where they are missing, of another version, or made by an SQLite that could do more or less."""
        self._trigrams = self._can_do()
        made = f"search {VERSION} {self._trigrams}"
        names = ["said", "searched", *(["said_words"] if self._trigrams else [])]
        with database:
            database.execute("CREATE TABLE IF NOT EXISTS made (what TEXT PRIMARY KEY)")
            there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            if database.execute("SELECT 1 FROM made WHERE what = ?", (made,)).fetchone() and there.issuperset(names):
                return
            for name in names:
                database.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in [*_TABLES.split(";"), *([_WORDS, _GATHER] if self._trigrams else [])]:
                database.execute(statement)
            database.execute("DELETE FROM made")
            database.execute("INSERT INTO made VALUES (?)", (made,))

    def _catch_up(self, database: sqlite3.Connection, first: str | None) -> bool:
        with database:
            if gone := database.execute(_GONE).fetchone():
                self._forget(database, gone[0])
                return True
            behind = database.execute(_BEHIND, (first or "",)).fetchall()
            end = time.monotonic() + JOB_S
            for session_id, head in behind:
                self._read_on(database, session_id, head)
                if time.monotonic() > end:
                    break
        return bool(behind)

    def _read_on(self, database: sqlite3.Connection, session_id: str, head: int) -> None:
        """The next slice of this session's log, up to the line `head`."""
        seq, offset = database.execute("SELECT seq, offset FROM searched WHERE session_id = ?", (session_id,)).fetchone() or (0, 0)
        lines, end = _read(self._log_of(session_id), offset)
        fits = not lines or _number_of(lines[0]) == seq + 1
        if seq > head or not (fits or seq == 0):  # another log than the one that was read
            self._forget(database, session_id)
            return
        if not fits:
            lines, end = [], offset  # it is none of ours: nothing of it is found
        if len(lines) > head - seq:  # what follows is not safe yet
            lines = lines[: head - seq]
            end = offset + sum(len(line) + 1 for line in lines)
        for said in self._fold.passages(lines):
            self._add(database, session_id, said)
        seq += len(lines)
        done = head if seq >= head or not lines else None
        database.execute("INSERT OR REPLACE INTO searched VALUES (?, ?, ?, ?)", (session_id, seq, end, done))

    def _add(self, database: sqlite3.Connection, session_id: str, said: Said) -> None:
        message_id = said.message_id or _message_of(database, session_id, said.call_id)
        id = _number(said.ts, said.seq)
        row = (session_id, said.seq, message_id, said.call_id, said.role, said.ts, said.text)
        while not database.execute("INSERT OR IGNORE INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (id, *row)).rowcount:
            id += 1
        if self._trigrams:
            database.execute("INSERT INTO said_words (rowid, text) VALUES (?, ?)", (id, self._fold.folded(said.text)))

    def _forget_deleted(self, database: sqlite3.Connection, session_id: str) -> None:
        taken = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'searched'").fetchone()
        if taken and not self._index.in_memory:
            with database:
                self._forget(self._ready(database), session_id)

    def _forget(self, database: sqlite3.Connection, session_id: str) -> None:
        if self._trigrams:
            remove = "INSERT INTO said_words (said_words, rowid, text) VALUES ('delete', ?, ?)"
            for id, text in database.execute("SELECT id, text FROM said WHERE session_id = ?", (session_id,)).fetchall():
                database.execute(remove, (id, self._fold.folded(text)))
        database.execute("DELETE FROM said WHERE session_id = ?", (session_id,))
        database.execute("DELETE FROM searched WHERE session_id = ?", (session_id,))

    def _look_from(self, query: str, session: str | None, limit: int, last: int) -> Callable[[sqlite3.Connection], _Looked]:
        def look(database: sqlite3.Connection) -> _Looked:
            rows = self._candidates(self._ready(database), query, session, last)
            hits: list[tuple[int, Hit]] = []
            end = time.monotonic() + JOB_S
            id: int | None = None
            for id, session_id, title, message_id, seq, role, ts, text in rows:
                if around := self._fold.excerpt(query, text):
                    hits.append((id, Hit(session_id, title, message_id, seq, role, ts, *around)))
                if len(hits) >= limit or time.monotonic() > end:
                    rows.close()
                    return _Looked(hits, id)
            return _Looked(hits, None)

        return look

    def _candidates(self, database: sqlite3.Connection, query: str, session: str | None, last: int) -> sqlite3.Cursor:
        """Every row older than `last` that may have it, the newest first."""
        if session is not None:
            where = "WHERE said.session_id = ? AND said.id < ? ORDER BY said.id DESC"
            return database.execute(f"SELECT {_COLUMNS} FROM said {_JOINED} {where}", (session, last))
        trigrams = self._all_trigrams(query) if self._trigrams else []
        if not trigrams:
            return database.execute(f"SELECT {_COLUMNS} FROM said {_JOINED} WHERE said.id < ? ORDER BY said.id DESC", (last,))
        wanted = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
        joined = f"FROM said_words CROSS JOIN said ON said.id = said_words.rowid {_JOINED}"
        where = "WHERE said_words MATCH ? AND said_words.rowid < ? ORDER BY said_words.rowid DESC"
        return database.execute(f"SELECT {_COLUMNS} {joined} {where}", (wanted, last))

    def _all_trigrams(self, query: str) -> list[str]:
        found = [word[place : place + 3] for word in self._fold.words(query) for place in range(len(word) - 2)]
        return list(dict.fromkeys(found))[:MOST_TRIGRAMS]


def _read(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Whole lines from a byte on, one at least where there is one, and the byte after them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(SLICE)
            while data and b"\n" not in data and (more := file.read(SLICE)):
                data += more
    except OSError:
        return [], offset  # it is being deleted, or cannot be read: nothing of it is found
    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1], offset + end


def _number_of(line: bytes) -> int:
    """0 for what is no line of a log."""
    try:
        return decode_head(line).seq
    except msgspec.DecodeError:
        return 0


def _message_of(database: sqlite3.Connection, session_id: str, call_id: str | None) -> str | None:
    """The message that made this call, else the newest one of the session."""
    call = "AND call_id = ?" if call_id else ""
    found: Any = database.execute(
        f"SELECT message_id FROM said WHERE session_id = ? {call} AND message_id IS NOT NULL ORDER BY id DESC LIMIT 1",
        (session_id, call_id) if call_id else (session_id,),
    ).fetchone()
    return str(found[0]) if found else None


def _number(ts: str, seq: int) -> int:
    """Of a row, by its time; what one millisecond brings is in the order of its events, mostly."""
    milliseconds = int(datetime.fromisoformat(ts).timestamp() * 1000)
    return (milliseconds << _SPREAD) + (seq & ((1 << (_SPREAD - 1)) - 1))


def _from_cursor(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and int(cursor[:20]) <= _END:
        return int(cursor[:20])
    raise Invalid("This cursor is none of ours. Leave it out to start at the newest hit.", path="cursor")


def has_trigrams() -> bool:
    """Whether this SQLite can index every three letters: FTS5 since 3.34."""
    import sqlite3

    memory = sqlite3.connect(":memory:")
    try:
        memory.execute(_WORDS)
    except sqlite3.OperationalError:
        return False
    finally:
        memory.close()
    return True
