"""What the model has been told and has said: the session's events, folded into messages that every provider accepts.

1. A call of an assistant message has exactly one tool message. These follow it at once, in the order of the calls, before anything else.
2. Nothing answers a call that was never made, and no message is empty.
3. A message of the person stands where a turn read it (`turn_started.message_ids`, `message_delivered`), not where it was accepted.
4. A retry takes the place of the attempt before it: what that attempt was told and said goes, what the retry names comes.
5. What an interrupted message had said stays, with a mark; a call that it left without a result gets one that says so.
6. Thinking is no content: it goes beside the message, for the model that must be given back its own, and only to that one. A call that
   the daemon made itself is told as a note of the user's role.
7. A summary stands in the place of what it covers.
8. Where the model said nothing at all, it is told so. A turn that was stopped before its first word says that it was, so that nobody
   does what was called off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import msgspec

from palaver.backends.checked import Checked
from palaver.backends.pins import Pins
from palaver.backends.progress import Progress
from palaver.models.base import ModelCall, ModelMessage
from palaver.wire import events as e
from palaver.wire.codec import encode
from palaver.wire.ids import CallId, TurnId
from palaver.wire.values import CallError, Message, Part, Refs, ToolCall, ToolResult

INTERRUPTED = "[interrupted here]"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
EMPTY_ANSWER = "empty_answer"
"""The code of the notice that the model said nothing and did nothing, and was told so."""
STOPPED = "stopped"
_CALLED_OFF = "The turn was stopped here, before anything was said or done."
UNANSWERED = "tool_interrupted: This call has no result; it was interrupted. Whether it had an effect is not known."


@dataclass
class _Call:
    call: ToolCall
    result: ToolResult | None = None
    changed_input: Any = None
    refs: Refs | None = None
    """Of the result's parts: where the whole of a shortened one is."""
    touches: tuple[str, ...] = ()
    """The paths that it is about."""


@dataclass
class _Entry:
    """What stands at one place of the history. `told` keeps its messages until it changes."""

    seq: int
    turn_id: TurnId | None
    told: tuple[ModelMessage, ...] | None = field(default=None, init=False)


@dataclass
class _Heard(_Entry):
    """A message that a turn read; `message` may still be edited until then."""

    message: Message
    refs: Refs | None


@dataclass
class _Said(_Entry):
    """An assistant's message with its calls: one unit, so nothing comes between a call and its result."""

    message: Message | None = None
    calls: dict[str, _Call] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[_Call]:
        return [call for call in self.calls.values() if call.result is None]


@dataclass
class _Did(_Entry):
    """A call that the daemon made itself: nothing to tell before it has a result."""

    call: _Call


@dataclass
class _Summary(_Entry):
    text: str


@dataclass
class _Nudge(_Entry):
    code: str
    text: str


@dataclass
class _Undone(_Entry):
    event: e.TurnUndone


