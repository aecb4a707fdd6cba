"""How a turn ends, and what begins then: one append, the same for every end.

Open output is completed as interrupted, open calls get their result, open asks are closed, `turn_completed` and the session's event
follow; then what nobody read is kept, and the next turn starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from palaver.core import queue
from palaver.core.apply import apply
from palaver.core.happened import Happened, denied, of
from palaver.core.state import Ask, Call, Item, OpenOutput, State, Turn
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import MessageId, TurnId, derived
from palaver.wire.values import Author, CallRef, Counts, EndCause, ErrorInfo, Message, Part, Trigger

NEXT = 90
"""The number of a derived id for the turn that follows; unread messages of one turn have the numbers before it."""


def started(
    state: State, trigger: Trigger, ids: tuple[MessageId, ...], *, attempt_of: TurnId | None = None, scope: str | None = None
) -> e.TurnStarted:
    info = state.created
    return e.TurnStarted(
        trigger=trigger, message_ids=ids, agent=info.agent, backend=info.backend, model=info.model, attempt_of=attempt_of, scope=scope
    )


def item_started(state: State, item: Item, rest: tuple[Item, ...]) -> list[Happened]:
    """A queue item's own turn; messages that were only stored come along."""
    ids = (*(stored.id for stored in state.stored), item.message.id)
    start = started(state, "queue", ids, scope=item.scope)
    return [*queue.taken_out(state, item, rest, item.turn_id, None), of(item.turn_id, start)]


def superseded(state: State, turn: Turn, by: str) -> list[Happened]:
    """The cancel that an interrupt brings with it; the queue stays as it is."""
    request = e.TurnCancelRequested(by=by, cause="superseded", keep_queue=True)
    return [of(turn.id, request), *asks_closed(state.turn_asks, by)]


def asks_closed(asks: Iterable[Ask], by: str) -> list[Happened]:
    """Asks that are about nothing any more. Their calls get results of their own."""
    closed: list[Happened] = []
    for ask in asks:
        if ask.approval is not None:
            call = ask.approval.tool_call
            ref = CallRef(call.id, call.name) if call else None
            closed.append(of(ask.turn_id, e.ApprovalDenied(approval_id=ask.id, tool_call=ref, by=by, cause="cancelled")))
        else:
            closed.append(of(ask.turn_id, e.QuestionAnswered(question_id=ask.id, cause="cancelled", by=by)))
    return closed


def finish(state: State, turn: Turn, command: c.FinishTurn) -> list[Happened]:
    """A turn that ends by itself, fails, or is found dead."""
    error = command.error
    if error is None and command.outcome == "failed":
        error = ErrorInfo("failed", "The turn failed.")
    completed = of(turn.id, _completed(turn, command, error))
    changes = _changes(turn, command.changes)
    events = [*asks_closed(state.turn_asks, "palaver"), *_left_open(turn, command.at, command.cause), *changes, completed]
    if error is not None and command.outcome == "failed":
        events.append(of(turn.id, e.SessionFailed(turn_id=turn.id, error=error)))
    return events + _next(_after(state, events), command.outcome, command.fresh)


def cancelled(state: State, turn: Turn, command: c.EndCancelled) -> list[Happened]:
    assert turn.cancel is not None
    cause = turn.cancel.cause
    completed = e.TurnCompleted(
        outcome="cancelled",
        stop_reason="cancelled",
        cause=cause,
        usage=turn.usage,
        duration_ms=command.duration_ms,
        counts=Counts(turn.steps, turn.tool_calls),
        cost=command.cost or turn.cost,
    )
    events = [
        *asks_closed(state.turn_asks, turn.cancel.by),
        *_left_open(turn, command.at, command.cause or cause),
        *_changes(turn, command.changes),
        of(turn.id, completed),
        of(turn.id, e.SessionCanceled(turn_id=turn.id, by=turn.cancel.by)),
    ]
    ended = "interrupted" if command.cause else "superseded" if cause == "superseded" else "cancelled"
    return events + _next(_after(state, events), ended, command.fresh)


def _changes(turn: Turn, changes: e.FilesChanged | None) -> list[Happened]:
    return [] if changes is None else [of(turn.id, changes)]


def _completed(turn: Turn, command: c.FinishTurn, error: ErrorInfo | None) -> e.TurnCompleted:
    return e.TurnCompleted(
        outcome=command.outcome,
        stop_reason=command.stop_reason,
        cause=command.cause,
        error=error,
        usage=turn.usage,
        cost=command.cost or turn.cost,
        duration_ms=command.duration_ms,
        counts=Counts(turn.steps, turn.tool_calls),
    )


def _left_open(turn: Turn, at: str, cause: EndCause | None) -> list[Happened]:
    """What the turn leaves behind: partial text kept as an interrupted message, and one result for every call."""
    events: list[Happened] = []
    if turn.output is not None:
        events.append(of(turn.id, e.ModelOutputCompleted(message=_interrupted(turn.output, at), stop_reason="interrupted")))
    for call in turn.calls.values():
        completed = denied(call.tool_call.id, call.tool_call.name, "tool_interrupted", _fate(call, cause))
        events.append(of(turn.id, completed))
    return events


def _interrupted(output: OpenOutput, at: str) -> Message:
    parts = tuple(Part(part.kind, id=part.id, text=part.text) for part in output.parts)
    return Message(output.id, "assistant", parts, at, Author("agent"), interrupted=True)


def _fate(call: Call, cause: EndCause | None) -> str:
    if call.state != "running":
        return "The call did not start: the turn ended first."
    if cause in ("crash", "shutdown"):
        return "The call was interrupted, outcome unknown: Palaver ended while it ran. Look before you run it again."
    return "The call was interrupted: it was stopped while it ran, so its effect may be partial."


def _after(state: State, events: list[Happened]) -> State:
    for turn_id, event in events:
        state = apply(state, e.Recorded(state.seq, state.updated_at, state.id, turn_id, event))
    return state


def _next(state: State, ended: str, fresh: str) -> list[Happened]:
    """What follows: unread messages are kept or start, else the first item that is not paused."""
    if ended in ("failed", "interrupted"):
        return queue.held(state, fresh, ended, ("coming", "steer"), everything=True)
    kept = queue.held(state, fresh, ended, ("steer",), everything=False) if ended == "cancelled" else []
    state = _after(state, kept)
    if state.waiting:
        turn_id = state.coming or TurnId(derived("turn", fresh, NEXT))
        ids = (*(stored.id for stored in state.stored), *_in_order(state))
        return [*kept, of(turn_id, started(state, "user" if state.coming else "steer", ids))]
    item = next((item for item in state.queue if not item.paused), None)
    if item is None:
        return kept
    rest = tuple(other for other in state.queue if other.id != item.id)
    return [*kept, *item_started(state, item, rest)]


def _in_order(state: State) -> list[MessageId]:
    """Steers that were not read, then the messages of the coming turn, each in order of acceptance."""
    return sorted(state.waiting, key=lambda id: state.waiting[id].joins != "steer")
