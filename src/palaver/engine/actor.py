"""Who sends a command, and what they may do."""

from __future__ import annotations

from typing import NamedTuple


class Actor(NamedTuple):
    name: str
    """Goes into `by` and into a message's author: `user` for the admin token, else the token's own name."""
    scopes: frozenset[str]
    """Of read, prompt, approve and admin, the implied ones included."""

    @property
    def may_approve(self) -> bool:
        return "approve" in self.scopes


EVERYONE = frozenset(("read", "prompt", "approve", "admin"))
