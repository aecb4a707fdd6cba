"""Rows of the table, and what the system says about a process: its CPU time and its memory.

Every number is the median of several rounds, the value and its floor taken in turn, so that what else the machine does meets both.
Tested on Linux; elsewhere `ps` is asked, which knows CPU time in hundredths of a second and memory without shared pages told apart.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Goal:
    kind: Literal["ratio at most", "ratio at least", "value at most"]
    limit: float

    def met(self, value: float, ratio: float | None) -> bool:
        if self.kind == "value at most":
            return value <= self.limit
        assert ratio is not None
        return ratio <= self.limit if self.kind == "ratio at most" else ratio >= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.kind == "ratio at least" else "≤"
        return f"{sign} {self.limit:g}{'' if self.kind == 'value at most' else ' ×'}"


def at_most(limit: float) -> Goal:
    return Goal("ratio at most", limit)


def at_least(limit: float) -> Goal:
    return Goal("ratio at least", limit)


def under(limit: float) -> Goal:
    return Goal("value at most", limit)


@dataclass(frozen=True)
class Row:
    """One line of the table. Without a floor there is no ratio."""

    name: str
    unit: str
    value: float
    floor: float | None
    goal: Goal | None
    spread: float
    """Half the distance between the best and the worst round, as a part of the median."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def ok(self) -> bool:
        return self.goal is None or self.goal.met(self.value, self.ratio)

    def to_json(self) -> dict[str, Any]:
        goal = self.goal and self.goal.limit
        ratio = None if self.ratio is None else _rounded(self.ratio)
        floor = None if self.floor is None else _rounded(self.floor)
        return {
            "name": self.name,
            "unit": self.unit,
            "value": _rounded(self.value),
            "floor": floor,
            "ratio": ratio,
            "goal": goal,
            "ok": self.ok,
        }


def row(name: str, unit: str, values: Sequence[float], floors: Sequence[float] = (), *, goal: Goal | None = None, note: str = "") -> Row:
    """The medians of what the rounds gave."""
    middle = median(values)
    spread = (max(values) - min(values)) / 2 / abs(middle) if middle else 0.0
    return Row(name, unit, middle, median(floors) if floors else None, goal, spread, note)


def in_turn(rounds: int, *ways: Callable[[], float]) -> list[list[float]]:
    """What each way gave, round by round; the first round of each only warms up what the system keeps."""
    for way in ways:
        way()
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for samples, way in zip(taken, ways, strict=True):
            samples.append(way())
    return taken


def percentile(samples: Iterable[float], share: float) -> float:
    """The smallest sample that so many are not above."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# --- processes ----------------------------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """What the process has used so far, all threads together."""
    if not LINUX:
        return _clock(_ps(pid, "time"))
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            used += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # a thread that has just ended
    return used / 1e9


def memory_mib(pid: int) -> float:
    """Of the process and everything below it: pages shared with others count in part where the system tells, else in full."""
    return sum(_memory_mib(each) for each in (pid, *_below(pid)))


def _memory_mib(pid: int) -> float:
    if not LINUX:
        return int(_ps(pid, "rss")) / 1024
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except PermissionError:  # it has made itself unreadable for its own user, but for what its status says
        lines = [line.replace("VmRSS", "Pss") for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _below(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found, looked = list(children.get(pid, ())), 0
    while looked < len(found):
        found += children.get(found[looked], ())
        looked += 1
    return found


def _parents() -> Iterable[tuple[int, int]]:
    if not LINUX:
        rows = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
        yield from ((int(child), int(parent)) for child, parent in map(str.split, rows))
        return
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        yield int(stat.parent.name), int(fields[1])


def _ps(pid: int, field: str) -> str:
    return subprocess.run(["ps", "-o", f"{field}=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout.strip()


def _clock(text: str) -> float:
    """`[days-][hours:]minutes:seconds`, as `ps` writes it."""
    days, _, rest = text.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86_400 * int(days or 0)


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
