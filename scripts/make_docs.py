"""Write docs/api.md from docs/openapi.json, and docs/errors.md from the table of codes; `--check` only says whether they are fresh."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from generated import ROOT, settle
from palaver.serve.problems import MEANINGS, STATUSES

Json = dict[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
GENERATED = "<!-- Written by `make docs` from the code. Do not edit. -->\n"


ERRORS_HEAD = """# Errors

An error is `application/problem+json`: `{type, title, status, detail, code, …}`. `code` is stable, so decide by it; `detail` says
what happened and what to do, and may change. A 422 `invalid` carries `errors: [{path, message}]`. 409 is also the status of a code
that is not listed here.
"""


def api_page(document: Json) -> str:
    """Every route, then every shape that a route names."""
    lines = [GENERATED, "# The HTTP interface", "", document["info"].get("description", ""), ""]
    for tag, routes in by_tag(document).items():
        lines += [f"## {tag}", ""]
        for method, path, operation in routes:
            lines += route(method, path, operation)
    lines += ["## Shapes", ""]
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        lines += shape(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def by_tag(document: Json) -> dict[str, list[tuple[str, str, Json]]]:
    found: dict[str, list[tuple[str, str, Json]]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if operation := item.get(method):
                shared = {"parameters": [*item.get("parameters", []), *operation.get("parameters", [])]}
                found.setdefault(operation.get("tags", ["Other"])[0], []).append((method, path, {**operation, **shared}))
    return found


def route(method: str, path: str, operation: Json) -> Iterator[str]:
    yield from (f"### {method.upper()} {path}", "")
    yield from paragraphs(operation.get("summary"), operation.get("description"))
    if scope := operation.get("x-scope"):
        yield from (f"Scope: `{scope}`.", "")
    if parameters := operation["parameters"]:
        yield from table(("parameter", "in", "type", "what"), (parameter_row(each) for each in parameters))
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        yield from (f"Body (`{kind}`): {type_of(media.get('schema', {}))}", "")
    yield from table(("status", "answer"), (answer_row(status, answer) for status, answer in operation["responses"].items()))


def parameter_row(parameter: Json) -> tuple[str, ...]:
    name = f"`{parameter['name']}`" + ("" if parameter.get("required") else "?")
    return name, parameter["in"], type_of(parameter.get("schema", {})), parameter.get("description", "")


def answer_row(status: str, answer: Json) -> tuple[str, ...]:
    kinds = [f"`{kind}`: {type_of(media.get('schema', {}))}" for kind, media in answer.get("content", {}).items()]
    return status, " · ".join([answer.get("description", ""), *kinds])


def shape(name: str, schema: Json) -> Iterator[str]:
    yield from (f"### {name}", "")
    yield from paragraphs(schema.get("description"))
    if properties := schema.get("properties"):
        required = schema.get("required", [])
        names = {key: f"`{key}`" + ("" if key in required else "?") for key in properties}
        yield from table(("field", "type"), ((names[key], type_of(value)) for key, value in properties.items()))
    else:
        yield from (type_of(schema), "")


def type_of(schema: Any) -> str:
    """A schema in a few words, with links to the shapes that it names."""
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rsplit("/", 1)[1]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            return " or ".join(type_of(choice) for choice in choices)
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            return f"list of {type_of(items)}"
        case {"type": "object", "properties": dict(properties)}:
            return "{" + ", ".join(f"{key}: {type_of(value)}" for key, value in properties.items()) + "}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {type_of(values)}"
        case {"type": list(types)}:
            return " or ".join(types)
        case {"type": kind}:
            return str(kind)
        case False:
            return "never there"
        case _:
            return "anything"


def paragraphs(*texts: str | None) -> Iterator[str]:
    for text in filter(None, texts):
        yield from (text, "")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |" for row in rows)
    yield ""


def errors_page(statuses: Mapping[str, int], meanings: Mapping[str, str]) -> str:
    """Every code that an answer may carry, by status and name."""
    rows = sorted((str(status), f"`{code}`", meanings[code]) for code, status in statuses.items())
    return "\n".join([GENERATED, ERRORS_HEAD, *table(("status", "code", "meaning"), rows)]).rstrip() + "\n"


def main() -> int:
    interface = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    pages = {"docs/api.md": api_page(interface), "docs/errors.md": errors_page(STATUSES, MEANINGS)}
    return settle(pages, check="--check" in sys.argv, refresh="make docs")


if __name__ == "__main__":
    sys.exit(main())
