"""A fork: the copied part reads as it was, what was open in it has ended, and nothing that was taken back comes again."""

from __future__ import annotations

import msgspec
import pytest
from command_cases import CASES, played
from lawful import Law, lawful
from play import Play

from palaver.backends.history import History
from palaver.core.apply import apply
from palaver.core.due import due
from palaver.core.fork import cut_after, forked
from palaver.core.state import State
from palaver.errors import Refused
from palaver.models.base import ModelMessage
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import MessageId, SessionId
from palaver.wire.values import ForkedFrom

NEW = SessionId("sess_2")
AT = "2026-03-02T09:00:00.000Z"


class Fork:
    def __init__(self, play: Play, at: str | None) -> None:
        made = msgspec.structs.replace(play.state.created, id=NEW, created_at=AT, forked_from=ForkedFrom(play.state.id))
        self.log = forked(cut_after(play.log, MessageId(at) if at else None), made, AT, "fork_")
        self.state = State()
        for recorded in self.log:
            self.state = apply(self.state, recorded)
        self.law = lawful(self.log, self.state)

    def types(self) -> list[str]:
        return [recorded.type for recorded in self.log]

    def stored(self) -> list[str]:
        return [stored.id for stored in self.state.stored]

    def told(self) -> str:
        return str(self.law.history.messages(closing=True))


def input_ids(play: Play) -> list[MessageId]:
    return [recorded.data.message.id for recorded in play.log if isinstance(recorded.data, e.MessageAdded | e.ModelOutputCompleted)]


@pytest.mark.parametrize("name", CASES)
def test_a_fork_at_any_message_of_any_session_is_lawful_and_idle(name: str) -> None:
    """Promises 2 and 3 hold in the copy, and nothing runs in it by itself."""
    play = played(name)
    for at in (*input_ids(play), None):
        fork = Fork(play, at)
        assert {recorded.session_id for recorded in fork.log} == {NEW}
        assert [recorded.seq for recorded in fork.log] == list(range(1, len(fork.log) + 1))
        assert fork.state.turn is None and not due(fork.state) and not fork.state.asks
        assert not fork.state.queue and not fork.state.waiting and not fork.state.closed
        assert not {"queue_changed", "turn_parked", "session_completed"} & set(fork.types())


@pytest.mark.parametrize("name", CASES)
def test_a_fork_tells_the_model_what_the_session_did_up_to_there(name: str) -> None:
    play = played(name)
    for at in (recorded.seq for recorded in play.log if isinstance(recorded.data, e.TurnCompleted)):
        law, said = Law(), None
        for recorded in play.log[:at]:
            law.take(recorded)
            if isinstance(recorded.data, e.ModelOutputCompleted):
                said = recorded.data.message.id
        last = play.log[at - 2].data
        if isinstance(last, e.ModelOutputCompleted) and last.message.id == said:
            assert unmarked(Fork(play, said).law.history) == unmarked(law.history)


def unmarked(history: History) -> list[ModelMessage]:
    """Without the mark that the last turn was stopped before its first word: the copy's ends otherwise than the turn that it copies."""
    told = history.messages(closing=True)
    return told[:-1] if told and told[-1].code == "stopped" else told


def test_the_message_that_it_is_made_at_waits_for_the_next_one_that_runs() -> None:
    play = Play()
    first = play.says("Build it")
    play.answered()
    fork = Fork(play, first.message_id)
    assert fork.stored() == [first.message_id]
    assert "turn_started" not in fork.types()


def test_calls_that_an_assistants_message_asked_for_have_their_interrupted_results() -> None:
    """The copy ends before the calls' own events."""
    play = Play()
    play.says("Build it")
    calls, _ = play.batch(("shell", "exec", "nothing"), ("read_file", "read", "nothing"))
    message = next(recorded.data.message.id for recorded in play.log if isinstance(recorded.data, e.ModelOutputCompleted))
    play.works(calls[0])
    fork = Fork(play, message)
    results = [recorded.data for recorded in fork.log if isinstance(recorded.data, e.ToolCallCompleted)]
    assert [result.tool_call.id for result in results] == calls
    assert {result.tool_result.error.code for result in results if result.tool_result.error} == {"tool_interrupted"}
    assert fork.state.last_turn is not None and fork.state.last_turn.outcome == "interrupted"


