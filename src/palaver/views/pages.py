"""Which events make which page of a transcript, known without reading the others.

The log falls into *segments*: each ends with the end of a turn (a long row of messages that no turn took is cut as well). A page is the
fold of whole segments, cut to the entries that were asked for. What reaches across segments is a *later fact*: an event that changes an
entry of an earlier segment (a turn was undone, a message that waited got its turn, another agent replied). The index keeps them by
number: a page is read with the later facts about its entries, and leaves out those in its range that are about entries elsewhere.

A *cursor* is the number of an event: `before=N` asks for entries whose first event is older than N, `after=N` for those whose first
event is N or newer. A page's `earlier` and `later` are such cursors, or None where nothing more comes. A message's id stands for the
number of its first event. A page has at most `limit` entries, except that the newest page is never cut within the turn that is open
or comes next: whoever goes on folding from it needs all of that turn.

A page costs its own segments, whatever the length of the log: planning is a binary search, and the index holds 16 bytes for each
message, turn, segment and later fact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from palaver.errors import Invalid
from palaver.views.open import Open, OpenPage
from palaver.views.transcript import Page, Transcript, show, to_page
from palaver.wire import events as e

SEGMENT_ENTRIES = 64
"""Entries after which a segment ends even though no turn did; never while one is open."""


@dataclass(frozen=True)
class Plan:
    """What to read: the events `from_seq` … `to_seq`, then those that `later` numbers. `page` takes them in this order."""

    from_seq: int
    to_seq: int
    later: tuple[int, ...]
    left_out: frozenset[int]
    """Events in the range that are about entries elsewhere."""
    as_of_seq: int
    open: OpenPage
    since: int
    """The page has entries from this number on …"""
    until: int
    """… and older than this one; of these …"""
    middle: int | None
    """… the `limit` around this number; without one the newest, or with `forward` the oldest."""
    forward: bool
    limit: int
    keep: int
    """Nothing from this number on is cut off at the front: the turn that is open."""
    more_before: bool
    more_after: bool
    """There are entries outside of what is read."""


def page(plan: Plan, events: Iterable[e.Recorded]) -> Page:
    """The page that was planned, from exactly the events that the plan names."""
    transcript = Transcript()
    for recorded in events:
        if recorded.seq not in plan.left_out:
            show(transcript, recorded)
    placed = transcript.placed
    low, high = _window(plan, placed)
    before = low > 0 or plan.more_before
    after = high < len(placed) or plan.more_after
    transcript.entries = transcript.entries[low:high]
    transcript.earlier = str(placed[low] if low < high else plan.since or plan.until) if before else None
    transcript.later = str(placed[high] if high < len(placed) else plan.to_seq + 1) if after else None
    transcript.as_of_seq = plan.as_of_seq
    made = to_page(transcript)
    made["open"] = plan.open
    return made


def _window(plan: Plan, placed: list[int]) -> tuple[int, int]:
    low, high = bisect_left(placed, plan.since), bisect_left(placed, plan.until)
    if plan.middle is not None:
        low = max(low, min(bisect_left(placed, plan.middle) - plan.limit // 2, high - plan.limit))
        return low, min(high, low + plan.limit)
    if plan.forward:
        return low, min(high, low + plan.limit)
    return min(max(low, high - plan.limit), bisect_left(placed, plan.keep)), high


class Growing(msgspec.Struct):
    """The last segment: what its later events may be about."""

    entries: dict[str, tuple[int, str | None]] = {}
    """First event and turn of each entry, by its message's id, else by `e<seq>`."""
    calls: dict[str, str] = {}
    """The entry that has the call."""
    facts: dict[str, str] = {}
    """The entry that has the block of this kind and id."""
    closed: bool = False
    """The next event begins another segment."""


class SavedIndex(msgspec.Struct):
    """A `PageIndex` as data, for a checkpoint."""

    head: int
    growing: Growing
    open: Open
    turns: dict[str, tuple[int, int]]
    waiting: dict[str, int]
    segments: bytes
    entries_before: bytes
    ids: bytes
    places: bytes
    fact_seqs: bytes
    fact_places: bytes


