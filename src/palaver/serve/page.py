"""The page that a browser gets: for now one that says where Palaver is and how to come in. It holds no script."""

from __future__ import annotations

from palaver.serve.guard import Header

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' blob: data:; media-src blob:; "
    "connect-src 'self' ws://{host}; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

STYLE = b"""\
:root { color-scheme: light dark; }
body { max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.25rem; font-weight: 600; }
code { font-family: ui-monospace, monospace; padding: .1em .35em; border-radius: .3em; background: rgb(127 127 127 / .15); }
p { margin: .75rem 0; }
"""

PAGE = b"""\
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
<h1>Palaver is running here</h1>
<p>To sign in, run this in a terminal on this machine:</p>
<p><code>palaver open</code></p>
<p>To follow a conversation in the terminal: <code>palaver attach last</code>. Programs talk to <code>/v1</code> with a token that
<code>palaver token</code> makes; <code>/openapi.json</code> describes what they can ask for.</p>
</main>
</body>
</html>
"""


def page_headers(host: str) -> list[Header]:
    """What keeps the page from running or loading anything that is not its own."""
    return [
        (b"content-security-policy", _CSP.format(host=host).encode("latin-1")),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    ]
