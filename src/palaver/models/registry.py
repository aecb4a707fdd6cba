"""Which models there are: those that somebody named, those that are merely found, and the demo model, which is always there.

A model is *known* when the settings or `PALAVER_MODEL` name it. What is found in the environment is offered and never chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from palaver.errors import Invalid
from palaver.models.base import Model
from palaver.models.chat_completions import ChatCompletions, Connections
from palaver.wire.values import Cost, Usage

OPENAI_URL = "https://api.openai.com/v1"
_KEY, _URL, _MODEL = "OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_MODEL"
_PRICE_TOKENS = 1_000_000


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
    tools: bool = True
    price_in: float | None = None
    """In US dollars for a million tokens."""
    price_out: float | None = None
    fallback: str | None = None
    """The name of the model that answers when this one cannot."""


class ModelOffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `GET /v1/models`."""

    name: str
    base_url: str | None
    model: str | None
    found: str | None = None
    """Where it was found, of one that nobody named."""
    adopt: str | None = None
    """The line that adopts it."""


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
    ) -> None:
        """`preferred` is `[defaults] model`; `PALAVER_MODEL` beats it."""
        self._env = env
        self._silence_s = silence_s
        self._connections = Connections()
        self._known = {settings.name: settings for settings in models if settings.name != "demo"}
        self._built: dict[str, Model] = {}
        self._demo_pace_s = demo_pace_s
        self._preferred = self._adopt_from_environment() or preferred

    def default(self) -> str | None:
        """The model for whoever names none: `PALAVER_MODEL`, the settings' default, else the first one known. None: only demo."""
        return self._preferred or next(iter(self._known), None)

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
            return ModelSettings("demo", base_url="", model="demo")
        settings = self._known.get(name)
        if settings is None:
            raise Invalid(f"There is no model {name!r}. Choose one of: {', '.join(self.names())}.", path="model")
        return settings

    def cost(self, name: str, usage: Usage) -> Cost | None:
        """What the usage costs; None where the settings name no price."""
        settings = self.settings(name)
        if settings.price_in is None and settings.price_out is None:
            return None
        amount = usage.input_tokens * (settings.price_in or 0.0) + usage.output_tokens * (settings.price_out or 0.0)
        return Cost(amount / _PRICE_TOKENS, "USD")

    def offers(self) -> list[ModelOffer]:
        """The known ones, the demo, then what was found."""
        known = [ModelOffer(each.name, each.base_url, each.model or each.name) for each in self._known.values()]
        return [*known, ModelOffer("demo", None, None), *self._found()]

    def secret_names(self) -> frozenset[str]:
        """The variables whose values reach no log, no artifact and no child process."""
        named = {settings.api_key_env for settings in self._known.values() if settings.api_key_env is not None}
        return frozenset(named | {_KEY})

    async def aclose(self) -> None:
        await self._connections.aclose()

    def _adopt_from_environment(self) -> str | None:
        """`PALAVER_MODEL` names a model of the settings, or one of the service that `OPENAI_BASE_URL` and the key lead to."""
        name = self._env.get(_MODEL)
        if name and name != "demo" and name not in self._known:
            key = _KEY if self._env.get(_KEY) or not self._env.get(_URL) else None  # a server of one's own may need no key
            self._known[name] = ModelSettings(name, self._env.get(_URL) or OPENAI_URL, name, key, vision=True)
        return name or None

    def _found(self) -> list[ModelOffer]:
        """A service that the environment leads to, while no known model uses it."""
        found = _KEY if self._env.get(_KEY) else _URL if self._env.get(_URL) else None
        base_url = self._env.get(_URL) or OPENAI_URL
        used = any(settings.base_url == base_url for settings in self._known.values())
        if found is None or used or self._env.get("PALAVER_DISCOVER") == "0":
            return []
        return [ModelOffer("openai", base_url, None, found=found, adopt=f"{_MODEL}=NAME palaver serve")]

    def _build(self, settings: ModelSettings) -> Model:
        base_url = settings.base_url
        return ChatCompletions(
            settings.name,
            base_url,
            settings.model or settings.name,
            self._env.get(settings.api_key_env) if settings.api_key_env else None,
            client=lambda: self._connections.to(base_url),
            api_key_env=settings.api_key_env,
            silence_s=self._silence_s,
            vision=settings.vision,
            tools=settings.tools,
            max_output=settings.max_output,
        )
