"""The page's files: built ones are served by names that never change what they mean; without them the page says what to do."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from palaver.errors import Refused
from palaver.serve.page import asset, page
from serving import QuietHub, serving


def test_a_page_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    """UI 4: a plain explanation with the command, and no script."""
    said = page("1.2", tmp_path)
    assert b"make setup" in said and b"pip install ." in said and b"<script" not in said


def test_a_page_that_is_built_meanwhile_is_served_without_a_restart(tmp_path: Path) -> None:
    page("1.2", tmp_path)
    (tmp_path / "index.html").write_text('<!doctype html><html lang="en"></html>')
    assert page("1.2", tmp_path) == b'<!doctype html><html data-version="1.2" lang="en"></html>'


@pytest.mark.parametrize("name", ["../index.html", "..", ".made-of", "a.html", "a", "a.exe", "a/b.js", "%2e%2e", "absent.js"])
def test_nothing_but_a_built_file_is_an_asset(tmp_path: Path, name: str) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("x")
    for other in ("a.html", "a.exe", ".made-of"):
        (tmp_path / "assets" / other).write_text("x")
    with pytest.raises(Refused) as refused:
        asset(name, tmp_path)
    assert refused.value.code == "not_found"


def test_every_file_that_the_page_names_is_served_and_may_be_kept(tmp_path: Path) -> None:
    """`make setup` has built it; no token is asked for, and each has the type that a browser needs."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            shown = await daemon.ask("GET", "/", token=None)
            names = re.findall(r'="(/assets/[^"]+)"', shown.body.decode())
            assert any(name.endswith(".js") for name in names) and any(name.endswith(".css") for name in names), "run make setup"
            for name in names:
                answer = await daemon.ask("GET", name, token=None)
                assert answer.status == 200
                assert "immutable" in answer.headers["cache-control"]
                assert answer.headers["x-content-type-options"] == "nosniff"
            assert (await daemon.ask("GET", "/assets/none.js", token=None)).status == 404

    asyncio.run(run())
