"""`openapi.json`, made from the route table and the structs: every status that can come stands there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import getdoc
from typing import Any

import msgspec

from palaver.serve.problems import MEANINGS, status_of
from palaver.serve.routes import Route
from palaver.wire import requests as r
from palaver.wire.schema import schemas

Document = dict[str, Any]

_REF = "#/components/schemas/{name}"
_STREAM = "text/event-stream"
_PAGE = "text/html"
FILE_TYPES = ("text/plain", "application/octet-stream", "image/*", "audio/*")
"""What files are served as; see `files.served_type`."""


def document(routes: Sequence[Route], version: str) -> Document:
    """The whole document, OpenAPI 3.1; the same for the same table."""
    shapes = [shape for route in routes for shape in _shapes(route)]
    components = schemas([*shapes, r.Problem])
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Palaver",
            "version": version,
            "description": "Conversations with coding agents. Each problem document has a stable `code`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8787"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`ID.SECRET`; `palaver token` makes one."}},
        },
    }


def codes_of(route: Route) -> tuple[str, ...]:
    """Every refusal that the route can answer with, by what it takes and what it does."""
    codes = ["host", "origin", "peer", "headers_too_large"]
    if route.scope is not None:
        codes += ["no_token", "scope"]
    if "{" in route.path:
        codes += ["not_found"]
    if route.method != "GET":
        codes += ["bad_json", "too_large", "content_type"]
    if route.body is not None or route.query is not None:
        codes += ["invalid"]
    if route.path.startswith("/v1/") and route.scope is not None:
        codes += ["disk", "stopping"]
    if _STREAM in _media(route):
        codes += ["cursor_ahead"]
    return tuple(dict.fromkeys([*codes, *route.codes]))


def _shapes(route: Route) -> Iterable[Any]:
    yield from (shape for shape in (*route.answers.values(), route.body) if shape is not None)


def _operation(route: Route) -> Document:
    operation: Document = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {**_answers(route), **_refusals(route)},
    }
    if description := _description(route):
        operation["description"] = description
    if route.scope is None:
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = _request_body(route)
    return operation


def _description(route: Route) -> str:
    """What its handler says of itself, and the scope that it needs."""
    said = getdoc(route.run or route.raw) or ""
    needed = "" if route.scope is None else f"Scope `{route.scope}`."
    return "\n\n".join(text for text in (said, needed) if text)


def _path_parameters(route: Route) -> list[Document]:
    names = [segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names]


def _query_parameters(route: Route) -> list[Document]:
    if route.query is None:
        return []
    schema = _inline(route.query)
    required = schema.get("required", [])
    parameters = [
        {"name": name, "in": "query", "required": name in required, "schema": field} for name, field in schema["properties"].items()
    ]
    if _STREAM in _media(route):
        number = {"type": "string", "pattern": "^-?[0-9]{1,100}$"}
        parameters.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": number})
    return parameters


def _inline(shape: Any) -> Document:
    """A query's schema; `null` stands for a parameter that is left out, so it is not among its values."""
    (_,), components = msgspec.json.schema_components([shape], ref_template=_REF)
    schema: Document = components[shape.__name__]
    schema["properties"] = {name: _without_null(field) for name, field in schema["properties"].items()}
    return schema


def _without_null(field: Document) -> Document:
    if field.get("default", ...) is None:
        del field["default"]
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kinds[0], **{name: value for name, value in field.items() if name != "anyOf"}}
    if "enum" in field:
        return field | {"enum": [value for value in field["enum"] if value is not None]}
    return field


def _schema(shape: Any) -> Document:
    (schema,), _ = msgspec.json.schema_components([shape], ref_template=_REF)
    return dict(schema)


def _request_body(route: Route) -> Document:
    content: Document = {"application/json": {"schema": _schema(route.body)}}
    if route.body is r.NewAttachment:
        form = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}, "required": ["file"]}
        content["multipart/form-data"] = {"schema": form}
    return {"required": bool(_inline(route.body).get("required")), "content": content}


def _media(route: Route) -> tuple[str, ...]:
    if route.answers.get(200) is bytes:
        return FILE_TYPES
    if route.answers.get(200) is r.Export:
        return ("application/json", _PAGE)
    return ("application/json", _STREAM) if route.answers.get(200) is r.Events else (route.media,)


def _answers(route: Route) -> Document:
    answers: Document = {}
    for status, shape in route.answers.items():
        answers[str(status)] = {"description": route.summary}
        if shape is not None:
            answers[str(status)]["content"] = {media: _content(media, shape) for media in _media(route)}
    return answers


def _content(media: str, shape: Any) -> Document:
    if media == _STREAM:
        return {"schema": {"type": "string"}, "x-itemSchema": {"$ref": _REF.format(name="Envelope")}}
    if media in FILE_TYPES or media == _PAGE:
        return {}
    return {"schema": _schema(shape)}


def _refusals(route: Route) -> Document:
    by_status: dict[int, list[str]] = {}
    for code in codes_of(route):
        by_status.setdefault(status_of(code), []).append(code)
    schema = {"schema": _schema(r.Problem)}
    return {
        str(status): {
            "description": " ".join(f"`{code}`: {MEANINGS[code]}" for code in codes),
            "content": {"application/problem+json": schema},
        }
        for status, codes in sorted(by_status.items())
    }
