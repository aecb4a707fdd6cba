"""What a command makes happen: events and a reply, or `Refused`.

Each case is one order. What a turn's end brings with it (open calls answered, unread messages kept, the next turn started) is the
same for every end and stands in `ending.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

import msgspec

from palaver.core import ending, queue
from palaver.core.apply import under
from palaver.core.happened import Happened, denied, of
from palaver.core.state import Ask, Call, State, Turn
from palaver.errors import Invalid, Refused
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import CallId, TurnId
from palaver.wire.values import CallRef, Option, ToolResult

replace = msgspec.structs.replace


class Decision(NamedTuple):
    events: list[Happened]
    reply: c.Reply | None = None
    """What the sender hears once the events are on disk."""


def decide(state: State, command: c.AnyCommand) -> Decision:
    match command:
        case c.AddText():
            return _add_text(state, command)
        case c.AddOutput():
            return _add_output(state, command)
        case c.AddMessage():
            return _add_message(state, command)
        case c.BeginStep():
            return _begin_step(state, command)
        case c.BeginOutput(turn_id=turn_id, message_id=message_id, step_id=step_id):
            if (output := _going_on(state, turn_id).output) is not None:
                raise Refused("message_open", f"The message {output.id} is still open. Complete or discard it first.")
            return _events(turn_id, e.ModelOutputStarted(message_id=message_id, step_id=step_id))
        case c.CompleteOutput():
            return _complete_output(state, command)
        case c.DiscardOutput(turn_id=turn_id, message_id=message_id):
            return _events(_going_on(state, turn_id).id, e.ModelOutputDiscarded(message_id=message_id))
        case c.StartCalls():
            return _start_calls(state, command)
        case c.AskAgain():
            return _ask_again(state, command)
        case c.RequestApproval(turn_id=turn_id, approval=approval):
            return _events(_going_on(state, turn_id).id, _requested(None, approval))
        case c.BeginCall(turn_id=turn_id, tool_call_id=call_id):
            call = _going_on(state, turn_id).calls.get(call_id)
            if call is None or call.state != "approved" or call_id not in state.next_calls():
                raise Refused("not_next", f"The call {call_id} may not begin now.")
            return _events(turn_id, e.ToolCallRunning(tool_call_id=call_id))
        case c.CompleteCall():
            return _complete_call(state, command)
        case c.NoteFact(turn_id=turn_id, fact=fact):
            if turn_id is not None:
                _going_on(state, turn_id)
            return _events(turn_id, fact)
        case c.FinishTurn(turn_id=turn_id):
            turn = state.turn
            if turn is None or turn.id != turn_id or turn.ending:
                return Decision([])  # it has ended, or its cancel came first
            return Decision(ending.finish(state, turn, command))
        case c.EndCancelled(turn_id=turn_id):
            turn = state.turn
            if turn is None or turn.id != turn_id or not turn.ending:
                return Decision([])
            return Decision(ending.cancelled(state, turn, command))
        case c.ParkTurn(turn_id=turn_id):
            _going_on(state, turn_id)
            if not state.only_waits:
                raise Refused("not_waiting", f"The turn {turn_id} waits for nobody: nothing would let it go on.")
            return _events(turn_id, e.TurnParked(waiting=tuple(ask.id for ask in state.turn_asks)))
        case c.CancelTurn():
            return _cancel_turn(state, command)
        case c.RetryTurn():
            return _retry_turn(state, command)
        case c.RequestCompaction(by=by, instructions=instructions):
            _open(state)
            if state.turn is not None:
                raise Refused("turn_running", "A turn is running. Cancel it, or wait for its end.")
            if state.compaction is not None:
                return Decision([])  # it is being done
            return _events(None, e.ContextCompactionRequested(by=by, instructions=instructions))
        case c.AnswerApproval():
            return _answer_approval(state, command)
        case c.AnswerQuestion():
            return _answer_question(state, command)
        case c.EditItem() | c.RemoveItem() | c.PromoteItem() | c.PauseQueue() | c.ResumeQueue():
            _open(state)
            return _queue(state, command)
        case c.CreateSession(session=info):
            return _events(None, e.SessionCreated(session=info))
        case c.UpdateSession(changes=changes):
            _open(state)
            return _events(None, e.SessionUpdated(session=changes))
        case c.CloseSession(by=by):
            return _close(state, by)
        case _:
            assert_never(command)


def _events(turn_id: TurnId | None, *events: e.AnyEvent) -> Decision:
    return Decision([Happened(turn_id, event) for event in events])


def _open(state: State) -> None:
    if state.closed:
        raise Refused("session_closed", "This session is closed. Fork it to go on from here.")


def _going_on(state: State, turn_id: TurnId) -> Turn:
    """The turn of a report that opens something: only while it runs and nobody has cancelled it."""
    turn = state.turn
    if turn is None or turn.id != turn_id:
        raise Refused("turn_over", f"The turn {turn_id} is not running.")
    if turn.ending:
        raise Refused("turn_ending", f"The turn {turn_id} was cancelled.")
    return turn


def _close(state: State, by: str) -> Decision:
    if state.turn is not None:
        raise Refused("turn_running", "A turn is running. Cancel it before closing the session.")
    if state.closed:
        return Decision([])
    emptied = [queue.changed(state, ())] if state.queue else []
    return Decision([*ending.asks_closed(state.asks.values(), by), *emptied, of(None, e.SessionCompleted(by=by))])


# --- messages -----------------------------------------------------------------------------------------------------------------


def _add_message(state: State, command: c.AddMessage) -> Decision:
    message = command.message
    if message.client_message_id and (kept := state.replies.get(message.client_message_id)):
        if kept.fingerprint != command.fingerprint:
            raise Refused("id_reused", f"The client_message_id {message.client_message_id!r} was used for another message. Send a new id.")
        return Decision([], kept.reply)  # the client sent it again
    _open(state)
    if not command.auto_run:
        return Decision([_added(None, command)], c.Accepted(message.id, None, "stored"))
    turn = state.turn
    if turn is None:
        ids = (*(stored.id for stored in state.stored), message.id)
        return Decision(
            [_added(command.turn_id, command), of(command.turn_id, ending.started(state, "user", ids))],
            c.Accepted(message.id, command.turn_id, "started"),
        )
    if _delivery(state, turn, command) == "queue":
        item = queue.new_item(state, command)
        queued = queue.changed(state, (*state.queue, item), new=(item.id,))
        return Decision([queued], c.Accepted(message.id, item.turn_id, "queued", item.id))
    if turn.ending:
        coming = state.coming or command.turn_id
        return Decision([_added(coming, command, "interrupt")], c.Accepted(message.id, coming, "interrupting"))
    if _delivery(state, turn, command) == "steer" and state.created.capabilities.steer:
        return Decision([_added(turn.id, command, "steer")], c.Accepted(message.id, turn.id, "steered"))
    # interrupt; and a backend that cannot be steered is stopped and goes on with the message
    stop = ending.superseded(state, turn, _name(command))
    return Decision([*stop, _added(command.turn_id, command, "interrupt")], c.Accepted(message.id, command.turn_id, "interrupting"))


def _delivery(state: State, turn: Turn, command: c.AddMessage) -> str:
    """`auto` is the session's own, and `queue` where that says nothing; of a turn that is ending every `auto` joins the coming one."""
    if command.delivery != "auto" or turn.ending:
        return command.delivery
    return "queue" if state.created.delivery == "auto" else state.created.delivery


