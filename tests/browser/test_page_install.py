"""UI 4 and 8, gate 9: from a clean checkout, with Node hidden, `pip install .` puts the built page into the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_an_install_without_node_has_the_page(tmp_path: Path) -> None:
    """pip fetches Node for the build alone; what is installed holds no node_modules."""
    checkout, place, programs = tmp_path / "checkout", tmp_path / "venv", tmp_path / "bin"
    shutil.copytree(
        ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "node_modules", "static", "dist", "golden", "tests", "*cache*")
    )
    programs.mkdir()
    for name in ("git", "sh", "env", "uname"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    env = {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{programs}"}
    assert shutil.which("node", path=env["PATH"]) is None
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", str(checkout)]
    done = subprocess.run(pip, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [package] = place.glob("lib/*/site-packages/palaver")
    assert b"/assets/" in (package / "static" / "index.html").read_bytes()
    assert (package / "static" / "export" / "export.js").stat().st_size > 100_000
    assert list((package / "static" / "assets").glob("*.js"))
