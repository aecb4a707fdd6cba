"""`update_plan`: the agent's list of what it does, for the person to follow; in mode plan it is what the person approves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.wire.events import PlanUpdated
from palaver.wire.ids import CallId
from palaver.wire.values import Part, Plan, PlanItem, ToolCall, ToolResult

PLAN_ID = "plan"
"""A session has one plan: each update is the whole of it."""
_LIMIT = 32 * 1024
"""Bytes of a plan, so that its event stays whole."""
_HANDED_IN = "The person approved this plan. Carry it out now, and call update_plan again as items get done."


class ItemArguments(Arguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, description="What is to be done, in one line.")]
    status: Literal["pending", "in_progress", "done", "dropped"] = "pending"
    id: Annotated[str, Meta(min_length=1)] | None = None


class UpdatePlanArguments(Arguments, frozen=True, kw_only=True):
    items: Annotated[list[ItemArguments], Meta(max_length=100, description="The whole list, in order.")] = msgspec.field(
        default_factory=list
    )
    text: Annotated[str, Meta(description="What the list cannot say: why so, what is left out, what is risky.")] | None = None


class UpdatePlan:
    """Shows the running list. In mode plan the policy holds the call for the person, and its result is what they decided."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "update_plan",
            "Show the person what you are going to do as a short list, and keep it up to date: one item in_progress at a time, done when "
            "it is done. Each call replaces the whole list. Use it for work of several steps. In mode plan this hands your plan in for "
            "review: call it once you know what to do, with all that the person needs to decide in `text`; they approve it, change it, "
            "or let you plan on.",
            schema_of(UpdatePlanArguments),
            ToolKind.ASK,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        plan = to_plan(arguments(call, UpdatePlanArguments))
        done = sum(item.status == "done" for item in plan.items)
        title = f"Plan: {done} of {len(plan.items)} done" if plan.items else "Plan"
        return Description(title=title, plan=plan)

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        plan = to_plan(arguments(call, UpdatePlanArguments))
        if context.granted:
            plan = msgspec.structs.replace(plan, status="approved")
        context.note(PlanUpdated(plan=plan, run_by="daemon", tool_call_id=CallId(call.id)))
        said = _HANDED_IN if context.granted else "The list is shown."
        return ToolResult(call.id, True, (Part("text", text=said),))


def to_plan(given: UpdatePlanArguments) -> Plan:
    """As the wire has it. Raises `ToolFailed("invalid_arguments")`."""
    text = given.text if given.text and given.text.strip() else None
    if not given.items and text is None:
        raise refuse("update_plan: there is no plan in this. Send items, text, or both.")
    if any(not item.text.strip() for item in given.items):
        raise refuse("update_plan: an item is blank. Say what is to be done in it.")
    items = tuple(PlanItem(item.id or str(number), item.text.strip(), item.status) for number, item in enumerate(given.items, 1))
    if len({item.id for item in items}) < len(items):
        raise refuse("update_plan: two items have the same id. Leave the ids out.")
    plan = Plan(PLAN_ID, _status(items), items, text)
    if len(msgspec.json.encode(plan)) > _LIMIT:
        raise refuse(f"update_plan: the plan is longer than {_LIMIT // 1024} KiB. Say it shorter; details belong into a file.")
    return plan


def _status(items: Sequence[PlanItem]) -> Literal["planned", "executing", "completed"]:
    if all(item.status == "pending" for item in items):
        return "planned"
    return "completed" if all(item.status in ("done", "dropped") for item in items) else "executing"


__all__ = ["PLAN_ID", "UpdatePlan", "UpdatePlanArguments", "to_plan"]
