"""What a session's log means in spec 000's words: a fold that gives the stream events for each logged one.

Messages stand in the order in which the model got them: as `turn_started.message_ids` and `message_delivered` say, never where
`message_added` stood. A message is given once, also where a retry reads it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from palaver.client.transforms import timeline_to_messages
from palaver.client.types import (
    ContentBlock,
    EventStamp,
    ExecutionEndEvent,
    Json,
    Message,
    SessionRestoredEvent,
    StreamEvent,
    TimelineEntry,
    ToolConfirmationRequest,
    ToolResultEvent,
)

_STOPPED = ("cancelled", "interrupted")
_ROLES: dict[str, Literal["user", "assistant", "tool", "event"]] = {"user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass
class _Place:
    """One message of the input, one of the assistant with its calls, or a call that the daemon made itself."""

    message: Json | None = None
    calls: dict[str, Json] = field(default_factory=dict)
    """`{id, name, input}` in their order, by id."""
    by_daemon: bool = False


class Timeline:
    """Fed with each logged envelope in order (`take`); costs O(1) for each, and a turn's length at its end."""

    def __init__(self) -> None:
        self.turn_id: str | None = None
        """The turn that runs, or waits for somebody."""
        self.approvals: dict[str, ToolConfirmationRequest] = {}
        """The open ones by approval id, the oldest first."""
        self.durations: dict[str, float] = {}
        """Of every call, in milliseconds."""
        self._inputs: dict[str, Json] = {}
        self._heard: set[str] = set()
        self._turns: dict[str, list[_Place]] = {}
        self._said: dict[str, _Place] = {}
        self._results: dict[str, Json] = {}

    def take(self, envelope: Json) -> list[StreamEvent]:
        """Fold the next event; a type that says nothing to a chat gives nothing."""
        data = envelope["data"]
        match envelope["type"]:
            case "message_added":
                self._inputs[data["message"]["id"]] = data["message"]
            case "queue_changed":
                self._inputs.update({item["message_id"]: item["message"] for item in data["items"] if "message" in item})
            case "turn_started":
                self.turn_id = envelope["turn_id"]
                for message_id in data["message_ids"]:
                    self._hear(message_id, envelope["turn_id"])
                return [{**stamp(envelope), "type": "execution_start", "executionId": envelope["turn_id"]}]
            case "message_delivered":
                self._hear(data["message_id"], data["turn_id"])
            case "model_output_started":
                self._saying(data["message_id"], envelope["turn_id"])
            case "model_output_completed":
                self._complete(data["message"], envelope["turn_id"])
            case "model_output_discarded":
                self._discard(data["message_id"], envelope["turn_id"])
            case "tool_call_started":
                self._start_call(data, envelope["turn_id"])
                call = data["tool_call"]
                return [{**stamp(envelope), "type": "tool_call_start", "callId": call["id"], "name": call["name"]}]
            case "tool_call_completed":
                return [self._complete_call(envelope)]
            case "approval_requested":
                self.approvals[data["approval_id"]] = confirmation_of(envelope)
            case "approval_granted" | "approval_denied":
                return self._settle(envelope)
            case "turn_completed":
                return [self._end_turn(envelope)]
        return []

    def entries(self) -> list[TimelineEntry]:
        """What is complete so far."""
        return [entry for turn_id in self._turns for entry in self._entries_of(turn_id)]

    def restored(self) -> SessionRestoredEvent:
        """Everything so far as one event."""
        entries = self.entries()
        return {
            "type": "session_restored",
            "messages": timeline_to_messages(entries, self.durations),
            "executionId": self.turn_id,
            "timeline": entries,
            "toolDurations": dict(self.durations),
        }

    # --- what was heard and said --------------------------------------------------------------------------------------------

    def _hear(self, message_id: str, turn_id: str) -> None:
        if message_id in self._inputs and message_id not in self._heard:
            self._heard.add(message_id)
            self._put(_Place(self._inputs[message_id]), turn_id)

    def _put(self, place: _Place, turn_id: str | None) -> None:
        self._turns.setdefault(turn_id or "", []).append(place)

    def _saying(self, message_id: str, turn_id: str | None) -> _Place:
        if message_id not in self._said:
            self._said[message_id] = _Place()
            self._put(self._said[message_id], turn_id)
        return self._said[message_id]

    def _complete(self, message: Json, turn_id: str | None) -> None:
        """The message names its calls in their order; one that it does not name came from the backend alone and follows."""
        place = self._saying(message["id"], turn_id)
        named = {call["id"]: call for call in message.get("tool_calls", ())}
        place.message, place.calls = message, {**named, **place.calls}

    def _discard(self, message_id: str, turn_id: str | None) -> None:
        if (place := self._said.pop(message_id, None)) is not None:
            places = self._turns.get(turn_id or "", [])
            places[:] = [other for other in places if other is not place]

    # --- calls and what they ask --------------------------------------------------------------------------------------------

    def _start_call(self, data: Json, turn_id: str | None) -> None:
        call = data["tool_call"]
        if data["message_id"] is None:
            self._put(_Place(calls={call["id"]: call}, by_daemon=True), turn_id)
        else:
            self._saying(data["message_id"], turn_id).calls.setdefault(call["id"], call)

    def _complete_call(self, envelope: Json) -> ToolResultEvent:
        data = envelope["data"]
        call, result = data["tool_call"], data["tool_result"]
        self._results[call["id"]] = {**result, "name": call["name"]}
        self.durations[call["id"]] = data["duration_ms"]
        return {
            **stamp(envelope),
            "type": "tool_result",
            "callId": call["id"],
            "name": call["name"],
            "result": _result_content(result),
            "isError": not result["ok"],
            "durationMs": data["duration_ms"],
        }

    def _settle(self, envelope: Json) -> list[StreamEvent]:
        data = envelope["data"]
        request = self.approvals.pop(data["approval_id"], None)
        if request is None:
            return []
        return [
            {
                **stamp(envelope),
                "type": "tool_confirmation_settled",
                "callId": request["toolUseId"],
                "approved": envelope["type"] == "approval_granted",
                "by": data["by"],
            }
        ]

    # --- the end of a turn --------------------------------------------------------------------------------------------------

    def _end_turn(self, envelope: Json) -> ExecutionEndEvent:
        data, turn_id = envelope["data"], envelope["turn_id"]
        if self.turn_id == turn_id:
            self.turn_id = None
        at = stamp(envelope)
        ended: ExecutionEndEvent = {
            "type": "execution_end",
            "id": at["id"],
            "sequence": at["sequence"],
            "timestamp": at["timestamp"],
            "sessionId": at["sessionId"],
            "executionId": turn_id,
            "newTimelineEntries": self._entries_of(turn_id),
            "aborted": data["outcome"] in _STOPPED,
            "stopReason": data["stop_reason"],
        }
        if "error" in data:
            ended["error"] = data["error"]
        return ended

    def _entries_of(self, turn_id: str) -> list[TimelineEntry]:
        places = self._turns.get(turn_id, ())
        return [{"kind": "message", "message": message} for place in places for message in self._messages(place)]

    def _messages(self, place: _Place) -> Iterator[Message]:
        if place.message is None and not place.by_daemon:
            return
        if place.message is not None:
            yield message_of(place.message, place.calls)
        for call_id in place.calls:
            if (result := self._results.get(call_id)) is not None:
                yield {"id": call_id, "role": "tool", "content": [_result_block(call_id, result)]}


