"""`doctor`: what is set and where from, what is found, what is missing and the line that settles it."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import msgspec

from palaver import __version__
from palaver.cli.screen import has_colours, one_line
from palaver.cli.target import data_of
from palaver.client.discover import reach, read_daemon_file
from palaver.errors import Failed, Refused
from palaver.sandbox.variants import Sandbox
from palaver.settings import Settings, config_path, load

State = Literal["ok", "note", "missing"]
_MARKS: dict[State, str] = {"ok": "✓", "note": "!", "missing": "✗"}
_COLOURS: dict[State, str] = {"ok": "32", "note": "33", "missing": "31"}


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    state: State
    name: str
    says: str
    fix: str | None = None
    """The one line that settles it."""


class Value(msgspec.Struct, frozen=True):
    key: str
    value: Any
    origin: str


def doctor(args: argparse.Namespace) -> int:
    """0 when Palaver can be used as it is; 1 when a check is `missing`."""
    settings, checks = _settings(args)
    checks = [*_here(), *checks, *_folder(data_of(args)), asyncio.run(_daemon(args)), *_programs(), _sandbox(settings)]
    checks += [*asyncio.run(_models(settings, data_of(args), os.environ)), *_agents(os.environ), *_tools()]
    values = shown(settings) if settings is not None else []
    usable = all(check.state != "missing" for check in checks)
    if args.json:
        print(msgspec.json.encode({"ok": usable, "checks": checks, "settings": values}).decode())
    else:
        _print(checks, values)
    return 0 if usable else 1


def shown(settings: Settings) -> list[Value]:
    """Every value and where it comes from; what an agent's own variables hold may be secret, so only their names are told."""
    return [
        Value(key, "(set)" if key.startswith("agents.") and ".env." in key else value, settings.origins[key])
        for key, value in settings.values().items()
    ]


def _print(checks: list[Check], values: list[Value]) -> None:
    painted = has_colours(sys.stdout, os.environ)
    for check in checks:
        mark = f"\x1b[{_COLOURS[check.state]}m{_MARKS[check.state]}\x1b[0m" if painted else _MARKS[check.state]
        print(f"{mark} {check.name:<10} {one_line(check.says)}")
        if check.fix:
            print(f"  {'':<10} → {one_line(check.fix)}")
    if values:
        widest = max(len(value.key) for value in values)
        print("\nsettings")
        for value in values:
            plain = "–" if value.value is None else msgspec.json.encode(value.value).decode()
            print(f"  {value.key:<{widest}}  {value.origin:<7}  {one_line(plain)}")


def _here() -> Iterator[Check]:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    yield Check("ok", "palaver", f"{__version__} on Python {platform.python_version()} ({sys.executable}), {system}")


def _settings(args: argparse.Namespace) -> tuple[Settings | None, list[Check]]:
    path = config_path(args.config, os.environ)
    try:
        settings = load(args.config, os.environ)
    except Refused as error:
        return None, [Check("missing", "settings", error.message, f"$EDITOR '{path}'")]
    checks = [Check("ok", "settings", str(path) if path.exists() else f"{path} (none there: every value is its default)")]
    if path.parent.exists() and path.parent.stat().st_mode & 0o022:
        checks.append(Check("missing", "settings", f"{path.parent} can be written by other users", f"chmod 700 '{path.parent}'"))
    return settings, checks


def _folder(data: Path) -> Iterator[Check]:
    """The data folder and what says who may come in, with their modes."""
    try:
        found = data.stat()
    except FileNotFoundError:
        parent = next(folder for folder in data.parents if folder.exists())
        if os.access(parent, os.W_OK):
            yield Check("ok", "data", f"{data} (not there yet: the first start makes it)")
        else:
            yield Check("missing", "data", f"{data} is not there, and {parent} cannot be written", "export PALAVER_DATA=~/palaver-data")
        return
    except OSError as error:
        yield Check("missing", "data", f"{data} cannot be looked at: {error.strerror}", "export PALAVER_DATA=~/palaver-data")
        return
    if not stat.S_ISDIR(found.st_mode):
        yield Check("missing", "data", f"{data} is no folder", "export PALAVER_DATA=~/palaver-data")
        return
    if found.st_uid != os.getuid():
        yield Check("missing", "data", f"{data} belongs to user {found.st_uid}, not to you", f"sudo chown -R $(id -u) '{data}'")
    elif not os.access(data, os.W_OK | os.X_OK):
        yield Check("missing", "data", f"{data} cannot be written", f"chmod 700 '{data}'")
    else:
        yield _mode(data, found.st_mode, 0o700)
    for name in ("token", "tokens.json", "daemon.json"):
        if (data / name).exists():
            yield _mode(data / name, (data / name).stat().st_mode, 0o600)


