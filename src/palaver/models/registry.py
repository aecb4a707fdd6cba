"""Which models there are: those that somebody named, those that are merely found, and the demo model, which is always there.

A model is *known* when the settings, `PALAVER_MODEL` or a person name it. What is found (`discover.py`) is offered and never chosen.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palaver.errors import Invalid
from palaver.models.base import Model
from palaver.models.connections import Connections
from palaver.models.discover import MODEL, OPENAI_URL, SERVICES, URL, Discovery, Service
from palaver.models.media import Takes
from palaver.wire.values import Cost, Usage

if TYPE_CHECKING:
    from palaver.models.chat_request import Echo

_KEY = "OPENAI_API_KEY"
CHOSEN = "models.json"
"""The file in the data folder that keeps what people chose."""
_PRICE_TOKENS = 1_000_000

Keep = Callable[[Sequence[str]], None]
"""Keeps the names that people chose, for the next start. Waits for the disk."""


@dataclass(frozen=True)
class ModelSettings:
    """One `[models.NAME]` of the settings."""

    name: str
    base_url: str = OPENAI_URL
    model: str | None = None
    """The service's name for it; absent: our own name."""
    api_key_env: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    vision: bool = False
    """It takes images."""
    audio: bool = False
    files: bool = False
    """It takes documents that are no text: PDF."""
    tools: bool = True
    price_in: float | None = None
    """In US dollars for a million tokens."""
    price_out: float | None = None
    echo: Echo = "auto"
    """What of its thinking it is given back."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More members of each request, as its service names them."""
    fallback: str | None = None
    """The name of the model that answers when this one cannot."""

    @property
    def takes(self) -> Takes:
        return Takes(self.vision, self.audio, self.files)


def from_sections(sections: Mapping[str, msgspec.Struct]) -> list[ModelSettings]:
    """The tables `[models.NAME]` as they were read; their keys are the fields above."""
    return [ModelSettings(name, **msgspec.structs.asdict(section)) for name, section in sections.items()]


def read_chosen(path: Path) -> list[str]:
    """The models that people took from what was found, in this run or an earlier one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[str])
    except (FileNotFoundError, msgspec.DecodeError):
        return []  # nobody has, or a power cut emptied the file: they are offered again


class ModelOffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `GET /v1/models`."""

    name: str
    base_url: str | None
    model: str | None
    found: str | None = None
    """Where it was found, of one that nobody named."""
    adopt: str | None = None
    """The line that adopts it."""
    missing: str | None = None
    """What a known one lacks before it can answer."""
    fix: str | None = None
    """The line that gives it that."""