def _name(command: c.AddMessage) -> str:
    return command.message.author.name or command.message.author.kind


def _added(turn_id: TurnId | None, command: c.AddMessage, delivery: str | None = None) -> Happened:
    added = e.MessageAdded(
        message=command.message,
        delivery=delivery,
        scope=command.scope,
        fingerprint=command.fingerprint,
        refs=under("/message", command.refs),
    )
    return Happened(turn_id, added)


def _queue(state: State, command: c.EditItem | c.RemoveItem | c.PromoteItem | c.PauseQueue | c.ResumeQueue) -> Decision:
    match command:
        case c.EditItem():
            return Decision(queue.edited(state, command))
        case c.RemoveItem(item_id=item_id):
            queue.find(state, item_id)
            return Decision([queue.changed(state, tuple(item for item in state.queue if item.id != item_id))])
        case c.PromoteItem():
            return Decision(*queue.promoted(state, command))
        case c.PauseQueue():
            return Decision(queue.paused(state, command))
        case c.ResumeQueue():
            return Decision(queue.resumed(state))
        case _:
            assert_never(command)


# --- the turn -----------------------------------------------------------------------------------------------------------------


def _cancel_turn(state: State, command: c.CancelTurn) -> Decision:
    _open(state)
    turn = state.turn
    if turn is None or command.turn_id not in (None, turn.id):
        return Decision([], c.Cancelling(None))
    if turn.ending:  # a second cancel: what waits for the end waits on, as paused items
        held = queue.held(state, command.fresh, "cancelled", ("coming", "steer"), everything=True)
        emptied = [queue.changed(state, ())] if not command.keep_queue and (held or state.queue) else []
        return Decision([*held, *emptied], c.Cancelling(turn.id))
    request = e.TurnCancelRequested(by=command.by, cause=command.cause, keep_queue=command.keep_queue)
    stop = [Happened(turn.id, request), *ending.asks_closed(state.turn_asks, request.by)]
    kept = tuple(msgspec.structs.replace(item, paused=True) for item in state.queue) if command.keep_queue else ()
    if kept != state.queue:
        stop.append(queue.changed(state, kept, reason="cancelled"))
    return Decision(stop, c.Cancelling(turn.id))


