"""The same daemon seen from outside: find it, make sure that it is ours, speak to it; and the pieces that a chat is built from.

Names are loaded when they are used: httpx2 costs forty milliseconds, and a program that only wants `--help` should not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import palaver.client.connect  # noqa: F401 (before the function of that name: a later import would put the module in its place)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from palaver.client.async_client import AsyncClient
    from palaver.client.chat_session import ChatSession
    from palaver.client.confirmations import ToolConfirmations
    from palaver.client.message_log import MessageLog
    from palaver.client.session import Handle, Session
    from palaver.client.steering import MessageSteering
    from palaver.client.streaming_text import StreamingText
    from palaver.client.sync import SyncClient
    from palaver.client.transcript import Transcript, TranscriptState
    from palaver.client.transforms import default_derive_mode, default_transform, extract_tool_calls, timeline_to_messages
    from palaver.client.types import (
        ChatError,
        ChatMessage,
        ChatMode,
        ChatModeDeriver,
        ChatSessionOptions,
        ChatSessionState,
        ConfirmationDecision,
        ConfirmationPolicy,
        ContentBlock,
        DurableQueue,
        ExecutionEndEvent,
        ExecutionStartEvent,
        FlushMode,
        Message,
        MessageLogOptions,
        MessageLogState,
        MessageSteeringOptions,
        MessageSteeringState,
        MessageTransform,
        MessageTransformContext,
        SendInput,
        SessionAccessor,
        SteeringMode,
        StreamEvent,
        StreamingTextState,
        TimelineEntry,
        ToolCallEntry,
        ToolCallStartEvent,
        ToolConfirmationRequest,
        ToolConfirmationResponse,
        ToolConfirmationsOptions,
        ToolConfirmationsState,
        ToolConfirmationState,
        ToolResultEvent,
    )

__all__ = [
    "AsyncClient",
    "ChatError",
    "ChatMessage",
    "ChatMode",
    "ChatModeDeriver",
    "ChatSession",
    "ChatSessionOptions",
    "ChatSessionState",
    "ConfirmationDecision",
    "ConfirmationPolicy",
    "ContentBlock",
    "DurableQueue",
    "ExecutionEndEvent",
    "ExecutionStartEvent",
    "FlushMode",
    "Handle",
    "Message",
    "MessageLog",
    "MessageLogOptions",
    "MessageLogState",
    "MessageSteering",
    "MessageSteeringOptions",
    "MessageSteeringState",
    "MessageTransform",
    "MessageTransformContext",
    "SendInput",
    "Session",
    "SessionAccessor",
    "SteeringMode",
    "StreamEvent",
    "StreamingText",
    "StreamingTextState",
    "SyncClient",
    "TimelineEntry",
    "ToolCallEntry",
    "ToolCallStartEvent",
    "ToolConfirmationRequest",
    "ToolConfirmationResponse",
    "ToolConfirmationState",
    "ToolConfirmations",
    "ToolConfirmationsOptions",
    "ToolConfirmationsState",
    "ToolResultEvent",
    "Transcript",
    "TranscriptState",
    "connect",
    "connect_sync",
    "default_derive_mode",
    "default_transform",
    "extract_tool_calls",
    "timeline_to_messages",
]

_HOMES = {
    "AsyncClient": "async_client",
    "ChatSession": "chat_session",
    "Handle": "session",
    "MessageLog": "message_log",
    "MessageSteering": "steering",
    "Session": "session",
    "StreamingText": "streaming_text",
    "SyncClient": "sync",
    "ToolConfirmations": "confirmations",
    "Transcript": "transcript",
    "TranscriptState": "transcript",
    "default_derive_mode": "transforms",
    "default_transform": "transforms",
    "extract_tool_calls": "transforms",
    "timeline_to_messages": "transforms",
}
"""Where the names are; all others are in `types`."""


def connect(url: str | None = None, token: str | None = None, data: str | None = None) -> AbstractAsyncContextManager[AsyncClient]:
    """A client, for `async with`. Without an argument it finds the daemon as the command line does.

    Leaving it waits, at most 5 s, for all that was handed over, then raises the first refusal that nobody has heard of.
    """
    from palaver.client.async_client import connected

    return connected(url, token, data)


def connect_sync(url: str | None = None, token: str | None = None, data: str | None = None) -> SyncClient:
    """The same for programs without an event loop, for `with`."""
    from palaver.client.sync import SyncClient

    return SyncClient(url, token, data)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'types')}"), name)
