"""The check that holds docs/requirements.md, docs/rules.md and docs/security.md to their word."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_requirements as check

TEST = "`tests/test_requirements_page.py::test_a_complete_page_is_not_complained_about`"


def page(**changed: str) -> str:
    """A complete page, but for the rows that are given by their id."""
    rows = {id.replace("-", "_"): f"| {id} | words | later | |" for id in check.ids()}
    return "\n".join({**rows, **changed}.values())


def test_a_complete_page_is_not_complained_about() -> None:
    assert list(check.check_requirements(page(S0_01=f"| S0-01 | words | met | {TEST} |"))) == []


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("", "S4-77: missing"),
        ("| S4-77 | words | later | |\n| S4-77 | words | later | |", "S4-77: stands there 2 times"),
        ("| S4-77 | words | later | |\n| S4-78 | words | later | |", "S4-78: there is no such requirement"),
        ("| S4-77 | words | soon | |", "S4-77: the state 'soon' is none of met, later, decided otherwise"),
        ("| S4-77 | | later | |", "S4-77: says nothing in the second column"),
        ("| S4-77 | words | met | |", "S4-77: is met but names no test"),
        ("| S4-77 | words | met | it works |", "S4-77: is met but names no test"),
        ("| S4-77 | words | decided otherwise | |", "S4-77: is decided otherwise but gives no reason"),
        ("| S4-77 | later | |", "S4-77: write `| id | words | state | tests or reason |`"),
    ],
)
def test_a_page_that_says_too_little_is_complained_about(row: str, complaint: str) -> None:
    assert complaint in list(check.check_requirements(page(S4_77=row)))


RULES = "\n".join(f"## {number}. A rule\n\nIts words.\n\ntests: {TEST}\n" for number in range(1, 10))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (RULES, None),
        (RULES.replace("## 4.", "## 5."), "has the rules 1, 2, 3, 5, 5, 6, 7, 8, 9; it must have 1 to 9, in order"),
        (RULES.replace("## 4.", "###"), "has the rules 1, 2, 3, 5, 6, 7, 8, 9; it must have 1 to 9, in order"),
        (RULES.replace(f"tests: {TEST}", "", 1), "rule 1 has no line that starts with `tests:`"),
        (RULES.replace(TEST, "", 1), "rule 1 names no test"),
    ],
)
def test_the_promises_are_there_in_order_and_each_names_a_test(text: str, complaint: str | None) -> None:
    assert list(check.check_rules(text, strict=True)) == ([complaint] if complaint else [])


GUARDS = "\n".join(f"| {number} | what | {TEST} |" for number in range(1, 10))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GUARDS, None),
        (GUARDS.replace("| 4 |", "| 5 |"), "has rows for 1, 2, 3, 5, 5, 6, 7, 8, 9; it must have 1 to 9, in order"),
        ("| what | on Linux | elsewhere |", "has rows for no rule; it must have 1 to 9, in order"),
        (GUARDS.replace(f"| {TEST} |", "| nobody |", 1), "row 1 names no test"),
    ],
)
def test_each_rule_of_safety_has_a_row_that_names_a_test(text: str, complaint: str | None) -> None:
    assert list(check.check_security(text)) == ([complaint] if complaint else [])


def test_a_named_test_is_found_whatever_it_stands_in_and_a_misspelt_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "def test_plain(): ...\n"
        "if True:\n    async def test_late(): ...\n"
        "class TestGroup:\n    def test_inside(self): ...\n"
        "TestPromises = Machine.TestCase\n"
    )
    good = ["", "::test_plain", "::test_plain[a-b]", "::test_late", "::TestGroup::test_inside", "::TestPromises"]
    bad = ["::test_plian", "::test_inside", "::TestGroup::test_plain"]
    assert list(check.check_tests([f"tests/test_it.py{name}" for name in good], tmp_path)) == []
    assert len(list(check.check_tests([f"tests/test_it.py{name}" for name in bad], tmp_path))) == len(bad)
    assert list(check.check_tests(["tests/test_that.py::test_plain"], tmp_path)) == ["tests/test_that.py::test_plain does not exist"]


def test_a_test_of_typescript_is_found_by_the_words_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "some.test.ts").write_text('test("it holds", () => {});\ntest.each(ROWS)(\n  "$name holds",\n  () => {},\n);\n')
    assert check.exists("web/some.test.ts", tmp_path)
    assert check.exists("web/some.test.ts::it holds", tmp_path)
    assert check.exists("web/some.test.ts::$name holds", tmp_path)
    assert not check.exists("web/some.test.ts::it held", tmp_path)
    assert not check.exists("web/other.test.ts::it holds", tmp_path)
