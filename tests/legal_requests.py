"""What a provider would refuse in the body of a Chat Completions request: the strictest reading of all that we know."""

from __future__ import annotations

import json
import re
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def why_illegal(body: dict[str, Any]) -> str | None:
    """In words; None where every provider takes it."""
    messages = body["messages"]
    if [message["role"] for message in messages].count("system") > 1 or messages[0]["role"] != "system":
        return "there is one system message, and it comes first"
    if messages[-1]["role"] not in ("user", "tool"):
        return f"the last message is of the role {messages[-1]['role']}: there is nothing to answer"
    waiting: list[str] = []
    seen = set[str]()
    for place, message in enumerate(messages):
        if wrong := _wrong(message, waiting, seen):
            return f"message {place} ({message['role']}) {wrong}"
    if waiting:
        return f"the calls {waiting} have no results"
    return _wrong_tools(body.get("tools", []))


def _wrong(message: dict[str, Any], waiting: list[str], seen: set[str]) -> str | None:
    made = message.get("tool_calls", [])
    if message["role"] == "tool":
        if message.get("tool_call_id") not in waiting[:1]:
            return f"answers {message.get('tool_call_id')}, and {waiting[:1] or 'no call'} waits"
        waiting.pop(0)
    elif waiting:
        return f"comes before the results of {waiting}"
    if made and message["role"] != "assistant":
        return "makes calls"
    if not made and not _says_something(message.get("content")):
        return "is empty"
    for call in made:
        if wrong := _wrong_call(call, seen):
            return wrong
        waiting.append(call["id"])
        seen.add(call["id"])
    return None


def _wrong_call(call: dict[str, Any], seen: set[str]) -> str | None:
    if not call["id"] or call["id"] in seen:
        return f"uses the id {call['id']!r} twice"
    if call["type"] != "function" or not _NAME.fullmatch(call["function"]["name"]):
        return f"calls {call['function']['name']!r}, which is no name"
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return f"has arguments that are no JSON: {call['function']['arguments']!r}"
    return None if isinstance(arguments, dict) else f"has arguments that are no object: {arguments!r}"


def _says_something(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return isinstance(content, list) and any(part["type"] != "text" or part["text"].strip() for part in content)


def _wrong_tools(tools: list[dict[str, Any]]) -> str | None:
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        return f"two tools have one name: {names}"
    bad = [name for name in names if not _NAME.fullmatch(name)]
    untyped = [tool["function"]["name"] for tool in tools if tool["function"]["parameters"].get("type") != "object"]
    return f"the tools {bad or untyped} cannot be offered" if bad or untyped else None
