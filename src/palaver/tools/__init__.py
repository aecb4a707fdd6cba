"""What our own loop may do, one file each. A person adds a tool by the entry point group `palaver.tools`.

A tool describes a call before it runs (that is what policy decides on and a person is shown), then runs it. It raises `ToolFailed`
for what the model should read and act on; a bug in it ends its call and nothing else.
"""

from palaver.tools.base import (
    Description,
    MessagePart,
    Tool,
    ToolCall,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolRegistry,
    ToolResult,
)

__all__ = [
    "Description",
    "MessagePart",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolDefinition",
    "ToolKind",
    "ToolRegistry",
    "ToolResult",
]
