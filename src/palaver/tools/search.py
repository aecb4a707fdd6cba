"""`search`: lines that match, found by ripgrep as SECURITY.md 11 starts it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.environment import find_program
from palaver.tools.listing import FIXED, left_out
from palaver.tools.output import SHOWN
from palaver.tools.paths import Spot, check_file, folder_for_child, open_file, plain, spot
from palaver.tools.processes import Ended, run
from palaver.wire.values import Location, Part, Stream, ToolCall, ToolResult

_MATCHES = 200
_LINE = 400
_TIMEOUT_S = 60.0
_LONGEST_RECORD = 1 << 20


class SearchArguments(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(min_length=1, description="The text to find, on one line.")]
    path: Annotated[str, Meta(description="File or folder to look in, relative to the workspace.")] = "."
    glob: Annotated[str, Meta(min_length=1, description="Only files that match, such as *.py or src/**; !x leaves x out.")] | None = None
    regex: Annotated[bool, Meta(description="The pattern is a regular expression (Rust's syntax).")] = False


class Search:
    """Finds lines in the workspace. What .gitignore leaves out is not looked at."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "search",
            f"Find text in the files of the workspace. Gives path:line:text, at most {_MATCHES} matches. Case counts. What .gitignore "
            "names is left out.",
            schema_of(SearchArguments),
            ToolKind.READ,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = _arguments(call)
        with spot(context, asked.path, only_look=True) as place:
            label, path = place.label, plain(place.path)
        where = "" if label == "." else f" in {label}"
        return Description(title=f"Search for {asked.pattern[:80]}{where}", locations=(Location(label),), reads=(path,))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = _arguments(call)
        program = find_program("rg", context.env.get("PATH", os.defpath), context.workspace)
        found = _Matches()
        with spot(context, asked.path) as place:
            found.base = place.label
            ended = await _search(program, context, asked, place, found)
        return _result(call, asked, found, ended)


def _arguments(call: ToolCall) -> SearchArguments:
    asked = arguments(call, SearchArguments)
    if "\n" in asked.pattern:
        raise refuse("search: the pattern spans lines. Search for a part of it that is on one line.")
    return asked


async def _search(program: str, context: ToolContext, asked: SearchArguments, place: Spot, found: _Matches) -> Ended:
    command = [program, *_options(asked)]
    if place.is_folder:
        command += [*left_out(context, place), "-e", asked.pattern, "--", "./"]
        folder = folder_for_child(place)
        return await run(command, folder=folder, env=context.env, sink=found.take, timeout_s=_TIMEOUT_S)
    check_file(place)
    with open_file(place) as file:  # handed over open: the name may be another file's by the time rg looks
        found.single = True
        command += ["-e", asked.pattern, "--", "-"]
        return await run(command, folder="/", env=context.env, sink=found.take, timeout_s=_TIMEOUT_S, stdin=file)


def _options(asked: SearchArguments) -> list[str]:
    fixed = [] if asked.regex else ["--fixed-strings"]
    glob = [] if asked.glob is None else [f"--glob={asked.glob}"]
    return [
        *FIXED,
        "--no-heading",
        "--with-filename",
        "--line-number",
        "--null",
        "--sort=path",
        f"--max-columns={_LINE}",
        "--max-columns-preview",
        f"--max-count={_MATCHES + 1}",
        *fixed,
        *glob,
    ]


@dataclass
class _Matches:
    """What rg prints, taken line by line and bounded."""

    base: str = ""
    single: bool = False
    lines: list[str] = field(default_factory=list)
    errors: bytes = b""
    more: bool = False
    _rest: bytes = b""
    _size: int = 0

    def take(self, stream: Stream, data: bytes) -> bool:
        if stream == "stderr":
            self.errors = (self.errors + data)[:4_000]
            return True
        *records, self._rest = (self._rest + data).split(b"\n")
        for record in records:
            self._add(record)
        if len(self._rest) > _LONGEST_RECORD:
            self.more = True
        return not self.more

    def _add(self, record: bytes) -> None:
        path, nul, text = record.partition(b"\0")
        if not nul:
            return  # rg's own remark, such as that a file is binary
        line = f"{self._label(path)}:{text.decode('utf-8', 'replace').rstrip(chr(13))}"
        self._size += len(line) + 1
        if len(self.lines) >= _MATCHES or self._size > SHOWN:
            self.more = True
        else:
            self.lines.append(line)

    def _label(self, path: bytes) -> str:
        if self.single:
            return self.base
        inside = path.removeprefix(b"./").decode("utf-8", "replace")
        return inside if self.base == "." else f"{self.base}/{inside}"


def _result(call: ToolCall, asked: SearchArguments, found: _Matches, ended: Ended) -> ToolResult:
    said = found.errors.decode("utf-8", "replace").strip()
    if not found.lines:
        if ended.why == "timeout":
            raise ToolFailed(f"The search took longer than {_TIMEOUT_S:g} s. Name a folder or a glob.", code="tool_timeout")
        if ended.status not in (0, 1) and not found.more:
            raise ToolFailed(f"The search failed: {said or f'rg ended with {ended.status}'}. Check the pattern and the glob.")
    notes = []
    if found.more:
        notes.append(f"the first {len(found.lines)} matches; there are more: name a folder, a glob or a longer pattern")
    if ended.why == "timeout":
        notes.append(f"ended after {_TIMEOUT_S:g} s, so this is not all")
    if ended.why == "exited" and ended.status == 2 and said:
        notes.append(f"not everything could be read: {said[:300]}")
    text = "\n".join(found.lines) or f"No line matches {asked.pattern} in {'the workspace' if found.base == '.' else found.base}."
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text + note),), truncated=found.more or ended.why == "timeout")


__all__ = ["Search", "SearchArguments"]
