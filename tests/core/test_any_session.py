"""Random sessions keep the promises: people, a backend, a disk that fails, and crashes that cut an append anywhere.

`PALAVER_STORM=10` looks ten times as far. The same sessions are tried in every run, so that a failure can be seen again.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any, Literal, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lawful import Law, waiting_ids
from play import CANNOT_STEER, Play

from palaver.core.apply import apply
from palaver.core.decide import decide
from palaver.core.state import Ask, State
from palaver.errors import Refused
from palaver.models.base import ModelMessage
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.codec import decode_event, encode_event
from palaver.wire.ids import AskId, CallId, MessageId, PartId, StepId, TurnId
from palaver.wire.values import (
    CallError,
    CallKind,
    Delivery,
    ErrorInfo,
    Option,
    Outcome,
    Part,
    Preview,
    Scope,
    StopReason,
    TextKind,
    ToolCall,
    ToolResult,
)

STORM = int(os.environ.get("PALAVER_STORM", "1"))
BOUNDS = settings(
    max_examples=60 * STORM,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
some = st.integers(0, 7)
"""Which one of several: taken modulo how many there are."""
DELIVERIES: tuple[Delivery, ...] = ("auto", "auto", "queue", "steer", "interrupt")
KINDS: tuple[CallKind, ...] = ("read", "read", "write", "exec", "ask")


class Removal(msgspec.Struct):
    """What a command took away for good: for certain if all of its events are in the log, perhaps if only some are."""

    ids: set[MessageId]
    first: int
    last: int
    certain: bool = True


class AnySession(RuleBasedStateMachine):
    """`play` is the session ahead; up to `synced` its log is on disk, and only that outlives a crash for certain."""

    @initialize(delivery=st.sampled_from(("queue", "queue", "steer", "interrupt", "auto")), steerable=st.sampled_from((True, True, False)))
    def begins(self, delivery: str, steerable: bool) -> None:
        self.play = Play(delivery=delivery, **({} if steerable else {"capabilities": CANNOT_STEER}))
        self.synced = 1
        self.law = Law()
        self.replayed, self.restored = State(), State()
        self.starts_of = [1]
        """Where each append begins: a failed write takes whole ones away."""
        self.client_ids: list[tuple[c.AddMessage, c.Accepted, int]] = []
        self.removals: list[Removal] = []
        self.texts: dict[MessageId, str] = {}
        self.catch_up()

    # --- the session's own rules

    @property
    def state(self) -> State:
        return self.play.state

    def catch_up(self) -> None:
        """What is new goes over the wire to whoever folds it there."""
        for recorded in self.play.log[self.law.seq :]:
            told = decode_event(encode_event(recorded))
            assert told == recorded
            self.law.take(told)
            self.replayed, self.restored = apply(self.replayed, told), apply(self.restored, told)

    def begin_again(self, log: list[e.Recorded]) -> None:
        """The log has only these events now."""
        self.play.log = log
        self.law, self.play.state, self.replayed = Law(), State(), State()
        for recorded in log:
            self.play.state = apply(self.play.state, recorded)
        if self.restored.seq > len(log):
            self.restored = State()
            for recorded in log:
                self.restored = apply(self.restored, recorded)
        self.synced = min(self.synced, len(log))
        self.starts_of = [start for start in self.starts_of if start <= len(log)]
        self.client_ids = [known for known in self.client_ids if known[2] <= len(log)]
        self.removals = [removal for removal in self.removals if removal.first <= len(log)]
        for removal in self.removals:
            removal.certain &= removal.last <= len(log)
        seq, self.law.seq = self.law.seq, 0
        assert seq == 0
        restored = self.restored
        self.catch_up()
        self.restored = restored

    def send(self, command: c.AnyCommand) -> c.Reply | Refused | None:
        before, waited = self.state, set(waiting_ids(self.state))
        again: c.Reply | Refused | None
        try:
            again = decide(before, command).reply
        except Refused as refused:
            again = refused
        first = before.seq + 1
        try:
            reply = self.play.send(command)
        except Refused as refused:
            assert self.state is before and isinstance(again, Refused) and again.code == refused.code
            return refused
        assert reply == again, "the same command on the same state is decided the same"
        if self.state.seq >= first:
            self.starts_of.append(first)
        self._removed(command, waited, first)
        self.catch_up()
        return reply

    def _removed(self, command: c.AnyCommand, waited: set[MessageId], first: int) -> None:
        removes = isinstance(command, c.RemoveItem | c.CloseSession | c.EditItem) or (
            isinstance(command, c.CancelTurn) and not command.keep_queue
        )
        ids = waited - set(waiting_ids(self.state))
        if ids and removes:
            self.removals.append(Removal(ids, first, self.state.seq))
        elif ids:
            assert ids <= {id for recorded in self.play.log[first - 1 :] for id in _read_by(recorded.data)}, "lost"

    @invariant()
    def the_state_is_the_fold_of_the_log(self) -> None:
        """Promise 1 for the state: also over the wire, and from a checkpoint."""
        assert self.replayed == self.state
        assert self.restored == self.state

    @invariant()
    def the_log_is_lawful(self) -> None:
        self.law.holds(self.state)

    @invariant()
    def no_message_is_lost_and_a_removed_one_stays_removed(self) -> None:
        """Promise 4 and promise 8."""
        certain = {id for removal in self.removals if removal.certain for id in removal.ids}
        possible = {id for removal in self.removals for id in removal.ids}
        gone = self.law.nowhere(self.state)
        assert certain <= gone
        assert gone <= possible
        history = self.law.history.messages(closing=True)
        assert not any(self.texts[id] in _words(history) for id in certain if id in self.texts)

    @invariant()
    def nothing_waits_unpaused_while_nothing_runs(self) -> None:
        if self.state.turn is None:
            assert all(item.paused for item in self.state.queue)
            assert not self.state.waiting

    @precondition(lambda self: not self.state.closed)
    @rule(seed=st.integers(0, 2**32), long=st.integers(1, 60))
    def a_while_passes(self, seed: int, long: int) -> None:
        """Many ordinary things one after the other, mostly work: what single steps would hardly ever reach."""
        random = Random(seed)
        for _ in range(long):
            self._something_happens(random)
            self.the_state_is_the_fold_of_the_log()
            self.the_log_is_lawful()
            self.no_message_is_lost_and_a_removed_one_stays_removed()
            self.nothing_waits_unpaused_while_nothing_runs()

    def _something_happens(self, random: Random) -> None:
        which, coin = random.randrange(8), random.random() < 0.5
        match random.choices(range(11), (70, 12, 2, 2, 4, 30, 2, 14, 4, 3, 1))[0]:
            case 0 if self.state.turn:
                calls = [(random.choice(KINDS), random.choice(("run", "ask", "error")), coin) for _ in range(random.randrange(4))]
                go = random.choices(("on", "fails", "late"), (30, 1, 1))[0]
                self.works(random.choice(("a", "🙂", "")), "text" if coin else "thinking", calls, which, go)
            case 1 | 0:
                self.says(random.choice(DELIVERIES), random.random() < 0.8, random.random() < 0.2, coin)
            case 2:
                self.cancels(coin)
            case 3:
                self.retries()
            case 4 if self.state.queue:
                self.changes_an_item(which, random.choice(("edit", "move", "remove", "promote")), random.randrange(8), coin)
            case 5:
                self.the_disk_has_it()
            case 6:
                self.pauses_or_resumes(coin)
            case 7 if self.state.asks:
                cause = random.choice(get_args(Literal["user", "user", "expired", "policy"]))
                self.answers(which, random.random() < 0.7, random.choice(_SCOPES), random.random() < 0.2, cause)
            case 8:
                self.says_it_again(which, coin)
            case 9:
                self.a_crash_cuts_the_log(random.randrange(41))
            case _:
                self.a_write_fails(which)

    # --- the disk

    @rule()
    def the_disk_has_it(self) -> None:
        self.synced = len(self.play.log)

    @rule()
    def a_checkpoint_is_written_and_read(self) -> None:
        self.restored = msgspec.msgpack.decode(msgspec.msgpack.encode(self.restored), type=State)

    @rule(which=some)
    def a_write_fails(self, which: int) -> None:
        """What was decided since the last sync is not true: whole appends are cut away, and the session goes on from what is safe."""
        unsafe = [start for start in self.starts_of if start > self.synced]
        if unsafe:
            self.begin_again(self.play.log[: unsafe[which % len(unsafe)] - 1])

    @rule(which=st.integers(0, 40))
    def a_crash_cuts_the_log(self, which: int) -> None:
        """Anywhere after the last sync, in the middle of an append too; then a start brings the session to where work may begin."""
        length = len(self.play.log)
        self.begin_again(self.play.log[: length - which % (length - self.synced + 1)])
        before = len(self.play.log)
        open_turn = self.state.turn
        self.recover()
        started = [recorded for recorded in self.play.log[before:] if isinstance(recorded.data, e.TurnStarted | e.ToolCallRunning)]
        assert not started, "a start runs nothing by itself"
        assert all(item.paused for item in self.state.queue)
        if open_turn is not None and self.state.turn is None:
            expected: Outcome = "cancelled" if open_turn.ending else "interrupted"
            assert self.state.last_turn is not None and self.state.last_turn.outcome == expected
        self.synced = len(self.play.log)

    def recover(self) -> None:
        first = self.state.seq + 1
        if not self.state.closed:
            self.play.recovers()
        if self.state.seq >= first:
            self.starts_of.append(first)
        self.catch_up()

    # --- a person

    @rule(delivery=st.sampled_from(DELIVERIES), run=st.sampled_from((True, True, True, False)), narrow=st.booleans(), keyed=st.booleans())
    def says(self, delivery: Delivery, run: bool, narrow: bool, keyed: bool) -> None:
        words = self.play.id("word")
        key = self.play.id("client") if keyed else None
        command = self.play.adding(f"<{words}>", delivery, key, auto_run=run, scope="prompt" if narrow else None)
        before = self.state
        reply = self.send(command)
        if isinstance(reply, Refused):
            assert self.state.closed or (reply.code == "queue_full")
            return
        assert isinstance(reply, c.Accepted)
        self.texts[command.message.id] = f"<{words}>"
        self._answered_truly(before, reply, delivery, run)
        if key:
            self.client_ids.append((command, reply, self.state.seq))

    def _answered_truly(self, before: State, reply: c.Accepted, delivery: Delivery, run: bool) -> None:
        """The reply says what became of the message, and names the turn that it was put into."""
        id, turn = reply.message_id, before.turn
        assert self.law.seen[id] == reply.turn_id
        if not run:
            assert reply.delivered == "stored" and reply.turn_id is None
        elif turn is None:
            assert reply.delivered == "started" and self.state.turn is not None and self.state.turn.id == reply.turn_id
        elif turn.ending:
            assert reply.delivered == ("queued" if delivery == "queue" else "interrupting")
            assert delivery == "queue" or before.coming in (None, reply.turn_id)
        elif reply.delivered == "steered":
            assert reply.turn_id == turn.id
        elif reply.delivered == "interrupting":
            assert self.state.turn is not None and self.state.turn.ending
        else:
            assert reply.delivered == "queued" and reply.item_id in {item.id for item in self.state.queue}

    @rule(which=some, other=st.booleans())
    def says_it_again(self, which: int, other: bool) -> None:
        """Promise 5"""
        if not self.client_ids:
            return
        first, reply, _ = _one(self.client_ids, which)
        message = self.play.message("something else" if other else "whatever it says", first.message.client_message_id)
        fingerprint = "something else" if other else first.fingerprint
        before = self.state
        again = self.send(msgspec.structs.replace(first, message=message, turn_id=TurnId(self.play.id("turn")), fingerprint=fingerprint))
        assert self.state is before
        assert (again.code == "id_reused") if isinstance(again, Refused) else (again == reply and not other)

    @precondition(lambda self: self.state.turn or self.state.closed)
    @rule(keep=st.sampled_from((True, True, False)))
    def cancels(self, keep: bool) -> None:
        reply = self.send(c.CancelTurn(by="user", fresh=self.play.fresh(), keep_queue=keep))
        if isinstance(reply, c.Cancelling):
            assert reply.turn_id == (self.state.turn.id if self.state.turn else None)
            assert self.state.turn is None or self.state.turn.ending

    @rule()
    def retries(self) -> None:
        last = self.state.last_turn
        if last is None:
            return
        reply = self.send(c.RetryTurn(turn_id=last.id, new_turn_id=TurnId(self.play.id("turn"))))
        if not isinstance(reply, Refused):
            assert last.outcome != "completed" and self.state.turn is not None and self.state.turn.attempt_of == last.id

    @precondition(lambda self: self.state.queue)
    @rule(which=some, what=st.sampled_from(("edit", "move", "remove", "promote", "promote")), where=some, narrow=st.booleans())
    def changes_an_item(self, which: int, what: str, where: int, narrow: bool) -> None:
        item = _one(self.state.queue, which)
        scope = "prompt" if narrow else None
        match what:
            case "edit":
                words = self.play.id("word")
                id, parts = MessageId(self.play.id("msg")), (Part("text", PartId(self.play.id("part")), f"<{words}>"),)
                self.send(c.EditItem(item_id=item.id, parts=parts, message_id=id, scope=scope))
                now = next(other.message for other in self.state.queue if other.id == item.id)
                self.texts[now.id] = f"<{words}>"
                assert now.parts == parts
            case "move":
                other = _one((*self.state.queue, None), where)
                self.send(c.EditItem(item_id=item.id, before=other.id if other else None))
            case "remove":
                self.send(c.RemoveItem(item_id=item.id))
                assert isinstance(self.send(c.RemoveItem(item_id=item.id)), Refused)
            case _:
                reply = self.send(c.PromoteItem(item_id=item.id, turn_id=TurnId(self.play.id("turn")), scope=scope))
                assert isinstance(reply, c.Accepted) and self.law.seen[reply.message_id] == reply.turn_id
                assert item.id not in {other.id for other in self.state.queue}

    @rule(pause=st.booleans())
    def pauses_or_resumes(self, pause: bool) -> None:
        self.send(c.PauseQueue() if pause else c.ResumeQueue())
        if not self.state.closed:
            assert all(item.paused == pause for item in self.state.queue)

    @precondition(lambda self: self.state.turn is None and len(self.play.log) > 60)
    @rule()
    def closes(self) -> None:
        self.send(c.CloseSession(by="user"))

    @precondition(lambda self: self.state.asks)
    @rule(
        which=some,
        approve=st.booleans(),
        scope=st.sampled_from(("once", "session", "workspace")),
        changed=st.booleans(),
        cause=st.sampled_from(("user", "user", "expired", "policy")),
    )
    def answers(self, which: int, approve: bool, scope: Scope, changed: bool, cause: Literal["user", "expired", "policy"]) -> None:
        ask = _one(list(self.state.asks.values()), which)
        key, again, other = self.play.id("answer"), self.play.now(), self.play.id("answer")
        command = self._answer(ask, approve, scope, changed, cause, key)
        reply = self.send(command)
        assert not isinstance(reply, Refused) and ask.id not in self.state.asks
        call = self.state.turn.calls.get(ask.call_id) if self.state.turn and ask.call_id else None
        assert call is None or call.state == "approved"
        before = self.state
        repeated = self.send(msgspec.structs.replace(command, at=again))
        assert repeated is not None and not isinstance(repeated, Refused)
        refused = self.send(msgspec.structs.replace(command, client_answer_id=other))
        assert isinstance(refused, Refused) and refused.code == "already_answered"
        assert self.state is before

    def _answer(
        self, ask: Ask, approve: bool, scope: Scope, changed: bool, cause: Literal["user", "expired", "policy"], key: str
    ) -> c.AnswerApproval | c.AnswerQuestion:
        if ask.approval is not None:
            return c.AnswerApproval(
                approval_id=ask.id,
                action="deny" if cause == "expired" or not approve else "approve",
                by="user",
                at=self.play.now(),
                scope=scope,
                cause=cause,
                input={"changed": True} if changed and approve else None,
                client_answer_id=key,
            )
        result = ToolResult(ask.call_id or CallId(""), True, (Part("text", text="A"),))
        return c.AnswerQuestion(
            question_id=ask.id,
            cause="expired" if cause == "expired" else "user",
            by="user",
            at=self.play.now(),
            result=result,
            client_answer_id=key,
        )

    # --- a backend: it does what is due, and sometimes reports what is no longer wanted

    @precondition(lambda self: self.state.turn)
    @rule(
        text=st.sampled_from(("a", "🙂", "two\nlines", "")),
        kind=st.sampled_from(("text", "thinking")),
        calls=st.lists(
            st.tuples(st.sampled_from(KINDS), st.sampled_from(("run", "ask", "ask", "error")), st.booleans()), min_size=0, max_size=4
        ),
        which=some,
        go=st.sampled_from(("on", "on", "on", "on", "on", "fails", "late")),
    )
    def works(self, text: str, kind: TextKind, calls: list[tuple[CallKind, str, bool]], which: int, go: str) -> None:
        turn = self.state.turn
        assert turn is not None
        if go == "late":
            self._reports_late(turn.id)
        elif turn.ending:
            self._stops(which)
        elif go == "fails":
            self._finishes("failed")
        elif turn.parked:
            return
        elif turn.output is not None:
            self._speaks(text, kind, calls)
        elif turn.calls:
            self._runs(which)
        elif turn.steps and which == 0:
            self._finishes("completed")
        else:
            self._steps()

    def _steps(self) -> None:
        step, message = StepId(self.play.id("step")), MessageId(self.play.id("msg"))
        assert self.state.turn is not None
        self.send(c.BeginStep(turn_id=self.play.turn, step_id=step))
        assert not any(waits.joins == "steer" for waits in self.state.waiting.values())
        self.send(c.BeginOutput(turn_id=self.play.turn, message_id=message, step_id=step))

    def _speaks(self, text: str, kind: TextKind, calls: list[tuple[CallKind, str, bool]]) -> None:
        output = self.state.turn.output if self.state.turn else None
        assert output is not None
        turn = self.play.turn
        if text:
            part = output.parts[-1] if output.parts and output.parts[-1].kind == kind else None
            id, offset = (part.id, part.chars) if part else (PartId(self.play.id("part")), 0)
            said = c.AddText(turn_id=turn, message_id=output.id, part_id=id, kind=kind, offset=offset, text=text)
            self.send(said)
            before = self.state
            self.send(said)
            assert self.state is before, "the same flush twice is one"
            return
        made = [(ToolCall(CallId(self.play.id("call")), "tool", {}), *wanted) for wanted in calls]
        self.play.completes(output.id, [call for call, *_ in made])
        self.starts_of.append(self.state.seq)
        self.catch_up()
        if not made:
            self._finishes("completed")
            return
        wanted = tuple(self._new_call(output.id, call, kind, needs, timed) for call, kind, needs, timed in made)
        self.send(c.StartCalls(turn_id=turn, calls=wanted))

    def _new_call(self, message: MessageId, call: ToolCall, kind: CallKind, needs: str, timed: bool) -> c.NewCall:
        deadline = "2026-03-01T10:00:00.000Z" if timed else None
        new = c.NewCall(tool_call=call, kind=kind, title="tool", message_id=message)
        match needs, kind:
            case "ask", "ask":
                inquiry = c.Inquiry(id=AskId(self.play.id("ques")), questions=(), deadline=deadline)
                return msgspec.structs.replace(new, inquiry=inquiry)
            case "ask", _:
                options = tuple(Option(scope, "approve", scope, scope) for scope in _SCOPES)
                approval = c.Approval(id=AskId(self.play.id("appr")), preview=Preview(), options=options, deadline=deadline)
                return msgspec.structs.replace(new, approval=approval)
            case "error", _:
                return msgspec.structs.replace(new, error=CallError("tool_error", "no"))
        return new

    def _runs(self, which: int) -> None:
        turn = self.state.turn
        assert turn is not None
        ready = list(self.state.next_calls())
        if not ready:
            return
        call = turn.calls[_one(ready, which)]
        if call.state == "approved":
            held = [id for id in turn.calls if id not in ready]
            if held:
                assert isinstance(self.send(c.BeginCall(turn_id=turn.id, tool_call_id=held[0])), Refused)
            assert self.send(c.BeginCall(turn_id=turn.id, tool_call_id=call.tool_call.id)) is None
            assert isinstance(self.send(c.BeginCall(turn_id=turn.id, tool_call_id=call.tool_call.id)), Refused)
            offset = call.chars.get("stdout", 0)
            self.send(c.AddOutput(turn_id=turn.id, tool_call_id=call.tool_call.id, stream="stdout", offset=offset, text="out"))
        else:
            self._returns(call.tool_call.id)

    def _returns(self, call_id: CallId) -> None:
        result = ToolResult(call_id, True, (Part("text", text="done"),))
        self.send(c.CompleteCall(turn_id=self.play.turn, result=result, duration_ms=1))

    def _stops(self, which: int) -> None:
        turn = self.state.turn
        assert turn is not None
        running = [id for id, call in turn.calls.items() if call.state == "running"]
        if running and which % 2:
            self._returns(running[0])
        self._finishes("completed")  # it lost the race against the cancel
        assert self.state.turn is not None
        self.send(c.EndCancelled(turn_id=turn.id, fresh=self.play.fresh(), at=self.play.now(), duration_ms=1))
        assert self.state.last_turn is not None and self.state.last_turn.id == turn.id

    def _finishes(self, outcome: Literal["completed", "failed"]) -> None:
        error = ErrorInfo("model_failed", "no answer") if outcome == "failed" else None
        stop: StopReason = "error" if error else "end_turn"
        self.send(
            c.FinishTurn(
                turn_id=self.play.turn,
                outcome=outcome,
                stop_reason=stop,
                fresh=self.play.fresh(),
                at=self.play.now(),
                duration_ms=1,
                error=error,
            )
        )

    def _reports_late(self, turn: TurnId) -> None:
        """Of a turn that is over, of a message that is closed, of a call that nobody made: refused, or without effect."""
        before, over = self.state, TurnId("turn_over")
        late: tuple[c.AnyCommand, ...] = (
            c.BeginStep(turn_id=over, step_id=StepId("step_0")),
            c.BeginOutput(turn_id=over, message_id=MessageId("msg_0"), step_id=StepId("step_0")),
            c.AddText(turn_id=turn, message_id=MessageId("msg_0"), part_id=PartId("part_0"), kind="text", offset=0, text="late"),
            c.AddOutput(turn_id=turn, tool_call_id=CallId("call_0"), stream="stdout", offset=0, text="late"),
            c.BeginCall(turn_id=turn, tool_call_id=CallId("call_0")),
            c.CompleteCall(turn_id=turn, result=ToolResult(CallId("call_0"), True, ()), duration_ms=1),
            c.EndCancelled(turn_id=over, fresh="f", at="", duration_ms=1),
            c.FinishTurn(turn_id=over, outcome="completed", stop_reason="end_turn", fresh="f", at="", duration_ms=1),
            c.ParkTurn(turn_id=over),
            c.DiscardOutput(turn_id=over, message_id=MessageId("msg_0")),
            c.StartCalls(turn_id=over, calls=()),
        )
        for command in late:
            self.send(command)
            assert self.state is before

    def teardown(self) -> None:
        if hasattr(self, "play"):
            state = State()
            for recorded in self.play.log:
                state = apply(state, decode_event(encode_event(recorded)))
            assert state == self.state


_SCOPES: tuple[Scope, ...] = ("once", "session", "workspace")


def _one(values: Any, which: int) -> Any:
    return values[which % len(values)]


def _read_by(event: e.AnyEvent) -> tuple[MessageId, ...]:
    match event:
        case e.TurnStarted(message_ids=ids):
            return ids
        case e.MessageDelivered(message_id=id):
            return (id,)
    return ()


def _words(history: list[ModelMessage]) -> str:
    return "".join(part.text or "" for message in history for part in message.parts)


@pytest.mark.parametrize("seed", range(24 * STORM))
def test_a_long_session_keeps_the_promises(seed: int) -> None:
    """Promises 2, 3, 5, 6 and 8, T-07, T-08, T-10, T-11: what `AnySession` asserts after each of some hundred things that happen."""
    session, random = AnySession(), Random(seed)
    session.begins(random.choice(("queue", "steer", "interrupt", "auto")), random.random() < 0.8)
    session.a_while_passes(seed, 300)
    session.teardown()


TestAnySession = AnySession.TestCase
TestAnySession.settings = BOUNDS
