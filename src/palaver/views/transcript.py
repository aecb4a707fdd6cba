"""What a client shows of a session: one fold of its events, live or reloaded, on a server or in a page.

- An entry stands where its first event stands and never moves; its blocks stand in order of first appearance.
- Nothing is sorted, rounded or timed here: strings are appended, replaced and counted in code points.
- Everything in `entries` is the JSON that clients get, so a transcript goes on from a page (`from_page`) as if it had never stopped.
- What belongs to no message is an entry with `message: null`. An event of an unknown type, or about something that is not on this page,
  changes nothing here.
- A block that took the place of its call's block keeps that call beside its own data: its state, approval and duration can still be seen.
- Provisional text (the tail) never enters `entries`: it lies beside them until the log confirms it, or it is dropped.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

import msgspec

from palaver.views.open import Json, Open, OpenPage, open_from_page, part_key
from palaver.wire import events as e
from palaver.wire.values import Message, Part, Refs

OUTPUT_KEPT = 4096
"""Code points of a call's output that its block shows, the newest ones."""


class Block(TypedDict):
    """Which fields there are follows from `kind`: `part` for content, `call` for `tool`, `id` and `data` for all others."""

    kind: str
    part: NotRequired[Json]
    interrupted: NotRequired[bool]
    started_at: NotRequired[str]
    """Of text and thinking that streamed: when its first logged event was written."""
    ended_at: NotRequired[str]
    call: NotRequired[Json]
    id: NotRequired[str]
    data: NotRequired[Json]


class Entry(TypedDict):
    message: Json | None
    """The message as its event has it; an assistant's without parts until it is complete."""
    blocks: list[Block]
    turn_id: NotRequired[str]
    """The turn of its first event. It never changes, even if a later turn reads the message."""
    delivery: NotRequired[Literal["waiting", "delivered", "own_turn"]]
    refs: NotRequired[Json]
    """Where the whole of a shortened part is, by JSON pointers that begin at `/message`."""


class Page(TypedDict):
    as_of_seq: int
    entries: list[Entry]
    open: OpenPage
    earlier: str | None
    """A cursor for `before`; None where nothing comes before."""
    later: str | None
    """A cursor for `after`; None where the page ends with the log."""


class Tail(msgspec.Struct):
    """Text in flight that no logged event confirms yet."""

    owner: str
    """A message's or a call's id."""
    part: str
    """The part's id, or the stream."""
    kind: str
    """text or thinking; of a call `output`."""
    text: str


class Transcript:
    """Changed in place: `show`, `show_tail` and `drop_provisional` return what they were given. `to_page` is a copy."""

    def __init__(self) -> None:
        self.as_of_seq = 0
        self.entries: list[Entry] = []
        self.open = Open()
        self.earlier: str | None = None
        self.later: str | None = None
        self.tails: dict[str, Tail] = {}
        """By `part_key`. One whose block is not there yet belongs at the end of its message's entry."""
        self.placed: list[int] = []
        """For each entry the number of its first event; 0 where it came with a page."""
        self.messages: dict[str, Entry] = {}
        self.parts: dict[str, Block] = {}
        self.calls: dict[str, tuple[Entry, Block]] = {}
        self.facts: dict[str, tuple[Entry, Block]] = {}
        self.approvals: dict[str, Json] = {}
        """Each approval's record, wherever it stands."""
        self.last: dict[str, Entry] = {}
        """The last entry of each turn."""

    def provisional(self, owner: str, part: str) -> str:
        """What the tail holds beyond the confirmed text of a part (or of a call's stream)."""
        tail = self.tails.get(part_key(owner, part))
        return "" if tail is None else tail.text


# --- the fold -----------------------------------------------------------------------------------------------------------------


