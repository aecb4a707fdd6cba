"""A skipped test fails the run unless `tests/may_skip.txt` names it for this platform: what nobody ran was not shown."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

ALLOWED = pytest.StashKey[frozenset[str]]()


def allowed(page: str, platform: str) -> frozenset[str]:
    """The node ids that `page` lets this platform skip. Raises `pytest.UsageError` for a line that says less than it must."""
    found = set()
    for number, line in enumerate(page.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields) or fields[1] == "*":
            raise pytest.UsageError(f"may_skip.txt:{number}: write `node id | platform | reason`, the platform by its name.")
        if platform.startswith(fields[1]):
            found.add(fields[0])
    return frozenset(found)


def pytest_configure(config: pytest.Config) -> None:
    page: Path = config.rootpath / "tests" / "may_skip.txt"
    config.stash[ALLOWED] = allowed(page.read_text(encoding="utf-8"), sys.platform)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped or hasattr(report, "wasxfail"):
        _refuse(report, item.config)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        _refuse(report, collector.config)
    return report


def _refuse(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Turn the skip into a failure that keeps its reason. A test marked `xfail` counts as skipped, whether it failed or not."""
    if report.nodeid in config.stash[ALLOWED] or report.nodeid.split("[")[0] in config.stash[ALLOWED]:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "") or str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was not run: {reason}\nMake it run here, or name it in tests/may_skip.txt with the reason."
    vars(report).pop("wasxfail", None)
