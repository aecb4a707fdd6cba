"""The sessions of `golden/commands/`, played step by step. What `decide` makes of them stands beside the commands: read it as prose."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from play import CANNOT_STEER, CREATED_AT, Play, Wanted

from palaver.wire import commands as c
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, StepId, TurnId
from palaver.wire.values import AnswerCause, CallError, Preview, ToolResult, Usage

NO_RESULT = ToolResult(CallId(""), True, ())


def start(play: Play) -> None:
    """An idle session runs a message of any delivery at once."""
    play.says("Hello", "queue")
    play.answered("Hello.")
    play.says("And now a steer", "steer")
    play.answered()
    play.says("And an interrupt", "interrupt")
    play.answered()


def queue(play: Play) -> None:
    """What comes while a turn runs waits for a turn of its own; the same id sent again counts once."""
    play.says("First", client_id="c1")
    second = play.adding("Second", client_id="c2")
    play.send(second)
    play.says("Third", "queue")
    play.send(second)
    assert play.says("Second", client_id="c2").item_id == second.item_id
    play.refuses(play.adding("Something else", client_id="c2"))
    play.answered()
    play.answered()
    play.answered()


def steer(play: Play) -> None:
    """Steers are read at the next step, a burst of them in order; what was only stored comes along with them."""
    play.says("Build it")
    play.says("Use tabs", "steer")
    calls, _ = play.batch(("read_file", "read", "nothing"), text="Looking.")
    play.stores("By the way")
    play.says("No, spaces", "steer")
    play.says("Two of them", "steer")
    play.works(calls[0])
    play.answered("With two spaces.")


def steer_unread(play: Play) -> None:
    """Steers that the turn did not read get one turn for all of them, before the queue."""
    play.says("Build it")
    play.speaks("Done already.")
    play.says("Later", "queue")
    play.says("Wait", "steer")
    play.says("And this", "steer")
    play.finishes()
    play.answered()
    play.answered()


def interrupt(play: Play) -> None:
    """One command cancels and says what comes next; steers stand before it, and the queue goes on afterwards."""
    play.says("Build it")
    message = play.opens()
    play.streams(message, "I will ")
    play.says("Later", "queue")
    play.says("Unread", "steer")
    play.says("Stop, do this", "interrupt")
    play.finishes(turn="turn_1")  # the completion lost the race
    play.stops()
    play.answered()
    play.answered()


def not_steerable(play: Play) -> None:
    """A backend that cannot be steered is stopped, and goes on with the message; a promoted item likewise."""
    play.send(c.UpdateSession(changes={"capabilities": {**_builtins(CANNOT_STEER)}}))
    play.says("Build it")
    play.steps()
    play.says("Use tabs", "steer")
    play.stops()
    play.steps()
    item = play.says("Later", "queue").item_id
    play.promotes(item)
    play.stops()
    play.answered()


def _builtins(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]  # a struct


def cancel_before_first_token(play: Play) -> None:
    play.says("Build it")
    play.steps()
    play.cancels()
    play.stops()


def cancel_in_text(play: Play) -> None:
    """The partial text stays, also what was flushed after the request."""
    play.says("Build it")
    message = play.opens()
    part = play.streams(message, "I will ")
    play.cancels()
    play.streams(message, "bui", part=part)
    play.refuses(c.CompleteOutput(turn_id=play.turn, message=play.message("late")))
    play.stops()


def cancel_in_thinking(play: Play) -> None:
    play.says("Build it")
    message = play.opens()
    play.streams(message, "Let me see", "thinking")
    play.cancels()
    play.stops()
    play.says("Go on")
    play.answered()


def cancel_in_tools(play: Play) -> None:
    """A true result that comes before the end is kept; what ran has one that says so, what did not run too."""
    play.says("Build it")
    calls, _ = play.batch(("read_file", "read", "nothing"), ("search", "read", "nothing"), ("shell", "exec", "nothing"))
    play.runs(calls[0])
    play.runs(calls[1])
    play.prints(calls[1], "half a li")
    play.cancels()
    play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[2]))
    play.returns(calls[0])
    play.returns(calls[2])  # it never ran: changes nothing
    play.stops()


def cancel_in_asks(play: Play) -> None:
    """Both asks are closed with the request; an answer that comes after it hears what was recorded."""
    play.says("Build it")
    _, asks = play.batch(("shell", "exec", "approval"), ("ask_user", "ask", "question"))
    play.cancels()
    play.refuses(c.AnswerApproval(approval_id=asks[0], action="approve", by="ada", at=CREATED_AT))
    play.refuses(c.AnswerQuestion(question_id=asks[1], cause="user", by="ada", at=CREATED_AT, result=NO_RESULT))
    play.stops()


def cancel_twice(play: Play) -> None:
    """What waits for the end at a second cancel waits on as paused items; what comes after it starts."""
    play.says("Build it")
    play.says("Waiting", "queue")
    play.says("Unread", "steer")
    play.cancels()
    play.says("Coming", "auto")
    play.cancels()
    play.says("Coming too", "interrupt")
    play.stops()
    play.answered()


def cancel_nothing(play: Play) -> None:
    """Nothing runs, or another turn does: nothing changes."""
    assert play.cancels().turn_id is None
    play.says("Build it")
    assert play.cancels(turn_id=TurnId("turn_0")).turn_id is None
    play.answered()


def cancel_without_queue(play: Play) -> None:
    """`keep_queue` false removes what waits; what arrives later is not touched, until a second cancel says so too."""
    play.says("Build it")
    play.says("Waiting", "queue")
    play.says("Unread", "steer")
    play.cancels(keep_queue=False)
    play.says("Later", "queue")
    play.says("Coming")
    play.cancels(keep_queue=False)
    play.says("Last", "queue")
    play.stops()
    play.answered()


def while_ending(play: Play) -> None:
    """Auto, steer and interrupt join one coming turn in the order of their coming; an explicit queue waits behind it."""
    play.says("Build it")
    play.cancels()
    play.says("One", "auto")
    play.says("Queued", "queue")
    play.says("Two", "steer")
    play.says("Three", "interrupt")
    item = play.says("Four", "queue").item_id
    play.promotes(item)
    play.stops()
    play.answered()
    play.answered()


def failure(play: Play) -> None:
    """A failure pauses what is there and keeps steers as its first items, without saying them again; resume goes on."""
    play.says("Build it")
    play.opens()
    play.says("Later", "queue")
    play.says("Unread", "steer")
    play.says("Unread too", "steer")
    play.finishes("failed")
    play.says("A new start")
    play.says("Behind the paused ones", "queue")
    play.answered()
    play.answered()
    play.resumes()
    play.answered()
    play.answered()
    play.answered()


def crash(play: Play) -> None:
    """A start ends what was open: text from its deltas, calls with what is known of them, the queue paused."""
    play.says("Build it")
    calls, _ = play.batch(("shell", "exec", "nothing"), ("shell", "exec", "nothing"))
    play.runs(calls[0])
    play.says("Later", "queue")
    play.says("Unread", "steer")
    play.recovers()
    play.retries("turn_1")
    message = play.opens()
    play.streams(message, "Half a sen")
    play.recovers()


def crash_while_ending(play: Play) -> None:
    """A turn whose cancel was requested ends cancelled; nothing that waited for its end starts by itself."""
    play.says("Build it")
    calls, _ = play.batch(("shell", "exec", "nothing"))
    play.runs(calls[0])
    play.says("Unread", "steer")
    play.says("Stop", "interrupt")
    play.says("Later", "queue")
    play.recovers()
    play.resumes()
    play.answered()


def crash_while_waiting(play: Play) -> None:
    """A turn that only waits for a person is parked with its steers, and goes on when its last ask is answered."""
    play.says("Build it")
    calls, asks = play.batch(("shell", "exec", "approval"), ("ask_user", "ask", "question"), ("read_file", "read", "nothing"))
    play.says("Unread", "steer")
    play.says("Later", "queue")
    play.recovers()
    play.answers(asks[0])
    play.recovers()
    play.replies(asks[1])
    play.works(calls[0])
    play.works(calls[2])
    play.answered()


def queue_edits(play: Play) -> None:
    """Items are edited, moved and removed while they wait; none of it touches what runs."""
    play.says("Build it")
    one, two, three = (play.says(text, "queue").item_id for text in ("One", "Two", "Three"))
    play.edits(two, "Two, better")
    play.edits(three, before=ItemId(one or ""))
    play.edits(one, before=None)
    play.removes(one)
    play.refuses(c.RemoveItem(item_id=ItemId(one or "")))
    play.refuses(c.EditItem(item_id=ItemId(two or ""), before=ItemId("item_0")))
    play.pauses()
    play.says("Four", "queue")
    play.answered()
    play.answered()
    play.resumes()
    play.refuses(c.PromoteItem(item_id=ItemId(three or ""), turn_id=TurnId("turn_0")))
    play.answered()
    play.answered()


def queue_promote(play: Play) -> None:
    """To the running turn as a steer, while nothing runs to a turn of its own; a paused one too."""
    play.says("Build it")
    one = play.says("One", "queue").item_id
    two = play.says("Two", "queue").item_id
    play.promotes(two)
    play.steps()
    play.cancels()
    play.stops()
    play.promotes(one)
    play.answered()


def queue_of_steers(play: Play) -> None:
    """A steer that went back to the queue is promoted, edited and removed there; what was said is not said again."""
    play.says("Build it")
    play.says("A", "steer")
    play.says("B", "steer")
    play.says("C", "steer")
    play.finishes("failed")
    a, b, c_ = (item.id for item in play.items)
    play.edits(b, "B, better")
    play.removes(c_)
    play.says("Another")
    play.promotes(a)
    play.steps()
    play.finishes()
    play.resumes()
    play.answered()


def queue_emptied(play: Play) -> None:
    """A pause holds the items that are there; with the last of them it ends."""
    play.pauses()
    play.says("Build it")
    play.pauses()
    item = play.says("One", "queue").item_id
    play.pauses()
    play.removes(item)
    play.says("Two", "queue")
    play.answered()
    play.answered()


def retry(play: Play) -> None:
    """The retry names what the first attempt got and the steers that it read; only the latest failed turn can be retried."""
    play.stores("Remember this")
    play.says("Build it")
    play.says("Read", "steer")
    play.steps()
    play.says("Unread", "steer")
    play.refuses(c.RetryTurn(turn_id=play.turn, new_turn_id=TurnId("turn_0")))
    play.finishes("failed")
    play.stores("Not for the retry")
    play.refuses(c.RetryTurn(turn_id=TurnId("turn_0"), new_turn_id=TurnId("turn_0")))
    again = play.retries("turn_2").turn_id
    play.refuses(c.RetryTurn(turn_id=TurnId("turn_2"), new_turn_id=TurnId("turn_0")))
    play.steps()
    play.finishes("failed")
    play.refuses(c.RetryTurn(turn_id=TurnId("turn_2"), new_turn_id=TurnId("turn_0")))
    play.retries(again)
    play.answered()
    play.refuses(c.RetryTurn(turn_id=play.state.last_turn_id or TurnId(""), new_turn_id=TurnId("turn_0")))


def compaction(play: Play) -> None:
    """It is asked for between turns, once at a time, and a turn that starts takes it over."""
    play.says("Build it")
    play.refuses(c.RequestCompaction(by="user"))
    play.answered()
    play.send(c.RequestCompaction(by="user", instructions="Keep the port"))
    play.send(c.RequestCompaction(by="user"))
    play.says("Go on")
    play.answered()
    play.closes()
    play.refuses(c.RequestCompaction(by="user"))


def stored(play: Play) -> None:
    """Messages that did not run wait for the next one that does; a queued item takes them along when its turn starts."""
    play.stores("One")
    play.stores("Two")
    play.says("Now")
    play.stores("Three")
    play.says("Later", "queue")
    play.answered()
    play.answered()


def approvals(play: Play) -> None:
    """Every answer that there is: scopes, an option's own choice, changed input, a reason, a rule, and who comes second."""
    play.says("Build it")
    wanted: Wanted = ("shell", "exec", "approval")
    calls, asks = play.batch(*[wanted] * 7, deadline="2026-03-01T10:00:00.000Z")
    play.answers(asks[0], client_answer_id="a1")
    play.answers(asks[0], client_answer_id="a1")
    play.refuses(c.AnswerApproval(approval_id=asks[0], action="approve", by="ada", at=CREATED_AT, client_answer_id="a2"))
    play.answers(asks[1], scope="session")
    play.answers(asks[2], "deny", option_id="workspace")
    play.answers(asks[3], scope="session", input={"for": "something else"}, reason="safer")
    play.answers(asks[4], "deny", reason="Not now")
    play.answers(asks[5], "deny", cause="expired", by="deadline")
    play.refuses(c.AnswerApproval(approval_id=asks[6], action="approve", by="ada", at=CREATED_AT, option_id="forever"))
    play.answers(asks[6], "deny", cause="policy", by="policy", reason="rules say no")
    play.refuses(c.AnswerApproval(approval_id=AskId("appr_0"), action="approve", by="ada", at=CREATED_AT))
    for call in calls[:4]:
        play.works(call)
    play.answered()


