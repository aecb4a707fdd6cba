"""A workspace with the real tools, for tests: what the engine would do around one call, and nothing more."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from palaver.errors import ToolFailed
from palaver.sandbox.variants import Sandbox
from palaver.tools import Description, ToolContext, ToolRegistry, builtin
from palaver.tools.jobs import BackgroundJobs
from palaver.tools.processes import MARK
from palaver.wire.commands import Fact
from palaver.wire.ids import CallId
from palaver.wire.values import Stream, ToolCall, ToolResult

PATH = os.environ.get("PATH", os.defpath)


@dataclass
class Bench:
    workspace: Path
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    allowed: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    streamed: list[tuple[Stream, str]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    noted: list[Fact] = field(default_factory=list)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    mark: str = ""
    sandbox: Sandbox | None = None

    def context(self) -> ToolContext:
        async def artifact(name: str, data: bytes, mime_type: str) -> str:
            self.artifacts[name] = data
            return f"artifacts/turn_1/{name}"

        env = {**self.env, MARK: self.mark} if self.mark else self.env
        return ToolContext(
            workspace=self.workspace,
            session_id="sess_1",
            turn_id="turn_1",
            call_id="call_1",
            env=env,
            output=lambda stream, text: self.streamed.append((stream, text)),
            artifact=artifact,
            hidden=self.hidden,
            shown=self.shown,
            allowed=self.allowed,
            note=self.noted.append,
        )

    def tools(self) -> ToolRegistry:
        return ToolRegistry(builtin(self.jobs, sandbox=self.sandbox))

    async def call(self, name: str, **input: Any) -> ToolResult:
        return await self.tools().invoke(self.context(), ToolCall(CallId("call_1"), name, input))

    def run(self, name: str, **input: Any) -> ToolResult:
        return asyncio.run(self.call(name, **input))

    def text(self, name: str, **input: Any) -> str:
        """The text of a call that went well."""
        result = self.run(name, **input)
        assert result.ok, result
        return words(result)

    def fails(self, name: str, **input: Any) -> str:
        """The message of a call that was refused with `tool_error`."""
        with pytest.raises(ToolFailed) as caught:
            self.run(name, **input)
        assert caught.value.code == "tool_error", caught.value
        return caught.value.message

    def refuses(self, name: str, **input: Any) -> str:
        """The message of a call whose input is wrong, told before it runs and again when it would run."""
        with pytest.raises(ToolFailed) as described:
            self.describe(name, **input)
        with pytest.raises(ToolFailed) as invoked:
            self.run(name, **input)
        assert described.value.code == invoked.value.code == "invalid_arguments"
        return described.value.message

    def describe(self, name: str, **input: Any) -> Description:
        return self.tools().find(name).describe(self.context(), ToolCall(CallId("call_1"), name, input))

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


def words(result: ToolResult) -> str:
    return "".join(part.text or "" for part in result.parts)


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for a condition that another process brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


async def happens(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
