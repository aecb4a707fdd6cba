"""One workspace's files as they were last seen, what turns changed, and the content behind it: a database below the data folder.

Everything that belongs together is one transaction, on disk when it returns; so after a crash the store is as before it or as after it.
Content is kept once, by its hash. Where it would pass `limit` bytes in all, the oldest turns that have ended give up theirs first; what
still has no room is not kept, and whoever wants it back is told so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from palaver.changes.below import Version
from palaver.changes.scan import Entry

if TYPE_CHECKING:
    import sqlite3

LIMIT = 1 << 30
"""Bytes of content of one workspace."""

_JOURNAL = 16 << 20
_TABLES = """
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, version BLOB NOT NULL, hash BLOB, stamp BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (hash BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS turns (
    n INTEGER PRIMARY KEY, turn TEXT UNIQUE NOT NULL, session TEXT NOT NULL, open INTEGER NOT NULL, rules BLOB
);
CREATE TABLE IF NOT EXISTS touched (
    turn TEXT NOT NULL, path BLOB NOT NULL, before BLOB, after BLOB, before_hash BLOB, after_hash BLOB, PRIMARY KEY (turn, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS net (
    session TEXT NOT NULL, path BLOB NOT NULL, first BLOB, last BLOB, first_hash BLOB, last_hash BLOB, PRIMARY KEY (session, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS undos (id TEXT PRIMARY KEY, session TEXT NOT NULL, plan BLOB NOT NULL);
"""
_version = msgspec.msgpack.Decoder(Version)
_stamp = msgspec.msgpack.Decoder(tuple[int, ...])
_pack = msgspec.msgpack.encode


class Touched(NamedTuple):
    """A path that a turn changed. None: nothing was there."""

    path: str
    before: Version | None
    after: Version | None


class OpenTurn(NamedTuple):
    turn_id: str
    session_id: str
    rules: dict[str, str]
    """What `.gitignore` files said when it began."""


class Store:
    """Used by one thread at a time."""

    def __init__(self, path: Path, *, limit: int = LIMIT) -> None:
        import sqlite3  # costs milliseconds that a start need not pay

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._limit = limit
        self._db: sqlite3.Connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.execute(f"PRAGMA journal_size_limit={_JOURNAL}")
        self._db.executescript(_TABLES)
        self._used = self._measured()
        self._files: dict[str, Entry] | None = None
        """What the table has, while turns are open."""

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._files = None
            self._used = self._measured()
            raise
        self._db.execute("COMMIT")

    def _measured(self) -> int:
        return int(self._db.execute("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM contents").fetchone()[0])

    # --- files ----------------------------------------------------------------------------------------------------------------

    def files(self) -> Mapping[str, Entry]:
        """All that is known. A value: what `see` changes is another one."""
        if self._files is None:
            rows = self._db.execute("SELECT path, version, stamp FROM files")
            self._files = {os.fsdecode(path): Entry(_version.decode(seen), _stamp.decode(stamp)) for path, seen, stamp in rows}
        return self._files

    def rest(self) -> None:
        """No turn is open any more: keep nothing in memory."""
        self._files = None

    def see(self, changed: Mapping[str, Entry | None]) -> None:
        self._files = {**self.files(), **{path: entry for path, entry in changed.items() if entry is not None}}
        for path in [path for path, entry in changed.items() if entry is None]:
            self._files.pop(path, None)
        gone = [(os.fsencode(path),) for path, entry in changed.items() if entry is None]
        there = [
            (os.fsencode(path), _pack(entry.version), entry.version.hash, _pack(entry.stamp))
            for path, entry in changed.items()
            if entry is not None
        ]
        self._db.executemany("DELETE FROM files WHERE path = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", there)

    # --- content --------------------------------------------------------------------------------------------------------------

    def keep(self, hash: bytes, data: bytes) -> None:
        """Keep it if there is room; `content` says whether there was."""
        if self._db.execute("SELECT 1 FROM contents WHERE hash = ?", (hash,)).fetchone():
            return
        if self._used + len(data) > self._limit:
            self._make_room(len(data))
        if self._used + len(data) <= self._limit:
            self._db.execute("INSERT INTO contents VALUES (?, ?)", (hash, data))
            self._used += len(data)

    def content(self, hash: bytes) -> bytes | None:
        row = self._db.execute("SELECT data FROM contents WHERE hash = ?", (hash,)).fetchone()
        return None if row is None else bytes(row[0])

    def _make_room(self, wanted: int) -> None:
        """Give up what the oldest ended turns alone need, until there is room."""
        self.sweep()
        for (turn,) in self._db.execute("SELECT turn FROM turns WHERE open = 0 ORDER BY n").fetchall():
            if self._used + wanted <= self._limit:
                return
            self._db.execute("DELETE FROM touched WHERE turn = ?", (turn,))
            self._db.execute("DELETE FROM turns WHERE turn = ?", (turn,))
            self.sweep()

    def sweep(self) -> None:
        """Drop content that nothing needs any more."""
        needed = " UNION ALL ".join(
            f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
            for table, column in (
                ("files", "hash"),
                ("touched", "before_hash"),
                ("touched", "after_hash"),
                ("net", "first_hash"),
                ("net", "last_hash"),
            )
        )
        self._db.execute(f"DELETE FROM contents WHERE hash NOT IN ({needed})")
        self._used = self._measured()

    # --- turns ----------------------------------------------------------------------------------------------------------------

    def open_turns(self) -> list[OpenTurn]:
        rows = self._db.execute("SELECT turn, session, rules FROM turns WHERE open = 1 ORDER BY n")
        return [OpenTurn(turn, session, msgspec.msgpack.decode(rules, type=dict[str, str])) for turn, session, rules in rows]

    def begin(self, turn_id: str, session_id: str, rules: Mapping[str, str]) -> None:
        self._db.execute(
            "INSERT OR IGNORE INTO turns (turn, session, open, rules) VALUES (?, ?, 1, ?)", (turn_id, session_id, _pack(rules))
        )

    def knows(self, turn_id: str) -> bool:
        return self._db.execute("SELECT 1 FROM turns WHERE turn = ?", (turn_id,)).fetchone() is not None

    def touch(self, turn_id: str, before: Mapping[str, Version | None]) -> None:
        """These paths differ from what the turn found; the first word about a path stands."""
        rows = [(turn_id, os.fsencode(path), _packed(old), None, old and old.hash, None) for path, old in before.items()]
        self._db.executemany("INSERT OR IGNORE INTO touched VALUES (?, ?, ?, ?, ?, ?)", rows)

    def end(self, turn_id: str, session_id: str, files: Mapping[str, Entry]) -> list[Touched]:
        """What the turn left, path by path; what is as it was counts as untouched."""
        ended = []
        for path, before, _ in self._touched(turn_id):
            entry = files.get(path)
            after = entry.version if entry else None
            key = (turn_id, os.fsencode(path))
            if after == before:
                self._db.execute("DELETE FROM touched WHERE turn = ? AND path = ?", key)
                continue
            ended.append(Touched(path, before, after))
            hash = after.hash if after else None
            self._db.execute("UPDATE touched SET after = ?, after_hash = ? WHERE turn = ? AND path = ?", (_packed(after), hash, *key))
        self._db.execute("UPDATE turns SET open = 0, rules = NULL WHERE turn = ?", (turn_id,))
        self.leave(session_id, ended)
        return ended

    def watched(self) -> list[str]:
        """The paths that open turns have touched, or have named."""
        rows = self._db.execute("SELECT path FROM touched WHERE turn IN (SELECT turn FROM turns WHERE open = 1)")
        return [os.fsdecode(path) for (path,) in rows]

    def touched(self, turn_id: str) -> list[Touched]:
        return list(self._touched(turn_id))

    def _touched(self, turn_id: str) -> Iterable[Touched]:
        rows = self._db.execute("SELECT path, before, after FROM touched WHERE turn = ? ORDER BY path", (turn_id,)).fetchall()
        return [Touched(os.fsdecode(path), _unpacked(before), _unpacked(after)) for path, before, after in rows]

    # --- sessions -------------------------------------------------------------------------------------------------------------

    def leave(self, session_id: str, touched: Iterable[Touched]) -> None:
        """The session has left these paths so; what it first found there stands."""
        for path, before, after in touched:
            self._db.execute(
                "INSERT INTO net VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last, last_hash = excluded.last_hash",
                (session_id, os.fsencode(path), _packed(before), _packed(after), before and before.hash, after and after.hash),
            )

    def net(self, session_id: str) -> list[Touched]:
        """What the session found and what it left, path by path, where that differs."""
        rows = self._db.execute("SELECT path, first, last FROM net WHERE session = ? ORDER BY path", (session_id,)).fetchall()
        all = [Touched(os.fsdecode(path), _unpacked(first), _unpacked(last)) for path, first, last in rows]
        return [one for one in all if one.before != one.after]

    def made(self, session_id: str) -> list[str]:
        """Every path that the session's turns have touched."""
        rows = self._db.execute(
            "SELECT path FROM net WHERE session = :id "
            "UNION SELECT path FROM touched WHERE turn IN (SELECT turn FROM turns WHERE session = :id)",
            {"id": session_id},
        )
        return [os.fsdecode(path) for (path,) in rows]

    def forget(self, session_id: str) -> None:
        self._db.execute("DELETE FROM touched WHERE turn IN (SELECT turn FROM turns WHERE session = ?)", (session_id,))
        for table in ("turns", "net", "undos"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ?", (session_id,))
        self.sweep()

    # --- undos that are being done ----------------------------------------------------------------------------------------------

    def intend(self, undo_id: str, session_id: str, plan: bytes) -> None:
        self._db.execute("INSERT INTO undos VALUES (?, ?, ?)", (undo_id, session_id, plan))

    def intended(self, session_id: str) -> list[tuple[str, bytes]]:
        return [(id, bytes(plan)) for id, plan in self._db.execute("SELECT id, plan FROM undos WHERE session = ?", (session_id,))]

    def done(self, undo_ids: Collection[str]) -> None:
        self._db.executemany("DELETE FROM undos WHERE id = ?", [(id,) for id in undo_ids])


def _packed(version: Version | None) -> bytes | None:
    return None if version is None else _pack(version)


def _unpacked(data: bytes | None) -> Version | None:
    return None if data is None else _version.decode(data)


__all__ = ["LIMIT", "OpenTurn", "Store", "Touched"]