def show(transcript: Transcript, recorded: e.Recorded) -> Transcript:
    """Take the next logged event. O(1) but for the length of the text that it replaces."""
    transcript.as_of_seq = recorded.seq
    transcript.open.note(recorded)
    event = recorded.data
    match event:
        case e.ModelOutputDelta():
            _text(transcript, recorded, event)
        case e.ToolOutputDelta():
            _output(transcript, event)
        case e.MessageAdded():
            _message_added(transcript, recorded, event)
        case e.MessageDelivered(message_id=message_id):
            _deliver(transcript, message_id, "delivered")
        case e.QueueChanged():
            _edited(transcript, event)
        case e.TurnStarted(message_ids=message_ids):
            for message_id in message_ids:
                _deliver(transcript, message_id, "own_turn")
        case e.ModelOutputStarted(message_id=message_id):
            _assistant(transcript, recorded, message_id)
        case e.ModelOutputCompleted():
            _message_completed(transcript, recorded, event)
        case e.ModelOutputDiscarded(message_id=message_id):
            _discard(transcript, message_id)
        case e.ToolCallStarted():
            _call_started(transcript, recorded, event)
        case e.ToolCallRunning(tool_call_id=call_id):
            if call_id in transcript.calls:
                _call(transcript, call_id)["started_at"] = recorded.ts
        case e.ToolCallCompleted():
            _call_completed(transcript, event)
        case e.ApprovalRequested():
            _approval_requested(transcript, recorded, event)
        case e.ApprovalGranted():
            _approval_settled(transcript, event.approval_id, "granted", event)
        case e.ApprovalDenied():
            _approval_settled(transcript, event.approval_id, "denied", event)
        case e.QuestionAsked():
            _fact(transcript, recorded, "ask_user", event.question_id, event, event.tool_call_id)
        case e.QuestionAnswered():
            _more(transcript, "ask_user", event.question_id, msgspec.to_builtins(event))
        case e.PlanUpdated():
            _plan(transcript, recorded, event)
        case e.VerifyCompleted():
            _fact(transcript, recorded, "verify", event.tool_call_id, event, event.tool_call_id)
        case e.TaskFinalized():
            _fact(transcript, recorded, "finalize_task", event.tool_call_id, event, event.tool_call_id)
        case e.SubagentSpawned():
            _fact(transcript, recorded, "subagent", event.child_session_id, event, event.tool_call_id)
        case e.SubagentFinished():
            _more(transcript, "subagent", event.child_session_id, msgspec.to_builtins(event))
        case e.ExchangeSent():
            _fact(transcript, recorded, "exchange", event.exchange_id, event, event.tool_call_id)
        case e.ExchangeReplied():
            _more(transcript, "exchange", event.exchange_id, msgspec.to_builtins(event))
        case e.FilesChanged():
            _fact(transcript, recorded, "change_report", f"changes:{recorded.turn_id}", event, None)
        case e.TurnUndone():
            _more(transcript, "change_report", f"changes:{event.turn_id}", {"undone": msgspec.to_builtins(event)})
        case e.ContextCompacted() | e.ModelFallback() | e.Notice():
            _fact(transcript, recorded, "notice", f"e{recorded.seq}", event, None)["data"]["type"] = recorded.type
        case e.TurnCompleted():
            _turn_end(transcript, recorded, event)
    return transcript


def show_tail(transcript: Transcript, piece: e.Recorded) -> Transcript:
    """Take a provisional piece: only what lies beyond what is there. One that starts further on is ignored, the log will bring it."""
    match piece.data:
        case e.ModelOutputDelta(message_id=owner, part_id=part, kind=kind) as delta:
            known = owner in transcript.messages
            ended = part_key(owner, part) in transcript.parts and transcript.open.chars(part_key(owner, part)) is None
            if known and not ended:
                _tail_grew(transcript, Tail(owner, part, kind, ""), delta.offset, delta.text)
        case e.ToolOutputDelta(tool_call_id=owner, stream=stream) as delta:
            if owner in transcript.calls and _call(transcript, owner)["state"] == "pending":
                _tail_grew(transcript, Tail(owner, stream, "output", ""), delta.offset, delta.text)
    return transcript


