"""What a token may do. A route's scope stands in the route table, a field's stands here; what stands in no list is `admin`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from palaver.engine.actor import Actor
from palaver.errors import Invalid, Refused

ScopeName = Literal["read", "prompt", "approve", "admin"]

ORDER: tuple[ScopeName, ...] = ("read", "prompt", "approve", "admin")
"""Each one implies those before it."""

FIELDS: Mapping[str, ScopeName] = {
    "workspace_path": "prompt",
    "auto_run": "prompt",
    "title": "prompt",
    "archived": "prompt",
    "delivery": "prompt",
    "system_prompt": "approve",
    "model": "approve",
    "agent": "approve",
    "mode": "approve",
}
"""Of `POST /v1/sessions` and `PATCH /v1/sessions/{id}`. The mode `plan` and the default mode need `prompt` only."""


@lru_cache(maxsize=64)
def expand(names: tuple[str, ...]) -> frozenset[str]:
    """The named scopes and all that they imply."""
    highest = max((ORDER.index(name) for name in ORDER if name in names), default=-1)
    return frozenset(ORDER[: highest + 1])


def parse(text: str) -> tuple[str, ...]:
    """`"read,prompt"` as names. Raises `Invalid` for a name that is none."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    wrong = [name for name in names if name not in ORDER]
    if wrong or not names:
        raise Invalid(f"The scopes are {', '.join(ORDER)}; {', '.join(wrong) or 'nothing'} was asked for", path="scope")
    return tuple(name for name in ORDER if name in names)


def require(actor: Actor, scope: str) -> None:
    """Raises `Refused("scope")`, naming the scope that is needed."""
    if scope not in actor.scopes:
        raise Refused("scope", f"This needs a token with the scope `{scope}`: `palaver token --scope {scope}` makes one", needed=scope)


def field_scope(name: str, value: Any, default_mode: str) -> ScopeName:
    if name == "mode" and value in ("plan", default_mode):
        return "prompt"
    return FIELDS.get(name, "admin")


def require_fields(actor: Actor, fields: Mapping[str, Any], default_mode: str) -> None:
    """Checks every field that a client wants to set."""
    for name, value in fields.items():
        require(actor, field_scope(name, value, default_mode))