def _mode(path: Path, mode: int, right: int) -> Check:
    says = f"{path} (mode {stat.S_IMODE(mode):04o})"
    if mode & 0o077:
        return Check("missing", "data", f"{says}: other users can get at it", f"chmod {right:o} '{path}'")
    return Check("ok", "data", says)


async def _daemon(args: argparse.Namespace) -> Check:
    data = data_of(args)
    try:
        async with await reach(data, args.url, os.environ) as connection:
            health = await connection.health()
            found = None if args.url or os.environ.get("PALAVER_URL") else read_daemon_file(data)
            process = f", process {found.pid}" if found else ""
            return Check("ok", "daemon", f"{connection.url}{process}, version {health.get('version', 'unknown')}")
    except Refused as error:
        state: State = "note" if error.code == "no_daemon" else "missing"
        return Check(state, "daemon", error.message)
    except Failed as error:
        return Check("missing", "daemon", error.message)


def _programs() -> Iterator[Check]:
    yield _program("git", required=False, why="without it there is no git_status, and no undo in repositories")
    yield _program("rg", required=True, why="search needs it", fix=f"{sys.executable} -m pip install ripgrep")
    yield _program("bash", required=False, why="shell then runs sh")


def _sandbox(settings: Settings | None) -> Check:
    """What holds a command that is let run; each variant is tried."""
    found = Sandbox(mode=settings.sandbox.mode if settings else "auto").look()
    if found.variant is not None:
        others = f" ({found.reason})" if found.absent else ""
        network = "with network" if settings and settings.sandbox.network else "without network"
        return Check("ok", "sandbox", f"{found.variant} holds what is let run, {network}{others}")
    says = f"none holds ({found.reason}): a command that is let run can do all that you can, answering approvals included"
    return Check("note", "sandbox", says, "keep mode = 'ask' and read what you approve, or install bubblewrap with your system's packages")


def _program(name: str, *, required: bool, why: str, fix: str | None = None) -> Check:
    beside = Path(sys.executable).parent / name  # what pip installed with us, also when its folder is not on PATH
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        return Check("missing" if required else "note", name, f"not found: {why}", fix or f"install {name} with your system's packages")
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("missing" if required else "note", name, f"{found} does not run: {error}", fix)
    return Check("ok", name, f"{found}  {said.stdout.partition(chr(10))[0]}")


async def _models(settings: Settings | None, data: Path, env: Mapping[str, str]) -> list[Check]:
    """What answers, what could, and what each lacks. Asks nobody but the usual ports of 127.0.0.1."""
    if settings is None:
        return []
    from palaver.models.registry import CHOSEN, Registry, from_sections, read_chosen

    registry = Registry(from_sections(settings.models), env, preferred=settings.defaults.model, chosen=read_chosen(data / CHOSEN))
    offers = await registry.looked()
    found = [offer for offer in offers if offer.found]
    default = registry.default()
    checks = [
        _known(offer.name, f"{offer.model} at {offer.base_url}", offer.missing, offer.fix, default)
        for offer in offers
        if offer.base_url and not offer.found
    ]
    if default is None:
        fix = next((offer.adopt for offer in found), "export PALAVER_MODEL=NAME OPENAI_API_KEY=…")
        checks.append(Check("note", "model", f"none is known: the built-in demo answers. [models.NAME] in {settings.path} names one", fix))
    elif default not in registry.names():
        said = f"{default} is the default (defaults.model), and there is no such model"
        checks.append(Check("missing", "model", said, f"add [models.{default}] with its base_url to {settings.path}"))
    checks += [Check("ok", "found", f"{offer.name} ({offer.found}): {offer.base_url}", offer.adopt) for offer in found]
    if registry.discovery.off:
        checks.append(Check("ok", "found", "nothing is looked for: PALAVER_DISCOVER=0"))
    elif not found:
        checks.append(Check("ok", "found", "no further key in the environment, no model server at the usual ports of this machine"))
    return checks


def _known(name: str, where: str, missing: str | None, fix: str | None, default: str | None) -> Check:
    said = f"{name}: {where}" + (" (the default)" if name == default else "")
    return Check("note", "model", f"{said}. {missing}", fix) if missing else Check("ok", "model", said)


def _agents(env: Mapping[str, str]) -> Iterator[Check]:
    for program in ("claude", "codex", "pi", "opencode", "gemini", "qwen"):
        if found := shutil.which(program, path=env.get("PATH")):
            yield Check("note", "agent", f"{program} is at {found}, and this version of Palaver cannot drive it yet")


def _tools() -> Iterator[Check]:
    """A person's own tools; one that does not load stops nothing, but it is told here."""
    for entry in entry_points(group="palaver.tools"):
        try:
            entry.load()
        except Exception as error:  # whatever somebody else's module does while it loads
            yield Check("note", "tool", f"{entry.name} ({entry.value}) does not load: {type(error).__name__}: {error}")
        else:
            yield Check("ok", "tool", f"{entry.name} ({entry.value})")
