"""Writes a session's log by hand: a `Story` gives numbers, times and ids, and a method for each thing that commonly happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from palaver.wire import events as e
from palaver.wire.codec import encode, encode_event, encode_frame
from palaver.wire.ids import AskId, CallId, ItemId, MessageId, PartId, SessionId, StepId, TurnId
from palaver.wire.values import (
    Author,
    CallError,
    CallKind,
    CallRef,
    Capabilities,
    Counts,
    ErrorInfo,
    Location,
    Message,
    Option,
    Outcome,
    Part,
    Preview,
    QueueEntry,
    Refs,
    Role,
    SessionInfo,
    StopReason,
    Stream,
    Subject,
    TextKind,
    ToolCall,
    ToolResult,
    Trigger,
    Usage,
)

CAN = Capabilities(
    steer=True,
    resume=True,
    load=True,
    modes=True,
    models=True,
    commands=True,
    vision=False,
    tools=True,
    approvals=True,
    on_deny="continues",
)
OPEN = "open"
"""Of the turn that is open, if one is."""
STOPS: dict[str, StopReason] = {"completed": "end_turn", "failed": "error", "cancelled": "cancelled", "interrupted": "interrupted"}


@dataclass
class Said:
    """An assistant's message while it is being said."""

    id: MessageId
    step: StepId
    parts: dict[str, Part] = field(default_factory=dict)
    calls: list[ToolCall] = field(default_factory=list)