class History:
    """Fed with every event of a session, in order (`take`). Changed in place; costs O(1) for each event."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._read: dict[str, tuple[Message, Refs | None]] = {}
        """All messages of the input, read or not, by id: a retry reads them again."""
        self._said: dict[str, _Said] = {}
        self._calls: dict[str, tuple[_Entry, _Call]] = {}
        self._before_summary: list[_Entry] | None = None
        """The entries as they would be without the summaries of the turn that runs (or ran last): what a retry goes back to."""
        self.checked = Checked()
        self.pins = Pins()
        self.progress = Progress(None)

    def take(self, recorded: e.Recorded) -> None:
        """Fold the next event. Types that say nothing to a model, unknown ones too, change nothing."""
        event = recorded.data
        if isinstance(event, e.TurnStarted):
            self.progress = Progress(recorded.ts)
        self.checked.take(recorded)
        self.pins.take(recorded)
        self.progress.take(recorded)
        match event:
            case e.MessageAdded():
                self._read[event.message.id] = (event.message, event.refs)
            case e.QueueChanged():
                self._edited(event)
            case e.TurnStarted():
                self._turn_started(recorded, event)
            case e.MessageDelivered():
                self._hear(recorded, event.message_id)
            case e.ModelOutputStarted():
                self._saying(recorded, event.message_id)
            case e.ModelOutputCompleted():
                self._completed(recorded, event.message)
            case e.ModelOutputDiscarded():
                self._discarded(event.message_id)
            case e.ToolCallStarted():
                self._call_started(recorded, event)
            case e.ApprovalGranted() if event.tool_call is not None and event.input is not None:
                self._input_changed(event.tool_call.id, event.input)
            case e.ToolCallCompleted():
                self._call_completed(event)
            case e.ContextCompacted():
                self._compacted(recorded, event)
            case e.TurnUndone():
                self._append(_Undone(recorded.seq, recorded.turn_id, event))
            case e.TurnCompleted(outcome="cancelled" | "interrupted") if self._is_unanswered(recorded.turn_id):
                self._append(_Nudge(recorded.seq, recorded.turn_id, STOPPED, _CALLED_OFF))
            case e.Notice(code=code, text=text) if code == EMPTY_ANSWER:
                self._append(_Nudge(recorded.seq, recorded.turn_id, EMPTY_ANSWER, text))

    def messages(self, closing: bool) -> list[ModelMessage]:
        """The history as a request needs it, without a system prompt.

        Calls without a result are answered with an interruption, so the list is legal. Only with `closing=False`, and only for the last
        message when nothing follows it, they are left out: their results are still to come (`open_calls`).
        """
        last = None if closing else self._last_said()
        return [message for entry in self._entries for message in (_tell(entry, False) if entry is last else _told(entry))]

    def open_calls(self) -> list[ToolCall]:
        """The calls of the last assistant message that have no result yet, in order."""
        last = self._last_said()
        return [] if last is None else [call.call for call in last.unanswered]

    # --- what was heard

    def _edited(self, event: e.QueueChanged) -> None:
        """An unread message that went back to the queue may be edited there."""
        for place, item in enumerate(event.items):
            if item.message is not None and item.message_id in self._read:
                self._read[item.message_id] = (item.message, _below(f"/items/{place}", event.refs))

    def _turn_started(self, recorded: e.Recorded, event: e.TurnStarted) -> None:
        if event.attempt_of is not None:
            self._take_back(event.attempt_of)
        self._before_summary = None
        for message_id in event.message_ids:
            self._hear(recorded, message_id)

    def _take_back(self, turn_id: TurnId) -> None:
        entries = self._entries if self._before_summary is None else self._before_summary
        self._entries = [entry for entry in entries if entry.turn_id != turn_id]

    def _is_unanswered(self, turn_id: TurnId | None) -> bool:
        """The turn, which is the last one, read something and said nothing."""
        own = [*takewhile(lambda entry: entry.turn_id == turn_id, reversed(self._entries))]
        return bool(own) and not any(isinstance(entry, _Said | _Did) and _told(entry) for entry in own)

    def _hear(self, recorded: e.Recorded, message_id: str) -> None:
        if message_id in self._read:
            message, refs = self._read[message_id]
            self._append(_Heard(recorded.seq, recorded.turn_id, message, refs))

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        if self._before_summary is not None:
            self._before_summary.append(entry)

    # --- what was said and done

    def _saying(self, recorded: e.Recorded, message_id: str) -> _Said:
        if message_id not in self._said:
            self._said[message_id] = _Said(recorded.seq, recorded.turn_id)
            self._append(self._said[message_id])
        return self._said[message_id]

    def _completed(self, recorded: e.Recorded, message: Message) -> None:
        """The message names its calls in their order; one that it does not name came from the backend alone and follows."""
        said = self._saying(recorded, message.id)
        calls = dict[str, _Call]()
        for call in message.tool_calls:
            if call.id not in self._calls or call.id in said.calls:
                calls[call.id] = said.calls.get(call.id) or _Call(call)
                calls[call.id].call = call
        said.message, said.calls, said.told = message, {**calls, **said.calls}, None
        self._calls.update({id: (said, call) for id, call in calls.items()})

    def _discarded(self, message_id: str) -> None:
        said = self._said.pop(message_id, None)
        if said is not None:
            self._entries = [entry for entry in self._entries if entry is not said]
            for id in said.calls:
                del self._calls[id]

    def _call_started(self, recorded: e.Recorded, event: e.ToolCallStarted) -> None:
        id, touches = event.tool_call.id, tuple(location.path for location in event.locations)
        if id in self._calls:
            entry, call = self._calls[id]
            call.touches, entry.told = touches, None
            return
        if event.message_id is None:
            did = _Did(recorded.seq, recorded.turn_id, _Call(event.tool_call, touches=touches))
            self._append(did)
            self._calls[id] = (did, did.call)
        else:
            said = self._saying(recorded, event.message_id)
            said.calls[id] = _Call(event.tool_call, touches=touches)
            said.told = None
            self._calls[id] = (said, said.calls[id])

    def _input_changed(self, call_id: CallId, changed: Any) -> None:
        if call_id in self._calls:
            entry, call = self._calls[call_id]
            call.changed_input, entry.told = changed, None

    def _call_completed(self, event: e.ToolCallCompleted) -> None:
        if event.tool_call.id in self._calls:
            entry, call = self._calls[event.tool_call.id]
            call.result, call.refs, entry.told = event.tool_result, event.refs, None

    def _last_said(self) -> _Said | None:
        """The assistant's message that ends the history, if one does."""
        for entry in reversed(self._entries):
            if _told(entry):
                return entry if isinstance(entry, _Said) else None
        return None

    # --- summaries

    def _compacted(self, recorded: e.Recorded, event: e.ContextCompacted) -> None:
        """What still waits for results is not covered, whatever the numbers say."""
        if self._before_summary is None:
            self._before_summary = list(self._entries)
        kept = [entry for entry in self._entries if not _covered(entry, event)]
        place = next((i for i, entry in enumerate(kept) if entry.seq > event.from_seq), len(kept))
        self._entries = [*kept[:place], _Summary(event.from_seq, recorded.turn_id, event.summary), *kept[place:]]


