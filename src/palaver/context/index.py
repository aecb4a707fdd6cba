"""What is known of a folder's files, in one SQLite file: their words for a ranked search, and what they define. A cache, and nothing more.

A row says what its file looked like (size, time, inode): only what looks different is read again. Whatever is wrong with the file on
disk, it is thrown away and made anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

VERSION = 1
MOST_FILES = 30_000
"""Files of one folder that are indexed; of the others only the names are known."""

Look = tuple[int, int, int]
"""Size, time of change in nanoseconds, inode."""


class Row(NamedTuple):
    """One file as it was read."""

    path: str
    look: Look
    lines: int
    symbols: Sequence[tuple[str, int, int, int, str]]
    """Name, first line, last line, depth, signature."""
    body: str
    """Its words."""
    refs: str
    """The names in it, each as one word."""


class Known(NamedTuple):
    path: str
    lines: int
    symbols: Sequence[tuple[str, int, int, int, str]]


class Index:
    """One folder's. Used by one thread or process at a time; closed after use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        try:
            db = self._connected()
            if db.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                return db
            db.close()
        except sqlite3.DatabaseError:
            pass  # torn by a crash: it is made anew
        self._path.unlink()
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = self._connected()
        db.executescript(
            "CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT UNIQUE, size INTEGER, mtime INTEGER, ino INTEGER, lines INTEGER, "
            "symbols BLOB);"
            "CREATE VIRTUAL TABLE words USING fts5(path, names, body, defs, refs, tokenize='porter unicode61');"
            f"PRAGMA user_version={VERSION};"
        )
        return db

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        db.executescript("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY;")
        return db

    def close(self) -> None:
        self._db.close()

    def looks(self) -> dict[str, Look]:
        return {path: (size, mtime, ino) for path, size, mtime, ino in self._db.execute("SELECT path, size, mtime, ino FROM files")}

    def forget(self, paths: Iterable[str]) -> None:
        self._db.execute("BEGIN")
        for path in paths:
            self._remove(path)
        self._db.execute("COMMIT")

    def put(self, rows: Iterable[Row]) -> None:
        self._db.execute("BEGIN")
        for row in rows:
            self._remove(row.path)
            names = [symbol[0] for symbol in row.symbols]
            from palaver.context.words import joined, words  # the process that only asks needs neither

            cursor = self._db.execute(
                "INSERT INTO files(path, size, mtime, ino, lines, symbols) VALUES(?,?,?,?,?,?)",
                (row.path, *row.look, row.lines, msgspec.msgpack.encode(row.symbols)),
            )
            columns = (" ".join(words(row.path)), " ".join(words(" ".join(names))), row.body, " ".join(map(joined, names)), row.refs)
            self._db.execute("INSERT INTO words(rowid, path, names, body, defs, refs) VALUES(?,?,?,?,?,?)", (cursor.lastrowid, *columns))
        self._db.execute("COMMIT")

    def _remove(self, path: str) -> None:
        found = self._db.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        if found is not None:
            self._db.execute("DELETE FROM words WHERE rowid = ?", found)
            self._db.execute("DELETE FROM files WHERE id = ?", found)

    def known(self, paths: Sequence[str]) -> dict[str, Known]:
        found = {}
        for path in paths:
            row = self._db.execute("SELECT lines, symbols FROM files WHERE path = ?", (path,)).fetchone()
            if row is not None:
                found[path] = Known(path, row[0], msgspec.msgpack.decode(row[1], type=list[tuple[str, int, int, int, str]]))
        return found

    def matching(self, query: str, weights: Mapping[str, float], most: int) -> list[tuple[str, float]]:
        """Paths with their scores, the best first. `query` is FTS5's; `weights` by column."""
        columns = ", ".join(str(weights.get(column, 0.0)) for column in ("path", "names", "body", "defs", "refs"))
        rows = self._db.execute(
            "SELECT files.path, -found.score FROM (SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ? AND rank MATCH ? "
            "ORDER BY rank LIMIT ?) AS found JOIN files ON files.id = found.id ORDER BY found.score, files.path",
            (query, f"bm25({columns})", most),
        )
        return [(path, score) for path, score in rows]

    def largest(self, most: int = 50) -> list[str]:
        """The files that define most."""
        rows = self._db.execute("SELECT path FROM files ORDER BY length(symbols) DESC, path LIMIT ?", (most,))
        return [path for (path,) in rows]

    def refs(self, path: str) -> list[str]:
        row = self._db.execute("SELECT refs FROM words WHERE rowid = (SELECT id FROM files WHERE path = ?)", (path,)).fetchone()
        return row[0].split() if row else []


__all__ = ["MOST_FILES", "Index", "Known", "Look", "Row"]
