"""How a tool's command is started: in the sandbox that holds here, else as it is, in the folder that was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palaver.tools.base import ToolContext
from palaver.tools.paths import Spot, folder_for_child

if TYPE_CHECKING:
    from palaver.sandbox.variants import Launch, Sandbox


async def launched(
    sandbox: Sandbox | None,
    context: ToolContext,
    place: Spot,
    command: Sequence[str],
    lines: Sequence[str],
    *,
    network: bool | None = None,
) -> Launch:
    """Valid while `place` is open. `network` False: none where a sandbox holds, whatever the settings say."""
    from palaver.sandbox.variants import Launch  # with the first command: nothing needs it before

    env = {**context.env, "PWD": str(place.path)}
    held = None
    if sandbox is not None:
        held = await sandbox.launch(
            command, lines, workspace=context.workspace, session_id=context.session_id, folder=place.path, env=env, network=network
        )
    return held or Launch(command, folder_for_child(place), env)


def caution_of(sandbox: Sandbox | None) -> str | None:
    """What a person should know before they let a command run here. Blocks the first time."""
    return None if sandbox is None else sandbox.look().caution


__all__ = ["caution_of", "launched"]
