"""A model without a service: it does what it is told in a few fixed phrases, so that everything can be seen without a key.

It keeps nothing between requests. What it does next follows from the history alone: the phrases of the messages since its last
answer, in order, less the calls that it has made since. So it can be stopped, restarted and resumed at any point.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Literal, assert_never

import msgspec

from palaver.errors import ModelFailed
from palaver.models.base import CallPiece, Finish, ModelMessage, ModelRequest, Piece, TextPiece
from palaver.models.chat_request import to_body
from palaver.models.demo_words import WORDS, Explain, Fail, Phrase, Think, UseTool, Wait, Write, read_phrases
from palaver.models.media import EVERYTHING
from palaver.wire.ids import new_id
from palaver.wire.values import TextKind, Usage

PACE_S = 0.015
CHARACTERS_PER_TOKEN = 4

_STORY = (
    "the daemon keeps every word that was said and shows it again to whoever asks so nothing is lost when a window closes "
    "or a cable is pulled and the same story is told to each of those who listen"
).split()


class Demo:
    """Says a word every `pace_s`. Deterministic: the same history gets the same answer, but for the ids of calls."""

    provider = "demo"
    takes = EVERYTHING
    context_window: int | None = None
    max_output: int | None = None

    def __init__(self, name: str = "demo", *, pace_s: float = PACE_S, new_call_id: Callable[[], str] = lambda: new_id("call")) -> None:
        self.name = name
        self._pace_s = pace_s
        self._new_call_id = new_call_id

    def body(self, request: ModelRequest) -> bytes:
        """What a service would be sent; the demo reads the request itself."""
        return to_body(request, self.name)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """Text until the next call, or to the end. Raises `ModelFailed` when told to fail."""
        written = 0
        finish: Literal["end_turn", "tool_calls"] = "end_turn"
        for beat in answer(request, self._new_call_id):
            match beat:
                case TextPiece(text=text):
                    written += len(text)
                    yield beat
                    await asyncio.sleep(self._pace_s)
                case CallPiece(arguments=arguments):
                    written += len(arguments)
                    finish = "tool_calls"
                    yield beat
                case Wait(seconds=seconds):
                    await asyncio.sleep(seconds)
        yield Finish(finish, Usage(_tokens(_size(request.messages)), _tokens(written)))


def answer(request: ModelRequest, new_call_id: Callable[[], str]) -> Iterator[TextPiece | CallPiece | Wait]:
    """What is said of the last results, then the phrases whose turn it is, up to the first call. Raises `ModelFailed`."""
    offered = {tool.name for tool in request.tools}
    recent = _since_last_answer(request.messages)
    reports, phrases = _reports(recent), _due(recent, offered)
    gap = ""
    for said in reports if reports or phrases else ["There is nothing left to do."]:
        yield from _words(gap + said)
        gap = "\n\n"
    for phrase in phrases:
        if isinstance(phrase, UseTool) and phrase.name in offered:
            yield from _words(gap + _announcement(phrase))
            yield CallPiece(0, new_call_id(), phrase.name, msgspec.json.encode(phrase.input).decode())
            return
        yield from _do(phrase, gap)
        gap = "\n\n"


def _do(phrase: Phrase, gap: str) -> Iterator[TextPiece | Wait]:
    match phrase:
        case UseTool(name=name):
            yield from _words(f"{gap}I would need the tool `{name}` for that, and it is not offered in this session.")
        case Think(about=about):
            yield from _words(f"Let me think about {about}. There are always two sides to it.", "thinking")
            yield from _words(f"{gap}I have thought about {about}.")
        case Write(words=words):
            yield from _words(gap + _story(words))
        case Wait(seconds=seconds):
            yield from _words(f"{gap}Waiting {seconds:g} seconds.")
            yield phrase
            yield from _words(" Done waiting.")
        case Fail():
            raise ModelFailed("model_failed", "The demo model failed, as it was asked to. Ask it for something else.")
        case Explain():
            yield from _words(gap + _explanation())
        case _:
            assert_never(phrase)


def _words(text: str, kind: TextKind = "text") -> Iterator[TextPiece]:
    return (TextPiece(kind, word) for word in re.findall(r"\s*\S+|\s+$", text))


# --- what the history says ----------------------------------------------------------------------------------------------------


def _since_last_answer(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """What is not settled: all that follows an answer without calls, or what a stopped turn left."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if (message.role == "assistant" and not message.calls) or _was_interrupted(message):
            return messages[place + 1 :]
    return messages


def _was_interrupted(message: ModelMessage) -> bool:
    return (message.role, message.code) in (("tool", "tool_interrupted"), ("user", "stopped"))


def _due(recent: Sequence[ModelMessage], offered: set[str]) -> list[Phrase]:
    """The phrases that are left: those after the one that asked for the last call.

    A message that came while others were being worked on follows them. To fail ends a turn, so a failure that was asked for
    before another message has been and gone.
    """
    asked = [message for message in recent if message.role == "user" and message.code is None]
    phrases: list[Phrase] = []
    for message in asked:
        read = read_phrases(message.text)
        phrases += read if message is asked[-1] else (phrase for phrase in read if not isinstance(phrase, Fail))
    made = sum(len(message.calls) for message in recent)
    for place, phrase in enumerate(phrases):
        if made == 0:
            return phrases[place:]
        if isinstance(phrase, UseTool) and phrase.name in offered:
            made -= 1
    return []


def _reports(recent: Sequence[ModelMessage]) -> list[str]:
    """A sentence for each result that came since the last request."""
    last = next((place for place in range(len(recent) - 1, -1, -1) if recent[place].calls), None)
    if last is None:
        return []
    names = {call.id: call.name for call in recent[last].calls}
    return [_report(names.get(message.call_id or "", "tool"), message) for message in recent[last + 1 :] if message.role == "tool"]


def _report(name: str, result: ModelMessage) -> str:
    if not result.ok:
        return f"`{name}` did not work: {_quoted(result.text, 300)}"
    said = _quoted(result.text, 120)
    return f"`{name}` answered: {said}" if said else f"`{name}` is done."


def _quoted(text: str, limit: int) -> str:
    """The beginning in one line."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit].rstrip()}…"


# --- what it says -------------------------------------------------------------------------------------------------------------


def _announcement(phrase: UseTool) -> str:
    match phrase.name:
        case "read_file":
            return f"I read the file {phrase.subject}."
        case "search":
            return f"I search for {phrase.subject}."
        case "shell":
            return f"I run `{phrase.subject}`."
        case "apply_patch":
            return f"I change the file {phrase.subject}."
        case _:
            return "I have a question."


def _story(words: int) -> str:
    """Exactly so many words, in lines of twenty."""
    told = [_STORY[place % len(_STORY)] for place in range(words)]
    return "\n".join(" ".join(told[start : start + 20]) for start in range(0, words, 20))


def _explanation() -> str:
    listed = "\n".join(f"- {words if '`' in words else f'`{words}`'} ({shows})" for words, shows in WORDS)
    return (
        "I am the built-in demo model: there is no language model behind me, and I understand only these phrases, "
        f"joined by `then`:\n\n{listed}\n\n"
        "For a real model set `PALAVER_MODEL`, with `OPENAI_BASE_URL` and `OPENAI_API_KEY` where it needs them, "
        "or add a `[models.NAME]` section with `base_url` and `model` to config.toml; then start the daemon again."
    )


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _size(messages: Iterable[ModelMessage]) -> int:
    return sum(len(message.text) + sum(len(call.arguments) for call in message.calls) for message in messages)
