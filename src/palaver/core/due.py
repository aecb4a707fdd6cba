"""What should be running now. The engine starts what is missing here and ends what is no longer listed."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.core.state import State
from palaver.wire.ids import AskId, CallId, TurnId


@dataclass(frozen=True, slots=True)
class TakeTurn:
    """A backend works on this turn."""

    turn_id: TurnId


@dataclass(frozen=True, slots=True)
class RunTool:
    turn_id: TurnId
    call_id: CallId
    ask: AskId | None
    """The approval that let it run: after another one it is another piece of work."""


@dataclass(frozen=True, slots=True)
class AwaitDeadline:
    ask_id: AskId
    deadline: str


@dataclass(frozen=True, slots=True)
class EndTurn:
    """Once everything that the turn had started is gone."""

    turn_id: TurnId


@dataclass(frozen=True, slots=True)
class CompactHistory:
    """While no turn runs; a turn that starts meanwhile does it itself."""

    seq: int


Work = TakeTurn | RunTool | AwaitDeadline | EndTurn | CompactHistory


def due(state: State) -> frozenset[Work]:
    turn = state.turn
    asks = [ask for ask in state.asks.values() if turn is None or not turn.ending or ask.turn_id != turn.id]
    waits = [AwaitDeadline(ask.id, ask.deadline) for ask in asks if ask.deadline]
    if turn is None:
        return frozenset((*waits, *([CompactHistory(state.compaction.seq)] if state.compaction else ())))
    if turn.ending:
        return frozenset((EndTurn(turn.id), *waits))
    if turn.parked:  # until its last open ask is answered
        return frozenset(waits)
    runs = [RunTool(turn.id, id, turn.calls[id].ask) for id in state.next_calls() if turn.calls[id].run_by == "daemon"]
    return frozenset((TakeTurn(turn.id), *waits, *runs))