def drop_provisional(transcript: Transcript) -> Transcript:
    """Cut back to what logged events confirm: on every new connection."""
    transcript.tails.clear()
    return transcript


# --- pages --------------------------------------------------------------------------------------------------------------------


def to_page(transcript: Transcript) -> Page:
    """A copy in the shape that clients get; provisional text is not in it."""
    page: Page = msgspec.to_builtins(
        {
            "as_of_seq": transcript.as_of_seq,
            "entries": transcript.entries,
            "open": transcript.open.to_page(),
            "earlier": transcript.earlier,
            "later": transcript.later,
        }
    )
    return page


def from_page(page: Page) -> Transcript:
    """A transcript that goes on where the page ends: with the event after `as_of_seq`."""
    copied: Page = msgspec.to_builtins(page)
    transcript = Transcript()
    transcript.as_of_seq = copied["as_of_seq"]
    transcript.open = open_from_page(copied["open"])
    transcript.earlier, transcript.later = copied["earlier"], copied["later"]
    for entry in copied["entries"]:
        _index(transcript, entry, 0)
        for block in entry["blocks"]:
            _index_block(transcript, entry, block)
    return transcript


# --- entries and blocks -------------------------------------------------------------------------------------------------------


def _index(transcript: Transcript, entry: Entry, seq: int) -> None:
    transcript.entries.append(entry)
    transcript.placed.append(seq)
    if entry["message"] is not None:
        transcript.messages[entry["message"]["id"]] = entry
    if "turn_id" in entry:
        transcript.last[entry["turn_id"]] = entry


def _index_block(transcript: Transcript, entry: Entry, block: Block) -> None:
    if "part" in block and entry["message"] is not None and "id" in block["part"]:
        transcript.parts[part_key(entry["message"]["id"], block["part"]["id"])] = block
    if "call" in block:
        transcript.calls[block["call"]["id"]] = (entry, block)
        if "approval" in block["call"]:
            transcript.approvals[block["call"]["approval"]["id"]] = block["call"]["approval"]
    if "id" in block:
        transcript.facts[_fact_key(block["kind"], block["id"], entry.get("turn_id"))] = (entry, block)
        if block["kind"] == "approval":
            transcript.approvals[block["id"]] = block["data"]["approval"]


def _fact_key(kind: str, id: str, turn_id: str | None) -> str:
    return f"plan:{turn_id}:{id}" if kind == "plan" else f"{kind}:{id}"


def _enter(transcript: Transcript, recorded: e.Recorded, message: Json | None) -> Entry:
    entry = Entry(message=message, blocks=[])
    if recorded.turn_id is not None:
        entry["turn_id"] = recorded.turn_id
    _index(transcript, entry, recorded.seq)
    return entry


def _append(transcript: Transcript, entry: Entry, block: Block, ts: str) -> Block:
    _end_text(entry, ts)
    entry["blocks"].append(block)
    _index_block(transcript, entry, block)
    return block


def _end_text(entry: Entry, ts: str) -> None:
    """A text that streamed ends when the next block begins, or with its message."""
    if entry["blocks"]:
        last = entry["blocks"][-1]
        if "started_at" in last and "ended_at" not in last:
            last["ended_at"] = ts


# --- messages -----------------------------------------------------------------------------------------------------------------


def _message_added(transcript: Transcript, recorded: e.Recorded, event: e.MessageAdded) -> None:
    if event.message.role == "tool":
        return
    entry = transcript.messages.get(event.message.id)
    if entry is None:
        entry = _enter(transcript, recorded, {"id": event.message.id})
    if event.delivery == "steer":
        entry["delivery"] = "waiting"
    _say(transcript, entry, event.message, {} if event.refs is None else msgspec.to_builtins(event.refs))


def _edited(transcript: Transcript, event: e.QueueChanged) -> None:
    """A waiting message that became a queue item may be edited there; new items have no entry yet."""
    for place, item in enumerate(event.items):
        if item.message is not None and (entry := transcript.messages.get(item.message_id)) is not None:
            _say(transcript, entry, item.message, _below(f"/items/{place}", event.refs))


