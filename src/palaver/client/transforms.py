"""From timeline entries to what a chat shows. Pure, and each can be replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palaver.client.types import (
    ChatMessage,
    ChatMode,
    ContentBlock,
    MessageTransformContext,
    TimelineEntry,
    ToolCallEntry,
)


def default_transform(entries: Sequence[TimelineEntry], context: MessageTransformContext) -> list[ChatMessage]:
    """`timeline_to_messages` as a transform."""
    return timeline_to_messages(entries, context.tool_durations, first_fallback=context.first_fallback)


def timeline_to_messages(
    entries: Sequence[TimelineEntry], tool_durations: Mapping[str, float], *, first_fallback: int = 0
) -> list[ChatMessage]:
    """The messages of person and assistant, in order; what is no message, and every other role, is left out.

    A message without an id gets `msg-<n>`: its place among the entries, counted from `first_fallback`.
    """
    messages = []
    for place, entry in enumerate(entries, first_fallback):
        message = entry.get("message")
        if entry.get("kind") != "message" or message is None:
            continue
        role = message.get("role")
        if role != "user" and role != "assistant":
            continue
        shown = ChatMessage(id=message.get("id") or f"msg-{place}", role=role, content=message["content"])
        calls = [_with_duration(call, tool_durations) for call in extract_tool_calls(message["content"])]
        if calls:
            shown["toolCalls"] = calls
        messages.append(shown)
    return messages


def extract_tool_calls(blocks: str | Sequence[ContentBlock]) -> list[ToolCallEntry]:
    """The calls that a content makes. Their id stands in `toolUseId` or in `id`, as old as the block is."""
    if isinstance(blocks, str):
        return []
    return [
        ToolCallEntry(id=block.get("toolUseId") or block["id"], name=block["name"], status="done")
        for block in blocks
        if block["type"] == "tool_use"
    ]


def default_derive_mode(*, is_executing: bool, has_pending_confirmation: bool) -> ChatMode:
    """Who has to act: the person (`confirming_tool`), the agent (`streaming`), or nobody."""
    if has_pending_confirmation:
        return "confirming_tool"
    return "streaming" if is_executing else "idle"


def _with_duration(call: ToolCallEntry, durations: Mapping[str, float]) -> ToolCallEntry:
    return {**call, "duration": durations[call["id"]]} if call["id"] in durations else call
