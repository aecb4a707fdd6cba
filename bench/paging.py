"""The page in a real Chromium: what is loaded first, and a long conversation while a model writes (UI.md 8, gate 2)."""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

from measure import Row, row, under
from scale import Scale

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from chromium import chromium  # noqa: E402  # the tests' own browser
from gallery import PROSE, plant  # noqa: E402
from person import Person, person  # noqa: E402

from palaver_daemon import palaver  # noqa: E402
from story import Story  # noqa: E402

PACE_S = 0.005
"""A word each: 200 deltas a second."""

_FRAMES = """(() => {
  window.frames_ = []; window.keys_ = [];
  let last = performance.now();
  const beat = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(beat); };
  requestAnimationFrame(beat);
  new PerformanceObserver((list) => { for (const one of list.getEntries()) if (one.name === "keydown") window.keys_.push(one.duration); })
    .observe({ type: "event", durationThreshold: 16 });
})()"""


def rows(scale: Scale) -> Iterator[Row]:
    static = ROOT / "src" / "palaver" / "static"
    names = re.findall(r'/(assets/[^"]+\.js)"', (static / "index.html").read_text())
    loaded = sum(len(gzip.compress((static / name).read_bytes(), 9)) for name in names)
    yield row("script that the page loads first, gzip", "KiB", [loaded / 1024], goal=under(140))
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_measured(Path(folder), scale.page_messages, scale.page_deltas))
    yield row(f"open a session of {scale.page_messages} messages until it stands", "s", [found["ready"]], goal=under(1.5))
    yield row("frames dropped while 200 deltas a second come", "%", [found["dropped"]], goal=under(2))
    yield row("script for each delta", "ms", [found["script"]], goal=under(0.6))
    yield row("from a key to the screen meanwhile, 95 of 100", "ms", [found["key"]], goal=under(60))
    yield row("the page's heap afterwards", "MB", [found["heap"]], goal=under(40))


def _long(workspace: Path, messages: int) -> Story:
    story = Story("sess_long")
    story.created(title="A long talk", workspace_path=str(workspace), agent="demo", model="demo")
    for number in range(messages // 2):
        story.asks(f"Question {number}: why does it fail?")
        story.says(PROSE)
        story.ends()
    return story


async def _measured(folder: Path, messages: int, deltas: int) -> dict[str, float]:
    for name in ("data", "work", "browser"):
        (folder / name).mkdir(mode=0o700)
    plant(folder / "data", _long(folder / "work", messages))
    async with palaver(folder, pace_s=PACE_S) as daemon, chromium(folder / "browser", daemon.port) as browser:
        async with daemon.chat("sess_long") as chat, person(browser, daemon) as ann:
            await ann.goes("/s/sess_long")
            ready = await ann.sees(f"document.querySelectorAll('[data-id]').length >= {min(100, messages)} && performance.now()")
            await ann.tab.run(_FRAMES)
            await ann.clicks("#composer")
            before = await _metrics(ann)
            sent = await chat.say(f"write {deltas} words")
            turn = asyncio.create_task(chat.ended(sent["turn_id"]))
            while not turn.done():
                await ann.types("k")
                await asyncio.wait({turn}, timeout=0.5)
            after = await _metrics(ann)
            frames: list[float] = await ann.tab.run("window.frames_")
            keys: list[float] = await ann.tab.run("window.keys_")
    return {
        "ready": ready / 1000,
        "dropped": 100 * sum(max(0, round(frame / 16.7) - 1) for frame in frames) / max(1, sum(max(1, round(f / 16.7)) for f in frames)),
        "script": 1000 * (after["ScriptDuration"] - before["ScriptDuration"]) / deltas,
        "key": quantiles([16.0, *keys, 16.0], n=20)[-1],
        "heap": after["JSHeapUsedSize"] / 1e6,
    }


async def _metrics(ann: Person) -> dict[str, Any]:
    await ann.tab.browser.call("Performance.enable", ann.tab.session)
    await ann.tab.browser.call("HeapProfiler.collectGarbage", ann.tab.session)
    said = await ann.tab.browser.call("Performance.getMetrics", ann.tab.session)
    return {one["name"]: one["value"] for one in said["metrics"]}
