"""Edges of `decide`, as tables: what becomes of a message in each phase, which option an answer means, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from command_cases import CASES, played
from lawful import lawful
from play import CANNOT_STEER, CREATED_AT, OPTIONS, Play, Wanted

from palaver.core.decide import choose, decide
from palaver.core.state import QUEUE_LIMIT
from palaver.errors import Invalid, Refused
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, StepId, TurnId
from palaver.wire.values import Action, Delivered, Delivery, Option, Part, Preview, Scope, ToolResult

# --- delivery ------------------------------------------------------------------------------------------------------------------


def idle(play: Play) -> None:
    play.stores("Earlier")


def running(play: Play) -> None:
    play.says("Build it")
    play.opens()


def waiting(play: Play) -> None:
    play.says("Build it")
    play.batch(("shell", "exec", "approval"))


def parked(play: Play) -> None:
    waiting(play)
    play.recovers()


def ending(play: Play) -> None:
    running(play)
    play.cancels()


Phase = Callable[[Play], None]
OF_A_TURN: dict[Delivery, Delivered] = {"auto": "queued", "queue": "queued", "steer": "steered", "interrupt": "interrupting"}
OF_AN_END: dict[Delivery, Delivered] = {"auto": "interrupting", "queue": "queued", "steer": "interrupting", "interrupt": "interrupting"}
PHASES: list[tuple[Phase, dict[Delivery, Delivered]]] = [
    (idle, dict.fromkeys(get_args(Delivery), "started")),
    (running, OF_A_TURN),
    (waiting, OF_A_TURN),
    (parked, OF_A_TURN),
    (ending, OF_AN_END),
]


@pytest.mark.parametrize("delivery", get_args(Delivery))
@pytest.mark.parametrize(("phase", "expected"), PHASES, ids=[phase.__name__ for phase, _ in PHASES])
def test_a_message_is_taken_in_every_phase(phase: Phase, expected: dict[Delivery, Delivered], delivery: Delivery) -> None:
    """T-07, DESIGN 5.1: a session is never "busy, try again"."""
    play = Play()
    phase(play)
    reply = play.says("More", delivery)
    assert reply.delivered == expected[delivery]
    assert (reply.item_id is not None) == (reply.delivered == "queued")
    lawful(play.log, play.state)


@pytest.mark.parametrize(
    ("of_session", "delivered"),
    [("auto", "queued"), ("queue", "queued"), ("steer", "steered"), ("interrupt", "interrupting")],
)
def test_auto_is_the_sessions_own_delivery(of_session: str, delivered: str) -> None:
    play = Play(delivery=of_session)
    play.says("Build it")
    assert play.says("More").delivered == delivered


def test_while_a_turn_ends_every_auto_joins_the_coming_one_also_where_the_session_queues() -> None:
    play = Play(delivery="queue")
    ending(play)
    one, two = play.says("One"), play.says("Two", "steer")
    assert one.delivered == two.delivered == "interrupting" and one.turn_id == two.turn_id
    play.stops()
    assert play.turn == one.turn_id and play.state.turn and play.state.turn.message_ids == (one.message_id, two.message_id)


def test_two_submits_in_the_same_millisecond_make_one_turn_and_one_item() -> None:
    """T-07"""
    play = Play()
    first, second = play.adding("One"), play.adding("Two")
    replies = [play.send(first), play.send(second)]
    assert [reply.delivered for reply in replies if isinstance(reply, c.Accepted)] == ["started", "queued"]
    assert play.types().count("turn_started") == 1


def test_an_interrupt_is_one_append_and_beats_a_completion_that_comes_later() -> None:
    """T-10"""
    play = Play()
    running(play)
    length = len(play.log)
    play.says("Stop", "interrupt")
    assert play.types(length) == ["turn_cancel_requested", "message_added"]
    play.finishes()
    assert play.types(length) == ["turn_cancel_requested", "message_added"]


def test_a_completion_that_comes_first_leaves_the_interrupt_an_idle_session() -> None:
    """T-10"""
    play = Play()
    running(play)
    play.finishes()
    reply = play.says("Stop", "interrupt")
    assert reply.delivered == "started" and play.turn == reply.turn_id
    assert "turn_cancel_requested" not in play.types()


def test_the_queue_takes_two_hundred_items_and_steers_beyond_them() -> None:
    play = Play()
    running(play)
    for number in range(QUEUE_LIMIT):
        play.says(str(number), "queue")
    assert play.refuses(play.adding("One more", "queue")).code == "queue_full"
    assert play.says("But this", "steer").delivered == "steered"


def test_a_message_of_a_narrow_token_narrows_every_turn_that_reads_it() -> None:
    play = Play()
    play.says("Build it")
    play.says("Do it so", "steer", scope="prompt")
    assert play.state.turn and not play.state.turn.narrow
    play.steps()
    assert play.state.turn.narrow
    play.finishes("failed")
    play.retries(play.state.last_turn_id or "")
    assert play.state.turn.narrow


def test_a_narrow_promotion_narrows_the_turn_that_reads_the_item() -> None:
    """Also of a message that was said before, and that no event says again."""
    play = Play()
    play.says("Build it")
    play.says("Unread", "steer")
    play.finishes("failed")
    play.says("Again")
    play.promotes(play.items[0].id, scope="prompt")
    play.steps()
    assert play.state.turn and play.state.turn.narrow


def test_a_backend_that_cannot_be_steered_goes_on_with_a_promoted_item() -> None:
    play = Play(capabilities=CANNOT_STEER)
    play.says("Build it")
    item = play.says("Later", "queue").item_id
    reply = play.promotes(item)
    assert reply.delivered == "interrupting" and play.state.turn and play.state.turn.ending
    play.stops()
    assert play.turn == reply.turn_id


# --- what was removed -----------------------------------------------------------------------------------------------------------


def unread_steer(play: Play) -> str:
    play.says("Build it")
    play.says("SECRET", "steer")
    play.finishes("failed")
    return play.items[0].id


def queued(play: Play) -> str:
    play.says("Build it")
    return play.says("SECRET", "queue").item_id or ""


def edited(play: Play) -> str:
    item = unread_steer(play)
    play.edits(item, "SECRET, better")
    return item


@pytest.mark.parametrize("case", [unread_steer, queued, edited])
def test_what_was_removed_from_the_queue_never_reaches_a_turn(case: Callable[[Play], str]) -> None:
    """Promise 8, T-08: not when the queue goes on, not by a retry, not after a restart."""
    play = Play()
    play.removes(case(play))
    play.recovers()
    play.retries(play.state.last_turn_id or "")
    play.says("And go on", "queue")
    play.answered()
    play.answered()
    law = lawful(play.log, play.state)
    assert "SECRET" not in str(law.history.messages(closing=True))


def test_the_old_text_of_an_edited_item_never_reaches_a_turn() -> None:
    """Promise 8"""
    play = Play()
    item = unread_steer(play)
    play.edits(item, "In other words")
    play.resumes()
    play.answered()
    told = str(lawful(play.log, play.state).history.messages(closing=True))
    assert "SECRET" not in told and "In other words" in told


def test_a_removal_that_races_with_its_start_is_told_who_won() -> None:
    """Promise 8"""
    play = Play()
    item = queued(play)
    play.answered()
    assert play.refuses(c.RemoveItem(item_id=ItemId(item))).code == "item_gone"
    assert play.state.turn is not None


# --- asking --------------------------------------------------------------------------------------------------------------------

NARROW = (Option("yes", "approve", "once", "Yes"), Option("no", "deny", "once", "No"))
WIDE = (Option("here", "approve", "session", "Here"), Option("no", "deny", "once", "No"))
Meaning = tuple[tuple[Option, ...], Action, Scope, str | None, str | None]
CHOICES: list[Meaning] = [
    # options, action, scope asked for, option named → the option meant
    (OPTIONS, "approve", "once", None, "once"),
    (OPTIONS, "approve", "session", None, "session"),
    (OPTIONS, "approve", "workspace", None, "workspace"),
    (OPTIONS, "deny", "once", None, "deny"),
    (OPTIONS, "deny", "workspace", None, None),
    (OPTIONS, "approve", "once", "workspace", "workspace"),
    (OPTIONS, "approve", "workspace", "deny", "deny"),
    (WIDE, "approve", "once", None, "here"),
    ((), "approve", "once", None, None),
    ((), "deny", "session", None, None),
]


def asked(options: tuple[Option, ...]) -> e.ApprovalRequested:
    return e.ApprovalRequested(approval_id=AskId("appr_1"), subject="tool", tool_call=None, kind="exec", preview=Preview(), options=options)


@pytest.mark.parametrize("row", CHOICES)
def test_an_answer_means_this_option(row: Meaning) -> None:
    options, action, scope, option_id, meant = row
    answer = c.AnswerApproval(approval_id=AskId("appr_1"), action=action, by="user", at=CREATED_AT, scope=scope, option_id=option_id)
    option = choose(asked(options), answer)
    assert (option.id if option else None) == meant


NOT_OFFERED: list[tuple[Scope, str | None, str]] = [
    ("session", None, "scope"),
    ("workspace", None, "scope"),
    ("once", "maybe", "option_id"),
]


@pytest.mark.parametrize(("scope", "option_id", "path"), NOT_OFFERED)
def test_a_scope_or_an_option_that_is_not_offered_is_refused_by_its_field(scope: Scope, option_id: str | None, path: str) -> None:
    answer = c.AnswerApproval(approval_id=AskId("appr_1"), action="approve", by="user", at=CREATED_AT, scope=scope, option_id=option_id)
    with pytest.raises(Invalid) as refused:
        choose(asked(NARROW), answer)
    assert refused.value.extra["errors"][0]["path"] == path


def test_three_approvals_are_answered_in_any_order_and_run_in_theirs() -> None:
    """T-11, S4-72"""
    play = Play()
    play.says("Build it")
    wanted: Wanted = ("shell", "exec", "approval")
    calls, asks = play.batch(*[wanted] * 3)
    play.answers(asks[2])
    play.answers(asks[1], "deny", reason="Not that one")
    assert list(play.state.next_calls()) == [], "the first one waits, and holds back what comes after it"
    assert play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[2])).code == "not_next"
    play.answers(asks[0])
    play.works(calls[0])
    play.works(calls[2])
    play.answered()
    law = lawful(play.log, play.state)
    assert "Not that one" in str(law.history.messages(closing=True))


def test_a_changed_input_is_what_runs_and_is_granted_once_only() -> None:
    """T-11: changed input reaches the tool."""
    play = Play()
    play.says("Build it")
    calls, asks = play.batch(("shell", "exec", "approval"))
    play.answers(asks[0], scope="session", input={"command": "make check"})
    assert play.state.turn and play.state.turn.calls[calls[0]].tool_call.input == {"command": "make check"}
    assert play.state.grants == ()


def test_a_grant_for_the_session_is_kept_and_survives_the_turn() -> None:
    play = Play()
    play.says("Build it")
    _, asks = play.batch(("shell", "exec", "approval"))
    play.answers(asks[0], scope="session")
    play.cancels()
    play.stops()
    assert play.state.grants == (OPTIONS[1].rule,)


@pytest.mark.parametrize("second", [None, "a2"])
def test_a_second_answer_hears_the_recorded_outcome(second: str | None) -> None:
    """T-11, API "Asking": any later answer, equal or not, is 409 with what was recorded."""
    play = Play()
    play.says("Build it")
    _, asks = play.batch(("shell", "exec", "approval"))
    first = play.answers(asks[0], client_answer_id="a1")
    assert play.answers(asks[0], client_answer_id="a1").outcome == first.outcome
    answer = c.AnswerApproval(approval_id=asks[0], action="approve", by="ada", at=CREATED_AT, client_answer_id=second)
    refused = play.refuses(answer)
    assert refused.code == "already_answered"
    assert {name: refused.extra[name] for name in ("approval_id", "outcome", "by")} == {
        "approval_id": asks[0],
        "outcome": "granted",
        "by": "user",
    }


def test_a_call_that_its_program_ended_by_itself_is_no_longer_asked_about() -> None:
    play = Play()
    play.says("Build it")
    calls, asks = play.batch(("shell", "exec", "approval"))
    play.returns(calls[0])
    assert play.state.asks == {} and play.state.status == "active"
    assert play.refuses(c.AnswerApproval(approval_id=asks[0], action="approve", by="ada", at=CREATED_AT)).code == "already_answered"
    lawful(play.log, play.state)


def test_a_turn_that_waits_for_nobody_is_not_parked() -> None:
    """Promise 6: nothing would ever let it go on."""
    play = Play()
    play.says("Build it")
    assert play.refuses(c.ParkTurn(turn_id=play.turn)).code == "not_waiting"
    calls, _ = play.batch(("read_file", "read", "nothing"), ("shell", "exec", "approval"))
    play.runs(calls[0])
    assert play.refuses(c.ParkTurn(turn_id=play.turn)).code == "not_waiting"
    play.returns(calls[0])
    play.send(c.ParkTurn(turn_id=play.turn))


# --- after the cancel ------------------------------------------------------------------------------------------------------------


def reports(play: Play, calls: list[CallId]) -> list[c.AnyCommand]:
    turn, message = play.turn, MessageId("msg_new")
    return [
        c.BeginStep(turn_id=turn, step_id=StepId("step_new")),
        c.BeginOutput(turn_id=turn, message_id=message, step_id=StepId("step_new")),
        c.CompleteOutput(turn_id=turn, message=play.message("late")),
        c.DiscardOutput(turn_id=turn, message_id=message),
        c.StartCalls(turn_id=turn, calls=()),
        c.AskAgain(turn_id=turn, tool_call_id=calls[0], approval=c.Approval(id=AskId("appr_new"), preview=Preview(), options=())),
        c.BeginCall(turn_id=turn, tool_call_id=calls[0]),
        c.ParkTurn(turn_id=turn),
        c.NoteFact(turn_id=turn, fact=e.Notice(level="info", code="x", text="x")),
    ]


@pytest.mark.parametrize("number", range(9))
def test_after_a_cancel_nothing_new_is_taken_from_the_turn(number: int) -> None:
    """DESIGN 5.7, promise 7: an acknowledged cancel stays cancelled."""
    play = Play()
    play.says("Build it")
    calls, _ = play.batch(("shell", "exec", "nothing"))
    play.cancels()
    assert play.refuses(reports(play, calls)[number]).code == "turn_ending"


@pytest.mark.parametrize("name", CASES)
def test_reports_of_turns_that_are_over_change_nothing(name: str) -> None:
    """Promise 2: whatever a backend still says about a turn that has ended."""
    play = played(name)
    for turn_id in {recorded.turn_id for recorded in play.log if isinstance(recorded.data, e.TurnCompleted)}:
        assert turn_id is not None
        for command in late(turn_id):
            try:
                assert decide(play.state, command).events == []
            except Refused as refused:
                assert refused.code == "turn_over"


def late(turn_id: TurnId) -> list[c.AnyCommand]:
    return [
        c.FinishTurn(turn_id=turn_id, outcome="completed", stop_reason="end_turn", fresh="f", at=CREATED_AT, duration_ms=1),
        c.EndCancelled(turn_id=turn_id, fresh="f", at=CREATED_AT, duration_ms=1),
        c.BeginStep(turn_id=turn_id, step_id=StepId("step_late")),
        c.CompleteCall(turn_id=turn_id, result=ToolResult(CallId("call_1"), True, (Part("text", text="late"),)), duration_ms=1),
        c.BeginCall(turn_id=turn_id, tool_call_id=CallId("call_1")),
        c.AddOutput(turn_id=turn_id, tool_call_id=CallId("call_1"), stream="stdout", offset=0, text="late"),
        c.ParkTurn(turn_id=turn_id),
    ]