def test_calls_that_were_open_at_the_cut_have_their_interrupted_results() -> None:
    play = Play()
    play.says("Build it")
    calls, asks = play.batch(("shell", "exec", "nothing"), ("shell", "exec", "approval"))
    play.runs(calls[0])
    steer = play.says("By the way", "steer")
    fork = Fork(play, steer.message_id)
    assert [recorded.data.tool_call.id for recorded in fork.log if isinstance(recorded.data, e.ToolCallCompleted)] == calls
    assert "approval_requested" not in fork.types(), f"{asks} was not resolved at the cut"
    assert fork.stored() == [steer.message_id]


def test_a_message_open_at_the_cut_is_completed_as_interrupted() -> None:
    play = Play()
    play.says("Build it")
    message = play.opens()
    play.streams(message, "Half a sen")
    steer = play.says("Wait", "steer")
    fork = Fork(play, steer.message_id)
    completed = next(recorded.data for recorded in fork.log if isinstance(recorded.data, e.ModelOutputCompleted))
    assert completed.message.interrupted and completed.message.parts[0].text == "Half a sen"


def test_asks_that_were_resolved_are_carried_with_their_outcome() -> None:
    play = Play()
    play.says("Build it")
    calls, asks = play.batch(("shell", "exec", "approval"), ("shell", "exec", "approval"))
    play.answers(asks[0], scope="session")
    play.works(calls[0])
    steer = play.says("By the way", "steer")
    fork = Fork(play, steer.message_id)
    assert fork.types().count("approval_requested") == fork.types().count("approval_granted") == 1
    assert fork.state.grants != ()


def test_a_steer_that_was_read_stays_where_it_was_read() -> None:
    play = Play()
    play.says("Build it")
    play.says("Use tabs", "steer")
    play.answered()
    fork = Fork(play, None)
    assert fork.stored() == [] and "Use tabs" in fork.told()


def test_an_unread_steer_waits_in_the_fork() -> None:
    play = Play()
    play.says("Build it")
    steer = play.says("Use tabs", "steer")
    play.finishes("failed")
    assert Fork(play, None).stored() == [steer.message_id]


def test_what_was_taken_back_before_the_cut_is_not_in_the_fork() -> None:
    """Promise 8: a removed item, the old text of an edited one, and what a cancel without its queue removed."""
    play = Play()
    play.says("Build it")
    for text in ("REMOVED", "OLD"):
        play.says(text, "steer")
    play.finishes("failed")
    play.removes(play.items[0].id)
    play.edits(play.items[0].id, "NEW")
    play.says("Go on")
    play.says("DROPPED", "steer")
    play.cancels(keep_queue=False)
    play.stops()
    fork = Fork(play, None)
    assert fork.stored() == []
    assert not any(word in str(fork.log) for word in ("REMOVED", "OLD", "DROPPED"))


def test_a_message_that_was_taken_back_only_after_the_cut_waits_in_the_fork() -> None:
    play = Play()
    play.says("Build it")
    steer = play.says("Use tabs", "steer")
    play.finishes("failed")
    play.removes(play.items[0].id)
    assert Fork(play, steer.message_id).stored() == [steer.message_id]


def test_stored_messages_of_a_closed_session_wait_in_its_fork() -> None:
    play = Play()
    play.says("Build it")
    play.answered()
    later = play.stores("Remember this")
    play.closes()
    fork = Fork(play, None)
    assert fork.stored() == [later.message_id] and fork.state.status == "active"


def test_the_fork_has_the_mode_that_the_session_has_now_not_the_one_it_had_then() -> None:
    play = Play()
    play.send(c.UpdateSession(changes={"mode": "auto"}))
    first = play.says("Build it")
    play.answered()
    play.send(c.UpdateSession(changes={"mode": "ask"}))
    assert Fork(play, first.message_id).state.created.mode == "ask"


def test_an_interrupted_turn_of_a_fork_can_be_retried() -> None:
    play = Play()
    first = play.says("Build it")
    message = play.opens()
    play.completes(message, play.called("shell"))
    fork = Fork(play, message)
    assert fork.state.last_turn is not None and fork.state.last_turn.message_ids == (first.message_id,)


def test_a_message_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        cut_after(Play().log, MessageId("msg_0"))
    assert refused.value.code == "not_found"
