"""SECURITY 16 as rules: when trust in a folder's own commands answers for the person, and what the card offers."""

from __future__ import annotations

import pytest

from palaver.policy import Case, judge
from palaver.tools.base import Description
from palaver.wire.ids import TurnId
from palaver.wire.values import Mode, Rule

FILES = {"Makefile": "aa", "more.mk": "bb"}
TRUST = Rule("allow", tool="verify", command="make test", exact=True, files=FILES)
HERE, LATER = TurnId("turn_here"), TurnId("turn_later")


def case(
    *rules: Rule,
    command: str = "make test",
    files: dict[str, str] | None = FILES,
    confined: bool = True,
    mode: Mode = "ask",
    turn: str = HERE,
) -> Case:
    description = Description("Verify", command=command, rests_on=files, confined=confined)
    return Case("verify", "exec", description, "/work", mode=mode, workspace_rules=rules, turn_id=turn)


@pytest.mark.parametrize(
    ("asked", "decision"),
    [
        (case(), "ask"),
        (case(TRUST), "allow"),
        (case(TRUST, files={**FILES, "more.mk": "cc"}), "ask"),
        (case(TRUST, files={"Makefile": "aa"}), "ask"),
        (case(TRUST, files={**FILES, "third.mk": ""}), "ask"),
        (case(TRUST, files=None), "ask"),
        (case(TRUST, command="make test\nmake lint"), "ask"),
        (case(TRUST, command="make"), "ask"),
        (case(TRUST, confined=False), "ask"),
        (case(Rule("allow", tool="verify", command="make test", exact=True, files=FILES, unconfined=True), confined=False), "allow"),
        (case(Rule("allow", tool="verify", command="make test", exact=True, files=FILES, turn_id=HERE), confined=False), "allow"),
        (case(Rule("allow", tool="verify", command="make test", exact=True, files=FILES, turn_id=HERE), confined=False, turn=LATER), "ask"),
        (case(Rule("allow", tool="verify", command="make test", exact=True, files={"x": "?"}), files={"x": "?"}), "ask"),
        (case(TRUST, Rule("deny", command="make")), "deny"),
        (case(TRUST, Rule("ask", command="make")), "allow"),
        (case(TRUST, mode="plan"), "deny"),
        (case(mode="auto"), "allow"),
    ],
)
def test_trust_answers_while_its_files_are_the_same_and_a_sandbox_holds_or_none_was_wanted(asked: Case, decision: str) -> None:
    assert judge(asked).decision == decision


@pytest.mark.parametrize(("confined", "ids"), [(True, ["once", "workspace", "deny"]), (False, ["once", "workspace", "always", "deny"])])
def test_the_card_offers_trust_that_would_settle_it(confined: bool, ids: list[str]) -> None:
    verdict = judge(case(confined=confined))
    assert verdict.subject == "trust" and [option.id for option in verdict.options] == ids
    for option in verdict.options:
        if option.rule is not None:
            assert option.scope == "workspace" and judge(case(option.rule, confined=confined)).decision == "allow"
            assert judge(case(option.rule, confined=confined, files={})).decision == "ask"


@pytest.mark.parametrize("command", ["make test > out", "X=1 make test", "make $(cat x)", "sudo make test"])
def test_what_no_grant_covers_is_not_trusted_either(command: str) -> None:
    assert {option.scope for option in judge(case(command=command)).options} == {"once"}


def test_what_is_asked_for_another_reason_is_no_question_of_trust() -> None:
    assert judge(case(Rule("ask", command="make"))).subject == "tool"
    assert judge(case(files=None)).subject == "tool"