def _below(pointer: str, refs: Refs | None) -> Json:
    return {key.removeprefix(pointer): msgspec.to_builtins(ref) for key, ref in (refs or {}).items() if key.startswith(f"{pointer}/")}


def _say(transcript: Transcript, entry: Entry, message: Message, refs: Json) -> None:
    """The entry says this message and nothing else that a message says; blocks of other kinds stay behind it."""
    others = [block for block in entry["blocks"] if "part" not in block]
    said = [Block(kind=part.type, part=msgspec.to_builtins(part)) for part in message.parts if part.type != "tool_call"]
    entry["message"], entry["blocks"] = msgspec.to_builtins(message), [*said, *others]
    for block in said:
        _index_block(transcript, entry, block)
    if refs:
        entry["refs"] = refs
    else:
        entry.pop("refs", None)


def _deliver(transcript: Transcript, message_id: str, delivery: Literal["delivered", "own_turn"]) -> None:
    entry = transcript.messages.get(message_id)
    if entry is not None and entry.get("delivery") == "waiting":
        entry["delivery"] = delivery


def _assistant(transcript: Transcript, recorded: e.Recorded, message_id: str) -> Entry:
    entry = transcript.messages.get(message_id)
    if entry is None:
        message = {"id": message_id, "role": "assistant", "parts": [], "created_at": recorded.ts, "author": {"kind": "agent"}}
        entry = _enter(transcript, recorded, message)
    return entry


def _text(transcript: Transcript, recorded: e.Recorded, event: e.ModelOutputDelta) -> None:
    entry = _assistant(transcript, recorded, event.message_id)
    key = part_key(event.message_id, event.part_id)
    block = transcript.parts.get(key)
    if block is None:
        part = {"type": event.kind, "id": event.part_id, "text": ""}
        block = _append(transcript, entry, Block(kind=event.kind, part=part, started_at=recorded.ts), recorded.ts)
    block["part"]["text"] += event.text
    _tail_confirmed(transcript, key, event.text)


def _message_completed(transcript: Transcript, recorded: e.Recorded, event: e.ModelOutputCompleted) -> None:
    entry = _assistant(transcript, recorded, event.message.id)
    entry["message"] = msgspec.to_builtins(event.message)
    for part in event.message.parts:
        if part.type != "tool_call":
            _part_completed(transcript, entry, part, recorded.ts)
    _end_text(entry, recorded.ts)
    if event.message.interrupted:
        _interrupted(transcript, entry, recorded.ts)
    _end_tails(transcript, event.message.id)


def _part_completed(transcript: Transcript, entry: Entry, part: Part, ts: str) -> None:
    assert entry["message"] is not None
    block = transcript.parts.get(part_key(entry["message"]["id"], part.id or ""))
    if block is None:
        block = _append(transcript, entry, Block(kind=part.type, part={}), ts)
    block["kind"], block["part"] = part.type, msgspec.to_builtins(part)
    _index_block(transcript, entry, block)


def _interrupted(transcript: Transcript, entry: Entry, ts: str) -> None:
    assert entry["message"] is not None
    texts = [block for block in entry["blocks"] if block["kind"] in ("text", "thinking")]
    if not texts:
        empty = {"type": "text", "id": entry["message"]["id"], "text": ""}
        texts = [_append(transcript, entry, Block(kind="text", part=empty), ts)]
    texts[-1]["interrupted"] = True


def _discard(transcript: Transcript, message_id: str) -> None:
    entry = transcript.messages.pop(message_id, None)
    if entry is None:
        return
    place = next(i for i in reversed(range(len(transcript.entries))) if transcript.entries[i] is entry)
    del transcript.entries[place], transcript.placed[place]
    for block in entry["blocks"]:
        _forget(transcript, entry, block)
    if (turn_id := entry.get("turn_id")) is not None and transcript.last[turn_id] is entry:
        _find_last(transcript, turn_id)
    _end_tails(transcript, message_id)


