"""JSON Schema (draft 2020-12) of what crosses a boundary, made from the structs, so that neither can say something else.

`docs/schema/events.json` and `docs/openapi.json` are both built from `schemas`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from palaver.wire.events import EVENT_TYPES

Schema = dict[str, Any]

TAIL_TYPES = ("model_output_delta", "tool_output_delta")
"""What may also come without a `seq`: text in flight, provisional until the log brings it."""

_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"


def schemas(also: Iterable[Any] = (), *, ref: str = "#/components/schemas/{name}") -> dict[str, Schema]:
    """Every component by name: the structs, one envelope per event type under the type's own name, `Envelope` and `TailPiece`.

    `also` are more structs (requests, answers) whose components stand beside them; `ref` is where the document keeps components.
    Two different structs of one name are a `ValueError`.
    """
    _, structs = msgspec.json.schema_components([*EVENT_TYPES.values(), *also], ref_template=ref)
    structs["SessionUpdated"]["properties"]["session"] = _change_of(structs["SessionInfo"])
    logged = {name: _envelope(name, ref.format(name=struct.__name__)) for name, struct in EVENT_TYPES.items()}
    union: Schema = {
        "description": "One line of a log. Readers keep and skip types they do not know.",
        "oneOf": [*({"$ref": ref.format(name=name)} for name in logged), {"$ref": ref.format(name="UnknownType")}],
    }
    tail: Schema = {
        "description": "Text in flight: like the logged event, without a `seq`, and provisional.",
        "oneOf": [_without_seq(logged[name]) for name in TAIL_TYPES],
    }
    return {**structs, **logged, "UnknownType": _unknown(), "Envelope": union, "TailPiece": tail}


def events_document() -> Schema:
    """The whole of `docs/schema/events.json`: valid for one line of a log."""
    components = schemas(ref="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Palaver: one event, as the log has it",
        "$ref": "#/$defs/Envelope",
        "$defs": components,
    }


def _envelope(name: str, data: str) -> Schema:
    properties = {**_head(), "type": {"const": name}, "data": {"$ref": data}}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _unknown() -> Schema:
    properties = {**_head(), "type": {"type": "string", "not": {"enum": list(EVENT_TYPES)}}, "data": {"type": "object"}}
    return {
        "description": "A type that this version does not know, served as it stands in the log.",
        "type": "object",
        "properties": properties,
        "required": ["seq", "type"],
    }


def _head() -> Schema:
    return {
        "v": {"type": "integer", "minimum": 1},
        "seq": {"type": "integer", "minimum": 1},
        "ts": {"type": "string", "pattern": _TIME},
        "session_id": {"type": "string"},
        "turn_id": {"type": ["string", "null"]},
    }


def _without_seq(envelope: Schema) -> Schema:
    properties = {name: schema for name, schema in envelope["properties"].items() if name != "seq"}
    return {**envelope, "properties": {**properties, "seq": False}, "required": list(properties)}


def _change_of(info: Schema) -> Schema:
    """Only what changed: absent is unchanged, null is cleared."""
    return {
        "description": "Only the changed fields: absent is unchanged, null is cleared.",
        "type": "object",
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in info["properties"].items()},
    }
