"""The agents that a session can be with, and what they may be set to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from shutil import which
from typing import Any

from msgspec.structs import replace

from palaver.errors import Invalid
from palaver.models.media import Takes
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
    undo=True,
    compact=True,
)
OUT_OF_REACH = Capabilities(
    steer=False,
    resume=False,
    load=False,
    modes=False,
    models=False,
    commands=False,
    vision=False,
    tools=False,
    approvals=False,
    on_deny="continues",
)


@dataclass(frozen=True)
class Agent:
    name: str
    backend: str
    title: str
    model: str | None = None
    """What a session with it begins with; None: the model for whoever names none."""
    capabilities: Capabilities = LOOP
    mode: str | None = None
    prompt: str | None = None
    command: str | None = None
    """The program behind a backend that is not our own loop."""


PROGRAMS = (
    Agent("claude", "claude", "Claude Code", capabilities=OUT_OF_REACH, command="claude"),
    Agent("codex", "codex", "Codex", capabilities=OUT_OF_REACH, command="codex"),
    Agent("pi", "pi", "Pi", capabilities=OUT_OF_REACH, command="pi"),
    Agent("opencode", "acp", "OpenCode", capabilities=OUT_OF_REACH, command="opencode"),
    Agent("gemini", "acp", "Gemini CLI", capabilities=OUT_OF_REACH, command="gemini"),
    Agent("qwen", "acp", "Qwen Code", capabilities=OUT_OF_REACH, command="qwen"),
)
"""Agents that others make. They are named so that nobody looks for them in vain; no backend drives them yet."""


class Agents:
    def __init__(
        self,
        models: Registry,
        configured: Mapping[str, Agent],
        *,
        agent: str | None,
        mode: str,
        delivery: str,
        find_program: Callable[[str], str | None] = which,
    ) -> None:
        self._models = models
        self._preferred = agent
        self._find_program = find_program
        self.mode = mode
        self.delivery = "queue" if delivery == "auto" else delivery
        palaver = Agent("palaver", "loop", "Palaver's own agent")
        demo = Agent("demo", "loop", "The built-in demo: no model, real tools", "demo")
        self._agents = {agent.name: agent for agent in (palaver, demo, *PROGRAMS, *configured.values())}

    def get(self, name: str | None) -> Agent:
        """The agent of that name, or the default one. Raises `Invalid` with the choices, or with the reason why it cannot be used."""
        chosen = name or self._preferred or ("palaver" if self._models.default() else "demo")
        agent = self._agents.get(chosen)
        usable = [agent.name for agent in self._agents.values() if agent.backend == "loop"]
        if agent is None:
            raise Invalid(f"There is no agent {chosen!r}. Choose one of: {', '.join(usable)}.", path="agent")
        if agent.backend != "loop":
            raise Invalid(f"The agent {chosen!r} is not ready. {self._unready(agent)} Choose one of: {', '.join(usable)}.", path="agent")
        return agent

    def model(self, agent: Agent, name: str | None) -> str | None:
        """The model that a session of this agent will ask. Raises `Invalid` with the choices."""
        chosen = name or agent.model or self._models.default()
        if chosen is None:
            raise Invalid(
                f"The agent {agent.name!r} needs a model and none is known. Name one in the settings or with PALAVER_MODEL,"
                " or choose the agent 'demo'.",
                path="model",
            )
        return self._models.settings(chosen).name

    async def choose(self, model: str | None) -> None:
        """A person named this model for a session: one that is found on the machine becomes known."""
        if model is not None:
            await self._models.choose(model)

    def takes(self, model: str | None) -> Takes | None:
        """What the model can be shown beside text; None where that is not known."""
        try:
            return self._models.settings(model).takes if model is not None else None
        except Invalid:  # the settings no longer name it
            return None

    def capabilities(self, agent: Agent, model: str | None) -> Capabilities:
        """What a session with this agent and this model can do."""
        if agent.backend != "loop" or model is None:
            return agent.capabilities
        try:
            settings = self._models.settings(model)
        except Invalid:  # the settings no longer name it
            return agent.capabilities
        return replace(agent.capabilities, vision=settings.vision, tools=settings.tools)

    def check_mode(self, mode: str | None) -> str:
        chosen = mode or self.mode
        if chosen not in {choice.id for choice in MODES}:
            raise Invalid(f"There is no mode {chosen!r}. Choose one of: {', '.join(choice.id for choice in MODES)}.", path="mode")
        return chosen

    def choices(self) -> tuple[Choice, ...]:
        return tuple(Choice(name, name) for name in self._models.names())

    async def listed(self) -> list[dict[str, Any]]:
        """Every agent, and of one that cannot be used why, and the line that changes it where there is one."""
        adopt = [offer.adopt for offer in await self._models.looked() if offer.adopt]
        fix = adopt[0] if adopt else "PALAVER_MODEL=NAME OPENAI_API_KEY=… palaver serve"
        return await asyncio.to_thread(lambda: [self._listed(agent, fix) for agent in self._agents.values()])

    def _listed(self, agent: Agent, fix: str) -> dict[str, Any]:
        shown = {"name": agent.name, "backend": agent.backend, "title": agent.title, "ready": True}
        if agent.backend != "loop":
            return {**shown, "ready": False, "reason": self._unready(agent), "capabilities": agent.capabilities}
        shown |= {"capabilities": self.capabilities(agent, self._default_of(agent)), "modes": MODES, "models": self.choices()}
        try:
            model = self.model(agent, None)
        except Invalid as error:
            return {**shown, "ready": False, "reason": error.message, "fix": fix}
        if model is not None and (missing := self._models.missing(model)):
            return {**shown, "ready": False, "reason": f"{model}: {missing}", "fix": self._models.fix(model)}
        return shown

    def _default_of(self, agent: Agent) -> str | None:
        return agent.model or self._models.default()

    def _unready(self, agent: Agent) -> str:
        found = self._find_program(agent.command) if agent.command else None
        there = f"{agent.command} is at {found}" if found else f"{agent.command} is not installed"
        return f"This version of Palaver cannot drive {agent.title} yet ({there})."
