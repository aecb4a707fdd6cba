"""The one policy decision: may this call happen, must somebody be asked, or never.

`judge(case)` is a pure function of values. Tools describe a call, the engine builds the `Case`, and whoever is asked sees the
`Verdict`'s reason and options.
"""

from palaver.policy.decide import explain, judge, narrowed
from palaver.policy.rules import check_rule, named_paths
from palaver.policy.values import ApprovalPolicy, Case, Decision, PatchReviewPolicy, Verdict, VerifyPolicy

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
