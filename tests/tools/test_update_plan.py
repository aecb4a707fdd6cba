from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tool_bench import Bench

from palaver.wire.events import PlanUpdated
from palaver.wire.values import Plan, PlanItem


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("statuses", "status", "title"),
    [
        (["pending", "pending"], "planned", "Plan: 0 of 2 done"),
        (["in_progress", "pending"], "executing", "Plan: 0 of 2 done"),
        (["done", "pending"], "executing", "Plan: 1 of 2 done"),
        (["done", "dropped"], "completed", "Plan: 1 of 2 done"),
    ],
)
def test_what_its_items_say_is_how_far_the_plan_is(bench: Bench, statuses: list[str], status: str, title: str) -> None:
    described = bench.describe("update_plan", items=[{"text": f"do {n}", "status": one} for n, one in enumerate(statuses)])
    assert described.plan is not None
    assert (described.plan.status, described.title, [item.id for item in described.plan.items]) == (status, title, ["1", "2"])


def test_a_plan_may_be_words_alone_and_its_items_may_bring_their_ids(bench: Bench) -> None:
    """API.md: an edited plan comes back as the event showed it."""
    assert bench.describe("update_plan", text="First look, then mend.").plan == Plan("plan", "planned", (), "First look, then mend.")
    described = bench.describe("update_plan", items=[{"id": "b", "text": " mend ", "status": "pending"}], text="  ")
    assert described.plan == Plan("plan", "planned", (PlanItem("b", "mend", "pending"),))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "there is no plan"),
        ({"items": [], "text": " \n"}, "there is no plan"),
        ({"items": [{"text": "  "}]}, "blank"),
        ({"items": [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}]}, "same id"),
        ({"items": [{"text": "a", "status": "half"}]}, "Invalid enum value 'half'"),
        ({"items": [{"text": "a", "state": "done"}]}, "unknown field `state`"),
        ({"plan": []}, "{items?, text?}"),
        ({"items": "a, b"}, "{items?, text?}"),
        ({"items": [{"text": "x"}] * 101}, "length <= 100"),
        ({"text": "ü" * 20_000}, "longer than 32 KiB"),
    ],
)
def test_what_is_no_plan_is_refused_with_what_would_be_one(bench: Bench, given: dict[str, Any], says: str) -> None:
    assert says in bench.refuses("update_plan", **given)


def test_it_is_an_event_and_nothing_else(bench: Bench) -> None:
    result = bench.run("update_plan", items=[{"text": "look", "status": "done"}])
    assert result.ok
    [fact] = bench.noted
    assert isinstance(fact, PlanUpdated)
    assert (fact.plan.status, fact.run_by, fact.tool_call_id) == ("completed", "daemon", result.id)
