"""The durable queue: editable drafts, each waiting for a turn of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from palaver.core import ending
from palaver.core.apply import under
from palaver.core.happened import Happened, of
from palaver.core.state import QUEUE_LIMIT, Item, State, Waiting
from palaver.errors import Invalid, Refused
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import ItemId, MessageId, TurnId, derived
from palaver.wire.values import QueueEntry, Refs

replace = msgspec.structs.replace
ROW = 46 * 1024
"""Bytes of messages in one event …"""
ROOM = 62 * 1024
"""… of messages and items together …"""
ENTRY = 200
"""… and of an item in `queue_changed`, without its message."""


def find(state: State, item_id: ItemId) -> Item:
    for item in state.queue:
        if item.id == item_id:
            return item
    raise Refused("item_gone", f"The queue has no item {item_id}: it was removed, or its turn has begun.")


def new_item(state: State, command: c.AddMessage) -> Item:
    if len(state.queue) >= QUEUE_LIMIT:
        raise Refused("queue_full", f"The queue holds {QUEUE_LIMIT} items. Remove one, or wait until it is shorter.")
    return Item(
        command.item_id,
        command.turn_id,
        command.delivery,
        command.message,
        refs=command.refs,
        scope=command.scope,
        fingerprint=command.fingerprint,
    )


def changed(
    state: State,
    items: tuple[Item, ...],
    *,
    new: Collection[ItemId] = (),
    reason: str | None = None,
    steered: tuple[MessageId, ...] = (),
    turn_id: TurnId | None = None,
) -> Happened:
    """Order and membership in full; messages only of the items in `new`. `turn_id` is the one that reads the steered ones."""
    refs: Refs = {}
    for index, item in enumerate(items):
        if item.id in new:
            refs |= under(f"/items/{index}/message", item.refs) or {}
    paused = any(item.paused for item in items)
    event = e.QueueChanged(
        items=tuple(_entry(item, item.id in new) for item in items),
        paused=paused,
        reason=(reason or state.queue_reason) if paused else None,
        steered=steered,
        refs=refs or None,
    )
    return Happened(turn_id, event)


def _entry(item: Item, new: bool) -> QueueEntry:
    return QueueEntry(
        item.id,
        item.turn_id,
        item.delivery,
        item.message.id,
        item.paused,
        item.message if new else None,
        item.scope,
        item.fingerprint if new else None,
    )


def edited(state: State, command: c.EditItem) -> list[Happened]:
    item = find(state, command.item_id)
    if command.parts is None and command.before is msgspec.UNSET:
        return []
    if command.parts is not None:
        # what is in the log stays as it was sent: a new text of an old message is a new message
        id = command.message_id if item.added and command.message_id else item.message.id
        message = replace(item.message, id=id, parts=command.parts)
        item = replace(item, message=message, refs=command.refs, added=False)
    if command.scope is not None:
        item = replace(item, scope=command.scope)
    items = [item if other.id == item.id else other for other in state.queue]
    if command.before is not msgspec.UNSET and command.before != item.id:
        items = [other for other in items if other.id != item.id]
        items.insert(_place(items, command.before), item)
    new = (item.id,) if command.parts is not None else ()
    return [changed(state, tuple(items), new=new)]


def _place(items: list[Item], before: ItemId | None) -> int:
    if before is None:
        return len(items)
    for index, item in enumerate(items):
        if item.id == before:
            return index
    raise Invalid(f"The queue has no item {before!r} to stand before.", path="before")


def promoted(state: State, command: c.PromoteItem) -> tuple[list[Happened], c.Accepted]:
    """To the running turn as a steer, to the coming one while it ends, to a turn of its own while nothing runs."""
    item = find(state, command.item_id)
    if command.scope is not None:
        item = replace(item, scope=command.scope)
    rest = tuple(other for other in state.queue if other.id != item.id)
    turn = state.turn
    if turn is None:
        return ending.item_started(state, item, rest), c.Accepted(item.message.id, item.turn_id, "started", item.id)
    if not turn.ending and state.created.capabilities.steer:
        return taken_out(state, item, rest, turn.id, "steer"), c.Accepted(item.message.id, turn.id, "steered", item.id)
    # the coming turn; a backend that cannot be steered is stopped and goes on with the message
    stop = [] if turn.ending else ending.superseded(state, turn, command.by)
    turn_id = state.coming or command.turn_id
    reply = c.Accepted(item.message.id, turn_id, "interrupting", item.id)
    return [*stop, *taken_out(state, item, rest, turn_id, "interrupt")], reply


def taken_out(state: State, item: Item, rest: tuple[Item, ...], turn_id: TurnId, delivery: str | None) -> list[Happened]:
    """An item leaves the queue for a turn that reads it. Wherever a crash cuts these events short, its message is kept."""
    if not item.added:
        return [of(turn_id, added(item, delivery)), changed(state, rest)]
    left = changed(state, rest, steered=(item.message.id,), turn_id=turn_id)
    if find(state, item.id).scope == item.scope:
        return [left]
    narrowed = tuple(item if other.id == item.id else other for other in state.queue)
    return [changed(state, narrowed), left]


def added(item: Item, delivery: str | None) -> e.MessageAdded:
    return e.MessageAdded(
        message=item.message,
        delivery=delivery,
        scope=item.scope,
        fingerprint=item.fingerprint,
        refs=under("/message", item.refs),
    )


def paused(state: State, command: c.PauseQueue) -> list[Happened]:
    if state.turn is None and command.fresh is not None:
        return held(state, command.fresh, command.reason, ("coming", "steer"), everything=True)
    items = tuple(replace(item, paused=True) for item in state.queue)
    return [] if items == state.queue else [changed(state, items, reason=command.reason)]


def resumed(state: State) -> list[Happened]:
    items = tuple(replace(item, paused=False) for item in state.queue)
    if state.turn is None and items:
        return ending.item_started(state, items[0], items[1:])
    return [] if items == state.queue else [changed(state, items)]


def held(state: State, fresh: str, reason: str, joins: Collection[str], *, everything: bool) -> list[Happened]:
    """Messages that their turn did not read become the first items, paused; with `everything` those that are there pause too."""
    unread = [waits for waits in state.waiting.values() if waits.joins in joins]
    kept = tuple(replace(item, paused=True) for item in state.queue) if everything else state.queue
    first = tuple(_held_item(waits, fresh, number) for number, waits in enumerate(unread))
    if not first and kept == state.queue:
        return []
    return [
        changed(state, (*first[:end], *kept), new=[item.id for item in first[start:end]], reason=reason)
        for start, end in _rows(first, len(kept))
    ]


def _rows(items: tuple[Item, ...], others: int) -> Iterator[tuple[int, int]]:
    """Which of them share an event: as many in a row as fit into one line of the log; where there are none, none share one."""
    start, size = 0, 0
    for place, item in enumerate(items):
        length = len(msgspec.json.encode(item.message))
        if place > start and size + length > min(ROW, ROOM - ENTRY * (place + 1 + others)):
            yield start, place
            start, size = place, 0
        size += length
    yield start, len(items)


def _held_item(waits: Waiting, fresh: str, number: int) -> Item:
    delivery = "steer" if waits.joins == "steer" else "interrupt"
    id, turn_id = ItemId(derived("item", fresh, number)), TurnId(derived("turn", fresh, number))
    return Item(id, turn_id, delivery, waits.message, paused=True, added=True, refs=waits.refs, scope=waits.scope)
