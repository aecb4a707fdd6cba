"""What may stand in the settings, as JSON Schema over their dotted keys: what a page makes its form of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from palaver.settings import SECTIONS, Section
from palaver.settings_edit import is_by_hand

NAME = "[^.]+"


def schema() -> dict[str, Any]:
    """`properties` has the keys that are always there, `patternProperties` those below a name that the person gives.

    `readOnly` marks what is changed in the file alone.
    """
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    for name, section, named in SECTIONS:
        for field, shape in _fields(section):
            shapes.update(shape.pop("$defs", {}))
            if named:
                shape["readOnly"] = is_by_hand(f"{name}.NAME.{field}")
                patterns[rf"^{name}\.{NAME}\.{field}$"] = shape
            else:
                shape["readOnly"] = is_by_hand(f"{name}.{field}")
                properties[f"{name}.{field}"] = shape
    properties["discover"] = {"type": "boolean", "readOnly": True}
    return {"type": "object", "properties": properties, "patternProperties": patterns, "$defs": shapes}


def _fields(section: type[Section]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field with its schema; what may be absent may be `null`, which takes it out of the file."""
    whole = msgspec.json.schema(section)
    shapes: dict[str, Any] = whole["$defs"]
    own = shapes.pop(section.__name__)
    for field, shape in own["properties"].items():
        yield field, {**shape, "$defs": shapes} if shapes else dict(shape)
