"""A session of the daemon as the primitives see it, and the seam that leads there.

`subscribe` replays the log silently and tells what was there in one `session_restored`, then only what happens. Whoever joins later is
told the same first. A connection that breaks is taken up at its cursor, so nothing comes twice and nothing is left out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any
from urllib.parse import quote

from palaver.client.connect import Connection
from palaver.client.durable_queue import MirroredQueue
from palaver.client.line import Done, Wire, Work
from palaver.client.refs import whole
from palaver.client.steering import text_of, user_message
from palaver.client.store import Listeners, call_safely
from palaver.client.timeline import Timeline, confirmation_of, parts_of
from palaver.client.types import (
    ConfirmationHandler,
    EventHandler,
    Json,
    Message,
    SendInput,
    SessionRestoredEvent,
    StreamEvent,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    Unsubscribe,
)
from palaver.errors import Failed, PalaverError, Refused

_log = logging.getLogger("palaver.client")


class Handle:
    """One message on its way. `await handle.result` gives the daemon's answer, or raises why there is none."""

    def __init__(self) -> None:
        self.client_message_id = secrets.token_hex(12)
        self.reply: Json | None = None
        self.error: PalaverError | None = None
        self.item_id: str | None = None
        self.heard = False
        """Somebody was told of the error."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def done(self) -> bool:
        return self.reply is not None or self.error is not None

    @property
    def result(self) -> Awaitable[Json]:
        return self

    def settle(self, reply: Json | None, error: PalaverError | None) -> None:
        self.reply, self.error = reply, error
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def __await__(self) -> Generator[Any, None, Json]:
        if not self.done:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            yield from future
        if self.error is not None:
            self.heard = True
            raise self.error
        assert self.reply is not None
        return self.reply


class Seam:
    """What both clients are to the primitives: `send` and `session`, and the refusals that nobody has heard of yet."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sessions: dict[str, Session] = {}
        self._refusals: list[tuple[Handle | None, PalaverError]] = []
        self._broken: BaseException | None = None
        self.events_of_all: Listeners[[StreamEvent]] = Listeners()

    def session(self, session_id: str) -> Session:
        """The one accessor of that session."""
        if session_id not in self._sessions:
            self._sessions[session_id] = Session(self, self._wire, session_id)
        return self._sessions[session_id]

    def send(self, input: SendInput | str, *, session_id: str | None = None, delivery: str = "steer") -> Handle:
        """Hand over one message or several, which go one by one; the handle is the last one's.

        `delivery` matters while a turn runs: `steer` joins it, `queue` waits, `interrupt` takes its place.
        """
        if not session_id:
            raise Refused("no_session", "A message goes to a session. Give session_id, or make a session first: new_session().")
        messages = [user_message(input)] if isinstance(input, str) else input["messages"]
        if not messages:
            raise Refused("no_message", "There is no message to send. Give at least one.")
        return [self.session(session_id).post(message, delivery) for message in messages][-1]

    def listen(self, session_id: str | None, handler: EventHandler) -> Unsubscribe:
        """Read a session, or hear of all that others read, until what this returns is called."""
        if session_id is None:
            return self.events_of_all.add(handler)
        accessor = self.session(session_id)
        leave = accessor.on_event(handler)
        accessor.subscribe()

        def end() -> None:
            leave()
            accessor.unsubscribe()

        return end

    def refused(self, error: PalaverError, handle: Handle | None = None) -> None:
        self._refusals.append((handle, error))

    def broke(self, error: BaseException) -> None:
        """A bug: in the log at once, and raised where the client is waited for or left."""
        _log.error("The client broke", exc_info=error)
        self._broken = self._broken or error

    def raise_refusal(self) -> None:
        """The first one that nobody has heard of; all of them count as told."""
        refusals, self._refusals = self._refusals, []
        if self._broken is not None:
            raise self._broken
        for handle, error in refusals:
            if handle is None or not handle.heard:
                raise error


