"""Changes the settings file as a client asks: one line for each value, everything else in the file as it was, comments too.

What a program, its arguments, environment or address would be, what is run to verify, what is asked and how commands are kept in
bounds is changed in the file alone, by hand: whoever holds a token could else make this machine run something.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from palaver.errors import DiskFailed, Invalid, Refused
from palaver.settings import check_text, places

Key = tuple[str, ...]

_BY_HAND = re.compile(
    r"sandbox(\..*)?|approval\.(rules|require_for_kinds|require_for_tools)(\..*)?|verify\.commands(\..*)?"
    r"|models\.[^.]+\.(base_url|api_key_env)|agents\.[^.]+\.(?!model$|mode$).*|(models|agents)(\.[^.]+)?|verify|approval"
)
"""Dotted keys, and whole tables that would hold one of them."""


def change(path: Path, values: Mapping[str, Any], write: Callable[[Path, str], None]) -> list[str]:
    """Put these values into the file, `null` takes one out. Gives the dotted keys that changed: the next start reads them.

    `values` has dotted keys, or tables inside of tables. Raises `Refused("file_only")` with the lines for the file, `Invalid` with each
    wrong key as a path, `DiskFailed`. Either all of it is written, or nothing.
    """
    wanted = dict(_flat(values))
    for key, value in wanted.items():
        if is_by_hand(".".join(key)):
            raise _file_only(path, key, value)
    wrong: list[Invalid] = []
    try:
        before = path.read_text("utf-8") if path.exists() else ""
        after = before
        for key, value in wanted.items():
            try:
                after = _edited(path, after, key, value)
            except Invalid as invalid:
                wrong.append(invalid)
        if wrong:
            raise Invalid.all(wrong)
        if after != before:
            write(path.resolve(), after)
    except OSError as error:
        raise DiskFailed(f"{path} could not be changed ({error.strerror}). Nothing of it was.") from error
    then, now = tomllib.loads(before), tomllib.loads(after)
    return [".".join(key) for key in wanted if _at(then, key) != _at(now, key)]


def is_by_hand(key: str) -> bool:
    """Whether this dotted key is changed in the file alone."""
    return _BY_HAND.fullmatch(key) is not None


def _flat(values: Mapping[str, Any], before: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in values.items():
        key = (*before, *name.split("."))
        if isinstance(value, Mapping):
            yield from _flat(value, key)
        else:
            yield key, value


def _file_only(path: Path, key: Key, value: Any) -> Refused:
    line = f"{key[-1]} = {_toml(value)}"
    lines = f"[{'.'.join(key[:-1])}]\n{line}" if key[:-1] else line
    name = ".".join(key)
    return Refused("file_only", f"{name} is changed in the file alone. Write this into {path}:\n{lines}", key=name, lines=lines)


def _edited(path: Path, text: str, key: Key, value: Any) -> str:
    """The text with one value changed, and checked. Raises `Invalid`."""
    name = ".".join(key)
    after = _without(text, key) if value is None else _with(text, key, value)
    try:
        check_text(path, after)
        same = tomllib.loads(after) == _put(tomllib.loads(text), key, value)
    except Refused as refused:
        raise Invalid(refused.message.partition(": ")[2] or refused.message, path=name) from refused
    if not same:
        raise Invalid(f"{name} stands in the file in a way that cannot be changed here. Change it in {path}.", path=name)
    return after


def _put(table: dict[str, Any], key: Key, value: Any) -> dict[str, Any]:
    """What the file should say then."""
    whole = table = deepcopy(table)
    if value is None and _at(table, key) is None:
        return whole
    for step in key[:-1]:
        table = table.setdefault(step, {})
    if value is None:
        del table[key[-1]]
    else:
        table[key[-1]] = value
    return whole


def _at(table: Any, key: Key) -> Any:
    for step in key:
        table = table.get(step) if isinstance(table, dict) else None
    return table


# --- lines --------------------------------------------------------------------------------------------------------------------


def _with(text: str, key: Key, value: Any) -> str:
    lines = text.split("\n")
    line, table = f"{key[-1]} = {_toml(value)}", key[:-1]
    if span := _span(text, key):
        first, end = span
        head, comment = lines[first][: lines[first].index("=") + 1], _comment(lines[first]) if end == first + 1 else ""
        lines[first:end] = [f"{head} {_toml(value)}{comment}"]
    elif not table:
        lines.insert(0, line)
    elif (header := _header(text, table)) is not None:
        lines.insert(header + 1, line)
    else:
        before = [*text.rstrip("\n").split("\n"), ""] if text.strip() else []
        lines = [*before, f"[{'.'.join(table)}]", line, ""]
    return "\n".join(lines)


def _without(text: str, key: Key) -> str:
    lines = text.split("\n")
    if span := _span(text, key):
        del lines[slice(*span)]
    return "\n".join(lines)


def _span(text: str, key: Key) -> tuple[int, int] | None:
    """The lines that hold the value of this key, as (first, one after the last)."""
    lines = text.split("\n")
    for place in places(text):
        first = place.line - 1
        if place.key == key and not lines[first].lstrip().startswith("["):
            return next(((first, end) for end in range(first + 1, len(lines) + 1) if _parses("\n".join(lines[first:end]))), None)
    return None


def _header(text: str, table: Key) -> int | None:
    lines = text.split("\n")
    return next((one.line - 1 for one in places(text) if one.key == table and lines[one.line - 1].lstrip().startswith("[")), None)


def _comment(line: str) -> str:
    """What stands behind the value, with the blanks before it."""
    for place, char in enumerate(line):
        if char == "#" and _parses(line[:place]):
            return line[len(line[:place].rstrip()) :]
    return ""


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _toml(value: Any) -> str:
    """JSON is TOML for strings, numbers and truth."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_name(name)} = {_toml(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)
