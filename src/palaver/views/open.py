"""What of a session is open right now: its turn, what it asks, and the texts that still grow.

Part of every transcript page and of `hello`, for readers who skip the replay. A fold with little state: what has ended is forgotten.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from palaver.wire import events as e

Json = dict[str, Any]


class OpenPage(TypedDict, total=False):
    """`{turn?, approvals, questions, parts}` as clients get it."""

    turn: Json
    """`turn_started`'s data with the turn's `id`, `started_at`, and `cancel_requested: true` once that was asked."""
    approvals: list[Json]
    """The data of each `approval_requested` without an answer, oldest first."""
    questions: list[Json]
    """The same of `question_asked`."""
    parts: list[Json]
    """`{message_id, part_id, chars}` or `{tool_call_id, stream, chars}`: code points that logged events confirm."""


class Open(msgspec.Struct):
    """Changed in place by `note`; as data it can stand in a checkpoint."""

    turn: Json | None = None
    approvals: dict[str, Json] = {}
    questions: dict[str, Json] = {}
    parts: dict[str, Json] = {}
    """By `part_key`. The parts of a message stay until it is completed, the streams of a call until its result."""

    def note(self, recorded: e.Recorded) -> None:
        match recorded.data:
            case e.ModelOutputDelta(message_id=message_id, part_id=part_id, text=text):
                self._grow(part_key(message_id, part_id), {"message_id": message_id, "part_id": part_id, "chars": 0}, text)
            case e.ToolOutputDelta(tool_call_id=call_id, stream=stream, text=text):
                self._grow(part_key(call_id, stream), {"tool_call_id": call_id, "stream": stream, "chars": 0}, text)
            case e.ModelOutputCompleted(message=message):
                self._end_parts("message_id", message.id)
            case e.ModelOutputDiscarded(message_id=message_id):
                self._end_parts("message_id", message_id)
            case e.ToolCallCompleted(tool_call=call):
                self._end_parts("tool_call_id", call.id)
            case e.TurnStarted() as started:
                self.turn = {"id": recorded.turn_id, "started_at": recorded.ts, **msgspec.to_builtins(started)}
            case e.TurnCancelRequested() if self.turn is not None and self.turn["id"] == recorded.turn_id:
                self.turn["cancel_requested"] = True
            case e.TurnCompleted() if self.turn is not None and self.turn["id"] == recorded.turn_id:
                self.turn = None
            case e.ApprovalRequested() as approval:
                self.approvals[approval.approval_id] = msgspec.to_builtins(approval)
            case e.ApprovalGranted(approval_id=ask_id) | e.ApprovalDenied(approval_id=ask_id):
                self.approvals.pop(ask_id, None)
            case e.QuestionAsked() as question:
                self.questions[question.question_id] = msgspec.to_builtins(question)
            case e.QuestionAnswered(question_id=ask_id):
                self.questions.pop(ask_id, None)

    def chars(self, key: str) -> int | None:
        """How far the log confirms a part; None for one that is not open."""
        part = self.parts.get(key)
        return None if part is None else int(part["chars"])

    def to_page(self) -> OpenPage:
        page = OpenPage(approvals=list(self.approvals.values()), questions=list(self.questions.values()), parts=list(self.parts.values()))
        if self.turn is not None:
            page["turn"] = self.turn
        copied: OpenPage = msgspec.to_builtins(page)
        return copied

    def _grow(self, key: str, new: Json, text: str) -> None:
        self.parts.setdefault(key, new)["chars"] += len(text)

    def _end_parts(self, owner: str, id: str) -> None:
        for key in [key for key, part in self.parts.items() if part.get(owner) == id]:
            del self.parts[key]


def open_from_page(page: OpenPage) -> Open:
    copied: OpenPage = msgspec.to_builtins(page)
    return Open(
        turn=copied.get("turn"),
        approvals={approval["approval_id"]: approval for approval in copied["approvals"]},
        questions={question["question_id"]: question for question in copied["questions"]},
        parts={_key_of(part): part for part in copied["parts"]},
    )


def part_key(owner: str, part: str) -> str:
    """A part by its message, or a stream by its call."""
    return f"{owner}/{part}"


def _key_of(part: Json) -> str:
    if "message_id" in part:
        return part_key(part["message_id"], part["part_id"])
    return part_key(part["tool_call_id"], part["stream"])
