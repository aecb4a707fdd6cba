from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tool_bench import Bench

from palaver.errors import ToolFailed
from palaver.wire.events import ArtifactAdded

DOT = "digraph { a -> b }"
DRAWS = '#!/bin/sh\necho "<svg>$(cat) $* in $(ls | wc -l)</svg>"\n'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace, env={"PATH": str(tmp_path / "bin")})


def install(bench: Bench, script: str) -> None:
    """A `dot` on the PATH that does what the script says."""
    program = bench.workspace.parent / "bin" / "dot"
    program.parent.mkdir(exist_ok=True)
    program.write_text(script)
    program.chmod(0o755)
    bench.env = {"PATH": f"{program.parent}:/usr/bin:/bin"}


def test_a_mermaid_source_becomes_an_artifact(bench: Bench) -> None:
    """S4-63."""
    source = "flowchart TD\n  A --> B: ünïcode\n"
    result = bench.run("diagram", source=source, format="mermaid")
    assert result.artifacts == ("artifacts/turn_1/diagram.mmd",)
    assert bench.artifacts == {"diagram.mmd": source.encode()}
    [fact] = bench.noted
    assert fact == ArtifactAdded(ref=result.artifacts[0], mime_type="text/vnd.mermaid", size=len(source.encode()), tool_call_id=result.id)


def test_without_graphviz_dot_is_kept_as_source_and_says_so(bench: Bench) -> None:
    assert "Graphviz is not installed" in bench.text("diagram", source=DOT, format="dot")
    assert bench.artifacts == {"diagram.dot": DOT.encode()}


def test_with_graphviz_dot_is_drawn_too(bench: Bench) -> None:
    """The source comes on stdin and never as an option; the program works in an empty folder."""
    install(bench, DRAWS)
    result = bench.run("diagram", source=DOT, format="dot")
    assert result.artifacts == ("artifacts/turn_1/diagram.dot", "artifacts/turn_1/diagram.svg")
    assert bench.artifacts["diagram.svg"].split() == f"<svg>{DOT} -Tsvg in 0</svg>".encode().split()


def test_what_this_machine_has_of_graphviz_is_used(bench: Bench) -> None:
    """The real program, where somebody installed it."""
    bench.env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    result = bench.run("diagram", source=DOT, format="dot")
    assert result.ok
    if shutil.which("dot", path=bench.env["PATH"]):
        assert b"<svg" in bench.artifacts["diagram.svg"] and bench.artifacts["diagram.svg"].count(b'class="node"') == 2
    else:
        assert list(bench.artifacts) == ["diagram.dot"]


def test_dot_that_cannot_be_read_is_an_error_with_its_words(bench: Bench) -> None:
    install(bench, "#!/bin/sh\necho 'syntax error in line 1 near x' >&2\nexit 1\n")
    assert bench.fails("diagram", source="x", format="dot") == ("dot cannot read this: syntax error in line 1 near x. Correct the source.")
    assert bench.artifacts == {}


@pytest.mark.parametrize(
    "source", ['digraph { a [image="/etc/passwd"] }', 'graph { a [label=<<IMG SRC="x"/>>] }', "graph { shapefile = x }"]
)
def test_dot_that_names_files_is_kept_and_not_drawn(bench: Bench, source: str) -> None:
    install(bench, DRAWS)
    assert "makes dot open files" in bench.text("diagram", source=source, format="dot")
    assert list(bench.artifacts) == ["diagram.dot"]


def test_a_drawing_that_is_too_large_is_ended(bench: Bench) -> None:
    install(bench, "#!/bin/sh\nexec cat /dev/zero\n")
    assert "Draw fewer" in bench.fails("diagram", source=DOT, format="dot")


def test_a_dot_of_the_workspace_is_not_run(bench: Bench) -> None:
    """SECURITY 11."""
    bench.write("dot", "#!/bin/sh\ntouch canary\n").chmod(0o755)
    bench.env = {"PATH": f".:{bench.workspace}"}
    assert "Graphviz is not installed" in bench.text("diagram", source=DOT, format="dot")
    assert not (bench.workspace / "canary").exists()


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"source": "", "format": "dot"},
        {"source": " \n", "format": "dot"},
        {"source": "a", "format": "svg"},
        {"source": "a"},
        {"source": "```mermaid\ngraph TD\n```", "format": "mermaid"},
        {"source": "x" * 300_000, "format": "mermaid"},
        {"source": "a", "format": "dot", "title": "b"},
    ],
)
def test_input_that_makes_no_sense_is_refused(bench: Bench, input: dict[str, object]) -> None:
    assert bench.refuses("diagram", **input)


def test_a_call_is_described_with_its_whole_source(bench: Bench) -> None:
    told = bench.describe("diagram", source=DOT, format="dot")
    assert (told.title, told.preview.command) == ("Keep a dot diagram and draw it with dot", DOT)
    with pytest.raises(ToolFailed):
        bench.describe("diagram", source="", format="dot")
