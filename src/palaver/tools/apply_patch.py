"""`apply_patch`: what a patch says, done to the files of the workspace: all of it, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools import paths
from palaver.tools.arguments import Arguments, arguments, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.patch import FilePatch, PatchLine, Text, counts, parse, unified_diff
from palaver.wire.values import Location, Part, Preview, ToolCall, ToolResult

_TITLE = 80
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class ApplyPatchArguments(Arguments, frozen=True, kw_only=True):
    patch: Annotated[str, Meta(min_length=1, description="The patch, in one of the three forms.")]


_DESCRIPTION = """Change files. All of the patch is applied, or nothing. The first line tells its form:
1. `*** Begin Patch`, then `*** Add File: PATH` (each line with +), `*** Delete File: PATH` or `*** Update File: PATH` (then optionally \
`*** Move to: PATH`) with lines that start with a blank (kept), - or +; `@@ TEXT` before them names a line above; then `*** End Patch`.
2. A unified diff (`--- a/PATH`, `+++ b/PATH`, `@@`).
3. `<<<<<<< SEARCH PATH`, lines to find, `=======`, lines to put there, `>>>>>>> REPLACE`.
Lines to find are those of the file as they stand, enough of them to fit one place only."""


@dataclass
class _File:
    """One file as the patch finds it and as it leaves it."""

    path: Path
    asked: str
    label: str
    reach: paths.Reach
    before: bytes | None
    found: os.stat_result | None
    text: Text
    exists: bool
    mode: int | None
    moved_from: str | None = None
    moved_to: str | None = None

    @property
    def after(self) -> bytes | None:
        return self.text.data() if self.exists else None

    @property
    def changed(self) -> bool:
        return self.after != self.before or (self.exists and self.found is not None and self.mode != self.found.st_mode)

    def ops(self) -> list[PatchLine]:
        return self.text.diff_ops(self.before) if self.exists else [*Text(self.before or b"", self.label).all_removed()]


class ApplyPatch:
    """Adds, changes, moves and deletes files."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition("apply_patch", _DESCRIPTION, schema_of(ApplyPatchArguments), ToolKind.WRITE)

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        plan = _Plan(context, only_look=True)
        plan.take(parse(arguments(call, ApplyPatchArguments).patch))
        files = plan.files()
        labels = tuple(file.label for file in files)
        return Description(
            title=_title(files),
            locations=tuple(Location(label) for label in labels),
            preview=Preview(diff=plan.diff() or None, paths=labels),
            writes=tuple(paths.plain(file.path) for file in files),
        )

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        patches = parse(arguments(call, ApplyPatchArguments).patch)
        writing = asyncio.ensure_future(asyncio.to_thread(_apply, context, patches))
        try:
            text = await asyncio.shield(writing)
        except asyncio.CancelledError:
            with contextlib.suppress(ToolFailed):
                await writing  # a patch is never left half done
            raise
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),))


def _apply(context: ToolContext, patches: Sequence[FilePatch]) -> str:
    plan = _Plan(context, only_look=False)
    plan.take(patches)
    files = [file for file in plan.files() if file.changed]
    if not files:
        raise ToolFailed("The patch changes nothing: the files are as it would leave them.")
    said = "\n".join(map(_sentence, files))
    with ExitStack() as stack:
        _Commit(context, stack).run(files)
    return said


def _title(files: Sequence[_File]) -> str:
    title = ", ".join(_sentence(file, short=True) for file in files)
    return title if len(title) <= _TITLE else f"Change {len(files)} files" if len(files) > 1 else title[: _TITLE - 1] + "…"


def _sentence(file: _File, short: bool = False) -> str:
    if file.moved_to is not None:
        return f"{'Move' if short else 'Moved'} {file.label} to {file.moved_to}"
    new, gone = file.before is None, not file.exists
    verb = ("Add" if new else "Delete" if gone else "Change") if short else ("Added" if new else "Deleted" if gone else "Changed")
    if short:
        return f"{verb} {file.label}"
    added, removed = counts(file.ops())
    return f"{verb} {file.label} (+{added} −{removed})"


# --- what will be -------------------------------------------------------------------------------------------------------------


