"""All the wiring, on one page: constructors, and settings passed as values. When it is done, and undone, is `life.py`'s."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from palaver import __version__
from palaver.backends.loop import Checks, LoopBackend
from palaver.engine.agents import Agent, Agents
from palaver.engine.calls import Calls, Files
from palaver.engine.clock import Clock
from palaver.engine.hub import Hub
from palaver.engine.sessions import IDLE_S, Sessions
from palaver.engine.work import Works
from palaver.engine.workspaces import Workspaces
from palaver.errors import Failed, Refused
from palaver.log.blobs import Blobs
from palaver.log.disk import Disk, nothing
from palaver.log.files import FileLog
from palaver.log.folders import DataFolder
from palaver.models.base import Model
from palaver.models.registry import ModelSettings, Registry
from palaver.policy import ApprovalPolicy, PatchReviewPolicy
from palaver.serve.tokens import write_private
from palaver.settings import Settings, config_path
from palaver.settings_edit import change
from palaver.tools import ToolRegistry, builtin
from palaver.tools.base import BrokenTool, Tool, ToolKind
from palaver.tools.environment import child_environment
from palaver.tools.jobs import BackgroundJobs
from palaver.tools.own import load_own
from palaver.tools.processes import MARK, Marks, new_secret
from palaver.tools.verify_commands import find_commands
from palaver.wire.ids import CallId, SessionId
from palaver.wire.values import Cost, FileRef, Rule, Usage


@dataclass
class Daemon:
    """Everything that runs, and what must be let go."""

    hub: Hub
    sessions: Sessions
    log: FileLog
    models: Registry
    jobs: BackgroundJobs

    async def close(self) -> None:
        await self.sessions.stop()
        await self.jobs.close()
        await self.models.aclose()
        await self.log.shut()


def build(
    settings: Settings,
    folder: DataFolder,
    *,
    env: Mapping[str, str],
    disk: Disk | None = None,
    clock: Clock | None = None,
    reached: Callable[[str], None] = nothing,
    idle_s: float = IDLE_S,
    demo_pace_s: float | None = None,
) -> Daemon:
    """The daemon of one data folder, which is locked already. Nothing runs until `sessions.start()`."""
    clock = clock or Clock()
    log = FileLog(folder.root, disk, reached=reached)
    blobs = Blobs(folder, disk)
    models = _models(settings, env, demo_pace_s)
    jobs = BackgroundJobs(clock.now)
    workspaces = Workspaces(log, folder, clock)
    marks = Marks(_secret(folder.root / "mark"), secrets.token_hex(4))
    checks = _checks(settings)
    calls = Calls(
        ToolRegistry((), lambda _: _tools(jobs, checks)),
        _files(folder, blobs),
        workspaces,
        clock,
        _environment(env, settings, models, marks),
        approval=_approval(settings),
        review=PatchReviewPolicy(settings.patch_review.mode),
        protected=(folder.root.resolve(), _own_settings(settings, env)),
        deadline_s=settings.approval.deadline_s,
        per_minute=settings.limits.tool_calls_per_minute,
        end_jobs=jobs.close,
    )
    loop = LoopBackend(lambda name: _model(models, name), clock.now, settings.limits.steps, checks)
    works = Works({"loop": loop}, calls, clock, _cost(models), reached)
    sessions = Sessions(log, folder, clock, calls, works, marks, reached, idle_s)
    hub = Hub(
        sessions,
        workspaces,
        calls,
        _agents(settings, models),
        blobs,
        log,
        clock,
        _epoch(folder.root / "epoch"),
        __version__,
        models.offers,
        lambda: {"values": settings.values(), "origins": settings.origins},
        lambda values: change(settings.path, values, _write_settings),
        (folder.root.resolve(), _own_settings(settings, env), Path.home().resolve()),
    )
    return Daemon(hub, sessions, log, models, jobs)


def _tools(jobs: BackgroundJobs, checks: Checks) -> tuple[list[Tool], list[BrokenTool]]:
    """All tools, loaded when the first turn wants them: that is a tenth of a start."""
    ours = builtin(jobs, checks.commands)
    own, broken = load_own({tool.definition().name for tool in ours})
    return [*ours, *own], broken


# --- settings as values -------------------------------------------------------------------------------------------------------


def _models(settings: Settings, env: Mapping[str, str], demo_pace_s: float | None) -> Registry:
    known = [
        ModelSettings(name, **{field: getattr(model, field) for field in model.__struct_fields__})
        for name, model in settings.models.items()
    ]
    pace = {} if demo_pace_s is None else {"demo_pace_s": demo_pace_s}
    return Registry(known, env, preferred=settings.defaults.model, silence_s=settings.limits.silence_s, **pace)


def _model(models: Registry, name: str | None) -> Model:
    if name is None:
        raise Failed("no_model", "This session has no model. Choose one with POST …/model.")
    return models.get(name)


def _cost(models: Registry) -> Callable[[str | None, Usage], Cost | None]:
    def cost(name: str | None, usage: Usage) -> Cost | None:
        try:
            return models.cost(name, usage) if name else None
        except Refused:
            return None  # a model that the settings no longer name has no price

    return cost


def _agents(settings: Settings, models: Registry) -> Agents:
    configured = {
        name: Agent(name, agent.backend, name, agent.model or models.default(), mode=agent.mode, prompt=agent.prompt)
        for name, agent in settings.agents.items()
        if agent.backend == "loop"
    }
    return Agents(models, configured, agent=settings.defaults.agent, mode=settings.defaults.mode, delivery=settings.defaults.delivery)


def _approval(settings: Settings) -> ApprovalPolicy:
    rules = tuple(msgspec.convert(msgspec.to_builtins(rule), Rule) for rule in settings.approval.rules)
    kinds = tuple(map(ToolKind, settings.approval.require_for_kinds))
    return ApprovalPolicy(kinds, settings.approval.require_for_tools, rules)


def _checks(settings: Settings) -> Checks:
    verify = settings.verify
    return Checks(verify.auto, verify.attempts, partial(find_commands, configured=verify.commands))


def _environment(env: Mapping[str, str], settings: Settings, models: Registry, marks: Marks) -> Callable[[CallId], Mapping[str, str]]:
    base = child_environment(env, keep=settings.sandbox.env, secret_names=models.secret_names())
    return lambda call_id: {**base, MARK: marks.of(call_id)}


def _files(folder: DataFolder, blobs: Blobs) -> Files:
    async def put(session_id: SessionId, place: str, name: str, data: bytes) -> FileRef:
        stored = await blobs.put(session_id, place, name, data)
        return FileRef(stored.ref, stored.size, stored.sha256)

    def shown(session_id: SessionId) -> tuple[Path, ...]:
        own = folder.session_folder(session_id)
        return own / "attachments", own / "artifacts"

    return Files(put, blobs.read_blob, shown)


def _own_settings(settings: Settings, env: Mapping[str, str]) -> Path:
    """What no tool may touch of the settings: their own folder, or only the file where it lies among other things."""
    own = settings.path if config_path(None, {**env, "PALAVER_CONFIG": ""}) != settings.path else settings.path.parent
    return own.resolve()


def _secret(path: Path) -> str:
    """Of this data folder for good: what marks our children."""
    return _kept(path, new_secret)


def _epoch(path: Path) -> str:
    """Changes only when the logs were replaced: a restored folder brings its own, one that was cut gets a new one."""
    return _kept(path, lambda: secrets.token_hex(8))


def _kept(path: Path, make: Callable[[], str]) -> str:
    try:
        if found := path.read_text().strip():
            return found
    except FileNotFoundError:
        pass  # the first start
    made = make()
    write_private(path, made.encode())
    return made


def _write_settings(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, text.encode())
