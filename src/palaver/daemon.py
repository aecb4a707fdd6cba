"""All the wiring, on one page: constructors, settings passed as values, and the daemon's life from lock to last log.

Order at a start: lock the folder, bind the port, build, listen, say where. Order at an end: stop listening, end the turns, close the
logs, give the lock back.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palaver import __version__
from palaver.backends.loop import LoopBackend
from palaver.engine.agents import Agent, Agents
from palaver.engine.calls import Calls, Files
from palaver.engine.clock import Clock
from palaver.engine.hub import Hub
from palaver.engine.sessions import IDLE_S, Sessions
from palaver.engine.work import Works
from palaver.engine.workspaces import Workspaces
from palaver.errors import Failed, Refused
from palaver.log.blobs import Blobs
from palaver.log.disk import Disk
from palaver.log.files import FileLog
from palaver.log.folders import DataFolder, Lock, check_private
from palaver.models.base import Model
from palaver.models.registry import ModelSettings, Registry
from palaver.policy import ApprovalPolicy, PatchReviewPolicy
from palaver.settings import Settings
from palaver.settings_edit import change
from palaver.tools import ToolRegistry, builtin
from palaver.tools.base import ToolKind
from palaver.tools.environment import child_environment, drop_mark, keep_private
from palaver.tools.jobs import BackgroundJobs
from palaver.tools.own import load_own
from palaver.tools.processes import MARK, Marks, new_secret
from palaver.wire.ids import CallId, SessionId
from palaver.wire.values import Cost, FileRef, Rule, Usage

if TYPE_CHECKING:
    from palaver.serve.app import Palaver
    from palaver.serve.tokens import Tokens

HOLDER_S = 10.0
"""How long a second `serve` waits for the first one to answer, or to end."""


def nothing(point: str) -> None:
    """What happens between two effects, unless a test says otherwise."""


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
    workspaces = Workspaces(log, clock)
    marks = Marks(_secret(folder.root / "mark"), secrets.token_hex(4))
    calls = Calls(
        ToolRegistry(builtin(jobs), load_own),
        _files(folder, blobs),
        workspaces,
        clock,
        _environment(env, settings, models, marks),
        approval=_approval(settings),
        review=PatchReviewPolicy(settings.patch_review.mode),
        protected=(folder.root.resolve(), settings.path.parent.resolve()),
        deadline_s=settings.approval.deadline_s,
        per_minute=settings.limits.tool_calls_per_minute,
        end_jobs=jobs.close,
    )
    loop = LoopBackend(lambda name: _model(models, name), clock.now, settings.limits.steps)
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
        (folder.root.resolve(), settings.path.parent.resolve(), Path.home().resolve()),
    )
    return Daemon(hub, sessions, log, models, jobs)


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
    _write_private(path, made)
    return made


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        os.fchmod(fd, 0o600)
        file.write(text)
    fresh.replace(path)


def _write_settings(path: Path, text: str) -> None:
    from palaver.serve.tokens import write_private

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, text.encode())


# --- the life of the daemon ---------------------------------------------------------------------------------------------------


def serve(
    settings: Settings,
    data: Path,
    port: int,
    print_url: bool = False,
    no_token: bool = False,
    *,
    build: Callable[..., Daemon] = build,
    disk: Disk | None = None,
    reached: Callable[[str], None] = nothing,
) -> int:
    """Run until SIGTERM or SIGINT. Gives the exit code: 0 at a clean end, 1 when port or folder are taken, 2 when the folder is unsafe."""
    drop_mark()
    folder = DataFolder(data, disk, reached=reached)
    try:
        check_private(settings.path.parent)
        check_private(settings.path)
        folder.prepare()
    except Refused as refused:
        return _complain(refused.message, 2)
    lock = folder.lock() or _wait_for_holder(folder)
    if lock is None:
        return _first_one(folder)
    try:
        sock = _bind(port)
    except OSError as error:
        lock.release()
        return _complain(f"Port {port} of 127.0.0.1 is taken ({error.strerror}). Choose another with --port, or 0 for any.", 1)
    try:
        with sock:
            _run(_serve(settings, folder, sock, build, disk, reached, print_url=print_url, no_token=no_token))
        return 0
    except Refused as refused:  # a token file that is none
        return _complain(refused.message, 2)
    finally:
        lock.release()


def _run(main: Any) -> None:
    sys.setswitchinterval(0.0001)  # a busy loop must not starve the threads of the log
    from palaver.serve.server import loop_name

    if loop_name() == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    else:
        asyncio.run(main)


async def _serve(
    settings: Settings,
    folder: DataFolder,
    sock: socket.socket,
    build: Callable[..., Daemon],
    disk: Disk | None,
    reached: Callable[[str], None],
    *,
    print_url: bool,
    no_token: bool,
) -> None:
    from palaver.serve.app import make_app, serve_app
    from palaver.serve.tokens import Tokens

    if no_token:
        others = "" if sys.platform == "linux" else " Every user of this machine may run commands as you."
        _complain(f"--no-token: no token is asked for. Whoever reaches this port as you may run commands as you.{others}", 0)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    daemon = build(settings, folder, env=dict(os.environ), disk=disk, reached=reached)
    tokens = Tokens(folder.root, clock=time.time)
    port = sock.getsockname()[1]
    app = make_app(daemon.hub, tokens, port=port, no_token=no_token, default_mode=settings.defaults.mode)
    url = f"http://127.0.0.1:{port}"

    def listening() -> None:
        daemon.sessions.start()
        _write_private(folder.root / "daemon.json", _about(folder, url, daemon))
        _say(url, None if no_token or not (print_url or sys.stdout.isatty()) else _sign_in_code(folder, tokens, app))
        keep_private()

    try:
        await serve_app(app, sock, stop, listening=listening)
    finally:
        await daemon.close()
        (folder.root / "daemon.json").unlink(missing_ok=True)


def _about(folder: DataFolder, url: str, daemon: Daemon) -> str:
    about = {
        "pid": os.getpid(),
        "url": url,
        "token_file": str(folder.root / "token"),
        "version": __version__,
        "started_at": daemon.hub.clock.now(),
    }
    return msgspec.json.encode(about).decode()


def _sign_in_code(folder: DataFolder, tokens: Tokens, app: Palaver) -> str:
    admin = tokens.authenticate((folder.root / "token").read_text().strip())
    assert admin is not None  # `Tokens` has just read or made this file
    return app.doors.codes.mint(admin, ("admin",))[0]


def _say(url: str, code: str | None) -> None:
    """The sign-in address for the person at a terminal, the plain one for everybody else."""
    print(f"{url}/#code={code}" if code else url, flush=True)


def _bind(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


# --- a second one -------------------------------------------------------------------------------------------------------------


def _wait_for_holder(folder: DataFolder) -> Lock | None:
    """The lock, if it falls free; None once the daemon that has it has answered, or after ten seconds."""
    until = time.monotonic() + HOLDER_S
    while time.monotonic() < until:
        if _answering(folder) is not None:
            return None
        time.sleep(0.05)
        if lock := folder.lock():
            return lock
    return None


def _first_one(folder: DataFolder) -> int:
    url = _answering(folder)
    if url is None:
        return _complain(
            f"Process {folder.holder()} has the data folder {folder.root} and does not answer. End it, or use another --data.", 1
        )
    print(url, flush=True)
    return 0


def _answering(folder: DataFolder) -> str | None:
    """The address of the daemon that holds the lock, if it answers there."""
    import urllib.request

    try:
        about = msgspec.json.decode((folder.root / "daemon.json").read_bytes(), type=dict[str, Any])
        if about.get("pid") != folder.holder():
            return None
        url = str(about["url"])
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/v1/health", timeout=2) as answer:
            return url if answer.status == 200 else None
    except (OSError, KeyError, msgspec.DecodeError, ValueError):
        return None  # not there yet, or ending


def _complain(text: str, code: int) -> int:
    print(f"palaver: {text}", file=sys.stderr, flush=True)
    return code
