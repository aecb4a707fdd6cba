"""What one turn asks its model: instructions, what the folder holds, and the history as it fits. Every request is kept as it was sent."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from palaver.backends.base import Prompt, Tell
from palaver.backends.compacting import Cause, Compactor, Summarize, not_compacted, summarized
from palaver.context.agents_md import AgentsFiles
from palaver.context.compaction import NEAR
from palaver.context.fitting import fitted, total
from palaver.context.kept import Known, keep
from palaver.context.prompts import system_prompt
from palaver.errors import ModelFailed, Refused, ToolFailed
from palaver.models.base import Model, ModelMessage, ModelRequest, ModelTool, to_model_tools
from palaver.models.tokens import MESSAGE, estimate
from palaver.tools.base import ToolContext, ToolKind
from palaver.wire.commands import Fact, NoteFact
from palaver.wire.events import ContextUsage, Notice
from palaver.wire.ids import SessionId, StepId
from palaver.wire.values import ContextCategory, Cost, Part, Usage

Bundle = Callable[[ToolContext, str, int], Awaitable[str]]
"""`await bundle(reach, question, room)`, in at most `room` tokens. Raises `ToolFailed`."""
_PATIENCE_S = 10.0
"""How long a turn waits for a bundle."""
_SESSIONS = 64
"""Of so many it is known in memory what their files hold; of others a request is kept whole once more."""


@dataclass
class Requests:
    """What the requests of all turns share."""

    now: Callable[[], str]
    bundle: Bundle | None = None
    """Shows what a folder holds, as far as a question is about it; None: it is not shown."""
    cost_of: Callable[[str, Usage], Cost | None] = lambda _, __: None
    summarize: Summarize = summarized
    _windows: dict[str, int] = field(default_factory=dict)
    """Of models whose service said that a request was too long: what they take, as far as that showed."""
    _known: OrderedDict[SessionId, Known] = field(default_factory=OrderedDict)

    def of(self, prompt: Prompt, tell: Tell) -> TurnRequests:
        return TurnRequests(self, prompt, tell, AgentsFiles(prompt.reach))

    def window(self, model: Model) -> int | None:
        """Tokens of a request and its answer together, as far as anybody said."""
        learned = self._windows.get(model.name)
        return min(filter(None, (model.context_window, learned)), default=None)

    def learn(self, model: Model, window: int) -> None:
        self._windows[model.name] = min(window, self.window(model) or window)

    def compactor(self, model: Model, tell: Callable[[Fact], Awaitable[None]]) -> Compactor:
        return Compactor(model, self.window(model), tell, self.cost_of, self.summarize)

    def known(self, session_id: SessionId) -> Known:
        known = self._known.setdefault(session_id, Known())
        self._known.move_to_end(session_id)
        while len(self._known) > _SESSIONS:
            self._known.popitem(last=False)
        return known


@dataclass(frozen=True)
class Head:
    """What stands before the history."""

    system: str
    tools: tuple[ModelTool, ...]
    instructions: int
    """About how many tokens of it tell the model what to do and with what."""
    files: int
    """And how many show it what the folder holds."""

    @property
    def tokens(self) -> int:
        return self.instructions + self.files


@dataclass
class TurnRequests:
    """Those of one turn."""

    shared: Requests
    prompt: Prompt
    tell: Tell
    agents_files: AgentsFiles
    _told: tuple[StepId, bytes] | None = None
    _keeping: asyncio.Task[None] | None = None
    """What keeps the latest request, beside the model that answers it."""
    _size: int = 0
    """Of the latest request, in tokens."""
    _bundle: str | None = None
    """Made for the turn's first request, and kept: what a service has cached of the beginning stays good."""
    _shrunk: StepId | None = None
    """The step that was too long once already."""

    async def next(self, model: Model, step_id: StepId) -> ModelRequest:
        """The request of a step. It is kept and told of while it is answered: see `kept`."""
        await self.kept()
        history = await self.prompt.recall()
        head = await self._head(model, history)
        room = self._room(model, head)
        if (cause := self._cause(history, room)) and await self._compact(model, history, room, cause):
            history = await self.prompt.recall()
        shown = history if room is None else fitted(history, room)
        self._size = head.tokens + total(shown)
        request = ModelRequest((ModelMessage("system", (Part("text", text=head.system),)), *shown), head.tools)
        body = model.body(request)
        if (step_id, body) != self._told:  # a request that is made again is the same one
            self._keeping = asyncio.ensure_future(self._tell(model, step_id, request, head, body, compressed=shown is not history))
            self._told = (step_id, body)
        return request

    async def kept(self) -> None:
        """Returns when the latest request is on disk and the log names it."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            await keeping

    async def _head(self, model: Model, history: Sequence[ModelMessage]) -> Head:
        prompt, mode = self.prompt, self.prompt.mode()
        ours = system_prompt(mode, self.shared.now()[:10], prompt.system_prompt)
        told = await self.agents_files.told(path for message in history for path in message.touched)
        system = f"{ours}\n\n{told}" if told else ours
        tools = tuple(to_model_tools(tool for tool in prompt.tools if mode != "plan" or tool.kind in (ToolKind.READ, ToolKind.ASK)))
        if self._bundle is None:
            self._bundle = await self._bundled(model, history)
        files = estimate(self._bundle) if self._bundle else 0
        whole = f"{system}\n\n{self._bundle}" if self._bundle else system
        return Head(whole, tools, MESSAGE + estimate(system) + tools_tokens(tools), files)

    async def _bundled(self, model: Model, history: Sequence[ModelMessage]) -> str:
        """What the folder holds. A turn goes on without it where it cannot be had, and says so. The demo model reads nothing of it."""
        if self.shared.bundle is None or model.provider == "demo":
            return ""
        window = self.shared.window(model)
        room = 3_000 if window is None else max(400, min(4_000, window // 16))
        asked = [message.text for message in islice((one for one in reversed(history) if one.role == "user"), 2)][::-1]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self.shared.bundle(self.prompt.reach, "\n".join(asked)[-8_000:], room)
        except (ToolFailed, TimeoutError) as error:
            why = error.message if isinstance(error, ToolFailed) else f"it took longer than {_PATIENCE_S:g} s."
            text = f"The model was not shown what the workspace holds: {why}"
            self.tell.soon(NoteFact(turn_id=self.prompt.turn_id, fact=Notice(level="warning", code="not_shown", text=text)))
            return ""

    def too_long(self, model: Model, step_id: StepId, failed: ModelFailed) -> bool:
        """A service refused a request for its length: says whether a shorter one is worth a try. It is, once a step."""
        if failed.code != "context_overflow" or self._shrunk == step_id:
            return False
        self._shrunk = step_id
        said = stated_window(failed.message)
        self.shared.learn(model, min(int(self._size * 0.7), said or self._size))
        return True

    def _room(self, model: Model, head: Head) -> int | None:
        """Tokens that the history may take; None where nobody knows the window."""
        window = self.shared.window(model)
        if window is None:
            return None
        answer = min(model.max_output or window // 8, window // 4)
        return max(window // 8, int((window - answer) * 0.98) - head.tokens)

    def _cause(self, history: Sequence[ModelMessage], room: int | None) -> Cause | None:
        if self.prompt.wish() is not None:
            return "requested"
        if room is None or total(history) <= room * NEAR:
            return None
        return "overflow" if self._shrunk is not None else "near_limit"

    async def _compact(self, model: Model, history: Sequence[ModelMessage], room: int | None, cause: Cause) -> bool:
        async def tell(fact: Fact) -> None:
            await self.tell(NoteFact(turn_id=self.prompt.turn_id, fact=fact))

        wish = self.prompt.wish()
        done = await self.shared.compactor(model, tell).compact(
            history, await self.prompt.pins(), room, cause, wish.instructions if wish else None
        )
        if wish is not None and not done:
            await tell(not_compacted("it is short already."))
        return done

    async def _tell(self, model: Model, step_id: StepId, request: ModelRequest, head: Head, body: bytes, *, compressed: bool) -> None:
        async def put(data: bytes) -> str:
            return await self.prompt.keep("request.json", data)

        ref = await keep(body, self.shared.known(self.prompt.session_id), put)
        categories = categories_of(request.messages[1:], head)
        usage = ContextUsage(
            message_count=len(request.messages),
            tokens=sum(one.tokens for one in categories),
            source="estimated",
            limit=self.shared.window(model),
            compressed=compressed,
            categories=categories,
            step_id=step_id,
            request_ref=ref,
        )
        with suppress(Refused):  # the turn was stopped meanwhile
            self.tell.soon(NoteFact(turn_id=self.prompt.turn_id, fact=usage))


def stated_window(message: str) -> int | None:
    """The length that a refusal names as the most there is: "maximum context length is 8192 tokens", "n_ctx = 4096"."""
    found = re.search(r"(?:context|n_ctx|maximum|limit)[^0-9]{0,60}?([0-9][0-9,_]{2,9})\b", message, re.IGNORECASE)
    number = int(re.sub(r"[,_]", "", found[1])) if found else 0
    return number if number >= 500 else None


def tools_tokens(tools: Sequence[ModelTool]) -> int:
    return sum(estimate(tool.description) + estimate(str(tool.schema)) + 8 for tool in tools)


def categories_of(history: Sequence[ModelMessage], head: Head) -> tuple[ContextCategory, ...]:
    results = sum(message.tokens for message in history if message.role == "tool")
    said = sum(message.tokens for message in history if message.role != "tool")
    return (
        ContextCategory("instructions", head.instructions),
        ContextCategory("files", head.files),
        ContextCategory("tool_results", results),
        ContextCategory("conversation", said),
    )


__all__ = ["Head", "Requests", "TurnRequests", "categories_of", "stated_window", "tools_tokens"]
