"""Requests as they were sent, kept beside the log: of each only what no earlier one of the session had.

A request repeats nearly all of the one before it. So a file holds the messages that are new, and names by file and place those that
are not; putting them together again gives the body that the service got, whatever the settings or the program's version are by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

Load = Callable[[str], Awaitable[bytes]]


class _Sent(msgspec.Struct):
    """A body: its messages apart from the rest, both as they stand there."""

    messages: list[msgspec.Raw]


class _File(msgspec.Struct, omit_defaults=True):
    messages: list[tuple[int, int, int]]
    """Runs: of which file (its place in `files`, -1: this one), from which of its messages on, how many."""
    added: list[msgspec.Raw] = []
    files: list[str] = []
    rest: dict[str, msgspec.Raw] | None = None
    rest_in: str | None = None


@dataclass
class Known:
    """What the files of one session hold. Lost with the process: then the next file holds all of its request."""

    messages: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    rests: dict[bytes, str] = field(default_factory=dict)


async def keep(body: bytes, known: Known, put: Callable[[bytes], Awaitable[str]]) -> str:
    """Store a request; gives the ref of its file."""
    file = _File([])
    hashes = list[bytes]()
    for message in msgspec.json.decode(body, type=_Sent).messages:
        digest = sha256(message).digest()
        if (place := known.messages.get(digest)) is None:
            if digest not in hashes:
                hashes.append(digest)
                file.added.append(message)
            _extend(file.messages, -1, hashes.index(digest))
        else:
            ref, index = place
            if ref not in file.files:
                file.files.append(ref)
            _extend(file.messages, file.files.index(ref), index)
    rest = {name: value for name, value in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items() if name != "messages"}
    words = msgspec.json.encode(rest)
    digest = sha256(words).digest()
    if (at := known.rests.get(digest)) is None:
        file.rest = rest
    else:
        file.rest_in = at
    ref = await put(msgspec.json.encode(file))
    known.messages.update({one: (ref, index) for index, one in enumerate(hashes)})
    known.rests.setdefault(digest, ref)
    return ref


def _extend(runs: list[tuple[int, int, int]], file: int, index: int) -> None:
    if runs and runs[-1][0] == file and runs[-1][1] + runs[-1][2] == index:
        runs[-1] = (file, runs[-1][1], runs[-1][2] + 1)
    else:
        runs.append((file, index, 1))


async def sent(ref: str, load: Load) -> dict[str, Any]:
    """The body behind a ref, with its values as they stood there."""
    files = dict[str, _File]()

    async def file(ref: str) -> _File:
        if ref not in files:
            files[ref] = msgspec.json.decode(await load(ref), type=_File)
        return files[ref]

    top = await file(ref)
    messages = list[msgspec.Raw]()
    for place, start, count in top.messages:
        held = top if place < 0 else await file(top.files[place])
        messages += held.added[start : start + count]
    rest = top.rest if top.rest_in is None else (await file(top.rest_in)).rest
    return {**(rest or {}), "messages": messages}


__all__ = ["Known", "keep", "sent"]
