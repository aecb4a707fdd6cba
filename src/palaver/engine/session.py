"""One session in memory: where commands become events, events become safe, and the world is made to match.

`_ahead` is the state that every decision so far has made; commands are decided on it. `safe` is the state that the disk has; only it
is acted on, answered from and shown. Between `decide` and `append` nothing awaits, so the log has the events in the order in which
they were decided.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from palaver.core.apply import apply
from palaver.core.decide import decide
from palaver.core.due import EndTurn, Work, due
from palaver.core.happened import Happened
from palaver.core.state import State
from palaver.engine.clock import Clock
from palaver.engine.follow import Batch, Bell, Straight
from palaver.engine.pieces import as_command, as_frame, place_of
from palaver.engine.tail import PIECE, WAIT, Key, Piece, Tail, Writing
from palaver.errors import DiskFailed, Refused
from palaver.log import Log, Opened
from palaver.views.pages import PageIndex, SavedIndex
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.codec import decode_event, encode_event
from palaver.wire.ids import CallId, MessageId, PartId, SessionId, TurnId
from palaver.wire.values import Stream, TextKind

if TYPE_CHECKING:
    from palaver.backends.history import History

PACE = 0.01
"""Seconds between two wake-ups for text in flight: the first piece goes at once, a burst goes in few writes."""
CHECKPOINT_EVERY = 4096
RETRY_FIRST, RETRY_MOST = 0.25, 5.0
STOP_WITHIN = 2.0

T = TypeVar("T")


class Worker(Protocol):
    """Does one piece of work for a session; `engine/work.py` is the one there is."""

    def __call__(self, session: Session, work: Work) -> Awaitable[None]: ...


@dataclass
class Surroundings:
    """What a session needs of the world around it."""

    log: Log
    clock: Clock
    work: Worker
    mark_open: Callable[[SessionId], Awaitable[None]]
    """Says on disk that something may be open there; returns when that is safe."""
    changed: Callable[[Session, Sequence[tuple[int, bytes]]], None]
    """Hears of every batch of lines that became safe."""
    reached: Callable[[str], None]
    """Hears of each point between two effects; does nothing unless a test kills the process there."""


class Folded(msgspec.Struct):
    """What a checkpoint holds: every fold that opening a session needs."""

    state: State
    pages: SavedIndex


@dataclass
class Pending:
    """Lines on their way to the disk, and the state that they make."""

    generation: int
    state: State
    recorded: list[e.Recorded]
    lines: list[bytes]
    soon: bool
    """Nobody waits for them."""


@dataclass(eq=False, repr=False)
class Session:
    id: SessionId
    around: Surroundings
    safe: State = field(default_factory=State)
    pages: PageIndex = field(default_factory=PageIndex)
    read_only: str | None = None
    unwritable: bool = False
    """It is the disk that takes no writes: whoever wants to write is told so as of every disk that fails."""
    followers: int = 0
    deleted: bool = False
    untracked_told: bool = False
    """Its person was told that what turns change here is not kept."""
    closing: bool = False
    """It is being closed or deleted: clients may only watch."""

    def __post_init__(self) -> None:
        self.key = f"sessions/{self.id}"
        self._ahead = self.safe
        self._generation = 0
        self._last: asyncio.Future[None] | None = None
        self._soon: deque[c.AnyCommand] = deque()
        """Told without waiting, on their way to the disk."""
        self._again: list[c.AnyCommand] = []
        """Told without waiting, and lost: to be told again, in this order, before anything else."""
        self._tail = Tail()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._logged, self._talking = Bell(), Bell()
        self._rang_at, self._ring_timer = 0.0, False
        self._waking = False
        self._news: list[bytes] = []
        """The lines that became safe since readers were last woken, from `_news_from` on."""
        self._news_from = 1
        self._works: dict[Work, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sick, self._stopping = False, False
        self._halted: TurnId | None = None
        """The turn whose cancel the disk has not taken yet."""
        self.marked = False
        self._history: History | None = None
        self._history_lock = asyncio.Lock()
        self._checkpointed = 0
        self._batch: tuple[tuple[object, ...], Batch] | None = None
        self.touched = self.around.clock.ticks()

    # --- opening and leaving ------------------------------------------------------------------------------------------------

    async def load(self, opened: Opened) -> None:
        """Fold what the log has: the checkpoint, and what follows it."""
        if opened.checkpoint and (folded := _decode(opened.checkpoint.data)):
            self.safe, self.pages = folded.state, PageIndex.restore(folded.pages)
            self._checkpointed = opened.checkpoint.seq
        while lines := await self.around.log.read(self.key, self.safe.seq):
            for line in lines:
                recorded = decode_event(line)
                self.safe = apply(self.safe, recorded)
                self.pages.note(recorded)
        self._ahead = self.safe
        self.read_only, self.unwritable = opened.read_only, opened.read_only is not None and not opened.newer

    def start_with(self, state: State) -> None:
        """The fold of a log that has just been made."""
        self.safe = self._ahead = state
        self.marked = True

    async def checkpoint(self) -> None:
        """Keep the folds, so that opening again costs little. A failure costs only time later."""
        seq = self.safe.seq
        if seq == self._checkpointed or self.read_only or self.deleted:
            return
        data = msgspec.msgpack.encode(Folded(self.safe, self.pages.save()))
        try:
            await self.around.log.save_checkpoint(self.key, seq, data)
        except DiskFailed:
            return
        self._checkpointed = seq

    @property
    def ahead(self) -> State:
        """What has been decided, safe or not."""
        return self._ahead

    async def until(self, true_of: Callable[[State], bool]) -> State:
        """Returns the first safe state that this is true of."""
        while True:
            rings = self._logged.rings
            if true_of(self.safe):
                return self.safe
            await self._logged.wait(rings)

    @property
    def may_leave(self) -> bool:
        return self.safe.idle and self._ahead is self.safe and not (self.followers or self._works or self.closing)

    async def stop(self) -> None:
        """End all work and let nothing new begin; what was decided is on disk, or has failed, when this returns."""
        self._stopping = True
        works = [*self._works.values(), *self._background]
        for task in works:
            _cancel(task)
        if works:
            await asyncio.wait(works, timeout=STOP_WITHIN)
        self.flush()
        with suppress(DiskFailed):  # whoever waits for it hears of it
            await self.settled()

    def check_writable(self) -> None:
        if self.read_only and self.unwritable:
            raise DiskFailed(self.read_only)
        if self.read_only:
            raise Refused("read_only", f"This session can only be read: {self.read_only}")

    # --- commands -----------------------------------------------------------------------------------------------------------

    async def send(self, command: c.AnyCommand) -> c.Reply | None:
        """A client's command: decided, and on disk when this returns. Raises `Refused`, `DiskFailed`."""
        self.check_writable()
        if self.closing or self.deleted:
            raise Refused("session_closed", "This session is being closed.")
        self.touched = self.around.clock.ticks()
        await self.mark()
        return await self.submit(command)

    async def mark(self) -> None:
        """Says on disk that something may be open here; before whatever a client makes happen."""
        if not self.marked:
            await self.around.mark_open(self.id)
            self.marked = True
            self.around.reached("marker.synced")

    async def submit(self, command: c.AnyCommand) -> c.Reply | None:
        """Decide and record. A caller that gives up changes nothing."""
        self.flush()
        try:
            decision = decide(self._ahead, command)
        except Refused:
            await self.settled()  # it rests on what was decided before
            raise
        if decision.events:
            self._last = self._record(decision.events)
        await self.settled()
        return decision.reply

    async def settled(self) -> None:
        """Returns when everything decided so far is on disk. Raises `DiskFailed`."""
        last = self._last
        if last is not None and not (last.done() and not last.cancelled() and last.exception() is None):
            await asyncio.shield(last)

    async def report(self, command: c.AnyCommand) -> c.Reply | None:
        """The engine's own command: kept and tried again until the disk takes it. Raises `Refused`."""
        return await self.kept(lambda: self.submit(command))

    async def kept(self, write: Callable[[], Awaitable[T]]) -> T:
        """What the engine itself writes, tried again until the disk takes it."""
        delay = RETRY_FIRST
        while True:
            try:
                return await write()
            except DiskFailed:
                await asyncio.sleep(delay)
                delay = min(RETRY_MOST, delay * 2)

    def report_soon(self, command: c.AnyCommand) -> None:
        """In order and without waiting, for what the next `report` rests on; told again if it is lost. Raises `Refused`."""
        self.flush()
        self._tell(command)

    async def told(self) -> None:
        """Returns when all that was reported without waiting is on disk."""
        while self._soon or self._again:
            await self.kept(self._flushed_and_settled)
            await asyncio.sleep(0)  # what the log took in this pass of the loop is heard of in the next

    async def _flushed_and_settled(self) -> None:
        self.flush()
        await self.settled()

    def _tell(self, command: c.AnyCommand) -> None:
        decision = decide(self._ahead, command)
        if decision.events:
            self._soon.append(command)
            self._last = self._record(decision.events, soon=True)

    def _tell_again(self) -> None:
        again, self._again = self._again, []
        for command in again:
            self._flush_text()
            try:
                self._tell(command)
            except Refused:
                continue  # what it reports on has ended meanwhile

    def _record(self, events: Sequence[Happened], *, soon: bool = False) -> asyncio.Future[None]:
        """Number, apply and hand to the log, in one go. The future is done when the disk has the lines."""
        ahead, ts = self._ahead, self.around.clock.now()
        recorded = [e.Recorded(seq, ts, self.id, turn_id, event) for seq, (turn_id, event) in enumerate(events, ahead.seq + 1)]
        lines = [encode_event(one) for one in recorded]
        state = reduce(apply, recorded, ahead)
        written = self.around.log.append(self.key, ahead.seq, lines)
        self._ahead = state
        pending = Pending(self._generation, state, recorded, lines, soon)
        written.add_done_callback(lambda future: self._arrived(pending, future))
        return written

    def _arrived(self, pending: Pending, written: asyncio.Future[None]) -> None:
        """The disk has these lines, or it never will. The log calls back in its order."""
        failed = written.exception()
        if pending.generation != self._generation:
            return  # decided on a state that was lost before
        if failed is not None:
            self._lost()
            return
        self.safe, self._sick = pending.state, False
        if pending.soon:
            self._soon.popleft()
        for recorded in pending.recorded:
            self.pages.note(recorded)
            if self._history is not None:
                self._history.take(recorded)
            self._trim_tail(recorded.data)
        first = pending.recorded[0].seq
        if not self._news:
            self._news_from = first
        self._news += pending.lines
        self.around.changed(self, list(enumerate(pending.lines, first)))
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _lost(self) -> None:
        """Nothing of what was decided since the last sync is true."""
        self._generation += 1
        self._ahead, self._sick = self.safe, True
        self._last = None  # whoever waited has heard; what comes now rests on the safe state
        self._again = [*self._soon, *self._again]
        self._soon.clear()
        self._tail.unconfirmed()
        self._arm_flush()

    def _wake(self) -> None:
        self._waking = False
        self._reconcile()
        self._logged.ring()
        self._talking.ring()
        self._news.clear()
        if self._tail:
            self._rang_at = asyncio.get_running_loop().time()  # text in flight went along
        if self.safe.seq - self._checkpointed >= CHECKPOINT_EVERY and not self._stopping:
            self.later(self.checkpoint())

    def later(self, work: Coroutine[None, None, None]) -> None:
        """Beside whatever else goes on; nobody waits for it."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- work ---------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start what is due; called once when the session has been loaded and recovered. In a log that takes nothing, nothing begins."""
        if not self.read_only:
            self._reconcile()

    def _reconcile(self) -> None:
        wanted: frozenset[Work] = frozenset() if self._stopping else due(self.safe)
        for work, task in self._works.items():
            if work not in wanted:
                _cancel(task)
        turn = self.safe.turn
        if self._sick or (turn is not None and turn.id == self._halted and not turn.ending):
            return
        for work in wanted:
            if work not in self._works:
                self._start(work)

    def _start(self, work: Work) -> None:
        task = asyncio.ensure_future(self.around.work(self, work))
        self._works[work] = task

        def ended(_: asyncio.Task[None]) -> None:
            self._works.pop(work, None)
            self.touched = self.around.clock.ticks()
            if not self._stopping and work in due(self.safe):  # it broke off: nothing else would start it again
                asyncio.get_running_loop().call_later(RETRY_FIRST, self._reconcile)

        task.add_done_callback(ended)

    async def others_stopped(self, work: EndTurn) -> None:
        """Returns when everything else that this session runs has ended, or has had the time to."""
        others = [task for other, task in self._works.items() if other != work]
        if others:
            await asyncio.wait(others, timeout=STOP_WITHIN)

    def stop_at_once(self, cancel: c.CancelTurn) -> None:
        """Stop everything now, though the disk did not take the cancel; it is written as soon as the disk takes it."""
        turn = self.safe.turn
        if turn is None or cancel.turn_id not in (None, turn.id):
            return
        self._halted = turn.id
        for task in self._works.values():
            _cancel(task)
        self.later(self._cancel_later(msgspec.structs.replace(cancel, turn_id=turn.id)))

    async def _cancel_later(self, cancel: c.CancelTurn) -> None:
        await self.report(cancel)

    # --- the tail -----------------------------------------------------------------------------------------------------------

    def text(self, turn_id: TurnId, message_id: MessageId, part_id: PartId, kind: TextKind, text: str) -> None:
        """A piece of an open message. Too late changes nothing."""
        if text and self._is_open(message_id):
            self._said(self._tail.text(turn_id, message_id, part_id, kind, text))

    def writes_call(self, writing: Writing) -> None:
        """A call is being written in an open message. Too late changes nothing."""
        if self._is_open(writing.message_id):
            self._tail.writes(writing)
            if not self._ring_timer:
                self._ring_paced()

    def _is_open(self, message_id: MessageId) -> bool:
        turn = self._ahead.turn
        if turn is not None and turn.output is not None and turn.output.id == message_id:
            return True
        return any(isinstance(one, c.BeginOutput) and one.message_id == message_id for one in self._again)

    def output(self, turn_id: TurnId, call_id: CallId, stream: Stream, text: str) -> None:
        turn = self._ahead.turn
        if text and turn is not None and call_id in turn.calls:
            self._said(self._tail.output(turn_id, call_id, stream, text))

    def _said(self, unsent: int) -> None:
        if unsent >= PIECE and not self._sick:
            self.flush()
        elif self._flush_timer is None:
            self._arm_flush()
        if not self._ring_timer:
            self._ring_paced()

    def _ring_paced(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        wait = self._rang_at + PACE - now
        if wait > 0:
            self._ring_timer = True
            loop.call_later(wait, self._ring_later)
        else:
            self._rang_at = now
            self._talking.ring()

    def _ring_later(self) -> None:
        self._ring_timer = False
        self._rang_at = asyncio.get_running_loop().time()
        self._talking.ring()

    def _arm_flush(self) -> None:
        if self._flush_timer is None and (self._tail or self._again) and not self._stopping:
            self._flush_timer = asyncio.get_running_loop().call_later(WAIT, self._flush_in_time)

    def _flush_in_time(self) -> None:
        self._flush_timer = None
        self.flush()

    def flush(self) -> None:
        """Hand the text in flight to the log, and before it what was lost on its way there. Nobody waits for it."""
        if not (self._tail or self._again):
            return
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._tell_again()
        self._flush_text()

    def _flush_text(self) -> None:
        events: list[Happened] = []
        for piece in self._tail.unsent():
            if decided := decide(self._ahead, as_command(piece)).events:
                self._tail.sent(piece)
                events += decided
        if events:
            self._last = self._record(events)

    def _trim_tail(self, event: e.AnyEvent) -> None:
        match event:
            case e.ModelOutputDelta(message_id=message_id, part_id=part_id, offset=offset, text=text):
                self._flushed((message_id, part_id), offset + len(text))
            case e.ToolOutputDelta(tool_call_id=call_id, stream=stream, offset=offset, text=text):
                self._flushed((call_id, stream), offset + len(text))
            case e.ModelOutputCompleted(message=message):
                self._tail.close(message.id)
            case e.ModelOutputDiscarded(message_id=message_id):
                self._tail.close(message_id)
            case e.ToolCallCompleted(tool_call=call):
                self._tail.close(call.id)
            case e.TurnCompleted():
                self._tail.clear()

    def _flushed(self, key: Key, offset: int) -> None:
        self._tail.confirm(key, offset)
        if self._tail.left(key):
            self.around.reached("tail.left")

    # --- readers ------------------------------------------------------------------------------------------------------------

    async def follow(self, after: int = 0, *, tail: bool = False, straight: Straight | None = None) -> AsyncGenerator[Batch, None]:
        """Everything beyond `after`, then whatever comes: the log first, then the tail, nothing else is a source.

        While it waits, what comes goes to `straight` as long as that has room, and is not yielded.
        """

        def take() -> bool:
            nonlocal after
            if straight is None or self.deleted or not straight.has_room():
                return False
            if after < self.safe.seq and not (self._news and self._news_from <= after + 1):
                return False  # it has waited since before those
            lines = self._news[after + 1 - self._news_from :] if after < self.safe.seq else []
            pieces = self._tail.beyond(seen, self._begun) if seen is not None and self._tail else []
            if lines or pieces:
                batch = self._shared(after + 1, lines, pieces, None)
                after += len(lines)
                straight.give(batch)
            return True

        bell = self._talking if tail else self._logged
        head: int | None = self.safe.seq
        seen: dict[Key, int] | None = {} if tail else None
        self.followers += 1
        try:
            while not self.deleted:
                rings = bell.rings  # before looking, so that no ring is missed
                up_to = self.safe.seq
                lines = await self.around.log.read(self.key, after, up_to=up_to) if after < up_to else []
                first, after = after + 1, after + len(lines)
                caught_up, head = (head, None) if head is not None and after >= head else (None, head)
                pieces = self._tail.beyond(seen, self._begun) if seen is not None and self._tail and after == self.safe.seq else []
                if lines or pieces or caught_up is not None:
                    yield self._shared(first, lines, pieces, caught_up)
                else:
                    await bell.wait(rings, take)
            yield Batch(after + 1, deleted=True)
        finally:
            self.followers -= 1
            self.touched = self.around.clock.ticks()

    def _begun(self, owner: str) -> bool:
        """Whether a reader of the log has seen this message, or this call, begin."""
        turn = self.safe.turn
        return turn is not None and ((turn.output is not None and turn.output.id == owner) or owner in turn.calls)

    def _shared(self, first: int, lines: list[bytes], pieces: Sequence[Piece | Writing], caught_up: int | None) -> Batch:
        """The batch that the last reader at the same place got, if it is the same."""
        if caught_up is not None:
            return Batch(first, lines, self._frames(pieces), caught_up)
        place = (first, len(lines), *map(place_of, pieces))
        if self._batch is None or self._batch[0] != place:
            self._batch = (place, Batch(first, lines, self._frames(pieces)))
        return self._batch[1]

    def _frames(self, pieces: Sequence[Piece | Writing]) -> list[bytes]:
        if not pieces:
            return []
        ts = self.around.clock.now()
        return [as_frame(self.id, ts, piece) for piece in pieces]

    def delete(self) -> None:
        """The session is gone: its readers are told."""
        self.deleted = True
        self._logged.ring()
        self._talking.ring()

    async def history(self) -> History:
        """The model's view of the log, folded once and then kept up to date."""
        async with self._history_lock:
            while self._history is None:
                self._history = await self._fold_history()
            return self._history

    async def _fold_history(self) -> History | None:
        from palaver.backends.history import History  # with the first turn

        history, seq = History(), 0
        while seq < self.safe.seq:
            for line in await self.around.log.read(self.key, seq, up_to=self.safe.seq):
                recorded = decode_event(line)
                history.take(recorded)
                seq = recorded.seq
        return history


def _cancel(task: asyncio.Task[None]) -> None:
    """Once: a second cancel would hurry what the first one lets clean up."""
    if not task.cancelling():
        task.cancel()


def _decode(data: bytes) -> Folded | None:
    try:
        return msgspec.msgpack.decode(data, type=Folded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # of another version: the log is folded again
