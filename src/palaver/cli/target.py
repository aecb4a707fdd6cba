"""From the words of the command line to the daemon and the session that they mean."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palaver.client.connect import Connection
from palaver.client.discover import reach
from palaver.errors import Refused
from palaver.settings import data_folder

_ID_LENGTH = len("sess_") + 26

Session = dict[str, Any]


def data_of(args: argparse.Namespace) -> Path:
    return data_folder(args.data, os.environ)


async def connect(args: argparse.Namespace) -> Connection:
    return await reach(data_of(args), args.url, os.environ)


def session_path(session_id: str, rest: str = "") -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}{rest}"


async def find_session(connection: Connection, word: str) -> Session:
    """The session that `word` means: `last`, its id, or what its id alone begins or ends with. Raises `Refused("bad_session")`."""
    if word == "last":
        async for session in sessions(connection, limit=1):
            return session
        raise Refused("bad_session", "There is no conversation yet. Begin one: palaver run 'hello'")
    if word.startswith("sess_") and len(word) == _ID_LENGTH:
        return await _by_id(connection, word)
    found = [session async for session in sessions(connection) if means(word, session["id"])]
    if not found:
        raise Refused("bad_session", f"No conversation's id begins or ends with {word!r}. See: palaver sessions")
    if len(found) > 1:
        ids = ", ".join(session["id"] for session in found[:5])
        raise Refused("bad_session", f"{word!r} may be any of {len(found)} conversations: {ids}. Give more of its id.")
    return found[0]


def means(word: str, session_id: str) -> bool:
    word = word.lower()
    return bool(word) and (session_id.startswith((word, f"sess_{word}")) or session_id.endswith(word))


async def sessions(
    connection: Connection, *, limit: int | None = None, query: Mapping[str, Any] | None = None
) -> AsyncGenerator[Session, None]:
    """The conversations, the latest first, page after page."""
    cursor, given = None, 0
    while True:
        page = {**(query or {}), "limit": min(200, limit - given) if limit else 200, "cursor": cursor}
        body = (await connection.request("GET", "/v1/sessions", query=page)).body
        for session in body["sessions"]:
            yield session
            given += 1
        cursor = body.get("next_cursor")
        if cursor is None or (limit is not None and given >= limit):
            return


def text_of(word: str) -> str:
    """The message; `-` reads it from stdin. Raises `Refused("bad_usage")` when there is none."""
    text = sys.stdin.read() if word == "-" else word
    if not text.strip():
        raise Refused("bad_usage", "The message is empty. Give some text, or - to read it from stdin.")
    return text


async def _by_id(connection: Connection, session_id: str) -> Session:
    try:
        body: Session = (await connection.request("GET", session_path(session_id))).body
    except Refused as error:
        if error.code != "not_found":
            raise
        raise Refused("bad_session", f"There is no conversation {session_id}. See: palaver sessions") from error
    return body
