"""`open` and `token`: ways in, for a person and for a program."""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palaver.cli.screen import one_line
from palaver.cli.start import connect_or_start
from palaver.cli.target import connect, find_session

_KEPT_S = 60
"""As long as the code in it is good for."""

_SWEEP = "import shutil, sys, time; time.sleep(float(sys.argv[2])); shutil.rmtree(sys.argv[1], ignore_errors=True)"


def open_page(args: argparse.Namespace) -> int:
    url = asyncio.run(_sign_in_url(args))
    if args.print_url or not hand_over(url, os.environ):
        print(url)
    return 0


def make_token(args: argparse.Namespace) -> int:
    body = asyncio.run(_new_token(args))
    if args.json:
        import msgspec

        print(msgspec.json.encode(body).decode())
        return 0
    print(body["token"])
    if sys.stderr.isatty():
        until = f", good until {one_line(body['expires_at'])}" if body.get("expires_at") else ""
        print(f"It may {args.scope}{until}. It is shown this once.", file=sys.stderr)
    return 0


async def _sign_in_url(args: argparse.Namespace) -> str:
    async with await connect_or_start(args) as connection:
        path = "/"
        if args.session is not None:
            path = f"/s/{quote((await find_session(connection, args.session))['id'], safe='')}"
        body = {"scope": args.scope} if args.scope else {}
        code = (await connection.request("POST", "/v1/codes", body)).body["code"]
        return f"{connection.url}{path}#code={quote(code, safe='')}"


async def _new_token(args: argparse.Namespace) -> Any:
    async with await connect(args) as connection:
        body = {"scope": args.scope, "name": args.name, "days": args.days}
        given = {key: value for key, value in body.items() if value is not None}
        return (await connection.request("POST", "/v1/tokens", given)).body


def hand_over(url: str, env: Mapping[str, str], kept_s: float = _KEPT_S) -> bool:
    """Give the browser a file that sends it to `url`; False where there is no browser that could read one.

    Everybody on this machine can read a command line, so it holds the file's name only. The file is ours alone, in a folder that is
    ours alone, and a small process of its own deletes both when the code in it is no longer good.
    """
    if not has_browser(env):
        return False
    folder = Path(tempfile.mkdtemp(prefix="palaver-"))
    page = folder / "open.html"
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(redirect(url))
    command = [sys.executable, "-P", "-c", _SWEEP, str(folder), str(kept_s)]
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True)
    return webbrowser.open(page.as_uri())


def redirect(url: str) -> str:
    """A page without a script that goes to `url` at once."""
    safe = html.escape(url, quote=True)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={safe}"><title>Palaver</title><a href="{safe}">Open Palaver</a>\n'
    )


def has_browser(env: Mapping[str, str]) -> bool:
    """Whether a browser with a screen can be started that sees our temporary files; a packaged one in a sandbox does not."""
    if sys.platform == "darwin":
        return True
    if not (env.get("BROWSER") or env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")):
        return False
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    found = shutil.which(getattr(browser, "name", "") or "") or ""
    return not os.path.realpath(found).startswith(("/snap/", "/var/lib/snapd/", "/var/lib/flatpak/", "/usr/bin/snap"))