class Session:
    """The accessor of one session: spec 000's events and confirmations, the durable queue, and the canonical envelopes."""

    def __init__(self, seam: Seam, wire: Wire, session_id: str) -> None:
        self.session_id = session_id
        self.path = f"/v1/sessions/{quote(session_id, safe='')}"
        self.queue = MirroredQueue(self)
        self._seam = seam
        self._wire = wire
        self._events: Listeners[[StreamEvent]] = Listeners()
        self._confirmations: Listeners[[ToolConfirmationRequest, Callable[[ToolConfirmationResponse], object]]] = Listeners()
        self._canonical: Listeners[[Json]] = Listeners()
        self._greetings: dict[object, Callable[[], object]] = {}
        """For whoever joined since the last event: what was there before."""
        self._readers = 0
        self._reading: _Reading | None = None
        self._stop: Unsubscribe | None = None
        self.begin()

    # --- joining and leaving ------------------------------------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        return self._readers > 0

    def is_read_by(self, reading: _Reading) -> bool:
        return self._reading is reading

    def subscribe(self) -> None:
        """Begin to read the session; as often as it is called, `unsubscribe` ends it."""
        self._readers += 1
        if self._reading is None:
            self._reading = _Reading(self)
            self._stop = self._wire.follow(self.session_id, self._reading)

    def unsubscribe(self) -> None:
        self._readers = max(0, self._readers - 1)
        if not self._readers and self._stop is not None:
            self._stop()
            self._stop = self._reading = None
            self.begin()

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        return self._join(self._events.add(handler), lambda: call_safely(handler, self._restored()))

    def on_tool_confirmation(self, handler: ConfirmationHandler) -> Unsubscribe:
        return self._join(self._confirmations.add(handler), lambda: self._ask_all(lambda *asked: call_safely(handler, *asked)))

    def on_canonical_event(self, handler: Callable[[Json], object]) -> Unsubscribe:
        """The daemon's own envelopes: logged ones once and in order, the tail and `hello` without a `seq`.

        A message that is being written when the handler joins comes from its beginning.
        """

        def greet() -> None:
            for envelope in list(self._writing):
                call_safely(handler, envelope)

        return self._join(self._canonical.add(handler), greet)

    def _join(self, leave: Unsubscribe, greet: Callable[[], object]) -> Unsubscribe:
        key = object()
        if self._is_live:
            self._greetings[key] = greet
            self._wire.later(0, self._greet)

        def end() -> None:
            leave()
            self._greetings.pop(key, None)

        return end

    def _greet(self) -> None:
        greetings, self._greetings = self._greetings, {}
        for greet in greetings.values():
            greet()

    # --- what a person does -------------------------------------------------------------------------------------------------

    def send(self, input: SendInput) -> Handle:
        return self._seam.send(input, session_id=self.session_id)

    def interrupt(self, input: SendInput) -> Handle:
        """Stop the turn that runs and let this be the next one, in one command."""
        return self._seam.send(input, session_id=self.session_id, delivery="interrupt")

    def abort(self) -> None:
        """Cancel the turn that runs. The queue is kept, and paused."""
        body = {} if self._timeline.turn_id is None else {"turn_id": self._timeline.turn_id}

        async def work(connection: Connection) -> None:
            await connection.request("POST", f"{self.path}/cancel", body)

        self._wire.hand_over(None, work, self._refused_if)

    def post(self, message: Message, delivery: str) -> Handle:
        """One POST, after those before it. Sent twice because an answer was lost, it counts once."""
        handle = Handle()
        body = {
            "role": "user",
            "parts": parts_of(message["content"]),
            "delivery": delivery,
            "client_message_id": handle.client_message_id,
        }

        async def work(connection: Connection) -> Json:
            reply: Json = (await connection.request("POST", f"{self.path}/messages", body)).body
            if reply["delivered"] == "queued":
                handle.item_id = reply.get("item_id")
            return reply

        self.command(work, partial(self._posted, handle, text_of(message["content"])))
        return handle

    def command(self, work: Work, done: Done) -> None:
        self._wire.hand_over(self.session_id, work, done)

    def refused(self, error: PalaverError) -> None:
        self._seam.refused(error)

    def get(self, path: str, query: Json, done: Done) -> None:
        """Ask for something of the session; `done` gets the body."""

        async def work(connection: Connection) -> Any:
            return (await connection.request("GET", f"{self.path}{path}", query=query)).body

        self._wire.hand_over(None, work, done)

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        """Call it where listeners are called, so many seconds from now."""
        self._wire.later(delay_s, call)

    def _posted(self, handle: Handle, text: str, reply: Json | None, error: PalaverError | None) -> None:
        handle.settle(reply, error)
        local: Json = {"sessionId": self.session_id, "clientMessageId": handle.client_message_id, "text": text}
        waits = reply is not None and reply["delivered"] == "queued" and self.is_subscribed
        if error is not None:
            self._seam.refused(error, handle)
            self.queue.withdraw(handle.client_message_id)
            self._tell({**local, "type": "message_refused", "code": code_of(error), "message": str(error)})
        elif reply is not None:
            if not waits:
                self.queue.withdraw(handle.client_message_id)
            self._tell({**local, "type": "message_accepted", "delivered": reply["delivered"], "turnId": reply["turn_id"]})
        self.queue.changed()

    def _refused_if(self, answer: object, error: PalaverError | None) -> None:
        if error is not None:
            self._seam.refused(error)

    # --- what happens -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Know nothing: at first, and when the log was replaced."""
        self._timeline = Timeline()
        self._writing: list[Json] = []
        """The logged output of the message that is being written."""
        self._shortened: dict[str, Json] = {}
        """Approvals that cannot be shown before the rest of them is loaded."""
        self._last: Json = {"seq": 0, "ts": ""}
        self._is_live = False
        self.queue.forget()

    def take(self, envelope: Json) -> None:
        if "seq" not in envelope:
            self._take_unlogged(envelope)
        elif self._is_live:
            self._greet()
            self._happened(envelope)
        else:
            self._fold(envelope)

    def fail(self, error: PalaverError) -> None:
        self._seam.refused(error)
        self._tell({"type": "stream_failed", "sessionId": self.session_id, "code": code_of(error), "message": str(error)})

    def _take_unlogged(self, envelope: Json) -> None:
        if envelope["type"] == "caught_up" and not self._is_live:
            self._go_live()
        elif self._is_live and envelope["type"] not in ("caught_up", "deleted"):
            self._canonical.call(envelope)

    def _go_live(self) -> None:
        self._is_live = True
        self._greetings.clear()
        self._tell(self._restored())
        self.queue.changed()
        for envelope in list(self._writing):
            self._canonical.call(envelope)
        self._ask_all(self._confirmations.call)
        for approval_id in list(self._shortened):
            self._load(approval_id)

    def _happened(self, envelope: Json) -> None:
        events, queue_changed = self._fold(envelope)
        self._canonical.call(envelope)
        if queue_changed:
            self.queue.changed()
        for event in events:
            self._tell(event)
        if envelope["type"] == "approval_requested":
            self._ask_or_load(envelope["data"]["approval_id"])

    def _fold(self, envelope: Json) -> tuple[list[StreamEvent], bool]:
        self._last = envelope
        data = envelope["data"]
        match envelope["type"]:
            case "model_output_started":
                self._writing = [envelope]
            case "model_output_delta":
                self._writing.append(envelope)
            case "model_output_completed" | "model_output_discarded" | "turn_completed":
                self._writing = []
            case "approval_requested" if data.get("refs"):
                self._shortened[data["approval_id"]] = envelope
            case "approval_granted" | "approval_denied":
                self._shortened.pop(data["approval_id"], None)
        return self._timeline.take(envelope), self.queue.take(envelope)

    def _restored(self) -> SessionRestoredEvent:
        seq = self._last["seq"]
        restored = self._timeline.restored()
        restored["id"], restored["sequence"] = f"{self.session_id}/restored/{seq}", seq
        restored["timestamp"], restored["sessionId"] = self._last["ts"], self.session_id
        return restored

    def _tell(self, event: Any) -> None:
        self._events.call(event)
        self._seam.events_of_all.call(event)

    # --- confirmations ------------------------------------------------------------------------------------------------------

    def _ask_all(self, ask: Callable[..., object]) -> None:
        for approval_id, request in list(self._timeline.approvals.items()):
            if approval_id not in self._shortened:
                ask(request, partial(self._respond, approval_id))

    def _ask(self, approval_id: str) -> None:
        self._confirmations.call(self._timeline.approvals[approval_id], partial(self._respond, approval_id))

    def _ask_or_load(self, approval_id: str) -> None:
        if approval_id in self._shortened:
            self._load(approval_id)
        else:
            self._ask(approval_id)

    def _load(self, approval_id: str) -> None:
        """Nobody is asked about what they cannot see whole."""
        envelope = self._shortened[approval_id]

        async def work(connection: Connection) -> Json:
            return await whole(connection, self.session_id, envelope["data"])

        self._wire.hand_over(None, work, partial(self._loaded, approval_id, envelope))

    def _loaded(self, approval_id: str, envelope: Json, data: Json | None, error: PalaverError | None) -> None:
        if error is not None:
            self._seam.refused(error)
        elif self._shortened.pop(approval_id, None) is envelope and data is not None:
            self._timeline.approvals[approval_id] = confirmation_of({**envelope, "data": data})
            self._ask(approval_id)

    def _respond(self, approval_id: str, response: ToolConfirmationResponse) -> None:
        """Hand the answer over. Where somebody was quicker that is no error; where it is not taken the request comes again."""
        body: Json = {"action": "approve" if response["approved"] else "deny", "client_answer_id": secrets.token_hex(12)}
        if response.get("reason") is not None:
            body["reason"] = response["reason"]
        if response.get("modifiedArguments") is not None:
            body["input"] = response["modifiedArguments"]
        if response.get("always"):
            body["scope"] = "session"

        async def work(connection: Connection) -> None:
            await connection.request("POST", f"/v1/approvals/{quote(approval_id, safe='')}", body)

        self._wire.hand_over(None, work, partial(self._responded, approval_id))

    def _responded(self, approval_id: str, answer: object, error: PalaverError | None) -> None:
        if error is None or code_of(error) == "already_answered":
            return
        self._seam.refused(error)
        if (request := self._timeline.approvals.get(approval_id)) is not None:
            refused = {"code": code_of(error), "message": str(error)}
            again: ToolConfirmationRequest = {**request, "metadata": {**request.get("metadata", {}), "refused": refused}}
            self._timeline.approvals[approval_id] = again
            self._ask(approval_id)


class _Reading:
    """One reading of the log, from `subscribe` to `unsubscribe`: what is on its way when it ends comes to nobody."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def take(self, envelope: Json) -> None:
        if self._session.is_read_by(self):
            self._session.take(envelope)

    def begin(self) -> None:
        if self._session.is_read_by(self):
            self._session.begin()

    def fail(self, error: PalaverError) -> None:
        if self._session.is_read_by(self):
            self._session.fail(error)


def code_of(error: PalaverError) -> str:
    return error.code if isinstance(error, Refused | Failed) else "failed"
