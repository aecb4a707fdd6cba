"""Which models are known, found and chosen, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from palaver.errors import Invalid
from palaver.models import ModelOffer, ModelRequest, ModelSettings, Registry
from palaver.models.chat_completions import ChatCompletions
from palaver.models.demo import Demo
from palaver.wire.values import Cost, Usage
from scripted_model import ScriptedModel, text

LOCAL = ModelSettings("local", "http://127.0.0.1:9/v1", "llama", "LOCAL_KEY", price_in=2.0, price_out=10.0, fallback="other")
OTHER = ModelSettings("other", "http://127.0.0.1:9/v1")


def test_the_demo_is_always_there_and_never_the_default() -> None:
    registry = Registry([], {})
    assert isinstance(registry.get("demo"), Demo) and registry.get("demo").provider == "demo"
    assert registry.default() is None and registry.names() == ["demo"]


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(Invalid, match="local, other, demo") as refused:
        Registry([LOCAL, OTHER], {}).get("gpt")
    assert refused.value.extra["errors"][0]["path"] == "model"


@pytest.mark.parametrize(
    ("env", "preferred", "expected"),
    [
        ({}, None, "local"),
        ({}, "other", "other"),
        ({"PALAVER_MODEL": "other"}, "local", "other"),
        ({"PALAVER_MODEL": "demo"}, "local", "demo"),
        ({"PALAVER_MODEL": "gpt-x"}, None, "gpt-x"),
        ({"PALAVER_MODEL": ""}, None, "local"),
    ],
)
def test_the_environment_beats_the_settings_and_those_beat_their_order(
    env: Mapping[str, str], preferred: str | None, expected: str
) -> None:
    registry = Registry([LOCAL, OTHER], env, preferred=preferred)
    assert registry.default() == expected
    assert registry.get(expected).name == expected


def test_a_model_of_the_environment_uses_its_address_and_key() -> None:
    async def ask() -> tuple[str, str]:
        async with ScriptedModel([text("x")]) as server:
            registry = Registry([], {"PALAVER_MODEL": "gpt-x", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-1"})
            _ = [piece async for piece in registry.get("gpt-x").stream(ModelRequest((), ()))]
            await registry.aclose()
            return server.requests[0]["model"], server.headers[0]["authorization"]

    assert asyncio.run(ask()) == ("gpt-x", "Bearer sk-1")


def test_what_is_found_is_offered_and_not_known() -> None:
    registry = Registry([], {"OPENAI_API_KEY": "sk-1"})
    assert registry.default() is None
    assert [offer.name for offer in registry.offers()] == ["demo", "openai"]
    found = registry.offers()[1]
    assert found.found == "OPENAI_API_KEY" and found.adopt is not None and "sk-1" not in repr(found)


@pytest.mark.parametrize("env", [{"PALAVER_DISCOVER": "0", "OPENAI_API_KEY": "x"}, {"PALAVER_MODEL": "gpt-x", "OPENAI_API_KEY": "x"}])
def test_nothing_is_found_when_it_must_not_or_is_in_use(env: Mapping[str, str]) -> None:
    assert all(offer.found is None for offer in Registry([], env).offers())


def test_known_models_are_offered_by_both_their_names() -> None:
    assert Registry([LOCAL, OTHER], {"LOCAL_KEY": "x"}).offers()[:2] == [
        ModelOffer("local", "http://127.0.0.1:9/v1", "llama"),
        ModelOffer("other", "http://127.0.0.1:9/v1", "other"),
    ]


def test_the_variables_that_hold_keys_are_secret() -> None:
    """SECURITY 10: those that settings name, and all that discovery knows."""
    found = {"OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}
    assert Registry([LOCAL, OTHER], {}).secret_names() == {"LOCAL_KEY", *found}


def test_costs_follow_the_prices_for_a_million_tokens() -> None:
    registry = Registry([LOCAL, OTHER], {})
    assert registry.cost("local", Usage(1_000_000, 500_000)) == Cost(7.0, "USD")
    assert registry.cost("other", Usage(1, 1)) is None and registry.cost("demo", Usage(1, 1)) is None


def test_a_model_is_built_once_and_keeps_its_settings() -> None:
    registry = Registry([LOCAL], {})
    model = registry.get("local")
    assert isinstance(model, ChatCompletions) and registry.get("local") is model and registry.settings("local").fallback == "other"
