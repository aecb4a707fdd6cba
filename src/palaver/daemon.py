"""All the wiring, on one page: constructors, and settings passed as values. When it is done, and undone, is `life.py`'s."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palaver import __version__
from palaver.backends.late import Late
from palaver.engine.agents import OUT_OF_REACH, Agent, Agents
from palaver.engine.calls import Calls, Files
from palaver.engine.changes import Changes
from palaver.engine.clock import Clock
from palaver.engine.hub import Hub
from palaver.engine.keeping import IDLE_S
from palaver.engine.sessions import Sessions
from palaver.engine.work import Works
from palaver.engine.workspaces import Workspaces
from palaver.errors import Failed
from palaver.log.blobs import Blobs
from palaver.log.disk import Disk, nothing
from palaver.log.files import FileLog
from palaver.log.folders import DataFolder
from palaver.models.base import Model
from palaver.models.discover import SERVICES, Service
from palaver.models.registry import CHOSEN, Registry, from_sections, read_chosen
from palaver.policy import ApprovalPolicy, PatchReviewPolicy
from palaver.sandbox.variants import Sandbox
from palaver.serve.tokens import write_private
from palaver.settings import Settings, config_path
from palaver.settings_edit import change
from palaver.settings_schema import schema
from palaver.tools import ToolRegistry, builtin
from palaver.tools.base import BrokenTool, Tool, ToolKind
from palaver.tools.environment import child_environment
from palaver.tools.hooks import hook_folders
from palaver.tools.jobs import BackgroundJobs
from palaver.tools.own import load_own
from palaver.tools.processes import MARK, Marks, new_secret
from palaver.wire.ids import CallId, SessionId
from palaver.wire.values import FileRef, Rule

if TYPE_CHECKING:
    from palaver.backends.loop import LoopBackend
    from palaver.context.repository import Repositories


@dataclass
class Daemon:
    """Everything that runs, and what must be let go."""

    hub: Hub
    sessions: Sessions
    log: FileLog
    models: Registry
    jobs: BackgroundJobs
    sandbox: Sandbox

    async def close(self) -> None:
        await self.sessions.stop()
        self.sessions.calls.changes.close()
        await self.jobs.close()
        await asyncio.to_thread(self.sandbox.forget)
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
    services: Sequence[Service] = SERVICES,
) -> Daemon:
    """The daemon of one data folder, which is locked already. Nothing runs until `sessions.start()`."""
    clock = clock or Clock()
    log = FileLog(folder.root, disk, reached=reached)
    blobs = Blobs(folder, disk)
    models = _models(settings, env, demo_pace_s, folder.root / CHOSEN, services)
    jobs = BackgroundJobs(clock.now)
    workspaces = Workspaces(log, folder, clock)
    repositories = cache(lambda: _repositories(folder.root / "cache"))
    marks = Marks(_secret(folder.root / "mark"), secrets.token_hex(4))
    sandbox = _sandbox(settings, folder, env)
    files, protected = _files(folder, blobs), (folder.root.resolve(), _own_settings(settings, env))
    calls = Calls(
        ToolRegistry((), lambda _: _tools(jobs, settings, sandbox, repositories())),
        files,
        workspaces,
        clock,
        _environment(env, settings, models, marks),
        Changes(folder.root, files.put, protected, reached),
        approval=_approval(settings),
        review=PatchReviewPolicy(settings.patch_review.mode),
        protected=protected,
        deadline_s=settings.approval.deadline_s,
        per_minute=settings.limits.tool_calls_per_minute,
        guarded=partial(hook_folders, home=Path.home()),
        jobs=jobs,
        tools_of={name: agent.tools for name, agent in settings.agents.items() if agent.tools is not None},
        end_jobs=partial(_end_session, jobs, sandbox),
    )
    loop = Late(lambda: _loop(settings, models, clock, repositories))
    works = Works({"loop": loop}, calls, clock, reached, None if settings.limits.ask else settings.limits.seconds, {"loop": loop})
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
        models.looked,
        lambda: {"values": settings.values(), "origins": settings.origins, "schema": schema()},
        lambda values: change(settings.path, values, _write_settings),
        (*protected, Path.home().resolve()),
        sandbox.found,
    )
    return Daemon(hub, sessions, log, models, jobs, sandbox)


async def _end_session(jobs: BackgroundJobs, sandbox: Sandbox, session_id: SessionId) -> None:
    await jobs.close(session_id)
    await asyncio.to_thread(sandbox.forget, session_id)


def _tools(jobs: BackgroundJobs, settings: Settings, sandbox: Sandbox, maps: Repositories) -> tuple[list[Tool], list[BrokenTool]]:
    """All tools, loaded when the first turn wants them: that is a tenth of a start."""
    ours = builtin(jobs, _verify_commands(settings), sandbox, maps, require_clean=settings.verify.require_clean)
    own, broken = load_own({tool.definition().name for tool in ours})
    return [*ours, *own], broken


def _repositories(folder: Path) -> Repositories:
    from palaver.context.repository import Repositories  # what a first turn needs is not loaded by a start

    return Repositories(folder)


# --- settings as values -------------------------------------------------------------------------------------------------------


def _models(settings: Settings, env: Mapping[str, str], demo_pace_s: float | None, chosen: Path, services: Sequence[Service]) -> Registry:
    return Registry(
        from_sections(settings.models),
        env,
        preferred=settings.defaults.model,
        silence_s=settings.limits.silence_s,
        demo_pace_s=demo_pace_s,
        chosen=read_chosen(chosen),
        keep=lambda names: write_private(chosen, msgspec.json.encode(names)),
        services=services,
    )


def _model(models: Registry, name: str | None) -> Model:
    if name is None:
        raise Failed("no_model", "This session has no model. Choose one with POST …/model.")
    return models.get(name)


def _agents(settings: Settings, models: Registry) -> Agents:
    configured = {
        name: Agent(name, "loop", name, agent.model, mode=agent.mode, prompt=agent.prompt)
        if agent.backend == "loop"
        else Agent(name, agent.backend, name, capabilities=OUT_OF_REACH, command=agent.command or agent.backend)
        for name, agent in settings.agents.items()
    }
    return Agents(models, configured, agent=settings.defaults.agent, mode=settings.defaults.mode, delivery=settings.defaults.delivery)


def _approval(settings: Settings) -> ApprovalPolicy:
    rules = tuple(msgspec.convert(msgspec.to_builtins(rule), Rule) for rule in settings.approval.rules)
    kinds = tuple(map(ToolKind, settings.approval.require_for_kinds))
    return ApprovalPolicy(kinds, settings.approval.require_for_tools, rules)


def _loop(settings: Settings, models: Registry, clock: Clock, repositories: Callable[[], Repositories]) -> LoopBackend:
    from palaver.backends.loop import Checks, Limits, LoopBackend
    from palaver.backends.requests import Requests

    limits, verify = settings.limits, settings.verify
    return LoopBackend(
        lambda name: _model(models, name),
        clock.now,
        Requests(clock.now, lambda reach, question, room: repositories().bundle(reach, question, room), models.cost),
        Limits(limits.steps, limits.same_call, limits.cost, limits.seconds, limits.ask),
        Checks(verify.auto, verify.attempts, _verify_commands(settings), verify.require_clean),
        fallback_of=models.fallback_of,
        cost_of=models.cost,
    )


def _verify_commands(settings: Settings) -> Callable[[Path], tuple[str, ...]]:
    from palaver.tools.verify_commands import find_commands

    return partial(find_commands, configured=settings.verify.commands)


def _sandbox(settings: Settings, folder: DataFolder, env: Mapping[str, str]) -> Sandbox:
    def names() -> Sequence[str]:
        from palaver.policy.paths import GUARDED  # with the first command: what decides is not needed for a start

        return GUARDED

    def is_plain_git(line: str) -> bool:
        from palaver.policy.plain_git import is_plain_git  # as above

        return is_plain_git(line)

    return Sandbox(
        mode=settings.sandbox.mode,
        network=settings.sandbox.network,
        own=(folder.root.resolve(), _own_settings(settings, env)),
        home=str(Path.home()),
        names=names,
        guarded=partial(hook_folders, home=Path.home()),
        is_plain_git=is_plain_git,
    )


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
