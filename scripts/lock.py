"""Write requirements.lock, the exact versions that `make setup` installs; or say whether it still fits pyproject.toml (`--check`).

Versions only: hashes would name the wheels of the one platform that wrote them, and addresses those of one machine's index.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = "# The exact versions that `make setup` installs. Written by `make lock`; edit pyproject.toml instead.\n"


def required() -> list[str]:
    """Every requirement that pyproject.toml states, the development ones too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]


def resolve(requirements: list[str]) -> str:
    """What the index offers for them today, found out by installing it into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *requirements], check=True)
        return subprocess.run([*pip, "freeze"], check=True, stdout=subprocess.PIPE, text=True).stdout


def locked() -> dict[str, str]:
    """Version by name, as the lock has it."""
    pins = (line.split("==") for line in LOCK.read_text().splitlines() if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pins}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def complaints() -> list[str]:
    """What pyproject.toml asks for and the lock does not give."""
    from packaging.requirements import Requirement  # comes with the lock itself; `make lock` runs before anything is installed

    pins = locked()
    found = []
    for requirement in map(Requirement, required()):
        version = pins.get(canonical(requirement.name))
        if version is None:
            found.append(f"{requirement.name} is not in it")
        elif not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement.name}=={version} is not {requirement.specifier}")
    return found


def main() -> int:
    if "--check" not in sys.argv:
        LOCK.write_text(HEADER + resolve(required()))
        return 0
    for complaint in (found := complaints()):
        print(f"requirements.lock: {complaint}. Run make lock.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
