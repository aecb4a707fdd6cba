"""What the policy decides on and what it answers: plain values, built by the settings and the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palaver.tools.base import Description, ToolKind
from palaver.wire.values import CallKind, Mode, Option, Rule

Decision = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class VerifyPolicy:
    """Whether and how a turn that changed files checks its work."""

    auto_verify: bool = True
    commands: tuple[str, ...] = ("make test",)
    require_clean: bool = False


@dataclass(frozen=True)
class ApprovalPolicy:
    """What a person said in the settings about asking."""

    require_for_kinds: tuple[ToolKind, ...] = ()
    require_for_tools: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class PatchReviewPolicy:
    """`request` holds every patch for a person, `auto` only what deserves a look (DESIGN.md 5)."""

    mode: Literal["off", "request", "auto"] = "off"


@dataclass(frozen=True)
class Case:
    """One call, and everything that may decide about it.

    All paths are absolute with links resolved by whoever builds the case: nothing here looks at a disk.
    """

    tool: str
    kind: CallKind | ToolKind
    description: Description
    workspace: str
    mode: Mode = "ask"
    approval: ApprovalPolicy = ApprovalPolicy()
    session_rules: Sequence[Rule] = ()
    """What people granted for this session. An `allow` here is a grant."""
    workspace_rules: Sequence[Rule] = ()
    """What people granted or ruled for this workspace. An `allow` here is a grant."""
    review: PatchReviewPolicy = PatchReviewPolicy()
    protected: Sequence[str] = ()
    """Palaver's data and settings folders: nothing below them is read or written."""
    shown: Sequence[str] = ()
    """Folders below a protected one that may be read all the same: this session's artifacts and attachments."""
    guarded: Sequence[str] = ()
    """More guarded paths than the known names: what `core.hooksPath` names."""
    requires_approval: bool = False
    """The tool's own definition says so."""
    home: str | None = None
    """What `~` and `$HOME` mean in a shell line."""
    turn_id: str | None = None
    """The turn that makes the call: some trust counts in one turn alone."""
    cwd: str | None = None
    """Where a shell line starts, from the workspace, if not there. No command rule allows anything in another folder."""


@dataclass(frozen=True)
class Verdict:
    decision: Decision
    by: str
    """What decided, in words: a step, a rule, a mode."""
    subject: Literal["tool", "review", "plan", "trust"] = "tool"
    reason: str | None = None
    """For the card of an ask, or for the model that is denied."""
    options: tuple[Option, ...] = ()
    """Of an ask, narrowest first. Each wider one holds the rule that would be stored, and that rule settles this ask."""
