"""What this machine has that could answer: keys in the environment, and model servers at their usual ports.

Nothing is sent anywhere to find out but to 127.0.0.1, by that number: a key is seen to be there and never tried. What is found is offered
and never chosen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

OPENAI_URL = "https://api.openai.com/v1"
URL, MODEL, SWITCH = "OPENAI_BASE_URL", "PALAVER_MODEL", "PALAVER_DISCOVER"
LOOK_S = 0.5
"""How long a look may take; a server of this machine answers in milliseconds, or is not asked again before the next look."""
FRESH_S = 5.0
"""How long what was seen counts."""
_ANSWER_LIMIT = 1024 * 1024


class Service(NamedTuple):
    """One that speaks Chat Completions. `NAME/MODEL` names a model of it."""

    name: str
    title: str
    base_url: str
    keys: tuple[str, ...] = ()
    """The variables that may hold a key for it; none: it is a server of this machine."""

    @property
    def port(self) -> int:
        return urlsplit(self.base_url).port or 80


SERVICES = (
    Service("openai", "OpenAI", OPENAI_URL, ("OPENAI_API_KEY",)),
    Service("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    Service("anthropic", "Anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",)),
    Service("google", "Google", "https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Service("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    Service("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
    Service("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
)


class Found(NamedTuple):
    service: Service
    by: str
    """The variable, or the address, by which it was found."""
    models: tuple[str, ...] = ()
    """Those that a server of this machine says it has. What a key leads to is not asked."""


class Discovery:
    """Looks when it is asked to, and remembers for a moment what it saw."""

    def __init__(self, env: Mapping[str, str], services: Sequence[Service] = SERVICES) -> None:
        self._env = env
        self._services = services
        self._seen: tuple[Found, ...] = ()
        self._looked_at: float | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def off(self) -> bool:
        return self._env.get(SWITCH) == "0"

    def keys(self) -> list[Found]:
        """The services for which a key is there; of several variables the first."""
        if self.off:
            return []
        found = ((service, [name for name in service.keys if self._env.get(name)]) for service in self._services)
        return [Found(service, names[0]) for service, names in found if names]

    def servers(self) -> tuple[Found, ...]:
        """Those of this machine that the latest look saw."""
        return self._seen

    def service(self, name: str) -> Service | None:
        """The one that a name such as `ollama/qwen3:8b` speaks of."""
        prefix, slash, rest = name.partition("/")
        return next((service for service in self._services if service.name == prefix), None) if slash and rest else None

    async def look(self) -> None:
        """See which servers of this machine answer, within `LOOK_S`. Any number of callers share one look."""
        now = asyncio.get_running_loop().time()
        if self.off or (self._looked_at is not None and now - self._looked_at < FRESH_S):
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        await asyncio.shield(self._looking)

    async def _look(self) -> None:
        local = [service for service in self._services if not service.keys]
        answers = await asyncio.gather(*(_within(models_at(service.port)) for service in local))
        named = zip(local, answers, strict=True)
        self._seen = tuple(Found(service, f"127.0.0.1:{service.port}", models) for service, models in named if models is not None)
        self._looked_at = asyncio.get_running_loop().time()


async def _within(asking: Awaitable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    try:
        async with asyncio.timeout(LOOK_S):
            return await asking
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None  # nobody is there, or somebody who does not answer


async def models_at(port: int) -> tuple[str, ...] | None:
    """The names that a model server at this port of 127.0.0.1 lists; None for whatever else listens there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:%d\r\nAccept: application/json\r\n\r\n" % port)
        answer = await _read(reader)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return _names(body) if head.split(b" ", 2)[1:2] == [b"200"] else None


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Until the end, or until the length that the answer gives: not every server closes."""
    answer = bytearray()
    while len(answer) < _ANSWER_LIMIT and (piece := await reader.read(64 * 1024)):
        answer += piece
        head, found, body = answer.partition(b"\r\n\r\n")
        lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        if found and lengths and lengths[0].strip().isdigit() and len(body) >= int(lengths[0]):
            break
    return bytes(answer)


class _Listed(msgspec.Struct):
    id: str


class _List(msgspec.Struct):
    data: list[_Listed]


def _names(body: bytes) -> tuple[str, ...] | None:
    """Those that can answer: one that only embeds is left out."""
    try:
        listed = msgspec.json.decode(body, type=_List)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return tuple(one.id for one in listed.data if one.id and "embed" not in one.id.lower())
