"""A new session's log from the first part of another one: history is kept, nothing that was open is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from palaver.core import ending
from palaver.core.apply import apply
from palaver.core.happened import Happened, denied
from palaver.core.state import State
from palaver.errors import Refused
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import MessageId
from palaver.wire.values import SessionInfo

replace = msgspec.structs.replace


def cut_after(log: Iterable[e.Recorded], message_id: MessageId | None) -> list[e.Recorded]:
    """The events up to and with that message; all of them without one."""
    taken: list[e.Recorded] = []
    for recorded in log:
        taken.append(recorded)
        match recorded.data:
            case e.MessageAdded(message=message) | e.ModelOutputCompleted(message=message) if message.id == message_id:
                return taken
    if message_id is not None:
        raise Refused("not_found", f"This session has no message {message_id} to fork at.")
    return taken


def forked(log: Sequence[e.Recorded], info: SessionInfo, at: str, fresh: str) -> list[e.Recorded]:
    """The new log: the copies under the new id with numbers of their own, and an end for what was open at the cut."""
    copies = [e.Recorded(1, at, info.id, None, e.SessionCreated(session=info))]
    numbers = dict[int, int]()
    for seq, ts, happened in _kept(log):
        numbers[seq] = len(copies) + 1
        copies.append(e.Recorded(len(copies) + 1, ts, info.id, happened.turn_id, _renumbered(happened.event, numbers)))
    state = _fold(copies)
    for turn_id, event in (*_calls_not_begun(state, copies), *_end(state, at, fresh), *_as_now(state, info)):
        copies.append(e.Recorded(len(copies) + 1, at, info.id, turn_id, event))
    return copies


def _renumbered(event: e.AnyEvent, numbers: Mapping[int, int]) -> e.AnyEvent:
    """What names other events by their numbers names the copies; of one that was left out, the last one before it."""
    if not isinstance(event, e.ContextCompacted):
        return event
    last = max((now for then, now in numbers.items() if then <= event.to_seq), default=1)
    first = min((now for then, now in numbers.items() if then >= event.from_seq), default=1)
    return replace(event, from_seq=min(first, last), to_seq=last)


def _fold(log: Iterable[e.Recorded]) -> State:
    state = State()
    for recorded in log:
        state = apply(state, recorded)
    return state


def _kept(log: Sequence[e.Recorded]) -> Iterator[tuple[int, str, Happened]]:
    """What is copied, each with its number and time."""
    read = set(_read(log))
    settled = set(_settled(log))
    removed = set(_removed(log)) - read
    for recorded in log:
        event, turn_id = recorded.data, recorded.turn_id
        match event:
            case e.SessionCreated() | e.QueueChanged() | e.TurnParked() | e.SessionCompleted() | e.ContextCompactionRequested():
                continue
            case e.SessionUpdated(session=changes):
                event = e.SessionUpdated(session={name: value for name, value in changes.items() if name != "archived"})
            case e.ApprovalRequested(approval_id=ask_id) | e.QuestionAsked(question_id=ask_id):
                if ask_id not in settled:
                    continue
            case e.MessageAdded(message=message):
                if message.id in removed:
                    continue
                if message.id not in read:
                    turn_id, event = None, replace(event, delivery=None)  # nobody read it: it waits for the next turn
            case _:
                pass
        yield recorded.seq, recorded.ts, Happened(turn_id, event)


def _read(log: Iterable[e.Recorded]) -> Iterator[MessageId]:
    for recorded in log:
        match recorded.data:
            case e.TurnStarted(message_ids=ids):
                yield from ids
            case e.MessageDelivered(message_id=id):
                yield id


def _removed(log: Sequence[e.Recorded]) -> Iterator[MessageId]:
    """Messages that somebody took back, or wrote anew, before a turn read them. The message that the copy ends with is not one."""
    state = _fold(recorded for recorded in log if not isinstance(recorded.data, e.SessionCompleted))
    there = {*state.waiting, *(stored.id for stored in state.stored), *(item.message.id for item in state.queue)}
    for recorded in log[:-1]:
        if isinstance(recorded.data, e.MessageAdded) and recorded.data.message.id not in there:
            yield recorded.data.message.id


def _settled(log: Iterable[e.Recorded]) -> Iterator[str]:
    for recorded in log:
        match recorded.data:
            case e.ApprovalGranted(approval_id=id) | e.ApprovalDenied(approval_id=id) | e.QuestionAnswered(question_id=id):
                yield id


def _calls_not_begun(state: State, copies: Sequence[e.Recorded]) -> Iterator[Happened]:
    """Calls that the last message asks for, if the copy ends before their own events: they were asked for, so each gets a result."""
    last, turn = copies[-1].data, state.turn
    if turn is None or not isinstance(last, e.ModelOutputCompleted):
        return
    for call in last.message.tool_calls:
        if call.id not in turn.calls:
            started = e.ToolCallStarted(
                tool_call=call, kind="exec", title=call.name, locations=(), run_by="daemon", message_id=last.message.id, step_id=None
            )
            yield Happened(turn.id, started)
            why = "The conversation was forked before this call began."
            yield Happened(turn.id, denied(call.id, call.name, "tool_interrupted", why))


def _as_now(state: State, info: SessionInfo) -> list[Happened]:
    """The facts as the person has them now: a mode or a model that was left behind does not come back with the copied past."""
    then, now = msgspec.to_builtins(state.created), msgspec.to_builtins(info)
    changes = {name: value for name, value in now.items() if then[name] != value}
    return [Happened(None, e.SessionUpdated(session=changes))] if changes else []


def _end(state: State, at: str, fresh: str) -> list[Happened]:
    if state.turn is None:
        return []
    return ending.finish(
        state,
        state.turn,
        c.FinishTurn(turn_id=state.turn.id, outcome="interrupted", stop_reason="interrupted", fresh=fresh, at=at, duration_ms=0),
    )
