"""A session played through `decide` and `apply` alone: a method for each thing that a person, a backend or a restart does.

Ids and times count up, so that what comes out can be read and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from palaver.core.apply import apply
from palaver.core.decide import decide
from palaver.core.state import Item, State
from palaver.errors import Refused
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import (
    Answer,
    AnswerCause,
    Author,
    CallError,
    CallKind,
    Capabilities,
    Delivery,
    EndCause,
    ErrorInfo,
    Message,
    Option,
    Part,
    Preview,
    Question,
    QuestionOption,
    Rule,
    SessionInfo,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)

SESSION = SessionId("sess_1")
CREATED_AT = "2026-03-01T09:00:00.000Z"
CAN = Capabilities(
    steer=True,
    resume=True,
    load=True,
    modes=True,
    models=True,
    commands=False,
    vision=False,
    tools=True,
    approvals=True,
    on_deny="continues",
)
CANNOT_STEER = Capabilities(
    steer=False,
    resume=True,
    load=True,
    modes=True,
    models=True,
    commands=False,
    vision=False,
    tools=True,
    approvals=True,
    on_deny="continues",
)
OPTIONS = (
    Option("once", "approve", "once", "Allow once"),
    Option("session", "approve", "session", "Allow in this session", Rule("allow", tool="shell", command="make")),
    Option("workspace", "approve", "workspace", "Allow in this workspace", Rule("allow", tool="shell", command="make")),
    Option("deny", "deny", "once", "Deny"),
)
WHICH = Question(
    "q1", "Which", "Which one?", "choice", (QuestionOption("A"), QuestionOption("B")), multiple=False, free_text=True, default="A"
)
Needs = Literal["nothing", "approval", "question"]
Wanted = tuple[str, CallKind, Needs]
"""A tool's name, what kind of call it is, and what must come before it."""


def info(**chosen: Any) -> SessionInfo:
    facts: dict[str, Any] = {
        "system_prompt": None,
        "auto_run": True,
        "title": None,
        "agent": "demo",
        "backend": "loop",
        "model": "demo",
        "mode": "ask",
        "delivery": "queue",
        "capabilities": CAN,
    }
    return SessionInfo(SESSION, CREATED_AT, "/home/ada/engine", **(facts | chosen))


class Session:
    """`log` is what the session's log has, `sent` every command with what it was answered."""

    def __init__(self) -> None:
        self.state = State()
        self.log: list[e.Recorded] = []
        self.sent: list[tuple[c.AnyCommand, c.Reply | Refused | None]] = []

    def now(self) -> str:
        return f"2026-03-01T{9 + len(self.sent) // 3600:02}:{len(self.sent) // 60 % 60:02}:{len(self.sent) % 60:02}.000Z"

    def send(self, command: c.AnyCommand) -> c.Reply | None:
        """Decide and fold. Raises `Refused`, which is kept as the answer."""
        try:
            events, reply = decide(self.state, command)
        except Refused as refused:
            self.sent.append((command, refused))
            raise
        self.sent.append((command, reply))
        ts = self.now()
        for turn_id, event in events:
            self.take(e.Recorded(self.state.seq + 1, ts, SESSION, turn_id, event))
        return reply

    def take(self, recorded: e.Recorded) -> None:
        self.log.append(recorded)
        self.state = apply(self.state, recorded)


