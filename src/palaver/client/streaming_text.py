"""What the agent is writing right now, letter by letter."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.client.store import Store
from palaver.client.types import ClientSeam, Json, StreamingTextState


@dataclass
class _Part:
    kind: str
    confirmed: str = ""
    chars: int = 0
    """Code points that logged events confirm."""
    provisional: str = ""


class StreamingText(Store[StreamingTextState]):
    """The text and the thinking of the assistant's newest message. With `subscribe=False` somebody else feeds `process_event`.

    It takes the daemon's own envelopes: what is logged counts, the tail is shown until the log confirms it or the connection is new.
    """

    def __init__(self, client: ClientSeam, *, session_id: str | None = None, subscribe: bool = True) -> None:
        super().__init__()
        self._message_id: str | None = None
        self._parts: dict[str, _Part] = {}
        self._is_streaming = False
        self._snapshot = self._take_snapshot()
        if subscribe and session_id:
            accessor = client.session(session_id)
            self._ends = [accessor.on_canonical_event(self.process_event), accessor.unsubscribe]
            accessor.subscribe()

    @property
    def text(self) -> str:
        return self._snapshot.text

    @property
    def thinking(self) -> str:
        return self._snapshot.thinking

    @property
    def is_streaming(self) -> bool:
        return self._snapshot.is_streaming

    def process_event(self, event: Json) -> None:
        """Take the next envelope; tells once if it changes what is shown."""
        data = event["data"]
        match event["type"]:
            case "model_output_started":
                self._start(data["message_id"])
            case "model_output_delta" if "seq" in event:
                if data["message_id"] != self._message_id:
                    self._start(data["message_id"])
                self._confirm(data)
            case "model_output_delta" if self._is_streaming and data["message_id"] == self._message_id:
                if not self._foresee(data):
                    return
            case "model_output_completed":
                self._complete(data["message"])
            case "model_output_discarded" if data["message_id"] == self._message_id:
                self._start(None)
            case "turn_completed" if self._is_streaming:
                self._is_streaming = False
            case "hello":
                if not self._forget_provisional():
                    return
            case _:
                return
        self._changed()

    def _start(self, message_id: str | None) -> None:
        self._message_id, self._parts, self._is_streaming = message_id, {}, message_id is not None

    def _confirm(self, data: Json) -> None:
        part = self._parts.setdefault(data["part_id"], _Part(data["kind"]))
        part.confirmed += data["text"]
        part.chars += len(data["text"])
        part.provisional = part.provisional[len(data["text"]) :]

    def _foresee(self, data: Json) -> bool:
        """Only what lies beyond what is there; one that starts further on is ignored, the log will bring it."""
        part = self._parts.get(data["part_id"]) or _Part(data["kind"])
        have = part.chars + len(part.provisional)
        if not data["offset"] <= have < data["offset"] + len(data["text"]):
            return False
        part.provisional += data["text"][have - data["offset"] :]
        self._parts[data["part_id"]] = part
        return True

    def _forget_provisional(self) -> bool:
        held = [part for part in self._parts.values() if part.provisional]
        for part in held:
            part.provisional = ""
        return bool(held)

    def _complete(self, message: Json) -> None:
        self._start(message["id"])
        self._is_streaming = False
        self._parts = {
            part["id"]: _Part(part["type"], part.get("text", "")) for part in message["parts"] if part["type"] in ("text", "thinking")
        }

    def _take_snapshot(self) -> StreamingTextState:
        def joined(kind: str) -> str:
            return "".join(part.confirmed + part.provisional for part in self._parts.values() if part.kind == kind)

        return StreamingTextState(joined("text"), joined("thinking"), self._is_streaming, self._message_id)
