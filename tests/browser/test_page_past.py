"""Every golden log in a real browser: what the page makes of the daemon's transcript is what the exported file makes of the events alone.

The two are made on different ways: the daemon folds in Python up to an event, the file folds in the browser from the first one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from chromium import Tab
from page_world import PageWorld, page_world
from person import Person

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = sorted(path.parent.name for path in GOLDEN.glob("*/log.ndjson"))
CLOSELY = ("agents", "approvals", "cancel_tool", "plan_and_checks", "tools")

# Without what belongs to the moment, and the button at the end of a part of a long log.
ROWS = """(() => {
  const copy = document.querySelector("[role=log]").cloneNode(true);
  for (const one of copy.querySelectorAll("[data-now], .edge")) one.remove();
  for (const one of copy.querySelectorAll("time")) one.textContent = "";
  for (const one of copy.querySelectorAll("[data-ref]")) one.removeAttribute("src");
  for (const one of copy.querySelectorAll("details")) one.removeAttribute("open");
  return [...copy.querySelectorAll("[data-id]")].map((row) => row.outerHTML.replaceAll("><", ">\\n<")).join("\\n");
})()"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "data").mkdir(mode=0o700)
    for name in LOGS:
        place = folder / "data" / "sessions" / f"sess_{name}"
        place.mkdir(mode=0o700, parents=True)
        shutil.copy(GOLDEN / name / "log.ndjson", place / "events.ndjson")
        (place / "events.ndjson").chmod(0o600)
    for place in folder.glob("data/*"):
        place.chmod(0o700)
    with page_world(folder) as world:
        yield world


@pytest.fixture(scope="module")
def windows(world: PageWorld) -> Iterator[tuple[Person, Tab]]:
    """Somebody who is signed in, and a tab for files."""
    stack = AsyncExitStack()

    async def opened() -> tuple[Person, Tab]:
        return await stack.enter_async_context(world.person()), await stack.enter_async_context(world.browser.tab())

    yield world.run(opened())
    world.run(stack.aclose())


async def rows(tab: Tab) -> list[str]:
    said: str = await tab.run(ROWS)
    return said.splitlines()


def up_to(html: str, seq: int) -> str:
    """The exported file as it would have been after that event."""
    found = re.search(r'(<script[^>]*id="palaver-export"[^>]*>)(.*?)(</script>)', html, re.DOTALL)
    assert found is not None
    exported = json.loads(found[2])
    exported["events"] = [event for event in exported["events"] if event["seq"] <= seq]
    return html[: found.start(2)] + json.dumps(exported).replace("<", "\\u003c") + html[found.end(2) :]


@pytest.mark.parametrize("name", LOGS)
def test_a_golden_log_is_the_same_from_the_daemon_and_from_its_events(
    world: PageWorld, windows: tuple[Person, Tab], name: str, tmp_path: Path
) -> None:
    """UI 8, gate 1, as CLIENTS 5: each log at its end, five of them at every tenth event."""

    async def run() -> None:
        path = f"/v1/sessions/sess_{name}"
        html = (await world.daemon.answer("GET", f"{path}/export?format=html")).body.decode()
        head = len((GOLDEN / name / "log.ndjson").read_bytes().splitlines())
        stops = [*(range(10, head, 10) if name in CLOSELY else ()), head]
        saved = tmp_path / "export.html"
        ann, file = windows
        for seq in stops:
            await ann.goes(f"/s/sess_{name}?at={seq}")
            await ann.finds("[role=log] [data-id]")
            saved.write_text(up_to(html, seq))
            assert not await file.open(saved.as_uri())
            assert await rows(ann.tab) == await rows(file), f"at {seq}"

    world.run(run())
