"""What the pages say of the tree is so: links lead somewhere, and every code that the daemon refuses with is listed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from palaver.serve.problems import MEANINGS, STATUSES

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")

ANSWERED = ("core", "engine", "serve", "log", "policy", "wire", "views")
"""Where a refusal becomes an answer; what the command line refuses goes to its terminal."""

UNHEARD = {"unsafe_folder", "bad_token_file"} | {"turn_over", "turn_ending", "not_next", "not_waiting", "calls_open", "message_open"}
"""Raised before the daemon listens; and told to a backend, a tool or a start, never to a client."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_every_make_target_is_explained() -> None:
    targets = re.search(r"^\.PHONY: help (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    explained = (ROOT / "CONTRIBUTING.md").read_text()
    assert [target for target in targets[1].split() if f"| `make {target}` |" not in explained] == []


def refusals() -> Iterator[str]:
    for part in ANSWERED:
        for path in (ROOT / "src" / "palaver" / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                match node:
                    case ast.Call(func=ast.Name(id="Refused"), args=[ast.Constant(value=str(code)), *_]):
                        yield code


def test_every_code_that_is_refused_with_has_a_status_and_a_meaning() -> None:
    assert set(refusals()) - UNHEARD <= set(STATUSES)
    assert set(STATUSES) == set(MEANINGS)
