"""The sandbox of macOS, as a profile for `sandbox-exec`. Written from its documented words; nobody has run it yet."""

from __future__ import annotations

import re

from palaver.sandbox.orders import Orders

PROGRAM = "/usr/bin/sandbox-exec"


def profile(orders: Orders) -> str:
    """The last rule that matches decides."""
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        f"(allow file-write* (subpath {_text(orders.work)}) (subpath {_text(orders.temp)}))",
        '(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))',
        *(f"(deny file-write* (regex #{_text(_named(orders.work, name))}))" for name in _guarded_names(orders)),
        *(f"(deny file-write* (subpath {_text(path)}))" for path in orders.guarded),
        *_git(orders),
        *(f"(deny file-read* file-write* (subpath {_text(path)}))" for path in orders.hidden),
        "(deny signal)",
        "(allow signal (target same-sandbox))",
        "(deny process-info*)",
        "(allow process-info* (target same-sandbox))",
        "(deny mach-priv-task-port)",
        "(deny appleevent-send)",
        "(deny mach-lookup)",
        "(deny ipc-posix-shm* ipc-sysv-shm)",
        "(deny network*)",
        *(["(allow network-outbound (remote ip))", "(allow network-inbound (local ip))"] if orders.network else []),
    ]
    return "\n".join(rules)


def command(orders: Orders, program: list[str]) -> list[str]:
    return [PROGRAM, "-p", profile(orders), *program]


def _guarded_names(orders: Orders) -> list[str]:
    return [*orders.names, *([] if orders.git else [".git"])]


def _git(orders: Orders) -> list[str]:
    """Open for git itself, but for what says which programs it runs."""
    settings = "(config|config\\.worktree|hooks|commondir|gitdir)"
    return [
        rule
        for folder in orders.git
        for rule in (
            f"(allow file-write* (subpath {_text(folder)}))",
            f"(deny file-write* (regex #{_text(f'^{re.escape(folder)}/(modules/.*/|worktrees/.*/)?{settings}(/|$)')}))",
        )
    ]


def _named(work: str, name: str) -> str:
    """The name wherever it stands below the workspace, in any case of its letters."""
    letters = "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else re.escape(one) for one in name)
    return f"^{re.escape(work)}/(.*/)?{letters}(/|$)"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
