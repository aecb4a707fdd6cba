"""Cases for the policy's tests: a call of the shell, a patch, a read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaver.policy import ApprovalPolicy, Case
from palaver.tools.base import Description
from palaver.wire.values import Preview, Rule

WORKSPACE = "/home/u/work"
HOME = "/home/u"
DATA = "/home/u/.local/share/palaver"
CONFIG = "/home/u/.config/palaver"


def allow(command: str, *, exact: bool = False) -> Rule:
    return Rule("allow", tool="shell", command=command, exact=exact)


def deny(command: str) -> Rule:
    return Rule("deny", command=command)


def ask(command: str) -> Rule:
    return Rule("ask", command=command)


def shell(line: str, *, rules: Sequence[Rule] = (), grants: Sequence[Rule] = (), **more: Any) -> Case:
    more.setdefault("approval", ApprovalPolicy(rules=tuple(rules)))
    return Case(
        tool="shell",
        kind="exec",
        description=Description("a command", preview=Preview(command=line), command=line),
        workspace=WORKSPACE,
        session_rules=tuple(grants),
        protected=(DATA, CONFIG),
        home=HOME,
        **more,
    )


def patch(*paths: str, diff: str | None = None, rules: Sequence[Rule] = (), grants: Sequence[Rule] = (), **more: Any) -> Case:
    """A patch of these files; a relative path starts at the workspace."""
    writes = tuple(path if path.startswith("/") else f"{WORKSPACE}/{path}" for path in paths)
    more.setdefault("approval", ApprovalPolicy(rules=tuple(rules)))
    return Case(
        tool="apply_patch",
        kind="write",
        description=Description("a patch", preview=Preview(diff=diff), writes=writes),
        workspace=WORKSPACE,
        session_rules=tuple(grants),
        protected=(DATA, CONFIG),
        home=HOME,
        **more,
    )


def read(path: str, **more: Any) -> Case:
    return Case(
        tool="read_file",
        kind="read",
        description=Description("a file", reads=(path if path.startswith("/") else f"{WORKSPACE}/{path}",)),
        workspace=WORKSPACE,
        protected=(DATA, CONFIG),
        home=HOME,
        **more,
    )
