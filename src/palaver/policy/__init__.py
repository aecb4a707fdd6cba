"""The one policy decision: may this call happen, must somebody be asked, or never.

`judge(case)` is a pure function of values. Tools describe a call, the engine builds the `Case`, and whoever is asked sees the
`Verdict`'s reason and options. What decides is imported when the first call is judged: with its shell parser it is a twentieth of a start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaver.policy.values import ApprovalPolicy, Case, Decision, PatchReviewPolicy, Verdict, VerifyPolicy

if TYPE_CHECKING:
    from palaver.policy.decide import explain, judge, narrowed
    from palaver.policy.rules import check_rule, named_paths

__all__ = [
    "ApprovalPolicy",
    "Case",
    "Decision",
    "PatchReviewPolicy",
    "Verdict",
    "VerifyPolicy",
    "check_rule",
    "explain",
    "judge",
    "named_paths",
    "narrowed",
]

_LATE = {"explain": "decide", "judge": "decide", "narrowed": "decide", "check_rule": "rules", "named_paths": "rules"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
