"""Long strings of an event that stand in files: loaded back into their places before anybody decides on them."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from palaver.client.connect import Connection
from palaver.errors import Failed


async def whole(connection: Connection, session_id: str, data: dict[str, Any]) -> dict[str, Any]:
    """`data` with every shortened string in full. Raises `Failed("bad_ref")` when a file is not what the event names."""
    for pointer, place in data.get("refs", {}).items():
        content = await connection.fetch(f"/v1/sessions/{quote(session_id)}/{quote(place['ref'])}")
        if hashlib.sha256(content).hexdigest() != place["sha256"]:
            raise Failed("bad_ref", f"{place['ref']} is not what the event says it is. Look at the session's files.")
        data = _replaced(data, _steps(pointer), content.decode("utf-8"))
    return data


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _replaced(value: Any, steps: list[str], text: str) -> Any:
    if not steps:
        return text
    first, rest = steps[0], steps[1:]
    if isinstance(value, list):
        return [_replaced(one, rest, text) if number == int(first) else one for number, one in enumerate(value)]
    return {**value, first: _replaced(value[first], rest, text)}
