"""A person's own tools: what the entry point group `palaver.tools` names. One that does not load is told, and stops nothing."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from palaver.tools.base import BrokenTool, Tool, ToolDefinition

GROUP = "palaver.tools"


def load_own(taken: Container[str]) -> tuple[list[Tool], list[BrokenTool]]:
    """The tools that load, and those that do not. An entry point names a tool, or what makes one when it is called without arguments.

    `taken` are the names that are given away already.
    """
    from importlib.metadata import entry_points  # costs as much as all our tools together

    tools: dict[str, Tool] = {}
    broken: list[BrokenTool] = []
    for entry in entry_points(group=GROUP):
        try:
            tool = _made(entry.load())
            name = _name_of(tool)
            if name in taken or name in tools:
                raise ValueError(f"there is a tool named {name!r} already: give it another name")
            tools[name] = tool
        except Exception as error:  # whatever somebody else's module does while it loads
            broken.append(BrokenTool(entry.name, entry.value, f"{type(error).__name__}: {error}"))
    return list(tools.values()), broken


def _made(loaded: Any) -> Tool:
    made: Tool = loaded() if isinstance(loaded, type) or not hasattr(loaded, "definition") else loaded
    return made


def _name_of(tool: Tool) -> str:
    definition = tool.definition()
    if not isinstance(definition, ToolDefinition):
        raise TypeError("its definition() gives no ToolDefinition")
    return definition.name
