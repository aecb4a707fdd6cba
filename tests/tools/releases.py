"""Real changes of files: those between consecutive releases of public packages, and the three ways to write each as a patch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "sdists"
RELEASES = [
    ("networkx", "3.2.1", "3.3"),
    ("jinja2", "3.1.4", "3.1.5"),
    ("werkzeug", "2.3.8", "3.0.0"),
    ("rich", "13.7.1", "13.8.0"),
    ("flask", "2.3.3", "3.0.0"),
]
_ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)$")
_NO_END = "\\ No newline at end of file"


@dataclass(frozen=True)
class FileChange:
    """One file between two releases."""

    name: str
    before: dict[str, bytes]
    """What there is, by path: nothing for a new file."""
    after: dict[str, bytes]
    diff: str
    """As git writes it."""

    @property
    def old(self) -> str | None:
        return next(iter(self.before), None)

    @property
    def new(self) -> str | None:
        return next(iter(self.after), None)

    @property
    def hunks(self) -> list[tuple[str, list[str]]]:
        """The heading and the lines of each."""
        found: list[tuple[str, list[str]]] = []
        for line in self.diff.split("\n")[:-1]:
            if match := _HUNK.match(line):
                found.append((match[1], []))
            elif found:
                found[-1][1].append(line)
        return found


def unpacked(folder: Path) -> list[tuple[Path, Path]]:
    """The source distributions of all pairs; downloaded once and kept in `.cache`."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pins = [(name, version) for name, *versions in RELEASES for version in versions]
    missing = [f"{name}=={version}" for name, version in pins if not (CACHE / f"{name}-{version}.tar.gz").exists()]
    for pin in missing:  # one by one: two versions of one package are no plan that pip would make
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(CACHE), pin]
        subprocess.run(command, check=True, timeout=120)
    for name, version in pins:
        with tarfile.open(CACHE / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return [(folder / f"{name}-{old}", folder / f"{name}-{new}") for name, old, new in RELEASES]


def changes(old: Path, new: Path) -> Iterator[FileChange]:
    """Every file that differs, with its diff."""
    whole = diff(old, new)
    for part in re.split(r"^(?=diff --git )", whole, flags=re.MULTILINE)[1:]:
        source, target = _names(part)
        before = {} if source is None else {source: (old / source).read_bytes()}
        after = {} if target is None else {target: (new / target).read_bytes()}
        yield FileChange(f"{new.name}/{target or source}", before, after, part)


def diff(old: Path, new: Path) -> str:
    command = ["git", "diff", "--no-index", "-M", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", old.name, new.name]
    done = subprocess.run(command, cwd=old.parent, env=_ENV, check=False, capture_output=True, timeout=60)
    text = done.stdout.decode("utf-8", "surrogateescape")
    for folder, side in ((old.name, "a"), (new.name, "b")):
        text = re.sub(
            rf"^(--- |\+\+\+ |rename (?:from|to) |diff --git .*?)({side}/)?{re.escape(folder)}/", r"\1\2", text, flags=re.MULTILINE
        )
        text = re.sub(rf"^(diff --git a/\S+ )(b/){re.escape(folder)}/", r"\1\2", text, flags=re.MULTILINE)
    return text


def _names(part: str) -> tuple[str | None, str | None]:
    if moved := re.search(r"^rename from (.+)\nrename to (.+)$", part, re.MULTILINE):
        return moved[1], moved[2]
    head = re.match(r"diff --git a/(\S+) b/(\S+)\n", part)
    assert head, part[:200]
    return None if "\nnew file mode" in part else head[1], None if "\ndeleted file mode" in part else head[2]


def git_apply(folder: Path, patch: str) -> bool:
    """What git makes of it; whether it takes it."""
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    given = patch.encode("utf-8", "surrogateescape")
    return subprocess.run(command, cwd=folder, env=_ENV, input=given, check=False, capture_output=True, timeout=60).returncode == 0


# --- the three forms ----------------------------------------------------------------------------------------------------------


def unified(change: FileChange) -> str:
    return change.diff


def sections(change: FileChange) -> str | None:
    """None: this form has no way to say it."""
    if change.old is None and change.new is not None:
        data = change.after[change.new]
        if data and not data.endswith(b"\n"):
            return None
        lines = ["+" + line for line in data.decode("utf-8", "surrogateescape").split("\n")[:-1]]
        return _patch(f"*** Add File: {change.new}", *lines)
    if change.new is None:
        return _patch(f"*** Delete File: {change.old}")
    move = [f"*** Move to: {change.new}"] if change.new != change.old else []
    lines = []
    for heading, hunk in change.hunks:
        lines += [f"@@ {heading}".rstrip(), *hunk]
    return _patch(f"*** Update File: {change.old}", *move, *lines) if lines or move else None


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def blocks(change: FileChange) -> str | None:
    """None: this form has no way to say it."""
    if change.new is None or (change.old is not None and change.old != change.new):
        return None
    if change.old is None:
        data = change.after[change.new]
        if not data.endswith(b"\n"):
            return None
        return _block(change.new, [], data.decode("utf-8", "surrogateescape").split("\n")[:-1])
    parts = []
    for _, hunk in change.hunks:
        if _NO_END in hunk:
            return None
        parts.append(_block(change.new, [line[1:] for line in hunk if line[:1] != "+"], [line[1:] for line in hunk if line[:1] != "-"]))
    return "\n".join(parts) or None


def _block(path: str, old: list[str], new: list[str]) -> str:
    marks = 12  # longer than any that stands in the files
    return "\n".join([f"{'<' * marks} SEARCH {path}", *old, "=" * marks, *new, f"{'>' * marks} REPLACE"])