def _retry_turn(state: State, command: c.RetryTurn) -> Decision:
    _open(state)
    if state.turn is not None:
        raise Refused("turn_running", "A turn is running. Cancel it, or wait for its end.")
    last = state.last_turn
    if last is None or last.id != command.turn_id or last.outcome == "completed":
        raise Refused("not_retryable", "Only the latest turn can be retried, and only if it failed, was cancelled or was interrupted.")
    start = ending.started(state, "retry", last.message_ids, attempt_of=last.id, scope=command.scope)
    return Decision([of(command.new_turn_id, start)], c.Retrying(command.new_turn_id))


def _begin_step(state: State, command: c.BeginStep) -> Decision:
    turn = _going_on(state, command.turn_id)
    if any(call.run_by == "daemon" for call in turn.calls.values()):
        raise Refused("calls_open", "Calls of the step before have no result yet. Wait for them.")
    steers = [id for id, waits in state.waiting.items() if waits.joins == "steer"]
    along = [stored.id for stored in state.stored] if steers else []
    read = [e.MessageDelivered(message_id=id, turn_id=turn.id, step_id=command.step_id) for id in (*along, *steers)]
    return _events(turn.id, *read, e.StepStarted(step_id=command.step_id, index=turn.steps))


def _add_text(state: State, command: c.AddText) -> Decision:
    output = state.turn.output if state.turn else None
    if output is None or output.id != command.message_id:
        return Decision([])  # too late changes nothing
    known = next((part.chars for part in output.parts if part.id == command.part_id), 0)
    offset, text = _beyond(known, command.offset, command.text)
    if not text and command.data is None:
        return Decision([])
    delta = e.ModelOutputDelta(
        message_id=command.message_id, part_id=command.part_id, kind=command.kind, offset=offset, text=text, data=command.data
    )
    return _events(command.turn_id, delta)


def _beyond(known: int, offset: int, text: str) -> tuple[int, str]:
    """The piece without what the log has already: after a failed write the same text may be flushed twice."""
    had = max(0, known - offset)
    return offset + had, text[had:]


def _complete_output(state: State, command: c.CompleteOutput) -> Decision:
    turn = _going_on(state, command.turn_id)
    if turn.output is None or turn.output.id != command.message.id:
        raise Refused("turn_over", f"The message {command.message.id} is not open.")
    completed = e.ModelOutputCompleted(message=command.message, stop_reason=command.stop_reason, usage=command.usage, cost=command.cost)
    return _events(turn.id, completed)


# --- calls --------------------------------------------------------------------------------------------------------------------


def _start_calls(state: State, command: c.StartCalls) -> Decision:
    turn = _going_on(state, command.turn_id)
    known = turn.calls.keys()
    fresh = [call for call in command.calls if call.tool_call.id not in known]
    return _events(turn.id, *(_started(call) for call in fresh), *(event for call in fresh for event in _consequence(call)))


