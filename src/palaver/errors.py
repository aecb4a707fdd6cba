"""Every error we mean to raise.

PalaverError
├── Refused         the request makes no sense now: a stable code, answered in `serve`
│   └── Invalid     422 `invalid`: which fields are wrong, and how
└── Failed          the world broke: it ends a call or a turn as an event, so a reload shows it too
    ├── DiskFailed      a write or a sync failed; whoever waited gets 507
    ├── ModelFailed     the provider answered with an error, or not at all
    ├── ToolFailed      a tool could not do what it was asked
    ├── BackendFailed   a child program died or broke its protocol
    └── LimitReached    a limit of the settings ended the turn

Anything else that is raised is a bug, and rises to the one `except Exception` in `engine/work.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PalaverError(Exception):
    """Says what happened, then what to do."""


class Refused(PalaverError):
    """The request makes no sense now. `serve/problems.py` maps each code to its HTTP status."""

    def __init__(self, code: str, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extra = extra
        """More members of the problem document, such as the recorded outcome."""


class Invalid(Refused):
    """422 with one entry for each wrong field."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__("invalid", message, errors=[{"path": path, "message": message}])

    @classmethod
    def all(cls, wrong: Sequence[Invalid]) -> Invalid:
        """Several at once, in their order."""
        together = cls("\n".join(one.message for one in wrong))
        together.extra["errors"] = [entry for one in wrong for entry in one.extra["errors"]]
        return together


class Failed(PalaverError):
    """The world broke. `code` ends up in the event that reports it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class DiskFailed(Failed):
    def __init__(self, message: str) -> None:
        super().__init__("disk", message)


class ModelFailed(Failed):
    """`retry_after` is what the provider asked for; `retryable` says whether asking again can help."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(code, message)
        self.retryable = retryable
        self.retry_after = retry_after


class ToolFailed(Failed):
    """`code` is one of DESIGN.md 3's: tool_error, invalid_arguments, tool_timeout, …"""

    def __init__(self, message: str, *, code: str = "tool_error") -> None:
        super().__init__(code, message)


class BackendFailed(Failed):
    def __init__(self, message: str, *, code: str = "backend_failed") -> None:
        super().__init__(code, message)


class LimitReached(Failed):
    """`code`: step_limit, time_limit, cost_limit, no_progress or provider_silent."""
