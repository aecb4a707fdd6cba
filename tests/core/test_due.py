"""What should run, for each state that a turn can be in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from play import CREATED_AT, SESSION, Play, Wanted

from palaver.core.due import AwaitDeadline, EndTurn, RunTool, TakeTurn, Work, due
from palaver.core.state import State
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, TurnId
from palaver.wire.values import CallKind, Preview

TURN = TurnId("turn_1")
LATER = "2026-03-01T10:00:00.000Z"
TAKE = TakeTurn(TURN)


def run(number: int, ask: str | None = None) -> RunTool:
    return RunTool(TURN, CallId(f"call_{number}"), AskId(ask) if ask else None)


def calls(play: Play, *wanted: Wanted, deadline: str | None = None) -> tuple[list[CallId], list[AskId]]:
    play.says("Build it")
    return play.batch(*wanted, deadline=deadline) if deadline else play.batch(*wanted)


def idle(play: Play) -> None:
    play.stores("Later")


def over(play: Play) -> None:
    play.says("Build it")
    play.answered()


def failed_with_a_queue(play: Play) -> None:
    play.says("Build it")
    play.says("Later", "queue")
    play.finishes("failed")


def started(play: Play) -> None:
    play.says("Build it")


def speaking(play: Play) -> None:
    play.says("Build it")
    play.opens()


def reads_and_a_write(play: Play) -> None:
    calls(play, ("a", "read", "nothing"), ("b", "read", "nothing"), ("c", "write", "nothing"))


def running_reads(play: Play) -> None:
    reads_and_a_write(play)
    play.runs("call_1")


def reads_done(play: Play) -> None:
    reads_and_a_write(play)
    play.works("call_1")
    play.works("call_2")


def write_first(play: Play) -> None:
    calls(play, ("a", "write", "nothing"), ("b", "read", "nothing"), ("c", "exec", "nothing"))


def read_waits(play: Play) -> None:
    calls(play, ("a", "read", "approval"), ("b", "read", "nothing"), ("c", "write", "nothing"))


def write_waits(play: Play) -> None:
    calls(play, ("a", "read", "nothing"), ("b", "write", "approval"), ("c", "write", "nothing"), ("d", "read", "nothing"))


def later_write_waits(play: Play) -> None:
    calls(play, ("a", "write", "nothing"), ("b", "exec", "approval"))


def granted(play: Play) -> None:
    _, asks = calls(play, ("a", "exec", "approval"))
    play.answers(asks[0])


def denied(play: Play) -> None:
    _, asks = calls(play, ("a", "exec", "approval"), ("b", "exec", "nothing"))
    play.answers(asks[0], "deny")


def asked_again(play: Play) -> None:
    granted(play)
    again = c.Approval(id=AskId("appr_2"), preview=Preview(), options=())
    play.send(c.AskAgain(turn_id=TURN, tool_call_id=CallId("call_1"), approval=again))


def with_deadlines(play: Play) -> None:
    calls(play, ("a", "exec", "approval"), ("b", "ask", "question"), deadline=LATER)


def parked(play: Play) -> None:
    calls(play, ("a", "exec", "approval"), ("b", "ask", "question"), ("c", "read", "nothing"), deadline=LATER)
    play.recovers()


def parked_and_half_answered(play: Play) -> None:
    parked(play)
    play.answers("appr_1")


def parked_and_answered(play: Play) -> None:
    parked_and_half_answered(play)
    play.replies("ques_1")


def parked_and_cancelled(play: Play) -> None:
    parked(play)
    play.cancels()


def cancelled_while_running(play: Play) -> None:
    running_reads(play)
    play.cancels()


def cancelled_with_a_deadline(play: Play) -> None:
    with_deadlines(play)
    play.cancels()


def superseded(play: Play) -> None:
    play.says("Build it")
    play.says("No, this", "interrupt")


def run_by_a_backend(play: Play) -> None:
    play.says("Build it")
    (call,) = play.called("its_own")
    message = play.speaks("", call)
    new = c.NewCall(tool_call=call, kind="exec", title="x", message_id=message, run_by="backend")
    play.send(c.StartCalls(turn_id=TURN, calls=(new,)))


NOTHING: frozenset[Work] = frozenset()
TABLE: list[tuple[Callable[[Play], None], frozenset[Work]]] = [
    (idle, NOTHING),
    (over, NOTHING),
    (failed_with_a_queue, NOTHING),
    (started, frozenset((TAKE,))),
    (speaking, frozenset((TAKE,))),
    (reads_and_a_write, frozenset((TAKE, run(1), run(2)))),
    (running_reads, frozenset((TAKE, run(1), run(2)))),
    (reads_done, frozenset((TAKE, run(3)))),
    (write_first, frozenset((TAKE, run(1)))),
    (read_waits, frozenset((TAKE, run(2)))),
    (write_waits, frozenset((TAKE, run(1)))),
    (later_write_waits, frozenset((TAKE, run(1)))),
    (granted, frozenset((TAKE, run(1, "appr_1")))),
    (denied, frozenset((TAKE, run(2)))),
    (asked_again, frozenset((TAKE,))),
    (with_deadlines, frozenset((TAKE, AwaitDeadline(AskId("appr_1"), LATER), AwaitDeadline(AskId("ques_1"), LATER)))),
    (parked, frozenset((AwaitDeadline(AskId("appr_1"), LATER), AwaitDeadline(AskId("ques_1"), LATER)))),
    (parked_and_half_answered, frozenset((AwaitDeadline(AskId("ques_1"), LATER),))),
    (parked_and_answered, frozenset((TAKE, run(1, "appr_1")))),
    (parked_and_cancelled, frozenset((EndTurn(TURN),))),
    (cancelled_while_running, frozenset((EndTurn(TURN),))),
    (cancelled_with_a_deadline, frozenset((EndTurn(TURN),))),
    (superseded, frozenset((EndTurn(TURN),))),
    (run_by_a_backend, frozenset((TAKE,))),
]


@pytest.mark.parametrize(("case", "expected"), TABLE, ids=[case.__name__ for case, _ in TABLE])
def test_exactly_this_is_due(case: Callable[[Play], None], expected: frozenset[Work]) -> None:
    play = Play()
    case(play)
    assert due(play.state) == expected


def test_an_ask_of_the_session_itself_has_its_deadline_awaited_with_a_turn_and_without() -> None:
    asked = e.ApprovalRequested(
        approval_id=AskId("appr_0"), subject="trust", tool_call=None, kind="exec", preview=Preview(), options=(), deadline=LATER
    )
    play, waits = Play(), AwaitDeadline(AskId("appr_0"), LATER)
    play.take(e.Recorded(2, CREATED_AT, SESSION, None, asked))
    assert due(play.state) == {waits}
    play.says("Build it")
    assert due(play.state) == {waits, TAKE}
    play.recovers()
    assert due(play.state) == {waits}, "the turn does not wait for it"
    play.says("Again")
    play.cancels()
    assert due(play.state) == {waits, EndTurn(play.turn)}
    play.stops()
    play.closes()
    assert play.types()[-2:] == ["approval_denied", "session_completed"]


def test_nothing_is_due_before_there_is_a_session() -> None:
    assert due(State()) == NOTHING


ORDER: list[tuple[str, str]] = [
    # kinds of the calls, a dot behind those that wait for an approval → which may begin
    ("r r r", "0 1 2"),
    ("r w r", "0"),
    ("w r r", "0"),
    ("r. r r", "1 2"),
    ("r. w r", ""),
    ("w. r w", ""),
    ("w w. r", "0"),
    ("r w. r", "0"),
    ("r r. w", "0"),
    ("x", "0"),
    ("x.", ""),
]


@pytest.mark.parametrize(("batch", "expected"), ORDER)
def test_a_batch_begins_in_this_order(batch: str, expected: str) -> None:
    """DESIGN 5.4: reads together, the rest in order; what waits holds back later non-reads, a read waits for non-reads only."""
    kinds: dict[str, CallKind] = {"r": "read", "w": "write", "x": "exec"}
    play = Play()
    wanted: list[Wanted] = [("tool", kinds[word[0]], "approval" if word.endswith(".") else "nothing") for word in batch.split()]
    ids, _ = calls(play, *wanted)
    assert [ids.index(id) for id in play.state.next_calls()] == [int(place) for place in expected.split()]
