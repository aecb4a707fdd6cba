"""What an event changes. Never refuses: what stands in the log has happened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar, assert_never

import msgspec

from palaver.core.state import (
    KEPT,
    NO_USAGE,
    STORED_ROW,
    Ask,
    Call,
    CallState,
    Cancel,
    Compaction,
    Item,
    Kept,
    LastTurn,
    OpenOutput,
    OpenPart,
    Settled,
    Standing,
    State,
    Stored,
    Turn,
    Waiting,
)
from palaver.wire import events as e
from palaver.wire.commands import Accepted, Answered, Approved
from palaver.wire.ids import AskId, CallId, MessageId, TurnId
from palaver.wire.values import Cost, Delivered, Message, Outcome, Refs, Rule, SessionInfo, Usage, added

replace = msgspec.structs.replace
K = TypeVar("K")
V = TypeVar("V")

_STANDINGS: dict[Outcome, Standing] = {"failed": "failed", "cancelled": "canceled"}
_SETTABLE = {field.name: field for field in msgspec.structs.fields(SessionInfo)}


def apply(state: State, recorded: e.Recorded) -> State:
    changed = _change(state, recorded, recorded.data)
    # a copied past is older than the session that begins with it
    return replace(changed, seq=recorded.seq, updated_at=max(state.updated_at, recorded.ts))


def _change(state: State, recorded: e.Recorded, event: e.AnyEvent) -> State:
    match event:
        case e.ModelOutputDelta():
            return _output_grew(state, event)
        case e.ToolOutputDelta():
            return _call_printed(state, event)
        case e.MessageAdded():
            return _message_added(state, recorded, event)
        case e.MessageDelivered():
            return _message_delivered(state, event)
        case e.QueueChanged():
            return _queue_changed(state, recorded, event)
        case e.TurnStarted():
            return _turn_started(state, recorded, event)
        case e.TurnCancelRequested():
            return _cancel_requested(state, event)
        case e.TurnParked():
            return _turn(state, parked=True)
        case e.StepStarted(index=index):
            return _turn(state, steps=index + 1, stepped_at=recorded.ts)
        case e.TurnCompleted():
            return _turn_completed(state, recorded, event)
        case e.ModelOutputStarted(message_id=message_id, step_id=step_id):
            return _turn(state, output=OpenOutput(message_id, step_id, started_at=recorded.ts))
        case e.ModelOutputCompleted(message=message, usage=usage, cost=cost):
            state = _output_closed(state, message.id)
            return _used(state, usage, cost) if state.turn is not None else state
        case e.ModelOutputDiscarded(message_id=message_id):
            return _output_closed(state, message_id)
        case e.ToolCallStarted():
            return _call_started(state, event)
        case e.ToolCallRunning(tool_call_id=call_id):
            return _call(state, call_id, state="running", running_since=recorded.ts)
        case e.ToolCallCompleted(tool_call=call):
            return _turn(state, calls=without(state.turn.calls, call.id)) if state.turn else state
        case e.ApprovalRequested() | e.QuestionAsked():
            return _asked(state, recorded, event)
        case e.ApprovalGranted() | e.ApprovalDenied():
            return _approval_settled(state, recorded, event)
        case e.QuestionAnswered(question_id=ask_id, cause=cause, by=by, answers=answers):
            answered = Answered(ask_id, cause, by, recorded.ts, answers)
            return _ask_closed(state, ask_id, Settled(question=answered, client_answer_id=event.client_answer_id))
        case e.FilesChanged(files=files, truncated_count=more):
            return _turn(state, files=len(files) + more)
        case e.SessionCreated(session=info):
            return replace(state, info=info)
        case e.SessionUpdated(session=changes):
            return replace(state, info=updated(state.created, changes))
        case e.SessionCompleted():
            return replace(state, closed=True, waiting={}, stored_rows=(), queue=(), queue_reason=None, coming=None, compaction=None)
        case e.PlanUpdated(plan=plan):
            return replace(state, plan=plan)
        case e.ContextCompactionRequested(instructions=instructions):
            return replace(state, compaction=Compaction(recorded.seq, instructions))
        case e.ContextCompacted(usage=usage, cost=cost):
            return _used(replace(state, compaction=None), usage, cost)
        case e.Notice(code="not_compacted"):
            return replace(state, compaction=None)
        case e.SessionFailed():
            return replace(state, standing="failed")
        case e.SessionCanceled():
            return replace(state, standing="canceled")
        case (
            e.ModelResolved()
            | e.ModelFallback()
            | e.SubagentSpawned()
            | e.SubagentFinished()
            | e.ExchangeSent()
            | e.ExchangeReplied()
            | e.TurnUndone()
            | e.VerifyCompleted()
            | e.TaskFinalized()
            | e.ArtifactAdded()
            | e.ContextUsage()
            | e.MissionTriggered()
            | e.MissionSkipped()
            | e.Notice()
            | e.RuleAdded()
            | e.RuleRemoved()
            | e.WorkspaceUsed()
            | e.UnknownEvent()
        ):
            return state
        case _:
            assert_never(event)


# --- small steps --------------------------------------------------------------------------------------------------------------


def without(mapping: Mapping[K, V], *keys: K) -> dict[K, V]:
    return {key: value for key, value in mapping.items() if key not in keys}


def with_kept(mapping: dict[K, V], key: K, value: V) -> dict[K, V]:
    """A copy with one more, the oldest ones dropped beyond what a session remembers."""
    kept = dict(mapping)
    kept[key] = value
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
    return kept


def under(prefix: str, refs: Refs | None) -> Refs | None:
    """References of a value, seen from the event that holds it at `prefix`."""
    return {prefix + pointer: ref for pointer, ref in refs.items()} if refs else None


def below(prefix: str, refs: Refs | None) -> Refs | None:
    """The references of an event that belong to its value at `prefix`, seen from there."""
    found = {pointer[len(prefix) :]: ref for pointer, ref in (refs or {}).items() if pointer.startswith(prefix + "/")}
    return found or None


def updated(info: SessionInfo, changes: Mapping[str, object]) -> SessionInfo:
    """The facts with some of them changed; names that this version does not know are skipped."""
    known = {name: msgspec.convert(value, _SETTABLE[name].type) for name, value in changes.items() if name in _SETTABLE}
    return replace(info, **known)


def title_of(message: Message) -> str | None:
    """The first line of a message that says anything, 60 characters of it."""
    for part in message.parts:
        if part.type == "text" and part.text and part.text.strip():
            return part.text.strip().split("\n", 1)[0].strip()[:60]
    return None


def _used(state: State, usage: Usage | None, cost: Cost | None) -> State:
    """A model was paid for: on the turn's account, or on the session's where none runs."""
    if usage is None and cost is None:
        return state
    if state.turn is None:
        return replace(state, usage=state.usage.plus(usage or NO_USAGE), cost=added(state.cost, cost))
    return _turn(state, usage=state.turn.usage.plus(usage or NO_USAGE), cost=added(state.turn.cost, cost))


def _turn(state: State, /, **changes: object) -> State:
    return replace(state, turn=replace(state.turn, **changes)) if state.turn else state


def _call(state: State, call_id: CallId, /, **changes: object) -> State:
    turn = state.turn
    if turn is None or call_id not in turn.calls:
        return state
    return _turn(state, calls={**turn.calls, call_id: replace(turn.calls[call_id], **changes)})


# --- input --------------------------------------------------------------------------------------------------------------------


def _message_added(state: State, recorded: e.Recorded, event: e.MessageAdded) -> State:
    message, turn = event.message, state.turn
    state = replace(state, queue=tuple(item for item in state.queue if item.message.id != message.id))
    refs = below("/message", event.refs)
    if recorded.turn_id is None:
        state = replace(state, stored_rows=_with_stored(state.stored_rows, Stored(message.id, event.scope)))
        delivered: Delivered = "stored"
    elif turn is None or event.delivery is None:
        state, delivered = replace(state, waiting={**state.waiting, message.id: Waiting(message, "coming", refs, event.scope)}), "started"
    elif turn.id == recorded.turn_id:
        state, delivered = replace(state, waiting={**state.waiting, message.id: Waiting(message, "steer", refs, event.scope)}), "steered"
    else:
        waits = {**state.waiting, message.id: Waiting(message, "coming", refs, event.scope)}
        state, delivered = replace(state, waiting=waits, coming=recorded.turn_id), "interrupting"
    if message.role == "user" and state.info and state.info.title is None and (title := title_of(message)):
        state = replace(state, info=replace(state.info, title=title))
    return _remember(state, message, Accepted(message.id, recorded.turn_id, delivered), event.fingerprint)


def _with_stored(rows: tuple[tuple[Stored, ...], ...], one: Stored) -> tuple[tuple[Stored, ...], ...]:
    if rows and len(rows[-1]) < STORED_ROW:
        return (*rows[:-1], (*rows[-1], one))
    return (*rows, (one,))


def _without_stored(state: State, ids: Collection[MessageId]) -> State:
    if not state.stored_rows:
        return state
    rows = (tuple(stored for stored in row if stored.id not in ids) for row in state.stored_rows)
    return replace(state, stored_rows=tuple(row for row in rows if row))


def _remember(state: State, message: Message, reply: Accepted, fingerprint: str | None) -> State:
    key = message.client_message_id
    if key is None or key in state.replies:
        return state
    return replace(state, replies=with_kept(state.replies, key, Kept(reply, fingerprint)))


def _message_delivered(state: State, event: e.MessageDelivered) -> State:
    turn, waiting = state.turn, state.waiting.get(event.message_id)
    if turn is None:
        return state
    scopes = [stored.scope for stored in state.stored if stored.id == event.message_id]
    narrow = turn.narrow or any(scopes) or (waiting is not None and waiting.scope is not None)
    state = _waiting(_without_stored(state, {event.message_id}), without(state.waiting, event.message_id), state.coming)
    return _turn(state, message_ids=(*turn.message_ids, event.message_id), narrow=narrow)


def _queue_changed(state: State, recorded: e.Recorded, event: e.QueueChanged) -> State:
    before = {item.id: item for item in state.queue}
    items: list[Item] = []
    waiting = dict(state.waiting)
    for index, entry in enumerate(event.items):
        old = before.get(entry.id)
        if entry.message is not None:
            added = waiting.pop(entry.message_id, None) is not None
            refs = below(f"/items/{index}/message", event.refs)
            item = Item(entry.id, entry.turn_id, entry.delivery, entry.message, entry.paused, added, refs, entry.scope, entry.fingerprint)
            reply = Accepted(entry.message_id, entry.turn_id, "queued", entry.id)
            state = _remember(state, entry.message, reply, entry.fingerprint)
        elif old is not None:
            item = replace(old, paused=entry.paused, scope=entry.scope)
        else:
            continue  # its first event was lost with an older version: there is nothing to run
        items.append(item)
    for message_id in event.steered:
        for item in state.queue:
            if item.message.id == message_id:
                runs = state.turn is not None and not state.turn.ending
                waiting[message_id] = Waiting(item.message, "steer" if runs else "coming", item.refs, item.scope)
    state = replace(state, queue=tuple(items), queue_reason=event.reason)
    return _waiting(state, waiting, state.coming or recorded.turn_id)


def _waiting(state: State, waiting: dict[MessageId, Waiting], coming: TurnId | None) -> State:
    """With these messages waiting. No turn is coming when none of them waits for it."""
    comes = any(waits.joins == "coming" for waits in waiting.values())
    return replace(state, waiting=waiting, coming=coming if comes else None)


# --- turns --------------------------------------------------------------------------------------------------------------------


def _turn_started(state: State, recorded: e.Recorded, event: e.TurnStarted) -> State:
    assert recorded.turn_id is not None
    ids = frozenset(event.message_ids)
    scopes = [waits.scope for id, waits in state.waiting.items() if id in ids]
    scopes += [stored.scope for stored in state.stored if stored.id in ids]
    retried = state.last_turn if event.attempt_of and state.last_turn and state.last_turn.id == event.attempt_of else None
    turn = Turn(
        recorded.turn_id,
        event.trigger,
        event.message_ids,
        recorded.ts,
        event.backend,
        event.agent,
        event.model,
        event.attempt_of,
        narrow=event.scope is not None or any(scopes) or (retried is not None and retried.narrow),
    )
    state = replace(_without_stored(state, ids), turn=turn, turns=state.turns + 1, standing="active")
    return _waiting(state, without(state.waiting, *ids), state.coming)


def _cancel_requested(state: State, event: e.TurnCancelRequested) -> State:
    state = _turn(state, cancel=Cancel(event.by, event.cause, event.keep_queue))
    return state if event.keep_queue else replace(state, waiting={}, coming=None)


def _turn_completed(state: State, recorded: e.Recorded, event: e.TurnCompleted) -> State:
    turn = state.turn
    if turn is None:
        return state
    last = LastTurn(turn.id, event.outcome, turn.message_ids, recorded.ts, event.error, turn.narrow, recorded.seq, turn.files)
    asks = {id: ask for id, ask in state.asks.items() if ask.turn_id != turn.id}
    standing = _STANDINGS.get(event.outcome, "active")
    return replace(
        state,
        turn=None,
        last_turn=last,
        usage=state.usage.plus(event.usage),
        cost=added(state.cost, event.cost),
        asks=asks,
        standing=standing,
        news_seq=recorded.seq,
    )


def _output_grew(state: State, event: e.ModelOutputDelta) -> State:
    output = state.turn.output if state.turn else None
    if output is None or output.id != event.message_id:
        return state
    parts = output.parts
    for index, part in enumerate(parts):
        if part.id == event.part_id:
            grown = OpenPart(part.id, part.kind, part.text + event.text, part.chars + len(event.text))
            parts = (*parts[:index], grown, *parts[index + 1 :])
            break
    else:
        parts = (*parts, OpenPart(event.part_id, event.kind, event.text, len(event.text)))
    return _turn(state, output=OpenOutput(output.id, output.step_id, parts, output.started_at))


def _output_closed(state: State, message_id: MessageId) -> State:
    output = state.turn.output if state.turn else None
    return _turn(state, output=None) if output is not None and output.id == message_id else state


# --- calls and asks -----------------------------------------------------------------------------------------------------------


def _call_started(state: State, event: e.ToolCallStarted) -> State:
    if state.turn is None:
        return state
    refs = below("/tool_call/input", event.refs)
    began: CallState = "awaiting_approval" if event.waits else "approved"
    call = Call(event.tool_call, event.kind, began, event.message_id, event.step_id, event.run_by, refs, title=event.title)
    return _turn(state, calls={**state.turn.calls, call.tool_call.id: call}, tool_calls=state.turn.tool_calls + 1)


def _call_printed(state: State, event: e.ToolOutputDelta) -> State:
    call = state.turn.calls.get(event.tool_call_id) if state.turn else None
    if call is None:
        return state
    chars = {**call.chars, event.stream: call.chars.get(event.stream, 0) + len(event.text)}
    return _call(state, event.tool_call_id, chars=chars)


def _asked(state: State, recorded: e.Recorded, event: e.ApprovalRequested | e.QuestionAsked) -> State:
    if isinstance(event, e.ApprovalRequested):
        ask = Ask(event.approval_id, recorded.seq, recorded.ts, recorded.turn_id, approval=event)
    else:
        ask = Ask(event.question_id, recorded.seq, recorded.ts, recorded.turn_id, question=event)
    state = replace(state, asks={**state.asks, ask.id: ask}, news_seq=recorded.seq)
    if ask.call_id is None:
        return state
    return _call(state, ask.call_id, state="awaiting_approval", ask=ask.id, shown=_shown(event))


def _shown(event: e.ApprovalRequested | e.QuestionAsked) -> str | None:
    if isinstance(event, e.QuestionAsked):
        return None
    cut = (event.refs or {}).get("/preview/diff")
    return cut.sha256 if cut else event.preview.diff


def _approval_settled(state: State, recorded: e.Recorded, event: e.ApprovalGranted | e.ApprovalDenied) -> State:
    granted = isinstance(event, e.ApprovalGranted)
    record = Approved(event.approval_id, "granted" if granted else "denied", event.by, recorded.ts)
    asked = state.asks.get(event.approval_id)
    if isinstance(event, e.ApprovalGranted):
        if event.scope == "session" and asked and asked.approval and (rule := _granted_rule(asked.approval, event.option_id)):
            state = replace(state, grants=(*state.grants, rule))
        if event.tool_call:
            state = _call(state, event.tool_call.id, state="approved")
            if event.input is not None and state.turn and (call := state.turn.calls.get(event.tool_call.id)):
                changed = replace(call.tool_call, input=event.input, input_raw=None)
                state = _call(state, event.tool_call.id, tool_call=changed, refs=below("/input", event.refs), shown=None)
    return _ask_closed(state, event.approval_id, Settled(approval=record, client_answer_id=event.client_answer_id))


def _granted_rule(asked: e.ApprovalRequested, option_id: str | None) -> Rule | None:
    return next((option.rule for option in asked.options if option.id == option_id), None)


def _ask_closed(state: State, ask_id: AskId, settled: Settled) -> State:
    state = replace(state, asks=without(state.asks, ask_id), settled=with_kept(state.settled, ask_id, settled))
    return _turn(state, parked=False) if state.turn and state.turn.parked and not state.turn_asks else state


__all__ = ["apply", "below", "title_of", "under", "updated", "without"]