def ask_again(play: Play) -> None:
    """What a granted call would do has changed: it is asked once more before it begins."""
    play.says("Build it")
    calls, asks = play.batch(("apply_patch", "write", "approval"))
    play.answers(asks[0])
    again = AskId(play.id("appr"))
    approval = c.Approval(id=again, preview=Preview(diff="+ another line"), options=())
    play.send(c.AskAgain(turn_id=play.turn, tool_call_id=calls[0], approval=approval))
    play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[0]))
    play.answers(again)
    play.works(calls[0])
    play.answered()


def questions(play: Play) -> None:
    """Answered, left to the agent, declined, by default and expired: the call hears each, and the turn goes on."""
    play.says("Build it")
    causes: tuple[AnswerCause, ...] = get_args(AnswerCause)
    for cause in causes:
        _, asks = play.batch(("ask_user", "ask", "question"))
        play.replies(asks[0], cause, client_answer_id=f"a-{cause}")
        play.replies(asks[0], cause, client_answer_id=f"a-{cause}")
        play.refuses(c.AnswerQuestion(question_id=asks[0], cause="user", by="ada", at=CREATED_AT, result=NO_RESULT))
    play.answered()


def batch(play: Play) -> None:
    """Reads run together, the rest in order; a call that waits holds back every later non-read."""
    play.says("Build it")
    calls, asks = play.batch(
        ("read_file", "read", "nothing"),
        ("search", "read", "approval"),
        ("apply_patch", "write", "nothing"),
        ("shell", "exec", "nothing"),
        ("read_file", "read", "nothing"),
    )
    play.runs(calls[0])
    play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[0]))
    play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[2]))
    play.refuses(c.BeginStep(turn_id=play.turn, step_id=StepId("step_0")))
    play.returns(calls[0])
    play.answers(asks[0])
    play.works(calls[1])
    play.refuses(c.BeginCall(turn_id=play.turn, tool_call_id=calls[4]))
    play.works(calls[2])
    play.works(calls[3])
    play.works(calls[4])
    play.answered()