def _covered(entry: _Entry, event: e.ContextCompacted) -> bool:
    if isinstance(entry, _Said) and (entry.unanswered or entry.message is None):
        return False
    if isinstance(entry, _Did) and entry.call.result is None:
        return False
    return event.from_seq <= entry.seq <= event.to_seq


# --- what a model is told -----------------------------------------------------------------------------------------------------


def _told(entry: _Entry) -> tuple[ModelMessage, ...]:
    if entry.told is None:
        entry.told = tuple(_tell(entry, True))
    return entry.told


def _tell(entry: _Entry, closing: bool) -> list[ModelMessage]:
    return [replace(message, unit=entry.seq) for message in _words_of(entry, closing)]


def _words_of(entry: _Entry, closing: bool) -> list[ModelMessage]:
    match entry:
        case _Heard(message=message, refs=refs):
            return _note(_spoken(message.parts, "/message/parts", refs))
        case _Said(message=message, calls=calls):
            answers = [_answer(call) for call in calls.values() if closing or call.result is not None]
            touched = tuple(dict.fromkeys(path for call in calls.values() for path in call.touches))
            return [*_assistant(message, [call.call for call in calls.values()], touched), *answers]
        case _Did(call=call):
            return _did(call)
        case _Nudge(code=code, text=text):
            return _note([Part("text", text=f"[Not from the person: {text}]")], code)
        case _Undone(event=event):
            return _note([Part("text", text=_undone(event))], "undone")
        case _Summary(text=text):
            return _note([Part("text", text=f"Summary of the conversation so far:\n\n{text}")], "summary")
    raise AssertionError(f"{type(entry).__name__} is no entry of a history")


def _note(parts: Sequence[Part], code: str | None = None) -> list[ModelMessage]:
    """Of the user's role whoever wrote it: providers take `system` only at the front. `code`: the person did not."""
    return [ModelMessage("user", tuple(parts), code=code)] if parts else []


def _spoken(parts: Iterable[Part], pointer: str = "", refs: Refs | None = None) -> list[Part]:
    """Without thinking and places of calls; nothing where all of it is blank, which providers refuse.

    A shortened text has the file with the whole in `ref`, to be loaded for the model.
    """
    spoken = []
    for place, part in enumerate(parts):
        whole = (refs or {}).get(f"{pointer}/{place}/text")
        if part.type == "text" and part.text:
            spoken.append(part if whole is None else msgspec.structs.replace(part, ref=whole.ref, truncated=True))
        elif part.type in ("image", "audio", "file"):
            spoken.append(part)
    return spoken if any(part.type != "text" or (part.text or "").strip() for part in spoken) else []


def _below(pointer: str, refs: Refs | None) -> Refs:
    return {key.removeprefix(pointer): ref for key, ref in (refs or {}).items() if key.startswith(f"{pointer}/")}


