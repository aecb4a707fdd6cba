"""What a start makes of a session that was left open: nothing is run again by itself.

Asks whose deadline has passed expire first, then grants on disk settle what they settle, then the turn is judged anew: one that only
waits for a person stays open, one that a grant let go on goes on, every other one ends.
"""

from __future__ import annotations

from palaver.engine.calls import Calls
from palaver.engine.changes import END_S
from palaver.engine.clock import Clock, milliseconds
from palaver.engine.session import Session
from palaver.engine.work import expire
from palaver.wire import commands as c
from palaver.wire.ids import fresh
from palaver.wire.values import EndCause


async def recover(session: Session, calls: Calls, clock: Clock) -> None:
    """Bring a session that has just been loaded to where work may begin."""
    turn = session.safe.turn
    if session.read_only or session.safe.closed:
        return
    await calls.changes.finish_undos(session)
    if session.safe.compaction is not None:
        from palaver.backends.compacting import not_compacted

        await session.report(c.NoteFact(turn_id=None, fact=not_compacted("the daemon ended first. Ask for it again.")))
    if turn is None:  # an append that was torn after a turn's end: what should have started waits, and says so
        await session.report(c.PauseQueue(reason="interrupted", fresh=fresh()))
        return
    if not turn.ending and session.safe.only_waits:
        for ask in list(session.safe.asks.values()):
            if ask.deadline and clock.until(ask.deadline) <= 0:
                await expire(session, ask.id, clock)
        await session.report(c.PauseQueue(reason="interrupted"))
        settled = await calls.settle_by_rules(session)
        if session.safe.only_waits:
            await session.report(c.ParkTurn(turn_id=turn.id))
            return
        if settled:
            return
    await interrupt(session, calls, clock, "crash")


async def interrupt(session: Session, calls: Calls, clock: Clock, cause: EndCause) -> None:
    """End the open turn: as cancelled if that was requested, else as interrupted. What waited for its end waits on, paused."""
    turn = session.safe.turn
    if turn is None:
        return
    changes = await calls.changes.ended(session, turn.id, END_S)
    at, duration = clock.now(), milliseconds(-clock.until(turn.started_at))
    if turn.ending:
        await session.report(c.EndCancelled(turn_id=turn.id, fresh=fresh(), at=at, duration_ms=duration, cause=cause, changes=changes))
        return
    await session.report(
        c.FinishTurn(
            turn_id=turn.id,
            outcome="interrupted",
            stop_reason="interrupted",
            fresh=fresh(),
            at=at,
            duration_ms=duration,
            cause=cause,
            changes=changes,
        )
    )