def wrong_calls(play: Play) -> None:
    """A call that makes no sense has its result at once."""
    play.says("Build it")
    call, other = play.called("no_such_tool", "read_file")
    message = play.speaks("", call, other)
    wrong = c.NewCall(
        tool_call=call, kind="exec", title="no_such_tool", message_id=message, error=CallError("unknown_tool", "There is no such tool.")
    )
    right = c.NewCall(tool_call=other, kind="read", title="read_file", message_id=message)
    play.send(c.StartCalls(turn_id=play.turn, calls=(wrong, right)))
    play.works(other.id)
    play.answered()


def discarded(play: Play) -> None:
    """A backend started its message over."""
    play.says("Build it")
    message = play.opens()
    play.streams(message, "Wrong sta")
    play.send(c.DiscardOutput(turn_id=play.turn, message_id=message))
    second = MessageId(play.id("msg"))
    play.send(c.BeginOutput(turn_id=play.turn, message_id=second, step_id=StepId("step_1")))
    play.refuses(c.BeginOutput(turn_id=play.turn, message_id=message, step_id=StepId("step_1")))
    play.streams(second, "Right.")
    play.completes(second)
    play.finishes()


def close(play: Play) -> None:
    """Close removes what waits; then every write is refused, and a repeated one still hears its first answer."""
    play.says("Build it", client_id="c1")
    play.says("Later", "queue")
    play.refuses(c.CloseSession(by="user"))
    play.cancels()
    play.stops()
    play.stores("Never")
    play.closes()
    play.closes()
    play.refuses(play.adding("More"))
    play.refuses(c.RetryTurn(turn_id=TurnId("turn_1"), new_turn_id=TurnId("turn_0")))
    play.refuses(c.CancelTurn(by="user", fresh="fresh_0_"))
    play.refuses(c.ResumeQueue())
    play.refuses(c.UpdateSession(changes={"title": "New"}))
    assert play.says("Build it", client_id="c1").turn_id == "turn_1"


def usage(play: Play) -> None:
    """A turn's usage is the sum of its steps, the session's the sum of its turns; a title is the first line of the first message."""
    play.says("\n  Build it, please.  \nAnd then test it.")
    calls, _ = play.batch(("read_file", "read", "nothing"))
    play.works(calls[0])
    play.answered()
    play.says("More")
    play.answered()
    assert play.state.usage == Usage(30, 6)


CASES: dict[str, Callable[[Play], None]] = {
    case.__name__: case
    for case in (
        start,
        queue,
        steer,
        steer_unread,
        interrupt,
        not_steerable,
        cancel_before_first_token,
        cancel_in_text,
        cancel_in_thinking,
        cancel_in_tools,
        cancel_in_asks,
        cancel_twice,
        cancel_nothing,
        cancel_without_queue,
        while_ending,
        failure,
        crash,
        crash_while_ending,
        crash_while_waiting,
        queue_edits,
        queue_promote,
        queue_of_steers,
        queue_emptied,
        retry,
        compaction,
        stored,
        approvals,
        ask_again,
        questions,
        batch,
        wrong_calls,
        discarded,
        close,
        usage,
    )
}


def played(name: str) -> Play:
    play = Play()
    CASES[name](play)
    return play
