"""A whole chat in one object: messages, confirmations and steering, driven by one subscription."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from palaver.client.confirmations import ToolConfirmations
from palaver.client.message_log import MessageLog
from palaver.client.steering import MessageSteering, text_of, user_message
from palaver.client.store import Store, call_safely
from palaver.client.transforms import default_derive_mode
from palaver.client.types import (
    ChatError,
    ChatMessage,
    ChatModeDeriver,
    ChatSessionState,
    ClientSeam,
    ConfirmationPolicy,
    EventHandler,
    FlushMode,
    Message,
    MessageTransform,
    Respond,
    SteeringMode,
    StreamEvent,
    Text,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolConfirmationState,
)


class ChatSession(Store[ChatSessionState]):
    """One snapshot and one notification for each event, after all parts have taken it; the chat mode is derived anew each time.

    With `subscribe=False` somebody else calls `process_event`, `handle_confirmation` and `process_queue`.
    """

    def __init__(
        self,
        client: ClientSeam,
        *,
        session_id: str | None = None,
        mode: SteeringMode = "steer",
        flush_mode: FlushMode = "sequential",
        auto_flush: bool = True,
        initial_messages: Sequence[ChatMessage] = (),
        transform: MessageTransform | None = None,
        confirmation_policy: ConfirmationPolicy | None = None,
        derive_mode: ChatModeDeriver | None = None,
        on_event: EventHandler | None = None,
        subscribe: bool = True,
        auto_subscribe: bool = True,
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self._derive_mode = derive_mode or default_derive_mode
        self._on_event = on_event
        self._log = MessageLog(client, session_id=session_id, initial_messages=initial_messages, transform=transform, subscribe=False)
        self._confirmations = ToolConfirmations(client, session_id=session_id, policy=confirmation_policy, subscribe=False)
        self._steering = MessageSteering(
            client, session_id=session_id, mode=mode, flush_mode=flush_mode, auto_flush=auto_flush, subscribe=False
        )
        self._last_submitted: str | None = None
        self._acting = False
        self._snapshot = self._take_snapshot()
        if subscribe and session_id:
            self._subscribe(client.session(session_id), auto_subscribe)

    def _subscribe(self, accessor: Any, auto_subscribe: bool) -> None:
        self._ends = [accessor.on_event(self.process_event), accessor.on_tool_confirmation(self.handle_confirmation)]
        if (queue := getattr(accessor, "queue", None)) is not None:
            self._ends.append(queue.on_change(self.process_queue))
        if auto_subscribe and hasattr(accessor, "subscribe"):
            accessor.subscribe()
            if hasattr(accessor, "unsubscribe"):
                self._ends.append(accessor.unsubscribe)

    # --- state --------------------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        return self._snapshot.messages

    @property
    def chat_mode(self) -> str:
        return self._snapshot.chat_mode

    @property
    def tool_confirmation(self) -> ToolConfirmationState | None:
        return self._snapshot.tool_confirmation

    @property
    def tool_confirmations(self) -> tuple[ToolConfirmationState, ...]:
        return self._snapshot.tool_confirmations

    @property
    def last_submitted(self) -> str | None:
        """What was sent and is not yet among the messages: None again when its execution has ended."""
        return self._snapshot.last_submitted

    @property
    def queued(self) -> tuple[Message, ...]:
        return self._snapshot.queued

    @property
    def is_executing(self) -> bool:
        return self._snapshot.is_executing

    @property
    def mode(self) -> SteeringMode:
        return self._snapshot.mode

    @property
    def error(self) -> ChatError | None:
        return self._snapshot.error

    # --- what a person does -------------------------------------------------------------------------------------------------

    def submit(self, text: Text) -> None:
        """Send it, or keep it as the mode says. What is kept stands in `queued` and not in `last_submitted`."""
        with self._one_change():
            before, self._last_submitted = self._last_submitted, text_of(user_message(text)["content"])
            try:
                sent = self._steering.submit(text)
            except Exception:
                self._last_submitted = before
                raise
            if not sent:
                self._last_submitted = before

    def steer(self, text: Text) -> None:
        with self._one_change():
            self._steering.steer(text)

    def queue(self, text: Text) -> None:
        with self._one_change():
            self._steering.queue(text)

    def interrupt(self, text: Text) -> Awaitable[Any]:
        """Stop what runs and send this instead: at once, what this returns can be awaited for the answer."""
        return self._steering.interrupt(text)

    def flush(self) -> None:
        with self._one_change():
            self._steering.flush()

    def remove_queued(self, index: int) -> None:
        with self._one_change():
            self._steering.remove_queued(index)

    def clear_queued(self) -> None:
        with self._one_change():
            self._steering.clear_queued()

    def set_mode(self, mode: SteeringMode) -> None:
        with self._one_change():
            self._steering.set_mode(mode)

    def respond_to_confirmation(self, response: ToolConfirmationResponse, tool_use_id: str | None = None) -> None:
        """Answer the newest confirmation, or the one that is named. Without one nothing changes and nobody is told."""
        if self._confirmations.respond(response, tool_use_id):
            self._changed()

    def clear_messages(self) -> None:
        """Empty what is shown here. A queue that others see too is left alone."""
        with self._one_change():
            self._log.clear()
            self._last_submitted = None
            self._steering.clear_kept()

    # --- what happens -------------------------------------------------------------------------------------------------------

    def process_event(self, event: StreamEvent) -> None:
        if self._on_event is not None:
            call_safely(self._on_event, event)
        self._steering.process_event(event)
        self._log.process_event(event)
        self._confirmations.process_event(event)
        if event["type"] == "execution_end":
            self._last_submitted = None
        elif event["type"] == "message_refused" or (event["type"] == "message_accepted" and event["delivered"] == "queued"):
            if event["text"] == self._last_submitted:
                self._last_submitted = None
        self._changed()

    def handle_confirmation(self, request: ToolConfirmationRequest, respond: Respond) -> None:
        self._confirmations.handle_confirmation(request, respond)
        self._changed()

    def process_queue(self) -> None:
        if not self._acting and self._steering.process_queue():
            self._changed()

    def destroy(self) -> None:
        super().destroy()
        self._log.destroy()
        self._confirmations.destroy()
        self._steering.destroy()

    @contextmanager
    def _one_change(self) -> Iterator[None]:
        """What a person does is told once, however many parts it changes."""
        self._acting = True
        try:
            yield
        finally:
            self._acting = False
        self._changed()

    def _take_snapshot(self) -> ChatSessionState:
        steering, confirmations = self._steering.state, self._confirmations.state
        return ChatSessionState(
            messages=self._log.messages,
            chat_mode=self._derive_mode(is_executing=steering.is_executing, has_pending_confirmation=confirmations.pending is not None),
            tool_confirmation=confirmations.pending,
            tool_confirmations=confirmations.pending_all,
            last_submitted=self._last_submitted,
            queued=steering.queued,
            is_executing=steering.is_executing,
            mode=steering.mode,
            error=steering.error,
        )
