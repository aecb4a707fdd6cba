"""Which patches the review policy holds."""

from __future__ import annotations

from difflib import unified_diff

import pytest
from cases_of_policy import patch

from palaver.policy import PatchReviewPolicy, judge
from palaver.policy.review import extent_of

AUTO = PatchReviewPolicy("auto")


def diff(before: str, after: str, old: str = "a/f.py", new: str = "b/f.py") -> str:
    return "".join(unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new))


SMALL = diff("one\n", "two\n")


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
def test_a_patch_under_review_is_one_ask_of_subject_review(mode: str) -> None:
    """S4-67: in mode ask the review is the only ask of that call."""
    verdict = judge(patch("a.py", diff=SMALL, mode=mode, review=PatchReviewPolicy("request")))
    assert (verdict.decision, verdict.subject) == ("ask", "review")
    assert [option.id for option in verdict.options] == ["once", "deny"]


def test_review_is_off_unless_chosen() -> None:
    """S4-68."""
    assert judge(patch("a.py", diff=SMALL, mode="edit")).decision == "allow"


def test_a_guarded_path_outside_of_review_stays_a_question_about_the_tool() -> None:
    assert judge(patch("Makefile", diff=SMALL, mode="edit")).subject == "tool"


def test_auto_lets_a_small_patch_pass() -> None:
    assert judge(patch("f.py", diff=SMALL, mode="edit", review=AUTO)).decision == "allow"


HELD = [
    ("f.py", diff("one\n", "", "a/f.py", "/dev/null")),
    ("f.py", "diff --git a/f.py b/f.py\ndeleted file mode 100644\n"),
    ("g.py", "diff --git a/f.py b/g.py\nsimilarity index 100%\nrename from f.py\nrename to g.py\n"),
    ("g.py", diff("one\n", "two\n", "a/f.py", "b/g.py")),
    ("/tmp/f.py", SMALL),
    ("Makefile", SMALL),
    ("f.py", diff("", "x\n" * 401, "/dev/null", "b/f.py")),
    ("f.py", diff("x\n" * 201, "y\n" * 200)),
    ("f.py", None),
]


@pytest.mark.parametrize(("path", "text"), HELD, ids=range(len(HELD)))
def test_auto_holds_what_deserves_a_look(path: str, text: str | None) -> None:
    assert judge(patch(path, diff=text, mode="auto", review=AUTO)).subject == "review"


@pytest.mark.parametrize("count", [1, 400])
def test_auto_lets_a_new_file_of_up_to_400_lines_pass(count: int) -> None:
    text = diff("", "x\n" * count, "/dev/null", "b/f.py")
    assert extent_of(text).changed == count
    assert judge(patch("f.py", diff=text, mode="edit", review=AUTO)).decision == "allow"


def test_a_changed_line_that_looks_like_a_header_is_only_a_line() -> None:
    text = diff("-- /dev/null\n-- a/x\nkept\n", "++ /dev/null\n++ b/y\nkept\n")
    assert extent_of(text).changed == 4
    assert not extent_of(text).deletes_or_renames


def test_a_line_separator_inside_of_a_line_does_not_end_it() -> None:
    text = diff("a\u2028b\n", "a\u2028--- x\n") + diff("one\n", "", "a/g.py", "/dev/null")
    assert extent_of(text).changed == 3
    assert extent_of(text).deletes_or_renames