class _Plan:
    """The files that a patch touches, read once and changed in memory."""

    def __init__(self, context: ToolContext, *, only_look: bool) -> None:
        self._context = context
        self._only_look = only_look
        self._files: dict[Path, _File] = {}

    def files(self) -> list[_File]:
        return [*self._files.values()]

    def take(self, patches: Sequence[FilePatch]) -> None:
        for patch in patches:
            file = self._file(patch.path)
            if file.reach == "hidden":
                continue  # named, so that policy denies it; never read
            match patch.kind:
                case "add":
                    self._add(file, patch)
                case "delete":
                    self._delete(file, patch)
                case "update":
                    self._update(file, patch)

    def diff(self) -> str:
        return "".join(self._diff_of(file) for file in self._files.values() if file.reach != "hidden" and file.changed)

    def _diff_of(self, file: _File) -> str:
        if file.moved_from is not None and file.before is None:
            source = next(other for other in self._files.values() if other.moved_to == file.label)
            ops = file.text.diff_ops(source.before)
            head = f"rename from {source.label}\nrename to {file.label}\n"
            return head + (unified_diff(source.label, file.label, ops) if any(op != " " for op, _ in ops) else "")
        if file.moved_to is not None:
            return ""
        old = None if file.before is None else file.label
        head = ""
        if file.exists and file.mode is not None and file.found is not None and file.mode != file.found.st_mode:
            head = f"old mode {file.found.st_mode:o}\nnew mode {file.mode:o}\n"
        return head + unified_diff(old, file.label if file.exists else None, file.ops())

    def _file(self, asked: str) -> _File:
        with paths.spot(self._context, asked, write=True, only_look=self._only_look) as place:
            known = self._files.get(place.path)
            if known is None:
                known = self._files[place.path] = _read(asked, place)
            return known

    def _add(self, file: _File, patch: FilePatch) -> None:
        if file.exists:
            raise ToolFailed(f"{file.label} is there already. Update it, or delete it in the same patch first.")
        file.text, file.exists = Text.fresh(patch.content, file.label), True
        _set_executable(file, patch)

    def _delete(self, file: _File, patch: FilePatch) -> None:
        _check_there(file)
        if patch.hunks:
            file.text.apply(patch.hunks)
            if file.text.data():
                raise ToolFailed(f"{file.label} has more lines than the patch deletes. Read it again before you delete it.")
        file.exists = False

    def _update(self, file: _File, patch: FilePatch) -> None:
        _check_there(file)
        if b"\0" in file.text.data()[:8_192]:
            raise ToolFailed(f"{file.label} is a binary file. Use shell to change it.")
        file.text.apply(patch.hunks)
        _set_executable(file, patch)
        if patch.move_to is not None:
            self._move(file, patch.move_to)

    def _move(self, file: _File, asked: str) -> None:
        target = self._file(asked)
        if target is file:
            return
        if target.exists:
            raise ToolFailed(f"{target.label} is there already, so {file.label} cannot be moved to it. Delete it in the same patch first.")
        target.text, target.exists, target.mode = file.text, True, file.mode
        target.moved_from, file.moved_to, file.exists = file.label, target.label, False


def _read(asked: str, place: paths.Spot) -> _File:
    there = place.found is not None and place.reach != "hidden"
    before = paths.read(place) if there else None
    mode = place.found.st_mode if there and place.found is not None else None
    return _File(place.path, asked, place.label, place.reach, before, place.found, Text(before or b"", place.label), there, mode)


def _check_there(file: _File) -> None:
    if not file.exists:
        raise ToolFailed(f"{file.label} is not there. Use `*** Add File: {file.label}` for a new file, or search for the one you mean.")


def _set_executable(file: _File, patch: FilePatch) -> None:
    if patch.executable is None:
        return
    mode = file.mode if file.mode is not None else stat.S_IFREG | 0o644
    file.mode = mode | _EXECUTABLE if patch.executable else mode & ~_EXECUTABLE


# --- doing it -----------------------------------------------------------------------------------------------------------------


@dataclass
class _Step:
    """One file on its way: where it is, and its new bytes beside it under a temporary name."""

    file: _File
    folder: int
    name: str
    temporary: str | None
    base: int
    made: list[str]
    done: bool = False


class _Commit:
    """Writes all new files beside the old ones, then puts each in its place. What fails takes back what was done."""

    def __init__(self, context: ToolContext, stack: ExitStack) -> None:
        self._context = context
        self._stack = stack
        self._steps: list[_Step] = []

    def run(self, files: Sequence[_File]) -> None:
        try:
            for file in files:
                self._steps.append(self._stage(file))
            for step in sorted(self._steps, key=lambda step: step.temporary is None):  # what is deleted goes last
                self._put(step)
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                raise ToolFailed(f"The patch could not be written, and nothing was changed: {error.strerror}.") from error
            raise

    def _stage(self, file: _File) -> _Step:
        place = self._stack.enter_context(paths.spot(self._context, file.asked, write=True))
        if place.path != file.path or not paths.same(file.found, place.found):
            raise _changed(file)
        folder, made = paths.make_folders(place)
        self._stack.callback(os.close, folder)
        step = _Step(file, folder, place.name, None, place.folder, made)
        after = file.after
        if after is not None:
            try:
                step.temporary = paths.stage(folder, after, file.mode)
            except BaseException:
                paths.remove_folders(place.folder, made)
                raise
        return step

    def _put(self, step: _Step) -> None:
        if not paths.same(step.file.found, paths.look(step.folder, step.name)):
            raise _changed(step.file)
        if step.temporary is None:
            os.unlink(step.name, dir_fd=step.folder)
        else:
            os.rename(step.temporary, step.name, src_dir_fd=step.folder, dst_dir_fd=step.folder)
            step.temporary = None
        step.done = True

    def _take_back(self) -> None:
        """The last first. What cannot be taken back is said, never passed over."""
        lost = []
        for step in reversed(self._steps):
            try:
                self._restore(step)
            except OSError as error:
                lost.append(f"{step.file.label} ({error.strerror})")
        if lost:
            raise ToolFailed(f"The patch failed half way, and these files could not be put back: {', '.join(lost)}. Look at them first.")

    def _restore(self, step: _Step) -> None:
        if step.temporary is not None:
            os.unlink(step.temporary, dir_fd=step.folder)
        if step.done and step.file.before is None:
            os.unlink(step.name, dir_fd=step.folder)
        elif step.done and step.file.before is not None and step.file.found is not None:
            again = paths.stage(step.folder, step.file.before, step.file.found.st_mode)
            os.rename(again, step.name, src_dir_fd=step.folder, dst_dir_fd=step.folder)
        paths.remove_folders(step.base, step.made)


def _changed(file: _File) -> ToolFailed:
    return ToolFailed(f"{file.label} was changed by something else meanwhile, and nothing of the patch was done. Read it again.")


__all__ = ["ApplyPatch", "ApplyPatchArguments"]