def stamp(envelope: Json) -> EventStamp:
    session_id, seq = envelope["session_id"], envelope["seq"]
    return {"id": f"{session_id}/{seq}", "sequence": seq, "timestamp": envelope["ts"], "sessionId": session_id}


def message_of(message: Json, calls: dict[str, Json]) -> Message:
    """A message in spec 000's shape; a role that it does not know is an event's."""
    made: Message = {
        "id": message["id"],
        "role": _ROLES.get(message["role"], "event"),
        "content": blocks_of(message["parts"], calls),
    }
    if message.get("interrupted"):
        made["interrupted"] = True
    return made


def blocks_of(parts: list[Json], calls: dict[str, Json]) -> list[ContentBlock]:
    """Parts as content blocks, each call at its place; calls without a place follow."""
    placed = {part["id"] for part in parts if part["type"] == "tool_call"}
    blocks = [_block(part, calls) for part in parts if part["type"] != "tool_call" or part["id"] in calls]
    return [*blocks, *(_tool_use(call) for id, call in calls.items() if id not in placed)]


def parts_of(content: str | list[ContentBlock] | Any) -> list[Json]:
    """Content blocks as the parts of a message that a person sends."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    names = {"mimeType": "mime_type"}
    return [{names.get(key, key): value for key, value in block.items()} for block in content]


def _block(part: Json, calls: dict[str, Json]) -> ContentBlock:
    match part["type"]:
        case "tool_call":
            return _tool_use(calls[part["id"]])
        case "text":
            return {"type": "text", "text": part.get("text", "")}
        case "thinking":
            return {"type": "reasoning", "text": part.get("text", "")}
        case _:
            file: ContentBlock = {"type": part["type"], "ref": part["ref"]}
            if "mime_type" in part:
                file["mimeType"] = part["mime_type"]
            if "name" in part:
                file["name"] = part["name"]
            return file


def _tool_use(call: Json) -> ContentBlock:
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call.get("input")}


def _result_block(call_id: str, result: Json) -> ContentBlock:
    content = _result_content(result)
    return {"type": "tool_result", "toolUseId": call_id, "name": result["name"], "content": content, "isError": not result["ok"]}


def _result_content(result: Json) -> list[ContentBlock]:
    """What it says; of an error that brought no words, its message."""
    content = blocks_of(result["parts"], {})
    error = result.get("error")
    return [{"type": "text", "text": error["message"]}] if not content and error is not None else content


def confirmation_of(envelope: Json) -> ToolConfirmationRequest:
    """An approval as a confirmation. One that is about no call goes by its own id and its subject's name."""
    data = envelope["data"]
    call = data["tool_call"] or {"id": data["approval_id"], "name": data["subject"], "input": {}}
    keys = ("subject", "kind", "preview", "options", "deadline")
    metadata: Json = {
        "approvalId": data["approval_id"],
        "turnId": envelope["turn_id"],
        **{key: data[key] for key in keys if key in data},
    }
    request: ToolConfirmationRequest = {
        "toolUseId": call["id"],
        "name": call["name"],
        "arguments": call["input"],
        "metadata": metadata,
    }
    if data.get("reason"):
        request["message"] = data["reason"]
    return request