def _forget(transcript: Transcript, entry: Entry, block: Block) -> None:
    if "part" in block and entry["message"] is not None and "id" in block["part"]:
        transcript.parts.pop(part_key(entry["message"]["id"], block["part"]["id"]), None)
    if "call" in block:
        transcript.calls.pop(block["call"]["id"], None)
        transcript.approvals.pop(block["call"].get("approval", {}).get("id", ""), None)
        _end_tails(transcript, block["call"]["id"])
    if "id" in block:
        transcript.facts.pop(_fact_key(block["kind"], block["id"], entry.get("turn_id")), None)


def _find_last(transcript: Transcript, turn_id: str) -> None:
    del transcript.last[turn_id]
    for entry in reversed(transcript.entries):
        if entry.get("turn_id") == turn_id:
            transcript.last[turn_id] = entry
            return


# --- calls and what they ask --------------------------------------------------------------------------------------------------


def _call(transcript: Transcript, call_id: str) -> Json:
    return transcript.calls[call_id][1]["call"]


def _call_started(transcript: Transcript, recorded: e.Recorded, event: e.ToolCallStarted) -> None:
    if event.tool_call.id in transcript.calls:
        return
    call: Json = {
        **msgspec.to_builtins(event.tool_call),
        "kind": event.kind,
        "title": event.title,
        "run_by": event.run_by,
        "locations": msgspec.to_builtins(event.locations),
        "state": "pending",
        "truncated": False,
        "output": [],
        "output_chars": {},
    }
    _add_refs(call, event)
    entry = _enter(transcript, recorded, None) if event.message_id is None else _assistant(transcript, recorded, event.message_id)
    _append(transcript, entry, Block(kind="tool", call=call), recorded.ts)


def _add_refs(target: Json, event: e.Event) -> None:
    """Pointers begin at `/tool_call` or `/tool_result`, as in the events that had them."""
    if event.refs is not None:
        target.setdefault("refs", {}).update(msgspec.to_builtins(event.refs))


def _output(transcript: Transcript, event: e.ToolOutputDelta) -> None:
    if event.tool_call_id not in transcript.calls:
        return
    call = _call(transcript, event.tool_call_id)
    call["output"].append({"stream": event.stream, "text": event.text})
    chars = call["output_chars"]
    chars[event.stream] = chars.get(event.stream, 0) + len(event.text)
    _keep_newest(call["output"])
    _tail_confirmed(transcript, part_key(event.tool_call_id, event.stream), event.text)


def _keep_newest(output: list[Json]) -> None:
    """Whole pieces go, oldest first; only a piece that is too long by itself is cut, between two code points."""
    kept = sum(len(piece["text"]) for piece in output)
    while kept > OUTPUT_KEPT and len(output) > 1:
        kept -= len(output.pop(0)["text"])
    if kept > OUTPUT_KEPT:
        output[0]["text"] = output[0]["text"][-OUTPUT_KEPT:]


def _call_completed(transcript: Transcript, event: e.ToolCallCompleted) -> None:
    if event.tool_call.id not in transcript.calls:
        return
    call, result = _call(transcript, event.tool_call.id), event.tool_result
    interrupted = result.error is not None and result.error.code == "tool_interrupted"
    call["state"] = "success" if result.ok else "interrupted" if interrupted else "error"
    call["truncated"] = result.truncated
    call["result"] = msgspec.to_builtins(result)
    call["duration_ms"] = event.duration_ms
    _add_refs(call, event)
    _end_tails(transcript, event.tool_call.id)


def _approval_requested(transcript: Transcript, recorded: e.Recorded, event: e.ApprovalRequested) -> None:
    approval: Json = {"id": event.approval_id, "status": "waiting"}
    if event.tool_call is not None and event.tool_call.id in transcript.calls:
        _call(transcript, event.tool_call.id)["approval"] = approval
    else:
        block = _fact(transcript, recorded, "approval", event.approval_id, event, None, {"approval": approval})
        approval = block["data"]["approval"]
    transcript.approvals[event.approval_id] = approval