class PageIndex:
    """A fold of a session's events, changed in place by `note`. `open` is what is open at its head, for pages and for `hello`."""

    def __init__(self) -> None:
        self.head = 0
        self.open = Open()
        self._growing = Growing()
        self._turns: dict[str, tuple[int, int]] = {}
        """First event of the first and of the last entry of each turn that has not ended."""
        self._waiting: dict[str, int] = {}
        """Where that stands which something will be said about later: open asks, messages to be read, other agents at work."""
        self._segments = array("Q", [1])
        """The first event of each segment."""
        self._entries_before = array("Q", [0])
        """For each segment the entries of all earlier ones."""
        self._ids = array("Q")
        """Hashes of the ids of messages, turns and change reports, in the order of their first events …"""
        self._places = array("Q")
        """… and the numbers of these."""
        self._fact_seqs = array("Q")
        """Later facts: the event, once for each place that it is about …"""
        self._fact_places = array("Q")
        """… and that place, the number of an event in an earlier segment."""

    # --- the fold -------------------------------------------------------------------------------------------------------------

    def note(self, recorded: e.Recorded) -> None:
        """Take the next event."""
        if self._growing.closed:
            self._entries_before.append(self._entries_before[-1] + len(self._growing.entries))
            self._segments.append(recorded.seq)
            self._growing = Growing()
        self.head = recorded.seq
        self.open.note(recorded)
        self._count(recorded)
        idle = self.open.turn is None
        self._growing.closed = isinstance(recorded.data, e.TurnCompleted) or (idle and len(self._growing.entries) >= SEGMENT_ENTRIES)

    def _count(self, recorded: e.Recorded) -> None:
        """The entries that `transcript.show` makes of the event, and the older ones that it changes."""
        event = recorded.data
        match event:
            case e.ModelOutputDelta() | e.ModelOutputStarted():
                self._message(recorded, event.message_id)
            case e.ModelOutputCompleted():
                self._message(recorded, event.message.id)
            case e.ModelOutputDiscarded():
                self._discard(event.message_id)
            case e.MessageAdded() if event.message.role != "tool":
                self._message(recorded, event.message.id)
                if recorded.turn_id is not None:
                    self._waiting[event.message.id] = recorded.seq
            case e.MessageDelivered():
                self._about(recorded, self._waiting.pop(event.message_id, None))
            case e.QueueChanged():
                for item in event.items:
                    if item.message is not None:
                        self._about(recorded, self._waiting.get(item.message_id))
            case e.TurnStarted():
                self._place(recorded.turn_id or "", recorded.seq)
                for message_id in event.message_ids:
                    self._about(recorded, self._waiting.pop(message_id, None))
            case e.TurnCompleted():
                self._turn_completed(recorded)
            case e.ToolCallStarted():
                self._call(recorded, event)
            case e.ApprovalRequested():
                self._waiting[event.approval_id] = recorded.seq
                if event.tool_call is None or event.tool_call.id not in self._growing.calls:
                    self._fact(recorded, f"approval:{event.approval_id}", None)
            case e.ApprovalGranted() | e.ApprovalDenied():
                self._about(recorded, self._waiting.pop(event.approval_id, None))
            case e.QuestionAsked():
                self._waiting[event.question_id] = recorded.seq
                self._fact(recorded, f"ask_user:{event.question_id}", event.tool_call_id)
            case e.QuestionAnswered():
                self._about(recorded, self._waiting.pop(event.question_id, None))
            case e.PlanUpdated():
                self._fact(recorded, f"plan:{recorded.turn_id}:{event.plan.id}", event.tool_call_id)
            case e.VerifyCompleted():
                self._fact(recorded, f"verify:{event.tool_call_id}", event.tool_call_id)
            case e.TaskFinalized():
                self._fact(recorded, f"finalize_task:{event.tool_call_id}", event.tool_call_id)
            case e.SubagentSpawned():
                self._waiting[event.child_session_id] = recorded.seq
                self._fact(recorded, f"subagent:{event.child_session_id}", event.tool_call_id)
            case e.SubagentFinished():
                self._about(recorded, self._waiting.pop(event.child_session_id, None))
            case e.ExchangeSent():
                self._waiting[event.exchange_id] = recorded.seq
                self._fact(recorded, f"exchange:{event.exchange_id}", event.tool_call_id)
            case e.ExchangeReplied():
                self._about(recorded, self._waiting.pop(event.exchange_id, None))
            case e.FilesChanged():
                self._place(f"changes:{recorded.turn_id}", recorded.seq)
                self._fact(recorded, f"change_report:changes:{recorded.turn_id}", None)
            case e.TurnUndone():
                self._about(recorded, self.seq_of(f"changes:{event.turn_id}"))
            case e.ContextCompacted() | e.ModelFallback() | e.Notice():
                self._entry(recorded, f"e{recorded.seq}")

    def _message(self, recorded: e.Recorded, message_id: str) -> None:
        if message_id not in self._growing.entries:
            self._entry(recorded, message_id)
            self._place(message_id, recorded.seq)

    def _call(self, recorded: e.Recorded, event: e.ToolCallStarted) -> None:
        if event.tool_call.id in self._growing.calls:
            return
        if event.message_id is None:
            self._entry(recorded, f"e{recorded.seq}")
        else:
            self._message(recorded, event.message_id)
        self._growing.calls[event.tool_call.id] = event.message_id or f"e{recorded.seq}"

    def _fact(self, recorded: e.Recorded, key: str, call_id: str | None) -> None:
        if key in self._growing.facts:
            return
        entry = self._growing.calls.get(call_id or "")
        if entry is None:
            entry = f"e{recorded.seq}"
            self._entry(recorded, entry)
        self._growing.facts[key] = entry

    def _entry(self, recorded: e.Recorded, key: str) -> None:
        self._growing.entries[key] = (recorded.seq, recorded.turn_id)
        if recorded.turn_id is not None:
            first, _ = self._turns.get(recorded.turn_id, (recorded.seq, 0))
            self._turns[recorded.turn_id] = (first, recorded.seq)

    def _discard(self, message_id: str) -> None:
        """Forget an entry; only one of the growing segment can still be discarded."""
        _, turn_id = self._growing.entries.pop(message_id, (0, None))
        self._growing.calls = {call: entry for call, entry in self._growing.calls.items() if entry != message_id}
        self._growing.facts = {fact: entry for fact, entry in self._growing.facts.items() if entry != message_id}
        if turn_id is not None:
            first, _ = self._turns.pop(turn_id)
            left = [seq for seq, turn in self._growing.entries.values() if turn == turn_id]
            if first < self._segments[-1]:
                left.insert(0, first)
            if left:
                self._turns[turn_id] = (left[0], left[-1])

    def _turn_completed(self, recorded: e.Recorded) -> None:
        """Its block stands in the turn's last entry, which may be a message that came while the turn before was ending."""
        if recorded.turn_id in self._turns:
            _, last = self._turns.pop(recorded.turn_id)
            self._about(recorded, last)
        else:
            self._growing.entries[f"e{recorded.seq}"] = (recorded.seq, recorded.turn_id)

    def _about(self, recorded: e.Recorded, place: int | None) -> None:
        if place is not None and place < self._segments[-1]:
            self._fact_seqs.append(recorded.seq)
            self._fact_places.append(place)

    def _place(self, id: str, seq: int) -> None:
        self._ids.append(_hash(id))
        self._places.append(seq)

    # --- pages ----------------------------------------------------------------------------------------------------------------

    def seq_of(self, id: str) -> int | None:
        """The first event of a message, or the `turn_started` of a turn."""
        try:
            return self._places[self._ids.index(_hash(id))]
        except ValueError:
            return None

    def events_of(self, turn_id: str) -> tuple[int, int] | None:
        """The numbers between which a turn's events stand; None if there is no such turn."""
        seq = self.seq_of(turn_id)
        return None if seq is None else self._range(self._segment(seq), self._segment(seq))

    def plan(self, *, before: str | None = None, after: str | None = None, around: str | None = None, limit: int = 50) -> Plan:
        """Without a place: the newest page. Raises `Invalid` for an unknown message, a wrong cursor or limit, or two places."""
        given = [(name, value) for name, value in (("before", before), ("after", after), ("around", around)) if value is not None]
        if len(given) > 1:
            raise Invalid("A page is before, after or around something. Give one of the three.", path=given[1][0])
        if limit < 1:
            raise Invalid("A page has at least one entry. Give a limit of 1 or more.", path="limit")
        where, seq = (given[0][0], self._seq(*given[0])) if given else ("before", self.head + 1)
        first = last = self._segment(seq if where != "before" else max(seq - 1, 1))
        if where in ("before", "around"):
            first = self._back(first, limit)
        if where in ("after", "around"):
            last = self._on(last, limit)
        keep = self.head + 1 if given else self._unfinished()
        first = min(first, self._segment(keep))
        return self._plan(first, last, where, seq, limit, keep)

    def _unfinished(self) -> int:
        """The first entry of the turn that is open or comes next. A coming turn has its first words, if any, in the segment before."""
        lately = self._segments[-2:][0]
        return min((first for first, _ in self._turns.values() if first >= lately), default=self.head + 1)

    def _plan(self, first: int, last: int, where: str, seq: int, limit: int, keep: int) -> Plan:
        from_seq, to_seq = self._range(first, last)
        later, left_out = self._facts(from_seq, to_seq)
        return Plan(
            from_seq=from_seq,
            to_seq=to_seq,
            later=later,
            left_out=left_out,
            as_of_seq=self.head,
            open=self.open.to_page(),
            since=seq if where == "after" else 0,
            until=seq if where == "before" else self.head + 1,
            middle=seq if where == "around" else None,
            forward=where == "after",
            limit=limit,
            keep=keep,
            more_before=self._entries_before[first] > 0,
            more_after=last + 1 < len(self._segments) and self._entries() > self._entries_before[last + 1],
        )

    def _seq(self, name: str, value: str) -> int:
        if value.isascii() and value.isdecimal() and len(value) < 16:
            return max(1, min(int(value), self.head + 1))
        seq = self.seq_of(value)
        if seq is None:
            raise Invalid(f"{value!r} is no message of this session. Give a message's id or a page's cursor.", path=name)
        return seq

    def _segment(self, seq: int) -> int:
        return bisect_right(self._segments, seq) - 1

    def _range(self, first: int, last: int) -> tuple[int, int]:
        return self._segments[first], self._segments[last + 1] - 1 if last + 1 < len(self._segments) else self.head

    def _entries(self) -> int:
        return self._entries_before[-1] + len(self._growing.entries)

    def _back(self, segment: int, limit: int) -> int:
        """The newest segment such that those from it to before `segment` have `limit` entries, else the oldest with any."""
        return min(segment, bisect_right(self._entries_before, max(self._entries_before[segment] - limit, 0)) - 1)

    def _on(self, segment: int, limit: int) -> int:
        """The oldest segment such that those after `segment` to it have `limit` entries, else the last one."""
        if segment + 1 >= len(self._segments):
            return segment
        return bisect_left(self._entries_before, self._entries_before[segment + 1] + limit) - 1

    def _facts(self, from_seq: int, to_seq: int) -> tuple[tuple[int, ...], frozenset[int]]:
        """The later facts about this range, and those within it that are about others."""
        begin, end = bisect_left(self._fact_seqs, from_seq), bisect_right(self._fact_seqs, to_seq)
        about = [from_seq <= place <= to_seq for place in self._fact_places[begin:]]
        within, beyond = self._fact_seqs[begin:end], self._fact_seqs[end:]
        here = {seq for seq, ours in zip(within, about, strict=False) if ours}
        later = dict.fromkeys(seq for seq, ours in zip(beyond, about[end - begin :], strict=True) if ours)
        return tuple(later), frozenset(within) - here

    # --- what is saved --------------------------------------------------------------------------------------------------------

    def save(self) -> SavedIndex:
        """Shares what it can with the index: encode it before the next `note`."""
        return SavedIndex(
            self.head,
            self._growing,
            self.open,
            self._turns,
            self._waiting,
            self._segments.tobytes(),
            self._entries_before.tobytes(),
            self._ids.tobytes(),
            self._places.tobytes(),
            self._fact_seqs.tobytes(),
            self._fact_places.tobytes(),
        )

    @classmethod
    def restore(cls, saved: SavedIndex) -> PageIndex:
        index = cls()
        index.head, index.open, index._growing = saved.head, saved.open, saved.growing
        index._turns, index._waiting = saved.turns, saved.waiting
        index._segments, index._entries_before = array("Q", saved.segments), array("Q", saved.entries_before)
        index._ids, index._places = array("Q", saved.ids), array("Q", saved.places)
        index._fact_seqs, index._fact_places = array("Q", saved.fact_seqs), array("Q", saved.fact_places)
        return index


def _hash(id: str) -> int:
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little")
