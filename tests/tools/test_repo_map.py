from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tool_bench import Bench, words

from palaver.context.repository import Repositories
from palaver.errors import ToolFailed
from palaver.tools.repo_map import RepoMap
from palaver.wire.ids import CallId
from palaver.wire.values import ToolCall, ToolResult


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace)


def run(bench: Bench, **input: Any) -> ToolResult:
    tool = RepoMap(Repositories(bench.workspace.parent / "cache", 30.0))
    return asyncio.run(tool.invoke(bench.context(), ToolCall(CallId("call_1"), "repo_map", input)))


def test_a_query_gives_the_files_that_it_is_about_with_what_they_define(bench: Bench) -> None:
    """S4-57."""
    bench.write("src/door.py", "class Door:\n    def open(self, wide: bool) -> None: ...\n\n\ndef knock(times): ...\n")
    bench.write("src/window.go", "package house\n\nfunc Shut(w Window) {\n}\n")
    bench.write("notes.txt", "nothing of interest\n")
    told = words(run(bench, query="Who knocks on the door?"))
    assert told == ("src/door.py (6 lines)\n     1: class Door\n     2:   def open(self, wide: bool) -> None\n     5: def knock(times)")
    assert "src/window.go (5 lines)\n     3: func Shut(w Window)" in words(run(bench, query="shut"))
    assert words(run(bench)).splitlines()[0] == "src/door.py (6 lines)"
    assert "Nothing in the workspace is about 'zebra'" in words(run(bench, query="zebra"))


def test_an_empty_workspace_says_so(bench: Bench) -> None:
    assert "There are no files" in words(run(bench))


def test_a_file_with_many_definitions_is_cut_and_says_so(bench: Bench) -> None:
    bench.write("many.py", "".join(f"def step_{number}(): ...\n" for number in range(100)))
    assert words(run(bench, query="step")).endswith("[60 definitions more]")
    for number in range(40):
        bench.write(f"wide{number}.py", "".join(f"def wide_{n}({'argument, ' * 12}): ...\n" for n in range(40)))
    result = run(bench, query="wide")
    assert result.truncated and "files more: ask with a query]" in words(result) and len(words(result)) < 31_000


@pytest.mark.parametrize("input", [{"query": 3}, {"path": "src"}, {"query": "a\0"}])
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed) as refused:
        run(bench, **input)
    assert refused.value.code == "invalid_arguments"


def test_a_call_is_described(bench: Bench) -> None:
    tool = RepoMap(Repositories(bench.workspace.parent / "cache"))
    told = tool.describe(bench.context(), ToolCall(CallId("call_1"), "repo_map", {"query": "doors"}))
    assert (told.title, told.reads) == ("Map the workspace about doors", (os.path.realpath(bench.workspace),))
