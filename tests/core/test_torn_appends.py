"""A crash may leave any first part of an append in the log. From each of them a start goes on lawfully, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from command_cases import CASES, played
from lawful import Law, lawful, waiting_ids
from play import Play, Session

from palaver.core.apply import apply
from palaver.core.state import State
from palaver.errors import Refused
from palaver.wire import events as e
from palaver.wire.ids import MessageId


class Cut(NamedTuple):
    """A log that ends within an append, or right behind it."""

    log: list[e.Recorded]
    before: list[e.Recorded]
    """Up to the append, which nobody was answered for."""
    after: list[e.Recorded]
    """With the whole append."""


def cuts(name: str) -> Iterator[Cut]:
    session = Session()
    for command, _ in played(name).sent:
        first = len(session.log)
        try:
            session.send(command)
        except Refused:
            continue
        for length in range(max(1, first), len(session.log)):
            yield Cut(session.log[: length + 1], session.log[:first], list(session.log))


def opened(name: str, log: list[e.Recorded]) -> Play:
    """The session as a start finds it, with new ids for what comes."""
    play = played(name)
    play.log, play.state = list(log), State()
    for recorded in log:
        play.state = apply(play.state, recorded)
    return play


def drain(play: Play) -> None:
    """Everything that waits for somebody gets what it waits for, until nothing waits any more."""
    for _ in range(100):
        turn = play.state.turn
        if turn is None:
            if not play.state.queue:
                return
            play.resumes()
        elif turn.ending:
            play.stops()
        elif play.state.asks:
            ask = next(iter(play.state.asks.values()))
            if ask.approval:
                play.answers(ask.id)
            else:
                play.replies(ask.id)
        elif turn.calls:
            ready = next(play.state.next_calls(), None)
            assert ready is not None, "the turn is stuck: no call may begin, and nobody is asked"
            play.works(ready)
        else:
            play.answered()
    raise AssertionError("it never comes to rest")


def nowhere(log: list[e.Recorded]) -> set[MessageId]:
    law, state = Law(), State()
    for recorded in log:
        law.take(recorded)
        state = apply(state, recorded)
    return law.nowhere(state)


@pytest.mark.parametrize("name", CASES)
def test_a_start_goes_on_from_any_part_of_an_append(name: str) -> None:
    """Promises 2, 3, 4 and 6, T-06: nothing runs by itself, nobody's message is lost, no call begins that was not allowed."""
    for cut in cuts(name):
        play = opened(name, cut.log)
        closed = play.state.closed
        if not closed:
            play.recovers()
        assert not {"turn_started", "tool_call_running", "step_started"} & set(play.types(len(cut.log)))
        assert all(item.paused for item in play.items)
        assert play.state.turn is not None or not play.state.waiting
        law = lawful(play.log, play.state)
        gone = law.nowhere(play.state)
        assert gone <= nowhere(cut.before) | nowhere(cut.after), "a message was lost"
        if not closed:
            drain(play)
        law = lawful(play.log, play.state)
        assert law.nowhere(play.state) <= gone
        assert set(waiting_ids(play.state)) <= {stored.id for stored in play.state.stored}
