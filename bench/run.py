"""What Palaver costs, as ratios to floors of the same run: prints a table and writes `results.json` beside this file.

python bench/run.py                  everything, in about six minutes
python bench/run.py --only rivals    one family
python bench/run.py --tiny           counts so small that only the table is meant
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import accepting
import appending
import changing
import fanning
import history
import looping
import paging
import repository
import rivals
import starting
import streaming
from measure import Row
from processes import raise_limits
from scale import TINY, Scale

FAMILIES: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "starting": starting.rows,
    "accepting": accepting.rows,
    "appending": appending.rows,
    "streaming": streaming.rows,
    "fanning": fanning.rows,
    "history": history.rows,
    "looping": looping.rows,
    "changing": changing.rows,
    "paging": paging.rows,
    "rivals": rivals.rows,
    "repository": repository.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure Palaver against floors of the same run.")
    parser.add_argument("--only", metavar="NAME", choices=FAMILIES, help=f"one family: {', '.join(FAMILIES)}")
    parser.add_argument("--tiny", action="store_true", help="counts so small that only the table is meant")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json", help="where the results go")
    options = parser.parse_args()
    raise_limits()
    began = time.monotonic()
    taken: list[Row] = []
    print(f"{'':60} {'value':>10} {'floor':>10} {'ratio':>8} {'goal':>10} {'spread':>7}", flush=True)
    for name, family in FAMILIES.items():
        if options.only in (None, name):
            print(name, flush=True)
            for row in family(TINY if options.tiny else Scale()):
                taken.append(row)
                print(_line(row), flush=True)
    options.out.write_text(json.dumps([row.to_json() for row in taken], indent=1) + "\n")
    missed = [row.name for row in taken if not row.ok]
    print(f"{len(taken)} rows in {time.monotonic() - began:.0f} s; goals missed: {', '.join(missed) or 'none'}")
    return 0


def _line(row: Row) -> str:
    floor = "" if row.floor is None else f"{row.floor:.4g}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f} ×"
    goal = "" if row.goal is None else str(row.goal)
    verdict = "" if row.goal is None else "ok" if row.ok else "MISSED"
    line = f"  {row.name + ', ' + row.unit:58} {row.value:>10.4g} {floor:>10} {ratio:>8} {goal:>10} {f'±{row.spread:.0%}':>7} {verdict}"
    return f"{line}\n      {row.note}" if row.note else line


if __name__ == "__main__":
    sys.exit(main())
