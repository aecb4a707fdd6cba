"""`apply_patch`: what a patch says, done to the files of the workspace: all of it, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools import paths
from palaver.tools.arguments import Arguments, arguments, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.patch import FilePatch, PatchLine, parse
from palaver.tools.patch_text import Text, counts, unified_diff
from palaver.wire.values import Location, Part, Preview, ToolCall, ToolResult

_TITLE = 80
_NAMED = 16
"""Digits of a blob's name in a diff."""
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class ApplyPatchArguments(Arguments, frozen=True, kw_only=True):
    patch: Annotated[str, Meta(min_length=1, description="The patch, in one of the three forms.")]


_DESCRIPTION = """Change files. All of the patch is applied, or nothing. The first line tells its form:
1. `*** Begin Patch`, then `*** Add File: PATH` (each line with +), `*** Delete File: PATH` or `*** Update File: PATH` (then optionally \
`*** Move to: PATH`) with lines that start with a blank (kept), - or +; `@@ TEXT` before them names a line above; then `*** End Patch`.
2. A unified diff (`--- a/PATH`, `+++ b/PATH`, `@@`).
3. `<<<<<<< SEARCH PATH`, lines to find, `=======`, lines to put there, `>>>>>>> REPLACE`.
Lines to find are those of the file as they stand, enough of them to fit one place only."""


@dataclass(eq=False)
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
    origin: _File | None = None
    """The file that was moved here, whose lines the text began with."""
    moved_to: str | None = None

    @property
    def after(self) -> bytes | None:
        return self.text.data() if self.exists else None

    @property
    def changed(self) -> bool:
        return self.after != self.before or (self.exists and self.found is not None and self.mode != self.found.st_mode)

    def ops(self) -> list[PatchLine]:
        if not self.exists:
            return Text(self.before or b"", self.label).all_removed()
        return self.text.diff_ops(self.before if self.origin is None else self.origin.before)


class ApplyPatch:
    """Adds, changes, moves and deletes files."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition("apply_patch", _DESCRIPTION, schema_of(ApplyPatchArguments), ToolKind.WRITE)

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        plan = _Plan(context, only_look=True)
        plan.take(parse(arguments(call, ApplyPatchArguments).patch))
        files = [file for file in plan.files() if file.changed or file.reach == "hidden"] or plan.files()
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
    _check_approved(context, plan)
    said = "\n".join(_sentence(file) for file in files if file.moved_to is None)
    with ExitStack() as stack:
        _Commit(context, stack).run(files)
    return said


def _check_approved(context: ToolContext, plan: _Plan) -> None:
    """What was approved goes onto the bytes that its diff was made from, or nowhere: the diff names them by their hash."""
    if context.approved is None:
        return
    diff = plan.diff()
    if context.approved not in (diff, sha256(diff.encode()).hexdigest()):
        raise ToolFailed("A file was changed by something else after the patch was approved, and nothing of it was done. Read it again.")


def _title(files: Sequence[_File]) -> str:
    title = ", ".join(f"{_verbs(file)[0]} {_what(file)}" for file in files if file.moved_to is None)
    if len(title) <= _TITLE:
        return title
    return f"Change {len(files)} files" if len(files) > 1 else title[: _TITLE - 1] + "…"


def _sentence(file: _File) -> str:
    added, removed = counts(file.ops())
    return f"{_verbs(file)[1]} {_what(file)} (+{added} −{removed})"


def _verbs(file: _File) -> tuple[str, str]:
    if file.origin is not None:
        return "Move", "Moved"
    if file.reach == "hidden":  # not looked at, so what it is now is not known
        return "Change", "Changed"
    if not file.exists:
        return "Delete", "Deleted"
    return ("Add", "Added") if file.before is None else ("Change", "Changed")


def _what(file: _File) -> str:
    return file.label if file.origin is None else f"{file.origin.label} to {file.label}"


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
            with _without_content(patch.path, file.reach):
                self._take(file, patch)

    def _take(self, file: _File, patch: FilePatch) -> None:
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
        if file.moved_to is not None:
            return ""  # shown where it went
        source = file if file.origin is None else file.origin
        head = "" if source is file else f"rename from {source.label}\nrename to {file.label}\n"
        if file.exists and file.mode is not None and source.found is not None and file.mode != source.found.st_mode:
            head += f"old mode {source.found.st_mode:o}\nnew mode {file.mode:o}\n"
        ops = file.ops()
        if head and all(op == " " for op, _ in ops):
            return head
        return (
            head
            + f"index {_blob(source.before)}..{_blob(file.after)}\n"
            + unified_diff(None if source.before is None else source.label, file.label if file.exists else None, ops)
        )

    def _file(self, asked: str) -> _File:
        with paths.spot(self._context, asked, write=True, only_look=self._only_look) as place:
            known = self._files.get(place.path)
            if known is None:
                with _without_content(asked, place.reach):
                    known = self._files[place.path] = _read(asked, place)
            return known

    def _add(self, file: _File, patch: FilePatch) -> None:
        if file.exists:
            raise ToolFailed(f"{file.label} is there already. Update it, or delete it in the same patch first.")
        self._part(file)
        file.text, file.exists = Text.fresh(patch.content, file.label), True
        _set_executable(file, patch)

    def _delete(self, file: _File, patch: FilePatch) -> None:
        _check_there(file)
        if patch.hunks:
            file.text.apply(patch.hunks)
            if file.text.data():
                raise ToolFailed(f"{file.label} has more lines than the patch deletes. Read it again before you delete it.")
        self._part(file)
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
        if target.exists or target.reach == "hidden":
            raise ToolFailed(f"{target.label} is there already, so {file.label} cannot be moved to it. Delete it in the same patch first.")
        origin = file.origin or file
        self._part(target)
        file.origin = origin.moved_to = None  # moved on: told as one move from where it began
        target.text, target.exists, target.mode, file.exists = file.text, True, file.mode, False
        if target.before is None:
            target.origin, origin.moved_to = origin, target.label
        else:
            target.text = Text.fresh(file.text.data(), target.label)

    def _part(self, file: _File) -> None:
        """End what ties a file to another by an earlier move: from now on each is told by itself."""
        for target in self._files.values():
            if target.origin is not None and file in (target, target.origin):
                target.text = Text.fresh(target.text.data(), target.label)
                target.origin.moved_to, target.origin = None, None


def _blob(data: bytes | None) -> str:
    """As git calls these bytes, shortened."""
    return "0" * _NAMED if data is None else sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()[:_NAMED]


@contextlib.contextmanager
def _without_content(asked: str, reach: paths.Reach) -> Iterator[None]:
    """What a call would do outside is shown to a person who decides; that it fails must not tell the model what is there."""
    try:
        yield
    except ToolFailed as error:
        if reach != "outside":
            raise
        raise ToolFailed(f"{asked} is outside the workspace, and the patch cannot be applied there. Use a path inside it.") from error


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