class Play(Session):
    """The session with a verb for each thing that happens to it."""

    def __init__(self, **chosen: Any) -> None:
        super().__init__()
        self._ids: dict[str, int] = {}
        self.send(c.CreateSession(session=info(**chosen)))

    # --- the machinery

    def id(self, prefix: str) -> str:
        self._ids[prefix] = self._ids.get(prefix, 0) + 1
        return f"{prefix}_{self._ids[prefix]}"

    def fresh(self) -> str:
        return f"{self.id('fresh')}_"

    def refuses(self, command: c.AnyCommand) -> Refused:
        """The refusal of a command that must be refused, and that then has changed nothing."""
        before = self.state
        try:
            self.send(command)
        except Refused as refused:
            assert self.state is before
            return refused
        raise AssertionError(f"{command} was taken")

    def types(self, since: int = 0) -> list[str]:
        return [recorded.type for recorded in self.log[since:]]

    @property
    def turn(self) -> TurnId:
        assert self.state.turn is not None
        return self.state.turn.id

    @property
    def items(self) -> tuple[Item, ...]:
        return self.state.queue

    # --- a person

    def message(self, text: str, client_id: str | None = None) -> Message:
        part = Part("text", PartId(self.id("part")), text)
        return Message(MessageId(self.id("msg")), "user", (part,), self.now(), Author("user"), client_message_id=client_id)

    def adding(self, text: str, delivery: Delivery = "auto", client_id: str | None = None, **more: Any) -> c.AddMessage:
        return c.AddMessage(
            message=self.message(text, client_id),
            turn_id=TurnId(self.id("turn")),
            item_id=ItemId(self.id("item")),
            delivery=delivery,
            fingerprint=text if client_id else None,
            **more,
        )

    def says(self, text: str, delivery: Delivery = "auto", client_id: str | None = None, **more: Any) -> c.Accepted:
        return cast(c.Accepted, self.send(self.adding(text, delivery, client_id, **more)))

    def stores(self, text: str) -> c.Accepted:
        return self.says(text, auto_run=False)

    def cancels(self, **more: Any) -> c.Cancelling:
        return cast(c.Cancelling, self.send(c.CancelTurn(**{"by": "user", "fresh": self.fresh(), **more})))

    def retries(self, turn_id: str) -> c.Retrying:
        return cast(c.Retrying, self.send(c.RetryTurn(turn_id=TurnId(turn_id), new_turn_id=TurnId(self.id("turn")))))

    def edits(self, item_id: str | None, text: str | None = None, **more: Any) -> None:
        parts = (Part("text", PartId(self.id("part")), text),) if text is not None else None
        new = MessageId(self.id("msg")) if text is not None else None
        self.send(c.EditItem(item_id=ItemId(item_id or ""), parts=parts, message_id=new, **more))

    def removes(self, item_id: str | None) -> None:
        self.send(c.RemoveItem(item_id=ItemId(item_id or "")))

    def promotes(self, item_id: str | None, **more: Any) -> c.Accepted:
        promote = c.PromoteItem(item_id=ItemId(item_id or ""), turn_id=TurnId(self.id("turn")), **more)
        return cast(c.Accepted, self.send(promote))

    def pauses(self) -> None:
        self.send(c.PauseQueue())

    def resumes(self) -> None:
        self.send(c.ResumeQueue())

    def closes(self) -> None:
        self.send(c.CloseSession(by="user"))

    def answers(self, ask: str, action: Literal["approve", "deny"] = "approve", **more: Any) -> c.Approved:
        answer = c.AnswerApproval(**{"approval_id": AskId(ask), "action": action, "by": "user", "at": self.now(), **more})
        return cast(c.Approved, self.send(answer))

    def replies(self, ask: str, cause: AnswerCause = "user", *, label: str = "A", **more: Any) -> c.Answered:
        """To a question; the call that asked hears what was chosen."""
        ok = cause in ("user", "agent_decides", "declined", "default")
        waiting = self.state.asks.get(AskId(ask))
        call_id = waiting.call_id if waiting and waiting.call_id else CallId("")
        text = label if cause in ("user", "default") else cause
        error = None if ok else CallError("tool_timeout", text)
        result = ToolResult(call_id, ok, (Part("text", text=text),), error=error)
        given = {"q1": Answer((label,))} if cause in ("user", "default") else None
        answer = c.AnswerQuestion(
            question_id=AskId(ask), cause=cause, **{"by": "user", "at": self.now(), "result": result, "answers": given, **more}
        )
        return cast(c.Answered, self.send(answer))

    # --- a backend

    def steps(self) -> StepId:
        step = StepId(self.id("step"))
        self.send(c.BeginStep(turn_id=self.turn, step_id=step))
        return step

    def opens(self) -> MessageId:
        """A step, and the message that it makes."""
        step, message = self.steps(), MessageId(self.id("msg"))
        self.send(c.BeginOutput(turn_id=self.turn, message_id=message, step_id=step))
        return message

    def streams(self, message: str, text: str, kind: Literal["text", "thinking"] = "text", part: str | None = None) -> PartId:
        id = PartId(part or self.id("part"))
        output = self.state.turn.output if self.state.turn else None
        offset = next((known.chars for known in output.parts if known.id == id), 0) if output else 0
        self.send(c.AddText(turn_id=self.turn, message_id=MessageId(message), part_id=id, kind=kind, offset=offset, text=text))
        return id

    def called(self, *names: str) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(CallId(self.id("call")), name, {"for": name}) for name in names)

    def completes(self, message: str, calls: Sequence[ToolCall] = (), text: str = "") -> None:
        """The open message, with the text that it streamed."""
        output = self.state.turn.output if self.state.turn else None
        said = [Part(part.kind, part.id, part.text) for part in output.parts] if output else []
        said += [Part("text", PartId(self.id("part")), text)] if text else []
        parts = (*said, *(Part("tool_call", PartId(call.id)) for call in calls))
        made = Message(MessageId(message), "assistant", parts, self.now(), Author("agent", "demo"), tool_calls=tuple(calls))
        reason = "tool_calls" if calls else "end_turn"
        self.send(c.CompleteOutput(turn_id=self.turn, message=made, stop_reason=reason, usage=Usage(10, 2)))

    def speaks(self, text: str, *calls: ToolCall) -> MessageId:
        """A whole step without its calls' effects."""
        message = self.opens()
        if text:
            self.streams(message, text)
        self.completes(message, calls)
        return message

    def starts(self, message: str | None, *wanted: tuple[ToolCall, CallKind, Needs], **more: Any) -> list[AskId]:
        """A batch with what was decided about each call; gives the asks that it opened, in order."""
        asks: list[AskId] = []
        calls: list[c.NewCall] = []
        for call, kind, needs in wanted:
            approval, inquiry = None, None
            if needs == "approval":
                asks.append(AskId(self.id("appr")))
                approval = c.Approval(id=asks[-1], preview=Preview(command="make"), options=OPTIONS, **more)
            elif needs == "question":
                asks.append(AskId(self.id("ques")))
                inquiry = c.Inquiry(id=asks[-1], questions=(WHICH,), **more)
            calls.append(
                c.NewCall(
                    tool_call=call,
                    kind=kind,
                    title=call.name,
                    message_id=MessageId(message) if message else None,
                    approval=approval,
                    inquiry=inquiry,
                )
            )
        self.send(c.StartCalls(turn_id=self.turn, calls=tuple(calls)))
        return asks

    def batch(self, *wanted: Wanted, text: str = "", **more: Any) -> tuple[list[CallId], list[AskId]]:
        """A step that ends with these calls; gives their ids, and those of their asks."""
        calls = self.called(*(name for name, _, _ in wanted))
        message = self.speaks(text, *calls)
        asks = self.starts(message, *((call, kind, needs) for call, (_, kind, needs) in zip(calls, wanted, strict=True)), **more)
        return [call.id for call in calls], asks

    def runs(self, call: str) -> None:
        self.send(c.BeginCall(turn_id=self.turn, tool_call_id=CallId(call)))

    def prints(self, call: str, text: str) -> None:
        known = self.state.turn.calls.get(CallId(call)) if self.state.turn else None
        offset = known.chars.get("stdout", 0) if known else 0
        self.send(c.AddOutput(turn_id=self.turn, tool_call_id=CallId(call), stream="stdout", offset=offset, text=text))

    def returns(self, call: str, text: str = "done") -> None:
        result = ToolResult(CallId(call), True, (Part("text", text=text),))
        self.send(c.CompleteCall(turn_id=self.turn, result=result, duration_ms=12))

    def works(self, call: str) -> None:
        self.runs(call)
        self.returns(call)

    def finishes(
        self, outcome: Literal["completed", "failed", "interrupted"] = "completed", cause: EndCause | None = None, turn: str | None = None
    ) -> None:
        stops: dict[str, StopReason] = {"completed": "end_turn", "failed": "error", "interrupted": "interrupted"}
        self.send(
            c.FinishTurn(
                turn_id=TurnId(turn) if turn else self.turn,
                outcome=outcome,
                stop_reason=stops[outcome],
                fresh=self.fresh(),
                at=self.now(),
                duration_ms=1000,
                cause=cause,
                error=ErrorInfo("model_failed", "The model did not answer.") if outcome == "failed" else None,
            )
        )

    def stops(self, cause: Literal["crash", "shutdown"] | None = None) -> None:
        """Everything that the cancelled turn had started is gone."""
        self.send(c.EndCancelled(turn_id=self.turn, fresh=self.fresh(), at=self.now(), duration_ms=1000, cause=cause))

    def answered(self, text: str = "Hello.") -> None:
        """One step that calls nothing, and the end."""
        self.speaks(text)
        self.finishes()

    # --- a start

    def recovers(self) -> None:
        """What a start makes of a session that was left open: nothing runs again by itself."""
        turn = self.state.turn
        if turn is None:
            self.send(c.PauseQueue(reason="interrupted", fresh=self.fresh()))
        elif self.state.only_waits:
            self.send(c.PauseQueue(reason="interrupted"))
            self.send(c.ParkTurn(turn_id=turn.id))
        elif turn.ending:
            self.stops("crash")
        else:
            self.finishes("interrupted", "crash")
