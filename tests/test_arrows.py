"""Who may import whom, and what stays pure. Imports inside functions count too: an arrow that is taken late is still an arrow."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "palaver"

ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "wire": {"errors"},
    "core": {"errors", "wire"},
    "views": {"errors", "wire", "core.state"},
    "log": {"errors", "wire"},
    "sandbox": {"errors"},
    "tools": {"errors", "wire", "sandbox"},
    "changes": {"errors", "tools.git", "tools.patch", "tools.patch_text", "tools.paths"},
    "policy": {"errors", "wire", "tools.base"},
    "models": {"errors", "wire", "tools.base"},
    "context": {"errors", "wire", "tools", "models.base", "models.tokens"},
    "backends": {"errors", "wire", "tools", "models", "context"},
    "engine": {"errors", "wire", "core", "views", "log", "tools", "changes", "policy", "models", "backends", "context", "sandbox.variants"},
    "serve": {"errors", "wire", "views", "engine"},
    "client": {"errors", "wire", "views"},
    "settings": {"errors", "policy", "models.registry"},
    "settings_edit": {"errors", "settings"},
    "settings_schema": {"settings", "settings_edit"},
    "cli": {"errors", "views", "client", "settings", "sandbox.variants"},
    "tui": {"errors", "views", "client", "settings"},
    "daemon": {
        "errors",
        "wire",
        "core",
        "views",
        "log",
        "tools",
        "changes",
        "policy",
        "models",
        "backends",
        "context",
        "engine",
        "serve",
        "settings",
        "settings_edit",
        "settings_schema",
        "sandbox",
    },
    "life": {"errors", "log.disk", "log.folders", "engine.clock", "serve", "settings", "daemon"},
}
"""What each part may import besides itself. A dotted name lets in that module alone."""

LATE: dict[str, set[str]] = {"cli": {"life", "models"}, "life": {"tools.environment"}}
"""And what it may import inside a function only: whoever asks for help does not start a server."""

PURE = ("wire", "core", "views")

IMPURE_MODULES = set(
    "time datetime random secrets uuid asyncio anyio threading multiprocessing concurrent subprocess signal socket selectors ssl http "
    "urllib os io sys pathlib shutil tempfile glob fcntl sqlite3 logging contextvars httpx2 starlette uvicorn uvloop websockets".split()
)
"""Clocks, chance, the disk, the network and everything that waits."""

EDGES = {"wire/ids.py": {"random", "time"}}
"""Where ids are made, for whoever stands at the edge; `core` and `views` get them handed in."""

IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "fresh", "new_id"}


class Import(NamedTuple):
    target: str
    """Dotted, below `palaver` for ours (`palaver.core.state`), as it stands for others (`os.path`)."""
    late: bool
    line: int


def sources(part: str) -> list[Path]:
    return [PACKAGE / f"{part}.py"] if (PACKAGE / f"{part}.py").exists() else sorted((PACKAGE / part).rglob("*.py"))


def parts() -> set[str]:
    found = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    return found - {"__init__", "__main__"}


def imports(path: Path, package: Path = PACKAGE) -> Iterator[Import]:
    tree = ast.parse(path.read_bytes())
    late = {id(inner) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, id(node) in late, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(path.relative_to(package), node)
            yield from (Import(deepest(package.parent, base, alias.name), id(node) in late, node.lineno) for alias in node.names)


def absolute(path: Path, node: ast.ImportFrom) -> str:
    """`from .state import X` in core/apply.py is `palaver.core.state`."""
    if not node.level:
        return node.module or ""
    folders = ("palaver", *path.parent.parts)
    return ".".join([*folders[: len(folders) - node.level + 1], *([node.module] if node.module else [])])


def deepest(root: Path, base: str, name: str) -> str:
    """`from palaver.core import state` names a module, `from palaver.core.state import State` a value in one."""
    file = root.joinpath(*base.split("."), name)
    return f"{base}.{name}" if base.startswith("palaver") and (file.with_suffix(".py").exists() or file.is_dir()) else base


def allowed(part: str, taken: Import) -> bool:
    target = taken.target.removeprefix("palaver").removeprefix(".")
    mine = ARROWS[part] | {part} | (LATE.get(part, set()) if taken.late else set())
    return not target or any(target == name or target.startswith(f"{name}.") for name in mine)


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(PACKAGE.parent)}:{line}"


def test_every_part_has_its_arrows() -> None:
    assert parts() <= set(ARROWS), "Give the new part a row in ARROWS."


@pytest.mark.parametrize("part", sorted(ARROWS))
def test_a_part_imports_only_what_its_arrows_allow(part: str) -> None:
    wrong = [
        f"{where(path, taken.line)} imports {taken.target}"
        for path in sources(part)
        for taken in imports(path)
        if (taken.target == "palaver" or taken.target.startswith("palaver.")) and not allowed(part, taken)
    ]
    assert wrong == []


@pytest.mark.parametrize("part", PURE)
def test_the_pure_parts_reach_for_no_clock_chance_disk_or_network(part: str) -> None:
    wrong = [
        f"{where(path, taken.line)} imports {taken.target}"
        for path in sources(part)
        for taken in imports(path)
        if taken.target.split(".")[0] in IMPURE_MODULES - EDGES.get(str(path.relative_to(PACKAGE)), set())
    ]
    assert wrong == []


@pytest.mark.parametrize("part", ["core", "views"])
def test_the_folds_never_wait_open_print_or_invent_ids(part: str) -> None:
    wrong = [f"{where(path, line)} {what}" for path in sources(part) for line, what in impure_steps(ast.parse(path.read_bytes()))]
    assert wrong == []


def impure_steps(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield node.lineno, "waits"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield node.lineno, f"calls {name}()"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("import palaver.engine.hub", "palaver.engine.hub"),
        ("from palaver.wire import events", "palaver.wire.events"),
        ("from palaver.wire.events import Event", "palaver.wire.events"),
        ("from palaver import __version__", "palaver"),
        ("def f():\n    from palaver.wire import ids", "palaver.wire.ids"),
        ("from ..wire import ids", "palaver.wire.ids"),
        ("from . import apply", "palaver.core"),
    ],
)
def test_an_import_is_seen_in_whatever_form_it_takes(tmp_path: Path, source: str, target: str) -> None:
    root = tmp_path / "palaver"
    for module in ("wire/events", "wire/ids", "engine/hub", "core/state"):
        (root / module).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{module}.py").touch()
    (root / "core" / "state.py").write_text(source)
    assert [taken.target for taken in imports(root / "core" / "state.py", root)] == [target]


SERVER = {"starlette", "uvicorn", "uvloop", "httptools", "websockets", "sqlite3"} | {
    f"palaver.{part}" for part in ("engine", "serve", "daemon", "life")
}
CLIENT_ONLY = ["--help", "--version", "serve --help", "run --help", "sessions", "send x y", "token", "doctor --help"]


def loaded_by(arguments: list[str], folder: Path) -> set[str]:
    """The modules that the command line has imported when it ends, with no daemon to talk to."""
    ask = "import sys\ntry:\n    from palaver.cli.main import main\n    main()\nfinally:\n    print('\\nLOADED', *sys.modules)"
    home = {"HOME": str(folder), "PALAVER_DATA": str(folder / "data"), "PALAVER_CONFIG": str(folder / "config.toml")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")} | home
    command = [sys.executable, "-c", ask, *arguments]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, timeout=30)
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert "palaver.cli.main" in loaded
    return loaded


if (PACKAGE / "cli" / "main.py").exists():

    @pytest.mark.parametrize("line", CLIENT_ONLY)
    def test_a_client_command_never_loads_the_server(line: str, tmp_path: Path) -> None:
        assert loaded_by(line.split(), tmp_path) & SERVER == set()

    def test_help_loads_no_http_client_either(tmp_path: Path) -> None:
        assert loaded_by(["--help"], tmp_path) & {"httpx2", "rich", "asyncio"} == set()
