"""A workspace and what reading it for a model may touch, for tests of what a model is given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from palaver.tools import ToolContext


@dataclass
class Room:
    workspace: Path
    hidden: tuple[Path, ...] = ()

    def reach(self) -> ToolContext:
        async def artifact(name: str, data: bytes, mime_type: str) -> str:
            raise AssertionError("nothing is kept for this")

        env = {"PATH": os.environ.get("PATH", os.defpath)}
        return ToolContext(self.workspace, "sess_1", "turn_1", "", env, lambda stream, text: None, artifact, hidden=self.hidden)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
