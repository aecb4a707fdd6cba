"""The page that a browser gets: files that the build put into the package, read once, under a policy that lets them load nothing else.

Where the page was not built (a checkout without `make setup`) a plain page says so, with the command that builds it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from palaver.errors import Refused
from palaver.serve.guard import Header

STATIC = Path(__file__).parent.parent / "static"

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' blob: data:; media-src blob:; "
    "connect-src 'self' ws://{host}; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

_TYPES = {
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "woff2": b"font/woff2",
    "png": b"image/png",
    "json": b"application/json",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.([a-z0-9]{1,8})")
_ALWAYS = b"public, max-age=31536000, immutable"

STYLE = b"""\
:root { color-scheme: light dark; }
body { max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.25rem; font-weight: 600; }
code { font-family: ui-monospace, monospace; padding: .1em .35em; border-radius: .3em; background: rgb(127 127 127 / .15); }
p { margin: .75rem 0; }
"""

NOT_BUILT = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Palaver</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">
</head>
<body>
<main>
<h1>Palaver is running here, without its page</h1>
<p>This installation was made from sources whose page was not built. In that folder, run</p>
<p><code>make setup</code></p>
<p>(or <code>pip install .</code> again, with Node 20.19 or newer, or without any), then load this page again.</p>
<p>Meanwhile, in a terminal: <code>palaver attach last</code>. Programs talk to <code>/v1</code> with a token that
<code>palaver token</code> makes.</p>
</main>
</body>
</html>
"""


def page(version: str, static: Path = STATIC) -> bytes:
    """The built page, which knows the version that it came from, or the one that says how to build it. Looked up anew until it is there."""
    index = static / "index.html"
    if not index.is_file():
        return NOT_BUILT
    return _file(index, index.stat().st_mtime_ns).replace(b"<html ", f'<html data-version="{version}" '.encode(), 1)


def asset(name: str, static: Path = STATIC) -> tuple[bytes, list[Header]]:
    """One of the built files, by a name that changes with its bytes. Raises `Refused("not_found")`."""
    path = static / "assets" / name
    named = _NAME.fullmatch(name)
    if named is None or named[1] not in _TYPES or not path.is_file():
        raise Refused("not_found", "There is no such file of the page: load the page again")
    return _file(path, path.stat().st_mtime_ns), [(b"content-type", _TYPES[named[1]]), (b"cache-control", _ALWAYS)]


@cache
def _file(path: Path, changed: int) -> bytes:
    return path.read_bytes()


def page_headers(host: str) -> list[Header]:
    """What keeps the page from running or loading anything that is not its own."""
    return [
        (b"content-security-policy", _CSP.format(host=host).encode("latin-1")),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    ]
