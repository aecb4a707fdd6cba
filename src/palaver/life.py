"""The daemon's life, from the lock to the last log.

Order at a start: lock the folder, bind the port, open the doors, say where, and only then build what is behind them: health is answered
meanwhile, everything else waits. Order at an end: stop listening, end the turns, close the logs, give the lock back.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palaver import __version__
from palaver.engine.clock import Clock
from palaver.errors import Refused
from palaver.log.disk import Disk, nothing
from palaver.log.folders import DataFolder, Lock, check_private
from palaver.settings import Settings

if TYPE_CHECKING:
    from palaver.daemon import Daemon
    from palaver.serve.app import Palaver
    from palaver.serve.tokens import Tokens

HOLDER_S = 10.0
"""How long a second `serve` waits for the first one to answer, or to end."""


def serve(
    settings: Settings,
    data: Path,
    port: int,
    print_url: bool = False,
    no_token: bool = False,
    *,
    build: Callable[..., Daemon] | None = None,
    disk: Disk | None = None,
    reached: Callable[[str], None] = nothing,
) -> int:
    """Run until SIGTERM or SIGINT. Gives the exit code: 0 at a clean end, 1 when port or folder are taken, 2 when the folder is unsafe."""
    if "PALAVER_CALL" in os.environ:
        from palaver.tools.environment import drop_mark

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
    build: Callable[..., Daemon] | None,
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
    tokens = Tokens(folder.root, clock=time.time)
    port = sock.getsockname()[1]
    app = make_app(None, tokens, port=port, no_token=no_token, default_mode=settings.defaults.mode)
    url = f"http://127.0.0.1:{port}"

    async def furnish() -> Daemon:
        """Build what is behind the doors. A failure ends the daemon."""
        try:
            wired = await asyncio.to_thread(_wiring)  # the longest part of a start; the loop answers health meanwhile
            daemon = (build or wired)(settings, folder, env=dict(os.environ), disk=disk, reached=reached)
            daemon.sessions.start()
        except BaseException:
            stop.set()
            raise
        app.furnish(daemon.hub)
        spare_the_collector()
        return daemon

    furnishing: list[asyncio.Task[Daemon]] = []

    def listening() -> None:
        _write_private(folder.root / "daemon.json", _about(folder, url))
        _say(url, None if no_token or not (print_url or sys.stdout.isatty()) else _sign_in_code(folder, tokens, app))
        furnishing.append(asyncio.ensure_future(furnish()))

    try:
        await serve_app(app, sock, stop, listening=listening)
    finally:
        (folder.root / "daemon.json").unlink(missing_ok=True)
        for task in furnishing:
            await (await task).close()


def spare_the_collector() -> None:
    """What a start made stays for good: it is never looked through again. Nor is it worth a look whenever 700 things are new.

    A busy daemon spent a third of its time on that. Cycles are rare here and wait a little longer.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _wiring() -> Callable[..., Daemon]:
    from palaver.daemon import build
    from palaver.tools.environment import keep_private

    keep_private()
    return build


def _about(folder: DataFolder, url: str) -> str:
    about = {
        "pid": os.getpid(),
        "url": url,
        "token_file": str(folder.root / "token"),
        "version": __version__,
        "started_at": Clock().now(),
    }
    return msgspec.json.encode(about).decode()


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        os.fchmod(fd, 0o600)
        file.write(text)
    fresh.replace(path)


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
