"""The agents that a session can be with, and what they may be set to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaver.errors import Invalid
from palaver.models.registry import Registry
from palaver.wire.values import Capabilities, Choice

MODES = (
    Choice("plan", "Plan", "Reads and answers; changes and runs nothing"),
    Choice("ask", "Ask", "Asks before it changes files or runs commands"),
    Choice("edit", "Edit", "Changes files in the workspace; asks before it runs commands"),
    Choice("auto", "Auto", "Changes files and runs commands without asking"),
)
LOOP = Capabilities(
    steer=True,
    resume=True,
    load=True,
    modes=True,
    models=True,
    commands=False,
    vision=False,
    tools=True,
    approvals=True,
    on_deny="continues",
)


@dataclass(frozen=True)
class Agent:
    name: str
    backend: str
    title: str
    model: str | None
    """What a session with it begins with."""
    capabilities: Capabilities = LOOP
    mode: str | None = None
    prompt: str | None = None


class Agents:
    def __init__(self, models: Registry, configured: Mapping[str, Agent], *, agent: str | None, mode: str, delivery: str) -> None:
        self._models = models
        self._preferred = agent
        self.mode = mode
        self.delivery = "queue" if delivery == "auto" else delivery
        palaver = Agent("palaver", "loop", "Palaver's own agent", models.default())
        demo = Agent("demo", "loop", "The built-in demo: no model, real tools", "demo")
        self._agents = {agent.name: agent for agent in (palaver, demo, *configured.values())}

    def get(self, name: str | None) -> Agent:
        """The agent of that name, or the default one. Raises `Invalid` with the choices."""
        chosen = name or self._preferred or ("palaver" if self._models.default() else "demo")
        agent = self._agents.get(chosen)
        if agent is None:
            raise Invalid(f"There is no agent {chosen!r}. Choose one of: {', '.join(self._agents)}.", path="agent")
        return agent

    def model(self, agent: Agent, name: str | None) -> str | None:
        """The model that a session of this agent will ask. Raises `Invalid` with the choices."""
        if name is not None:
            return self._models.settings(name).name
        if agent.model is None and agent.backend == "loop":
            raise Invalid(
                f"The agent {agent.name!r} needs a model and none is known. Name one in the settings or with PALAVER_MODEL,"
                " or choose the agent 'demo'.",
                path="model",
            )
        return agent.model

    def check_mode(self, mode: str | None) -> str:
        chosen = mode or self.mode
        if chosen not in {choice.id for choice in MODES}:
            raise Invalid(f"There is no mode {chosen!r}. Choose one of: {', '.join(choice.id for choice in MODES)}.", path="mode")
        return chosen

    def choices(self) -> tuple[Choice, ...]:
        return tuple(Choice(name, name) for name in self._models.names())

    def listed(self) -> list[dict[str, Any]]:
        return [self._listed(agent) for agent in self._agents.values()]

    def _listed(self, agent: Agent) -> dict[str, Any]:
        ready = agent.backend != "loop" or agent.model is not None
        shown = {
            "name": agent.name,
            "backend": agent.backend,
            "title": agent.title,
            "ready": ready,
            "capabilities": agent.capabilities,
            "modes": MODES,
            "models": self.choices(),
        }
        if not ready:
            shown["reason"] = "No model is known. Set PALAVER_MODEL and OPENAI_API_KEY, or add [models.NAME] to the settings."
        return shown
