"""What a tool is: a definition, a description of one call, and the call itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from palaver.errors import ToolFailed
from palaver.wire.commands import Fact
from palaver.wire.values import Location, Part, Plan, Preview, Question, Stream, ToolCall, ToolResult

MessagePart = Part


class ToolKind(StrEnum):
    READ = "read"
    WRITE = "write"
    EXEC = "exec"
    NETWORK = "network"
    DELEGATE = "delegate"
    ASK = "ask"


@dataclass(frozen=True)
class ToolDefinition:
    name: str
    description: str
    input_schema_json: bytes
    kind: ToolKind
    requires_approval: bool = False


@dataclass(frozen=True)
class Look:
    """A workspace at one moment."""

    hash: str
    """Of all that stands in it and is not ignored."""
    files: Mapping[str, object]
    """By path: equal is unchanged."""
    made: frozenset[str] = frozenset()
    """Paths that turns of this session have changed."""


@dataclass(frozen=True)
class ToolContext:
    """What one call may know and use. Made by the engine for each call."""

    workspace: Path
    session_id: str
    turn_id: str
    call_id: str
    env: Mapping[str, str]
    """The cleaned environment for children, the call's mark included (SECURITY.md 9, 10)."""
    output: Callable[[Stream, str], None]
    """Streams a piece of output: to the tail at once, to the log soon. Never waits."""
    artifact: Callable[[str, bytes, str], Awaitable[str]]
    """`await artifact(name, data, mime_type)` keeps a file of this turn, synced, and gives its ref."""
    hidden: tuple[Path, ...] = ()
    """Folders that no tool reads or writes: Palaver's data and settings."""
    shown: tuple[Path, ...] = ()
    """Folders below a hidden one that may be read all the same: this session's artifacts and attachments."""
    allowed: tuple[Path, ...] = ()
    """Paths outside the workspace that a rule or a grant names."""
    approved: str | None = None
    """The diff that was approved, or the hash of one that was too long: nothing else may be done."""
    granted: bool = False
    """This very call was approved, not a kind of call."""
    look: Callable[[], Awaitable[Look]] | None = None
    """How the workspace is now, by content; None where nobody keeps track of it."""
    note: Callable[[Fact], None] = lambda fact: None
    """Puts what this call found out into the log, before its result. Never waits."""


@dataclass(frozen=True)
class Description:
    """One call, as policy and people see it, before anything happens."""

    title: str
    locations: tuple[Location, ...] = ()
    preview: Preview = Preview()
    command: str | None = None
    """The shell line, for a tool that runs one."""
    reads: tuple[str, ...] = ()
    """Resolved absolute paths that it would read."""
    writes: tuple[str, ...] = ()
    """Resolved absolute paths that it would create, change or delete."""
    domain: str | None = None
    questions: tuple[Question, ...] = ()
    """Of a tool of kind `ask`: its only effect."""
    plan: Plan | None = None
    """What the agent means to do: in mode plan the person decides about it."""
    rests_on: Mapping[str, str] | None = None
    """Of commands that the folder itself names: the files that say what they run, by their hashes. A person trusts both or neither."""
    confined: bool = False
    """A sandbox holds what it runs."""
    caution: str | None = None
    """What a person should know before they let it happen, beside what the policy says."""
    input: Mapping[str, Any] | None = None
    """The call's whole input, for a tool that fills in what was left out: it runs with this, whatever the files say by then."""


class Tool(Protocol):
    def definition(self) -> ToolDefinition: ...

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        """Check the input and say what the call would do. Reads files at most. Raises `ToolFailed("…", code="invalid_arguments")`.

        A tool that cannot say is shown by its name.
        """
        ...

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        """Do it. Raises `ToolFailed`; when cancelled, ends what it started and lets the cancellation pass."""
        ...


@dataclass(frozen=True)
class BrokenTool:
    """A person's own tool that did not load."""

    name: str
    source: str
    reason: str


More = Callable[[Container[str]], tuple[Sequence[Tool], Sequence[BrokenTool]]]
"""Loads the tools that are not ours; the names that are taken are given to it."""


class ToolRegistry:
    """The tools that a turn may use, by name. `more` is asked when a tool is first wanted, and once."""

    def __init__(self, tools: Iterable[Tool], more: More | None = None) -> None:
        self._tools = {tool.definition().name: tool for tool in tools}
        self._more = more
        self._broken: Sequence[BrokenTool] = ()

    def definitions(self) -> list[ToolDefinition]:
        return [tool.definition() for tool in self._all().values()]

    def broken(self) -> Sequence[BrokenTool]:
        """Those that did not load."""
        self._all()
        return self._broken

    async def ready(self) -> None:
        """Loads what is not loaded yet, in a thread: it takes long enough for others to notice."""
        if self._more is not None:
            await asyncio.to_thread(self._all)

    def _all(self) -> dict[str, Tool]:
        more = self._more
        if more is not None:  # two that come at once load the same
            tools, self._broken = more(self._tools.keys())
            self._tools = self._tools | {tool.definition().name: tool for tool in tools}
            self._more = None
        return self._tools

    def find(self, name: str) -> Tool:
        tool = self._all().get(name)
        if tool is None:
            known = ", ".join(sorted(self._all()))
            raise ToolFailed(f"There is no tool named {name!r}. Use one of: {known}.", code="unknown_tool")
        return tool

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        return await self.find(call.name).invoke(context, call)
