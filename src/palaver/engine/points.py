"""The points between two effects, by name. `reached(name)` is called at each; a test ends the process there and looks at the next start.

A point names what has just become true. What comes after it in the same breath has not happened yet.
"""

from __future__ import annotations

from collections.abc import Mapping

POINTS: Mapping[str, str] = {
    "open.marked": "a session's marker is in `open/` and its folder is synced",
    "marker.synced": "the marker is on disk, the client's command that needed it is not decided",
    "session.logged": "a new session's log is on disk, its `session.json` is not",
    "session.written": "the new `session.json` is written beside the old one",
    "session.renamed": "`session.json` has its new contents, the client has no answer",
    "local.written": "the new `local.json` is written beside the old one",
    "local.renamed": "`local.json` has its new contents",
    "log.written": "a group of lines is written and not synced",
    "log.synced": "a group of lines is synced, and nobody has heard of it",
    "tail.left": "a flush is on disk while more text of that part is in memory",
    "call.running": "`tool_call_running` is on disk, the effect has not begun",
    "call.done": "the effect is complete, its result is not recorded",
    "cancel.stopped": "the cancel is on disk and everything has stopped, the turn's end is not recorded",
    "answer.begun": "an answer to an ask came in, nothing of it is on disk",
    "answer.granted": "the grant is in the workspace's log, the answer is not in the session's",
    "answer.logged": "the answer is on disk, the client has not heard of it",
    "checkpoint.written": "a new checkpoint is written beside the old one",
    "checkpoint.renamed": "the new checkpoint is in place",
    "recovery.begun": "a start has ended the processes that were left, and has judged no turn yet",
}
