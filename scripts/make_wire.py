"""Write wire.gen.ts of @palaver/client, the TypeScript of what crosses the wire, from the structs; `--check` says if it is stale.

Every component of the daemon's OpenAPI document becomes a type of its name, but for the envelopes: `Logged` is their union, told
apart by `type`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import palaver
from generated import settle
from palaver.serve.http import ROUTES
from palaver.serve.openapi import document
from palaver.wire.events import EVENT_TYPES
from palaver.wire.schema import TAIL_TYPES

PATH = "web/packages/client/src/wire.gen.ts"
HEAD = "// Made by `make wire` from the structs in src/palaver: change those, not this.\n"
PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
}
NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
TAILED = " | ".join(f'"{name}"' for name in TAIL_TYPES)
SKIPPED = ("Envelope", "UnknownType", "TailPiece")
"""Unions that cannot be told apart in TypeScript; `Logged` and `Provisional` stand for them."""


def typescript(components: dict[str, Any]) -> str:
    named = {name: schema for name, schema in components.items() if name not in EVENT_TYPES and name not in SKIPPED}
    parts = [HEAD, *(declaration(name, schema) for name, schema in sorted(named.items())), *unions()]
    return "\n".join(parts)


def unions() -> Iterator[str]:
    rows = "".join(f"  {name}: {struct.__name__};\n" for name, struct in EVENT_TYPES.items())
    yield f"/** The `data` of each type of event. */\nexport interface EventData {{\n{rows}}}\n"
    yield "export type EventType = keyof EventData;\n"
    yield (
        "interface Head<T extends EventType> {\n  v: number;\n  ts: string;\n  session_id: string;\n  turn_id: string | null;\n"
        "  type: T;\n  data: EventData[T];\n}\n"
    )
    yield "/** One line of a log. Readers keep and skip types that they do not know. */"
    yield "export type Logged = { [T in EventType]: Head<T> & { seq: number } }[EventType];\n"
    yield "/** Text in flight: like the logged event, without a `seq`, until the log brings it. */"
    yield f"export type Provisional = {{ [T in {TAILED}]: Head<T> }}[{TAILED}];\n"


def declaration(name: str, schema: dict[str, Any]) -> str:
    body = type_of(schema, 0)
    words = comment(schema, 0)
    if body.startswith("{"):
        return f"{words}export interface {name} {body}\n"
    return f"{words}export type {name} = {body};\n"


def type_of(schema: Any, depth: int) -> str:
    if not isinstance(schema, dict):
        return "unknown"
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(type_of(one, depth) for one in schema[key]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(PLAIN[one] for one in kind)
    if kind == "array":
        return f"Array<{type_of(schema.get('items'), depth)}>"
    if "properties" in schema:
        return members(schema, depth)
    if "additionalProperties" in schema:
        return f"Record<string, {type_of(schema['additionalProperties'], depth)}>"
    return PLAIN[kind] if kind in PLAIN else "unknown"


def members(schema: dict[str, Any], depth: int) -> str:
    required = set(schema.get("required", ()))
    inner = "  " * (depth + 1)
    rows = []
    for name, member in schema["properties"].items():
        key = name if NAME.fullmatch(name) else json.dumps(name)
        mark = "" if name in required else "?"
        rows.append(f"{comment(member, depth + 1)}{inner}{key}{mark}: {type_of(member, depth + 1)};\n")
    return "{\n" + "".join(rows) + "  " * depth + "}"


def comment(schema: Any, depth: int) -> str:
    words = schema.get("description") if isinstance(schema, dict) else None
    return f"{'  ' * depth}/** {' '.join(words.split()).replace('*/', '* /')} */\n" if words else ""


if __name__ == "__main__":
    components = document(ROUTES, palaver.__version__)["components"]["schemas"]
    sys.exit(settle({PATH: typescript(components)}, check="--check" in sys.argv, refresh="make wire"))
