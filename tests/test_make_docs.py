"""The generated pages say what the document and the table of codes say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import generated
import make_docs

THING = {"$ref": "#/components/schemas/Thing"}

DOCUMENT: dict[str, Any] = {
    "info": {"description": "Speak to it."},
    "paths": {
        "/v1/things/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "tags": ["Things"],
                "summary": "One thing.",
                "x-scope": "read",
                "parameters": [{"name": "at", "in": "query", "schema": {"type": ["integer", "null"]}, "description": "when | where"}],
                "responses": {"200": {"description": "It.", "content": {"application/json": {"schema": THING}}}},
            },
        }
    },
    "components": {
        "schemas": {
            "Thing": {
                "properties": {"kind": {"enum": ["a", "b"]}, "parts": {"type": "array", "items": THING}},
                "required": ["kind"],
            }
        }
    },
}


@pytest.mark.parametrize(
    "line",
    [
        "### GET /v1/things/{id}",
        "Scope: `read`.",
        "| `id` | path | string |  |",
        "| `at`? | query | integer or null | when \\| where |",
        "| 200 | It. · `application/json`: [Thing](#thing) |",
        "| `kind` | `a`, `b` |",
        "| `parts`? | list of [Thing](#thing) |",
    ],
)
def test_the_page_has_every_route_parameter_answer_and_shape(line: str) -> None:
    assert line in make_docs.api_page(DOCUMENT).splitlines()


def test_the_errors_stand_by_status_and_code() -> None:
    page = make_docs.errors_page({"zeta": 404, "beta": 404, "alpha": 507}, {"zeta": "Gone.", "beta": "Lost.", "alpha": "Full."})
    assert page.splitlines()[-3:] == ["| 404 | `beta` | Lost. |", "| 404 | `zeta` | Gone. |", "| 507 | `alpha` | Full. |"]


def test_a_stale_file_is_named_and_left_alone_until_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "page.md"
    assert generated.settle({str(page): "new\n"}, check=True, refresh="make it") == 1
    assert "Run make it." in capsys.readouterr().err
    assert not page.exists()
    assert generated.settle({str(page): "new\n"}, check=False, refresh="make it") == 0
    assert generated.settle({str(page): "new\n"}, check=True, refresh="make it") == 0
    assert generated.settle({str(page): "newer\n"}, check=True, refresh="make it") == 1