def _assistant(message: Message | None, calls: Sequence[ToolCall], touched: tuple[str, ...]) -> list[ModelMessage]:
    parts = [] if message is None else _spoken(message.parts)
    if not parts and not calls:
        return []
    if parts and message is not None and message.interrupted:
        parts.append(Part("text", text=f"\n\n{INTERRUPTED}"))
    told = tuple(_model_call(call) for call in calls)
    if message is None or message.reasoning is None:
        return [ModelMessage("assistant", tuple(parts), told, touched=touched)]
    thinking = "".join(part.text or "" for part in message.parts if part.type == "thinking")
    return [ModelMessage("assistant", tuple(parts), told, reasoning=message.reasoning, thinking=thinking, touched=touched)]


def _model_call(call: ToolCall) -> ModelCall:
    """A name and arguments that every provider takes, also where the model's own were refused as invalid."""
    arguments = call.input if call.input_raw is None and isinstance(call.input, dict) else {"input_raw": call.input_raw or call.input}
    return ModelCall(call.id, _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown", encode(arguments).decode())


def _answer(call: _Call) -> ModelMessage:
    error = call.result.error if call.result is not None else CallError("tool_interrupted", UNANSWERED)
    ok = call.result is not None and call.result.ok
    return ModelMessage("tool", tuple(_result(call)), call_id=call.call.id, ok=ok, code=error.code if error else None)


def _result(call: _Call) -> list[Part]:
    if call.result is None:
        return [Part("text", text=UNANSWERED)]
    said = _spoken(call.result.parts, "/tool_result/parts", call.refs)
    before = []
    if call.changed_input is not None:
        before.append(f"The input was changed before it was approved. It ran with: {encode(call.changed_input).decode()}\n")
    error = call.result.error
    if error is not None and not any(error.message in (part.text or "") for part in said):
        before.append(f"{error.code}: {error.message}\n")
    if not said and not before:
        before.append("(no output)")
    return [*(Part("text", text=text) for text in before), *said]


def _did(call: _Call) -> list[ModelMessage]:
    if call.result is None:
        return []
    outcome = "it succeeded" if call.result.ok else "it failed"
    head = f"[Not from the person: `{call.call.name}` was run automatically, {outcome}.]\n"
    return _note([Part("text", text=head), *_result(call)], call.call.name)


def _undone(event: e.TurnUndone) -> str:
    """Files are not what the conversation says any more: else the model would patch what is not there."""
    what = "did again what was undone of" if event.redo else "undid"
    files = ", ".join(f"{file.path} ({file.action})" for file in event.files)
    more = f" and {event.truncated_count} more" if event.truncated_count else ""
    return f"[Note: {event.by} {what} file changes of an earlier turn: {files}{more}. Read these files again before you rely on them.]"


# --- the providers' rules -----------------------------------------------------------------------------------------------------


def is_legal(messages: Sequence[ModelMessage]) -> str | None:
    """What a provider would refuse in these messages, in words; None if nothing."""
    waiting: list[str] = []
    seen = set[str]()
    for place, message in enumerate(messages):
        where = f"message {place} ({message.role})"
        if message.role == "tool":
            if message.call_id is None or waiting[:1] != [message.call_id]:
                return f"{where} answers {message.call_id}, the next call without a result is {waiting[:1] or 'none'}"
            del waiting[0]
        elif waiting:
            return f"{where} comes before the results of {waiting}"
        if wrong := _wrong(message, place, seen):
            return f"{where} {wrong}"
        waiting.extend(call.id for call in message.calls)
        seen.update(waiting)
    return f"the last calls {waiting} have no results" if waiting else None


def _wrong(message: ModelMessage, place: int, seen: set[str]) -> str | None:
    if message.role == "system" and place > 0:
        return "is not at the front"
    if message.calls and message.role != "assistant":
        return "makes calls"
    if not message.calls and not any(part.type != "text" or (part.text or "").strip() for part in message.parts):
        return "is empty"
    if any(part.type in ("thinking", "tool_call") for part in message.parts):
        return "has a part that is no content"
    ids = [call.id for call in message.calls]
    if len(set(ids)) < len(ids) or seen & set(ids):
        return f"uses the id of a call twice: {ids}"
    for call in message.calls:
        if not call.name or len(call.name) > 64 or _NOT_IN_NAMES.search(call.name):
            return f"calls {call.name!r}, which is no name"
        if not isinstance(msgspec.json.decode(call.arguments), dict):
            return f"calls {call.name} with arguments that are no object"
    return None