def _approval_settled(transcript: Transcript, approval_id: str, status: str, event: e.Event) -> None:
    if (approval := transcript.approvals.get(approval_id)) is None:
        return
    answer = msgspec.to_builtins(event)
    approval["status"] = status
    approval.update({key: answer[key] for key in ("by", "cause", "scope", "reason", "input", "refs") if key in answer})


# --- everything else ----------------------------------------------------------------------------------------------------------


def _fact(
    transcript: Transcript, recorded: e.Recorded, kind: str, id: str, event: e.Event, call_id: str | None, more: Json | None = None
) -> Block:
    """A block that says what an event says: in the place of its call's block, else in an entry of its own, else where it stood before."""
    data: Json = {**msgspec.to_builtins(event), **(more or {})}
    known = transcript.facts.get(_fact_key(kind, id, recorded.turn_id))
    if known is not None:
        known[1]["data"] = data
        return known[1]
    entry, block = transcript.calls.get(call_id or "", (None, None))
    if entry is None or block is None:
        return _append(transcript, _enter(transcript, recorded, None), Block(kind=kind, id=id, data=data), recorded.ts)
    if block["kind"] != "tool":
        return _append(transcript, entry, Block(kind=kind, id=id, data=data), recorded.ts)
    block["kind"], block["id"], block["data"] = kind, id, data
    _index_block(transcript, entry, block)
    return block


def _more(transcript: Transcript, kind: str, id: str, data: Json) -> None:
    """How it went on: the same block, its data with what came later; both say where the whole of their own strings is."""
    if (known := transcript.facts.get(_fact_key(kind, id, None))) is not None:
        before = known[1]["data"]
        refs = {**before.get("refs", {}), **data.get("refs", {})}
        before.update({**data, "refs": refs} if refs else data)


def _plan(transcript: Transcript, recorded: e.Recorded, event: e.PlanUpdated) -> None:
    """One block for each plan and turn. Where a later call changes the plan, its own block goes and the plan's keeps that call."""
    home, plan = transcript.facts.get(_fact_key("plan", event.plan.id, recorded.turn_id), (None, None))
    entry, block = transcript.calls.get(event.tool_call_id or "", (None, None))
    if home is not None and plan is not None and entry is not None and block is not None and block["kind"] == "tool":
        entry["blocks"] = [other for other in entry["blocks"] if other is not block]
        _forget(transcript, home, plan)
        plan["call"] = block["call"]
        _index_block(transcript, home, plan)
    _fact(transcript, recorded, "plan", event.plan.id, event, event.tool_call_id)


def _turn_end(transcript: Transcript, recorded: e.Recorded, event: e.TurnCompleted) -> None:
    turn_id = recorded.turn_id or ""
    entry = transcript.last.get(turn_id) or _enter(transcript, recorded, None)
    _append(transcript, entry, Block(kind="turn_end", id=turn_id, data=msgspec.to_builtins(event)), recorded.ts)


# --- text in flight -----------------------------------------------------------------------------------------------------------


def _tail_grew(transcript: Transcript, new: Tail, offset: int, text: str) -> None:
    key = part_key(new.owner, new.part)
    tail = transcript.tails.get(key, new)
    have = _confirmed(transcript, key) + len(tail.text)
    if offset <= have < offset + len(text):
        tail.text += text[have - offset :]
        transcript.tails[key] = tail


def _confirmed(transcript: Transcript, key: str) -> int:
    return transcript.open.chars(key) or 0


def _tail_confirmed(transcript: Transcript, key: str, text: str) -> None:
    if (tail := transcript.tails.get(key)) is not None:
        tail.text = tail.text[len(text) :]
        if not tail.text:
            del transcript.tails[key]


def _end_tails(transcript: Transcript, owner: str) -> None:
    for key in [key for key, tail in transcript.tails.items() if tail.owner == owner]:
        del transcript.tails[key]