class Story:
    """`recorded` is the log; `stream` is what a reader with the tail got: the same events with pieces, numbered 0, between them."""

    def __init__(self, session_id: str = "sess_1") -> None:
        self.session_id = SessionId(session_id)
        self.recorded: list[e.Recorded] = []
        self.stream: list[e.Recorded] = []
        self.turn: TurnId | None = None
        self.backend = "loop"
        self._ids: dict[str, int] = {}

    # --- envelopes

    def log(self, event: e.AnyEvent, turn: str | None = OPEN) -> e.Recorded:
        """The next event, of the open turn unless another or none is named."""
        turn_id = self.turn if turn == OPEN else None if turn is None else TurnId(turn)
        recorded = e.Recorded(len(self.recorded) + 1, self._ts(), self.session_id, turn_id, event)
        self.recorded.append(recorded)
        self.stream.append(recorded)
        return recorded

    def piece(self, event: e.ModelOutputDelta | e.ToolOutputDelta) -> None:
        self.stream.append(e.Recorded(0, self._ts(), self.session_id, self.turn, event))

    def unknown(self, type: str, data: Any) -> None:
        """An event of a version that does not exist yet."""
        line = {"v": 1, "seq": len(self.recorded) + 1, "ts": self._ts(), "session_id": self.session_id, "turn_id": self.turn}
        self.log(e.UnknownEvent(raw=encode({**line, "type": type, "data": data})))

    def id(self, prefix: str) -> str:
        self._ids[prefix] = self._ids.get(prefix, 0) + 1
        return f"{prefix}_{self._ids[prefix]}"

    def _ts(self) -> str:
        ms = (len(self.recorded) + 1) * 370
        return f"2026-03-01T09:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z"

    # --- sessions and input

    def created(self, **info: Any) -> None:
        ours = {"title": "A session", "agent": "palaver", "backend": self.backend, "model": "m1", "mode": "ask", "delivery": "queue"}
        chosen = {"system_prompt": None, "auto_run": True, "workspace_path": "/home/ada/engine", "capabilities": CAN, **ours, **info}
        self.log(e.SessionCreated(session=SessionInfo(id=self.session_id, created_at=self._ts(), **chosen)))

    def message(
        self, text: str, *, role: Role = "user", parts: tuple[Part, ...] | None = None, author: str = "user", **more: Any
    ) -> Message:
        said = (Part("text", id=PartId(self.id("part")), text=text),) if parts is None else parts
        who = Author(cast(Any, author))
        return Message(id=MessageId(self.id("msg")), role=role, parts=said, created_at=self._ts(), author=who, **more)

    def adds(self, message: Message | str, turn: str | None = OPEN, *, delivery: str | None = None, refs: Refs | None = None) -> MessageId:
        made = self.message(message) if isinstance(message, str) else message
        self.log(e.MessageAdded(message=made, delivery=delivery, refs=refs), turn)
        return made.id

    def steers(self, message: Message | str) -> MessageId:
        return self.adds(message, delivery="steer")

    def delivers(self, message_id: str, step: str = "step_x") -> None:
        assert self.turn is not None
        self.log(e.MessageDelivered(message_id=MessageId(message_id), turn_id=self.turn, step_id=StepId(step)))

    def queue(self, *items: tuple[str, Message | None], paused: bool = False, refs: Refs | None = None) -> None:
        """Items by message id, with the message where it is new or edited."""
        entries = tuple(
            QueueEntry(ItemId(f"item_{id}"), TurnId(f"turn_for_{id}"), "queue", MessageId(id), paused, message) for id, message in items
        )
        self.log(e.QueueChanged(items=entries, paused=paused, refs=refs))

    # --- turns

    def asks(self, text: str) -> TurnId:
        """A message of an idle session, and its turn."""
        turn = self.id("turn")
        return self.starts(self.adds(text, turn), turn=turn)

    def starts(self, *message_ids: str, trigger: Trigger = "user", turn: str | None = None, attempt_of: str | None = None) -> TurnId:
        self.turn = TurnId(turn or self.id("turn"))
        self.log(
            e.TurnStarted(
                trigger=trigger,
                message_ids=tuple(MessageId(id) for id in message_ids),
                agent="palaver",
                backend=self.backend,
                model="m1",
                attempt_of=None if attempt_of is None else TurnId(attempt_of),
            )
        )
        return self.turn

    def ends(self, outcome: Outcome = "completed", **more: Any) -> TurnId:
        assert self.turn is not None
        ended = self.turn
        if outcome == "failed":
            more.setdefault("error", ErrorInfo("model_failed", "The model did not answer."))
        more.setdefault("stop_reason", STOPS[outcome])
        more.setdefault("usage", Usage(1200, 34))
        more.setdefault("duration_ms", 5120)
        more.setdefault("counts", Counts(steps=1, tool_calls=0))
        self.log(e.TurnCompleted(outcome=outcome, **more))
        self.turn = None
        if outcome == "failed":
            self.log(e.SessionFailed(turn_id=ended, error=more["error"]))
        if outcome == "cancelled":
            self.log(e.SessionCanceled(turn_id=ended, by="user"))
        return ended

    def cancel_asked(self, **more: Any) -> None:
        self.log(e.TurnCancelRequested(**{"by": "user", "cause": "user_cancel", "keep_queue": True, **more}))

    def step(self) -> StepId:
        step = StepId(self.id("step"))
        self.log(e.StepStarted(step_id=step, index=self._ids["step"]))
        return step

    # --- output

    def opens(self) -> Said:
        said = Said(MessageId(self.id("msg")), self.step())
        self.log(e.ModelOutputStarted(message_id=said.id, step_id=said.step))
        return said

    def delta(self, said: Said, text: str, kind: TextKind = "text", part: str | None = None) -> str:
        """A logged piece of a part, of a new one unless it is named; gives the part's id."""
        id = PartId(part or self.id("part"))
        known = said.parts.get(id, Part(kind, id=id, text=""))
        before = known.text or ""
        self.log(e.ModelOutputDelta(message_id=said.id, part_id=id, kind=kind, offset=len(before), text=text))
        said.parts[id] = Part(kind, id=id, text=before + text)
        return id

    def tail(self, said: Said, part: str, offset: int, text: str, kind: TextKind = "text") -> None:
        self.piece(e.ModelOutputDelta(message_id=said.id, part_id=PartId(part), kind=kind, offset=offset, text=text))

    def completes(self, said: Said, *, interrupted: bool = False, more: tuple[Part, ...] = (), **fields: Any) -> None:
        """With its parts, then a place for each of its calls, then `more`."""
        places = tuple(Part("tool_call", id=PartId(call.id)) for call in said.calls)
        message = Message(
            id=said.id,
            role="assistant",
            parts=(*said.parts.values(), *places, *more),
            created_at=self._ts(),
            author=Author("agent", "palaver"),
            tool_calls=tuple(said.calls),
            interrupted=interrupted,
        )
        self.log(e.ModelOutputCompleted(message=message, **{"stop_reason": "end_turn", "usage": Usage(600, 17), **fields}))

    def says(self, *texts: str, thinks: str | None = None, calls: Iterable[ToolCall] = ()) -> Said:
        """A whole message, its text in the given pieces."""
        said = self.opens()
        if thinks is not None:
            self.delta(said, thinks, "thinking")
        part: str | None = None
        for text in texts:
            part = self.delta(said, text, part=part)
        said.calls.extend(calls)
        self.completes(said)
        return said

    # --- calls

    def call(self, name: str = "read_file", **input: Any) -> ToolCall:
        return ToolCall(CallId(self.id("call")), name, input)

    def calls(self, said: Said | None, call: ToolCall, kind: CallKind = "read", **more: Any) -> ToolCall:
        """`tool_call_started`; without a message it is the daemon's own."""
        where = {"message_id": None if said is None else said.id, "step_id": None if said is None else said.step}
        fields = {"title": f"{call.name}", "locations": (), "run_by": "daemon", **where, **more}
        self.log(e.ToolCallStarted(tool_call=call, kind=kind, **fields))
        return call

    def runs(self, call: ToolCall) -> None:
        self.log(e.ToolCallRunning(tool_call_id=call.id))

    def prints(self, call: ToolCall, text: str, offset: int, stream: Stream = "stdout") -> None:
        self.log(e.ToolOutputDelta(tool_call_id=call.id, stream=stream, offset=offset, text=text))

    def returns(self, call: ToolCall, text: str = "done", *, duration_ms: int = 12, refs: Refs | None = None, **result: Any) -> None:
        parts = (Part("text", id=PartId(self.id("part")), text=text),) if text else ()
        made = ToolResult(**{"id": call.id, "ok": True, "parts": parts, **result})
        self.log(e.ToolCallCompleted(tool_call=CallRef(call.id, call.name), tool_result=made, duration_ms=duration_ms, refs=refs))

    def fails(self, call: ToolCall, code: str, message: str, **result: Any) -> None:
        self.returns(call, "", ok=False, error=CallError(code, message), duration_ms=0, **result)

    def works(self, said: Said, call: ToolCall, kind: CallKind = "read", text: str = "done") -> None:
        self.calls(said, call, kind)
        self.runs(call)
        self.returns(call, text)

    # --- asks

    def wants(self, call: ToolCall | None, *, subject: Subject = "tool", turn: str | None = OPEN, **more: Any) -> AskId:
        ask = AskId(self.id("appr"))
        options = (
            Option("o1", "approve", "once", "Allow once"),
            Option("o2", "approve", "session", "Allow here"),
            Option("o3", "deny", "once", "Deny"),
        )
        fields = {"kind": "exec", "preview": Preview(command="make test"), "options": options, "reason": "the mode asks", **more}
        self.log(e.ApprovalRequested(approval_id=ask, subject=subject, tool_call=call, **fields), turn)
        return ask

    def grants(self, ask: str, call: ToolCall | None, turn: str | None = OPEN, **more: Any) -> None:
        ref = None if call is None else CallRef(call.id, call.name)
        self.log(e.ApprovalGranted(**{"approval_id": AskId(ask), "tool_call": ref, "by": "user", "scope": "once", **more}), turn)

    def denies(self, ask: str, call: ToolCall | None, turn: str | None = OPEN, **more: Any) -> None:
        ref = None if call is None else CallRef(call.id, call.name)
        self.log(e.ApprovalDenied(**{"approval_id": AskId(ask), "tool_call": ref, "by": "user", "cause": "user", **more}), turn)

    # --- as files

    def stream_lines(self) -> str:
        """Each line an envelope; the pieces have no `seq`."""
        return "".join(_line(recorded).decode() + "\n" for recorded in self.stream)


def _line(recorded: e.Recorded) -> bytes:
    if recorded.seq:
        return encode_event(recorded)
    return encode_frame(recorded.session_id, recorded.turn_id, recorded.ts, recorded.data)


def at(path: str, line: int | None = None) -> tuple[Location, ...]:
    return (Location(path, line),)
