"""Print what the fold makes of a log after each of its events, for the tests of other languages: one JSON line per log.

`{"name", "pages"}` of each golden log: `pages[n]` is the transcript after the first n events, `pages[0]` that of an empty log.
`{"name", "pages", "events"}` of some random ones, which no file holds. They are the same ones each time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "golden"
sys.path.append(str(ROOT / "tests"))

from golden import to_lines  # noqa: E402 (after the path)
from palaver.views.transcript import Page, Transcript, show, to_page  # noqa: E402
from palaver.wire.codec import decode_event  # noqa: E402
from random_logs import random_log  # noqa: E402

RANDOM_LOGS = 40


def pages(lines: list[bytes]) -> list[Page]:
    transcript = Transcript()
    return [to_page(transcript), *(to_page(show(transcript, decode_event(line))) for line in lines)]


def random_lines(seed: int) -> list[bytes]:
    return to_lines(random_log(Random(seed)).recorded).encode().splitlines()


if __name__ == "__main__":
    for path in sorted([*GOLDEN.glob("*/log.ndjson"), *GOLDEN.glob("commands/*/events.jsonl")]):
        print(json.dumps({"name": str(path.relative_to(GOLDEN)), "pages": pages(path.read_bytes().splitlines())}))
    for seed in range(RANDOM_LOGS):
        lines = random_lines(seed)
        print(json.dumps({"name": f"random log {seed}", "pages": pages(lines), "events": [json.loads(line) for line in lines]}))