def _started(call: c.NewCall) -> e.ToolCallStarted:
    return e.ToolCallStarted(
        tool_call=call.tool_call,
        kind=call.kind,
        title=call.title,
        locations=call.locations,
        run_by=call.run_by,
        message_id=call.message_id,
        step_id=call.step_id,
        waits=call.approval is not None or call.inquiry is not None or call.error is not None,
        refs=under("/tool_call/input", call.refs),
    )


def _consequence(call: c.NewCall) -> Iterable[e.AnyEvent]:
    if call.error is not None:
        yield denied(call.tool_call.id, call.tool_call.name, call.error.code, call.error.message, truncated=call.truncated)
    elif call.approval is not None:
        if call.plan is not None:
            yield e.PlanUpdated(plan=call.plan, run_by=call.run_by, tool_call_id=call.tool_call.id)
        yield _requested(call, call.approval)
    elif call.inquiry is not None:
        ask = call.inquiry
        yield e.QuestionAsked(
            question_id=ask.id,
            questions=ask.questions,
            tool_call_id=call.tool_call.id,
            deadline=ask.deadline,
            refs=under("/questions", ask.refs),
        )


def _requested(call: c.NewCall | Call | None, approval: c.Approval) -> e.ApprovalRequested:
    refs = (under("/tool_call/input", call.refs if call else None) or {}) | (under("/preview", approval.refs) or {})
    return e.ApprovalRequested(
        approval_id=approval.id,
        subject=approval.subject,
        tool_call=call.tool_call if call else None,
        kind=call.kind if call else "ask",
        preview=approval.preview,
        options=approval.options,
        reason=approval.reason,
        deadline=approval.deadline,
        budget=approval.budget,
        refs=refs or None,
    )


def _ask_again(state: State, command: c.AskAgain) -> Decision:
    turn = _going_on(state, command.turn_id)
    call = turn.calls.get(command.tool_call_id)
    if call is None or call.state != "approved":
        raise Refused("not_next", f"The call {command.tool_call_id} is not about to begin.")
    return _events(turn.id, _requested(call, command.approval))


def _add_output(state: State, command: c.AddOutput) -> Decision:
    call = state.turn.calls.get(command.tool_call_id) if state.turn else None
    if call is None:
        return Decision([])
    offset, text = _beyond(call.chars.get(command.stream, 0), command.offset, command.text)
    if not text:
        return Decision([])
    delta = e.ToolOutputDelta(tool_call_id=command.tool_call_id, stream=command.stream, offset=offset, text=text)
    return _events(command.turn_id, delta)


def _complete_call(state: State, command: c.CompleteCall) -> Decision:
    turn = state.turn
    call = turn.calls.get(command.result.id) if turn else None
    if turn is None or call is None or (turn.ending and call.state != "running"):
        return Decision([])
    completed = e.ToolCallCompleted(
        tool_call=CallRef(call.tool_call.id, call.tool_call.name),
        tool_result=command.result,
        duration_ms=command.duration_ms,
        refs=under("/tool_result", command.refs),
    )
    asked = [ask for ask in state.turn_asks if ask.call_id == call.tool_call.id]  # a backend may go on without its answer
    moot = ending.asks_closed(asked, "palaver")
    return Decision([*moot, of(turn.id, completed)])


# --- asking -------------------------------------------------------------------------------------------------------------------


def _settled(state: State, kind: str, ask_id: str, client_answer_id: str | None) -> c.Reply:
    """The first result again for who gave it; everybody else is told that it stands."""
    settled = state.settled.get(ask_id)  # type: ignore[call-overload]  # the id comes from outside
    reply: c.Approved | c.Answered | None = (settled.approval or settled.question) if settled else None
    if settled is None or reply is None:
        raise Refused("not_found", f"There is no {kind} {ask_id}.")
    if client_answer_id is not None and settled.client_answer_id == client_answer_id:
        return reply
    raise Refused("already_answered", f"This {kind} was settled already, by {reply.by} at {reply.at}.", **msgspec.to_builtins(reply))


