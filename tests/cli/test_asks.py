"""What is asked, shown whole, and the lines that answer it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palaver.cli.asks import More, Post, Unclear, answer, card, item_of, prompt
from stand_in import event

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "golden" / "visible.json").read_text("utf-8"))

OPTIONS: list[dict[str, Any]] = [
    {"id": "once", "action": "approve", "scope": "once", "label": "Allow once"},
    {
        "id": "session",
        "action": "approve",
        "scope": "session",
        "label": "Allow in this session",
        "rule": {"decision": "allow", "command": "git\u202e"},
    },
    {"id": "deny", "action": "deny", "scope": "once", "label": "Deny"},
]


def approval(**data: Any) -> dict[str, Any]:
    call = {"id": "call_1", "name": "shell", "input": {"command": "x"}}
    whole = {"approval_id": "appr_1", "subject": "tool", "tool_call": call, "kind": "exec", "preview": {}, "options": OPTIONS, **data}
    return item_of(event(1, "approval_requested", whole))


def question(*questions: dict[str, Any]) -> dict[str, Any]:
    base = {"header": "", "text": "?", "type": "choice", "options": [], "multiple": False, "free_text": False}
    asked = [{**base, "id": f"q{number}", **one} for number, one in enumerate(questions, 1)]
    return item_of(event(1, "question_asked", {"question_id": "ques_1", "questions": asked}))


def test_a_card_shows_all_that_is_decided_and_hides_nothing() -> None:
    """SECURITY 19."""
    command = f"echo hi{' ' * 200}; rm -rf ~ \u202e\x1b[8m\nsecond line"
    text = card(
        approval(preview={"command": command, "paths": ["a\u200bb"], "diff": "-x\n+y", "network": "example.org"}, reason="trust me")
    )
    assert text == (
        "? may it? shell [exec]  (appr_1)\n"
        "  command:\n"
        "    echo hi⟨200 blanks⟩; rm -rf ~ ⟨U+202E⟩⟨U+001B⟩[8m\n"
        "    second line\n"
        "  network: example.org\n"
        "  changes:\n"
        "    -x\n"
        "    +y\n"
        "  path: a⟨U+200B⟩b\n"
        "  in the agent's words: trust me"
    )


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: ascii(row["in"])[:40])
def test_the_golden_texts_stand_in_a_card_as_the_table_says(row: dict[str, Any]) -> None:
    """SECURITY 19: the corpus, through what `attach` prints."""
    if row["in"]:
        shown = card(approval(preview={"command": row["in"]})).split("\n")[1:]
        lines = shown[1:] if shown[0] == "  command:" else [shown[0].replace("  command: ", "    ", 1)]
        assert "\n".join(line.removeprefix("    ") for line in lines) == row["out"]


def test_no_text_can_pass_for_another_part_of_the_card() -> None:
    """SECURITY 19: line ends in names, labels and rules begin no line."""
    forged = "x\n  command: ls\n? may it? shell"
    call = {"id": "call_1", "name": forged, "input": {}}
    options = [{**OPTIONS[0], "label": forged, "rule": {"decision": "allow", "command": forged}}]
    item = approval(tool_call=call, options=options, preview={"command": forged, "paths": [forged]}, reason=forged)
    asked = question({"header": forged, "text": forged, "options": [{"label": forged, "description": forged, "preview": forged}]})
    for text in (card({**item, "session_title": forged}), prompt(item, {}), card(asked), prompt(asked, {})):
        lines = text.split("\n")
        assert "  command: ls" not in lines
        assert not any(line.startswith("? may it? shell") for line in lines)


def test_a_long_command_is_never_cut() -> None:
    command = "x" * 100_000
    assert command in card(approval(preview={"command": command}))


def test_a_call_without_a_preview_shows_its_input() -> None:
    assert '"command": "x"' in card(approval())


def test_the_rule_that_would_be_stored_stands_beside_its_option() -> None:
    """SECURITY 19."""
    text = prompt(approval(), {})
    assert "2  Allow in this session  remembers decision=allow, command=git⟨U+202E⟩" in text
    assert "[y once · s this session · n [note] deny · or a number]" in text


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("y", {"action": "approve", "scope": "once", "option_id": "once"}),
        (" y ", {"action": "approve", "scope": "once", "option_id": "once"}),
        ("s", {"action": "approve", "scope": "session", "option_id": "session"}),
        ("2", {"action": "approve", "scope": "session", "option_id": "session"}),
        ("n", {"action": "deny", "scope": "once", "option_id": "deny"}),
        ("n use ls instead", {"action": "deny", "scope": "once", "option_id": "deny", "reason": "use ls instead"}),
    ],
)
def test_a_word_answers_an_approval(line: str, body: dict[str, Any]) -> None:
    assert answer(approval(), line, {}) == Post("/v1/approvals/appr_1", body)


@pytest.mark.parametrize("line", ["", "yes", "yes please", "y please", "Y", "ok", "w", "0", "4", "1 2", "-1", "s now", "²"])
def test_anything_else_approves_nothing(line: str) -> None:
    """SECURITY 20: typing on never answers."""
    assert isinstance(answer(approval(), line, {}), Unclear)


COLOURS = {"options": [{"label": "red"}, {"label": "blue"}]}


@pytest.mark.parametrize(
    ("asked", "line", "given"),
    [
        (COLOURS, "2", {"selected": ["blue"]}),
        (COLOURS, "red", {"selected": ["red"]}),
        ({**COLOURS, "multiple": True}, "2, 1,2", {"selected": ["blue", "red"]}),
        ({**COLOURS, "free_text": True}, "green", {"selected": [], "text": "green"}),
        ({**COLOURS, "default": "red"}, "", {"selected": ["red"]}),
        ({"type": "text"}, "some words", {"selected": [], "text": "some words"}),
        ({"type": "url"}, "http://x", {"selected": [], "text": "http://x"}),
        ({"type": "integer"}, "7", {"selected": [], "value": 7}),
        ({"type": "number"}, "1.5", {"selected": [], "value": 1.5}),
        ({"type": "boolean"}, "n", {"selected": [], "value": False}),
        ({"type": "integer", "default": 3}, "", {"selected": [], "value": 3}),
    ],
)
def test_a_line_answers_a_question_in_the_apis_shape(asked: dict[str, Any], line: str, given: dict[str, Any]) -> None:
    assert answer(question(asked), line, {}) == Post("/v1/questions/ques_1", {"answers": {"q1": given}})


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (COLOURS, "3"),
        (COLOURS, "green"),
        (COLOURS, "1,2"),
        ({"type": "integer"}, "x"),
        ({"type": "boolean"}, "maybe"),
        ({"type": "text", "required": True}, ""),
    ],
)
def test_a_line_that_is_no_answer_says_what_would_be_one(asked: dict[str, Any], line: str) -> None:
    assert isinstance(answer(question(asked), line, {}), Unclear)


def test_several_questions_are_asked_one_after_another() -> None:
    item = question(COLOURS, {"type": "text", "text": "why?"}, {"type": "text", "text": "else?"})
    first = answer(item, "1", {})
    assert first == More({"q1": {"selected": ["red"]}})
    assert isinstance(first, More)
    assert "why?" in prompt(item, first.answers)
    second = answer(item, "", first.answers)
    assert isinstance(second, More)
    assert answer(item, "no", second.answers) == Post(
        "/v1/questions/ques_1", {"answers": {"q1": {"selected": ["red"]}, "q3": {"selected": [], "text": "no"}}}
    )


def test_a_question_can_be_given_back_or_refused() -> None:
    assert answer(question(COLOURS), "/agent", {}) == Post("/v1/questions/ques_1", {"agent_decides": True})
    assert answer(question(COLOURS), "/decline not mine", {}) == Post("/v1/questions/ques_1", {"declined": True, "reason": "not mine"})
