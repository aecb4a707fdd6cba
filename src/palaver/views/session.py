"""A session as a client sees it, and what of it waits for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaver.core.state import Ask, Item, State

TITLE = 80


def session_object(state: State, *, read_seq: int = 0, children_running: int = 0) -> dict[str, Any]:
    """Spec 004's session and ours, as `GET /v1/sessions/{id}` answers. What is absent there is not."""
    info = state.created
    shown: dict[str, Any] = {
        "id": info.id,
        "created_at": info.created_at,
        "updated_at": state.updated_at,
        "status": state.status,
        "workspace_path": info.workspace_path,
        "system_prompt": info.system_prompt,
        "last_turn_id": state.last_turn_id,
        "title": info.title,
        "agent": info.agent,
        "backend": info.backend,
        "model": info.model,
        "mode": info.mode,
        "delivery": info.delivery,
        "auto_run": info.auto_run,
        "head_seq": state.seq,
        "read_seq": read_seq,
        "archived": info.archived,
        "queue": queue_object(state),
        "waiting": [inbox_item(state, ask) for ask in state.asks.values()],
        "usage": state.usage,
        "cost": state.cost,
        "capabilities": info.capabilities,
        "available_modes": info.available_modes,
        "available_models": info.available_models,
        "available_commands": info.available_commands,
        "running_turn_id": state.turn.id if state.turn else None,
        "children_running": children_running,
        "unread": state.news_seq > read_seq,
    }
    if last := state.last_turn:
        shown["last_turn"] = {"id": last.id, "outcome": last.outcome, "ended_at": last.ended_at, "error": last.error, "files": last.files}
    if doing := activity(state):
        shown["activity"] = doing
    if info.parent_session_id:
        shown["parent_session_id"] = info.parent_session_id
    if info.forked_from:
        shown["forked_from"] = info.forked_from
    return shown


def activity(state: State) -> dict[str, str] | None:
    """What it is doing now, in a word or a call's title; None where nothing goes on but waiting for a person."""
    turn = state.turn
    if turn is None or state.only_waits:
        return None
    if turn.cancel is not None:
        return {"text": "Stopping", "since": turn.stepped_at or turn.started_at}
    if running := next((call for call in turn.calls.values() if call.state == "running"), None):
        return {"text": _short(running.title or running.tool_call.name), "since": running.running_since or turn.started_at}
    if turn.output is None or not turn.output.parts:
        return {"text": "Thinking", "since": turn.stepped_at or turn.started_at}
    thinks = turn.output.parts[-1].kind == "thinking"
    return {"text": "Thinking" if thinks else "Writing", "since": turn.output.started_at or turn.started_at}


def listed(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The same in a list: without the queue's items and without what the asks are about."""
    queue = {name: value for name, value in shown["queue"].items() if name != "items"}
    waiting = [{name: value for name, value in item.items() if name != "data"} for item in shown["waiting"]]
    return {**shown, "queue": queue, "waiting": waiting}


def queue_object(state: State) -> dict[str, Any]:
    shown: dict[str, Any] = {"items": [_item(item) for item in state.queue], "paused": state.queue_paused}
    if state.queue_paused and state.queue_reason:
        shown["reason"] = state.queue_reason
    return shown


def _item(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "turn_id": item.turn_id,
        "delivery": item.delivery,
        "message_id": item.message.id,
        "paused": item.paused,
        "message": item.message,
    }


def inbox_item(state: State, ask: Ask) -> dict[str, Any]:
    info, event = state.created, ask.approval or ask.question
    path = [info.parent_session_id, info.id] if info.parent_session_id else [info.id]
    shown = {
        "id": ask.id,
        "kind": _kind(ask),
        "session_id": info.id,
        "session_title": info.title,
        "turn_id": ask.turn_id,
        "agent": info.agent,
        "title": _title(ask),
        "requested_at": ask.requested_at,
        "path": path,
        "data": event,
    }
    return {**shown, "deadline": ask.deadline} if ask.deadline else shown


def _kind(ask: Ask) -> str:
    if ask.approval is None:
        return "question"
    return "approval" if ask.approval.subject == "tool" else ask.approval.subject


def _title(ask: Ask) -> str:
    if ask.approval is None:
        questions = ask.question.questions if ask.question else ()
        return _short(questions[0].text) if questions else "A question"
    call, preview = ask.approval.tool_call, ask.approval.preview
    what = preview.command or ", ".join(preview.paths or ()) or preview.network or ""
    if call is None:
        return _short(ask.approval.reason or "A decision")
    return _short(f"{call.name}: {what}" if what else call.name)


def _short(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= TITLE else line[: TITLE - 1] + "…"
