"""Which patches a person looks at before they are applied (DESIGN.md 5, `PatchReviewPolicy`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from palaver.policy import paths
from palaver.policy.values import Case

MAX_CHANGED_LINES = 400
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True)
class Extent:
    """How far a patch reaches."""

    changed: int
    deletes_or_renames: bool


def held_by_review(case: Case) -> str | None:
    """Why the review policy holds this write for a person, or None."""
    if case.review.mode == "off":
        return None
    if case.review.mode == "request":
        return "Every patch is reviewed."
    writes = case.description.writes
    if any(not paths.is_inside(path, case.workspace) for path in writes):
        return "The patch leaves the workspace."
    if any(paths.is_guarded(path, case.workspace, case.guarded) for path in writes):
        return "The patch changes a guarded file."
    if case.description.preview.diff is None:
        return "What the patch changes cannot be shown."
    extent = extent_of(case.description.preview.diff)
    if extent.deletes_or_renames:
        return "The patch deletes or renames a file."
    return f"The patch changes {extent.changed} lines." if extent.changed > MAX_CHANGED_LINES else None


def extent_of(diff: str) -> Extent:
    """Count a unified diff. Hunks are followed by their counts, so a removed line that reads `-- a` is no header."""
    changed, old_left, new_left = 0, 0, 0
    deletes_or_renames, before = False, ""
    for line in diff.split("\n"):
        if old_left > 0 or new_left > 0:
            sign = line[:1]
            changed += sign in ("+", "-")
            old_left -= sign not in ("+", "\\")
            new_left -= sign not in ("-", "\\")
        elif hunk := _HUNK.match(line):
            old_left, new_left = int(hunk[1] or 1), int(hunk[2] or 1)
        elif line.startswith("--- "):
            before = _name(line)
        elif line.startswith("+++ "):
            after = _name(line)
            deletes_or_renames |= after == "/dev/null" or (before != "/dev/null" and before != after)
        elif line.startswith(("deleted file mode", "rename from", "rename to")):
            deletes_or_renames = True
    return Extent(changed, deletes_or_renames)


def _name(header: str) -> str:
    """The path of a `---` or `+++` line, without the letter and the time that tools add."""
    path = header[4:].partition("\t")[0].strip()
    return path if path == "/dev/null" else re.sub(r"^[ab]/", "", path)