def choose(asked: e.ApprovalRequested, command: c.AnswerApproval) -> Option | None:
    """The option that an answer means: the one it names, else the narrowest of its action that is at least what was asked for."""
    if command.option_id is not None:
        found = next((option for option in asked.options if option.id == command.option_id), None)
        if found is None:
            ids = ", ".join(option.id for option in asked.options)
            raise Invalid(f"There is no option {command.option_id!r} here. Use one of: {ids}.", path="option_id")
        return found
    order = ("once", "session", "workspace")
    least = order.index(command.scope)
    wide = [option for option in asked.options if option.action == command.action and order.index(option.scope) >= least]
    if not wide and command.action == "approve" and command.scope != "once":
        raise Invalid(f"This approval cannot be given for the {command.scope}. Approve it once.", path="scope")
    return min(wide, key=lambda option: order.index(option.scope), default=None)


def _answer_approval(state: State, command: c.AnswerApproval) -> Decision:
    ask = state.asks.get(command.approval_id)
    if ask is None or ask.approval is None:
        return Decision([], _settled(state, "approval", command.approval_id, command.client_answer_id))
    asked = ask.approval
    option = choose(asked, command) if command.cause == "user" else None
    action = option.action if option else command.action
    call = CallRef(asked.tool_call.id, asked.tool_call.name) if asked.tool_call else None
    reply = c.Approved(command.approval_id, "granted" if action == "approve" else "denied", command.by, command.at)
    if action == "approve":
        scope = "once" if command.input is not None or option is None else option.scope
        granted = e.ApprovalGranted(
            approval_id=command.approval_id,
            tool_call=call,
            by=command.by,
            scope=scope,
            reason=command.reason,
            option_id=option.id if option else None,
            input=command.input,
            client_answer_id=command.client_answer_id,
            refs=under("/input", command.input_refs),
        )
        goes_on = [of(None, e.SessionUpdated(session={"mode": option.mode}))] if option and option.mode else []
        return Decision([of(ask.turn_id, granted), *goes_on], reply)
    deny = e.ApprovalDenied(
        approval_id=command.approval_id,
        tool_call=call,
        by=command.by,
        cause=command.cause,
        reason=command.reason,
        option_id=option.id if option else None,
        client_answer_id=command.client_answer_id,
    )
    ended: list[e.AnyEvent] = [deny]
    if asked.subject == "plan" and call is not None and state.plan is not None:
        ended.append(e.PlanUpdated(plan=replace(state.plan, status="rejected"), run_by="daemon", tool_call_id=call.id))
    if call is not None and state.turn is not None and call.id in state.turn.calls:
        ended.append(denied(call.id, call.name, "tool_denied", _why(command, asked)))
    return Decision([of(ask.turn_id, event) for event in ended], reply)


def _why(command: c.AnswerApproval, asked: e.ApprovalRequested) -> str:
    """What the model reads about a call that was not allowed."""
    said = f": {command.reason}" if command.reason else "."
    if asked.subject == "plan" and command.cause == "user":
        return f"The person wants you to plan on{said} Nothing is changed or run before they approve a plan."
    match command.cause:
        case "expired":
            return "Nobody answered the approval in time, so the call was not run."
        case "policy":
            return f"A rule denies this call{said}"
        case "user":
            return f"The person denied this call{said}"
        case "cancelled":
            return "The turn was cancelled before this call was approved."
        case _:
            assert_never(command.cause)


def _answer_question(state: State, command: c.AnswerQuestion) -> Decision:
    ask = state.asks.get(command.question_id)
    if ask is None or ask.question is None:
        return Decision([], _settled(state, "question", command.question_id, command.client_answer_id))
    answered = e.QuestionAnswered(
        question_id=command.question_id,
        cause=command.cause,
        by=command.by,
        answers=command.answers,
        reason=command.reason,
        client_answer_id=command.client_answer_id,
        refs=under("/answers", command.refs),
    )
    events = [of(ask.turn_id, answered), *_question_result(state, ask, command.result, command)]
    return Decision(events, c.Answered(command.question_id, command.cause, command.by, command.at, command.answers))


def _question_result(state: State, ask: Ask, result: ToolResult, command: c.AnswerQuestion) -> list[Happened]:
    call_id: CallId | None = ask.call_id
    call = state.turn.calls.get(call_id) if state.turn and call_id else None
    if call is None:
        return []
    ref = CallRef(call.tool_call.id, call.tool_call.name)
    completed = e.ToolCallCompleted(tool_call=ref, tool_result=result, duration_ms=0, refs=under("/tool_result", command.result_refs))
    return [of(ask.turn_id, completed)]
