"""A new session's log from the first part of another one: history is kept, nothing that was open is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from palaver.core import ending
from palaver.core.apply import apply
from palaver.core.happened import Happened
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
    for ts, happened in _kept(log):
        copies.append(e.Recorded(len(copies) + 1, ts, info.id, happened.turn_id, happened.event))
    state = State()
    for recorded in copies:
        state = apply(state, recorded)
    for turn_id, event in _end(state, at, fresh):
        copies.append(e.Recorded(len(copies) + 1, at, info.id, turn_id, event))
    return copies


def _kept(log: Sequence[e.Recorded]) -> Iterator[tuple[str, Happened]]:
    read = set(_read(log))
    settled = set(_settled(log))
    for recorded in log:
        event, turn_id = recorded.data, recorded.turn_id
        match event:
            case e.SessionCreated() | e.QueueChanged() | e.TurnParked() | e.SessionCompleted():
                continue
            case e.SessionUpdated(session=changes):
                event = e.SessionUpdated(session={name: value for name, value in changes.items() if name != "archived"})
            case e.ApprovalRequested(approval_id=ask_id) | e.QuestionAsked(question_id=ask_id):
                if ask_id not in settled:
                    continue
            case e.MessageAdded(message=message):
                if message.id not in read:
                    turn_id, event = None, replace(event, delivery=None)  # nobody read it: it waits for the next turn
            case _:
                pass
        yield recorded.ts, Happened(turn_id, event)


def _read(log: Iterable[e.Recorded]) -> Iterator[MessageId]:
    for recorded in log:
        match recorded.data:
            case e.TurnStarted(message_ids=ids):
                yield from ids
            case e.MessageDelivered(message_id=id):
                yield id


def _settled(log: Iterable[e.Recorded]) -> Iterator[str]:
    for recorded in log:
        match recorded.data:
            case e.ApprovalGranted(approval_id=id) | e.ApprovalDenied(approval_id=id) | e.QuestionAnswered(question_id=id):
                yield id


def _end(state: State, at: str, fresh: str) -> list[Happened]:
    if state.turn is None:
        return []
    return ending.finish(
        state,
        state.turn,
        c.FinishTurn(
            turn_id=state.turn.id, outcome="interrupted", stop_reason="interrupted", fresh=fresh, at=at, duration_ms=0
        ),
    )