class Registry:
    """The models of the daemon. Builds each once; all that ask one service share their connections."""

    def __init__(
        self,
        models: Iterable[ModelSettings],
        env: Mapping[str, str],
        *,
        preferred: str | None = None,
        silence_s: float = 120,
        demo_pace_s: float | None = None,
        chosen: Sequence[str] = (),
        keep: Keep = lambda _: None,
        services: Sequence[Service] = SERVICES,
    ) -> None:
        """`preferred` is `[defaults] model`; `PALAVER_MODEL` beats it. `chosen` are found models that people took before."""
        self._env = env
        self._silence_s = silence_s
        self._connections = Connections()
        self._known = {settings.name: settings for settings in models if settings.name != "demo"}
        self._named = list(self._known)
        self._built: dict[str, Model] = {}
        self._demo_pace_s = demo_pace_s
        self.discovery = Discovery(env, services)
        self._keep = keep
        self._chosen: list[str] = []
        self._preferred = env.get(MODEL) or preferred or None
        if named := env.get(MODEL):
            self._adopt_from_environment(named)
        elif preferred and (service := self.discovery.service(preferred)) and preferred not in self._known:
            self._known[preferred] = self._of(service, preferred)
        for name in chosen:
            self._take(name)

    def default(self) -> str | None:
        """The model for whoever names none: `PALAVER_MODEL`, the settings' default, their first one, the last that was chosen.

        None: only the demo.
        """
        return self._preferred or next(iter([*self._named, *reversed(self._chosen)]), None)

    async def choose(self, name: str) -> None:
        """A person names a model: one that is found becomes known, and stays so. Whether the name makes sense is for `settings` to say."""
        service = self.discovery.service(name)
        if service is None or name in self._known or self.discovery.off:
            return
        await self.discovery.look()
        model = name.partition("/")[2]
        listed = any(found.service == service and model in found.models for found in self.discovery.servers())
        if (listed or self._key_of(service)) and self._take(name):
            await asyncio.to_thread(self._keep, tuple(self._chosen))

    def names(self) -> list[str]:
        """Every name that `get` takes, the known ones first."""
        return [*self._known, "demo"]

    def get(self, name: str) -> Model:
        """Raises `Invalid` with the choices for a name that nobody knows."""
        model = self._built.get(name)
        if model is None:
            model = self._built[name] = self._demo() if name == "demo" else self._build(self.settings(name))
        return model

    def _demo(self) -> Model:
        from palaver.models.demo import Demo  # its phrases take milliseconds that only its first turn needs

        return Demo() if self._demo_pace_s is None else Demo(pace_s=self._demo_pace_s)

    def settings(self, name: str) -> ModelSettings:
        """Raises `Invalid` like `get`."""
        if name == "demo":
            return ModelSettings("demo", base_url="", model="demo", vision=True, audio=True, files=True)
        settings = self._known.get(name)
        if settings is None:
            found = [offer.name for offer in self.offers() if offer.found]
            more = f" Found here, to be chosen too: {', '.join(found)}." if found else ""
            raise Invalid(f"There is no model {name!r}. Choose one of: {', '.join(self.names())}.{more}", path="model")
        return settings

    def cost(self, name: str, usage: Usage) -> Cost | None:
        """What the usage costs; None where the settings name no price."""
        settings = self.settings(name)
        if settings.price_in is None and settings.price_out is None:
            return None
        amount = usage.input_tokens * (settings.price_in or 0.0) + usage.output_tokens * (settings.price_out or 0.0)
        return Cost(amount / _PRICE_TOKENS, "USD")

    def fallback_of(self, name: str) -> str | None:
        """The model that answers where this one cannot."""
        return self.settings(name).fallback

    def missing(self, name: str) -> str | None:
        """What the model lacks, as far as that is seen without asking it."""
        key = self.settings(name).api_key_env
        return f"The variable {key} is not set." if key and not self._env.get(key) else None

    def fix(self, name: str) -> str | None:
        """The line that gives it what it lacks."""
        return f"export {self.settings(name).api_key_env}=…" if self.missing(name) else None

    def offers(self) -> list[ModelOffer]:
        """The known ones, the demo, then what was found: models of this machine by name, services of a key with a name to be put in."""
        known = [
            ModelOffer(each.name, each.base_url, each.model or each.name, missing=self.missing(each.name), fix=self.fix(each.name))
            for each in self._known.values()
        ]
        return [*known, ModelOffer("demo", None, None), *self._found()]

    async def looked(self) -> list[ModelOffer]:
        """The same after a look around, which takes half a second at most."""
        await self.discovery.look()
        return self.offers()

    def secret_names(self) -> frozenset[str]:
        """The variables whose values reach no log, no artifact and no child process."""
        named = {settings.api_key_env for settings in self._known.values() if settings.api_key_env is not None}
        return frozenset(named.union(*(service.keys for service in SERVICES)))

    async def aclose(self) -> None:
        await self._connections.aclose()

    def _adopt_from_environment(self, name: str) -> None:
        """`PALAVER_MODEL` without a section: `ollama/NAME` and the like by its service, else where `OPENAI_BASE_URL` or the key lead."""
        if name == "demo" or name in self._known:
            return
        service = self.discovery.service(name)
        if service is not None and (not service.keys or (self._key_of(service) and not self._env.get(URL))):
            self._known[name] = self._of(service, name)
        else:
            key = _KEY if self._env.get(_KEY) or not self._env.get(URL) else None  # a server of one's own may need no key
            self._known[name] = ModelSettings(name, self._env.get(URL) or OPENAI_URL, name, key, vision=True)

    def _take(self, name: str) -> bool:
        """Whether it is known now and was not before."""
        service = self.discovery.service(name)
        if name in self._known or service is None:
            return False
        self._known[name] = self._of(service, name)
        self._chosen.append(name)
        return True

    def _of(self, service: Service, name: str) -> ModelSettings:
        """What it sees is not known before it is asked, so it is shown everything that it may see."""
        return ModelSettings(name, service.base_url, name.partition("/")[2], self._key_of(service), vision=True)

    def _key_of(self, service: Service) -> str | None:
        return next((key for key in service.keys if self._env.get(key)), None)

    def _found(self) -> list[ModelOffer]:
        """Less the services that a known model uses already."""
        if self.discovery.off:
            return []
        used = {settings.base_url for settings in self._known.values()}
        own = self._env.get(URL) or None
        offers = [] if own is None or own in used else [ModelOffer("openai", own, None, URL, f"{MODEL}=NAME palaver serve")]
        for found in self.discovery.keys():
            service = found.service
            if service.base_url not in used and not (own and service.name == "openai"):
                offers.append(ModelOffer(service.name, service.base_url, None, found.by, _adopt(f"{service.name}/NAME")))
        for found in self.discovery.servers():
            names = (f"{found.service.name}/{model}" for model in found.models)
            offers += [
                ModelOffer(name, found.service.base_url, name.partition("/")[2], f"{found.service.title} at {found.by}", _adopt(name))
                for name in names
                if name not in self._known
            ]
        return offers

    def _build(self, settings: ModelSettings) -> Model:
        from palaver.models.chat_completions import ChatCompletions  # with the first turn, which alone needs it

        base_url = settings.base_url
        return ChatCompletions(
            settings.name,
            base_url,
            settings.model or settings.name,
            self._env.get(settings.api_key_env) if settings.api_key_env else None,
            client=lambda: self._connections.to(base_url),
            api_key_env=settings.api_key_env,
            silence_s=self._silence_s,
            takes=settings.takes,
            tools=settings.tools,
            max_output=settings.max_output,
            echo=settings.echo,
            extra=settings.extra,
            context_window=settings.context_window,
        )


def _adopt(name: str) -> str:
    return f"{MODEL}={shlex.quote(name)} palaver serve"
