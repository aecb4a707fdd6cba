from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tool_bench import Bench

from palaver.errors import ToolFailed
from palaver.tools.ask_user import answer_text, default_of
from palaver.wire.values import Answer, AnswerCause, Question, QuestionOption


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _questions(bench: Bench, *asked: dict[str, Any]) -> tuple[Question, ...]:
    return bench.describe("ask_user", questions=list(asked)).questions


def test_a_question_with_options_is_a_choice_that_takes_free_text_too(bench: Bench) -> None:
    (question,) = _questions(
        bench, {"text": "Which one?", "options": ["A", {"label": "B", "description": "the second"}], "free_text": False}
    )
    assert question == Question(
        id="q1",
        header="Which one?",
        text="Which one?",
        type="choice",
        options=(QuestionOption("A"), QuestionOption("B", "the second")),
        multiple=False,
        free_text=True,
    )


def test_a_question_without_options_is_text(bench: Bench) -> None:
    first, second, third = _questions(
        bench, {"text": "Name?", "header": "Name"}, {"id": "q1", "text": "How many?", "type": "integer", "default": 3}, {"text": "More?"}
    )
    assert (first.id, first.header, first.type, first.free_text) == ("q2", "Name", "text", True)
    assert (second.id, second.type, second.default, second.free_text) == ("q1", "integer", 3, True)
    assert third.id == "q3"


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"text": "a"}] * 5,
        [{"text": " "}],
        [{"text": "a", "options": ["x", "x"]}],
        [{"text": "a", "options": [" "]}],
        [{"text": "a", "type": "choice"}],
        [{"text": "a", "type": "number", "options": ["1"]}],
        [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}],
        [{"question": "a"}],
        [{"text": "a", "options": ["x"], "default": "y"}],
        [{"text": "a", "options": ["x", "y"], "default": ["x", "y"]}],
        [{"text": "a", "options": ["x", "y"], "multiple": True, "default": ["x", "z"]}],
        [{"text": "a", "type": "integer", "default": 1.5}],
        [{"text": "a", "type": "number", "default": True}],
        [{"text": "a", "type": "boolean", "default": "yes"}],
        [{"text": "a", "default": 3}],
        ["a"],
        "a",
    ],
)
def test_questions_that_make_no_sense_are_refused(bench: Bench, questions: object) -> None:
    with pytest.raises(ToolFailed) as caught:
        bench.describe("ask_user", questions=questions)
    assert caught.value.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"options": ["x", "y"], "default": "y"}, Answer(("y",))),
        ({"options": ["x", "y"], "multiple": True, "default": ["y", "x"]}, Answer(("y", "x"))),
        ({"type": "integer", "default": 3}, Answer(value=3)),
        ({"type": "number", "default": 0}, Answer(value=0)),
        ({"type": "boolean", "default": False}, Answer(value=False)),
        ({"type": "url", "default": "http://x"}, Answer(text="http://x")),
        ({"default": "blue"}, Answer(text="blue")),
    ],
)
def test_a_stated_default_is_an_answer(bench: Bench, asked: dict[str, Any], answer: Answer) -> None:
    """It counts where nobody answers in time."""
    (question,) = _questions(bench, {"text": "Which?", **asked})
    assert default_of(question) == answer


def test_it_has_no_effect_to_run(bench: Bench) -> None:
    assert "is asked" in bench.fails("ask_user", questions=[{"text": "a"}])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(selected=("A", "B")), "A, B"),
        (Answer(text="neither\nof them"), "neither\n  of them"),
        (Answer(selected=("A",), text="mostly"), "A; in their words: mostly"),
        (Answer(value=3), "3"),
        (Answer(value="http://x"), "http://x"),
        (Answer(value=False), "false"),
        (Answer(), "(no answer)"),
        (None, "(no answer)"),
    ],
)
def test_an_answer_is_told_to_the_model(bench: Bench, answer: Answer | None, words: str) -> None:
    questions = _questions(bench, {"text": "Which?", "options": ["A", "B"]})
    answers = {} if answer is None else {"q1": answer}
    assert answer_text(questions, answers, "user") == f"The person answered:\n- Which?\n  {words}"


@pytest.mark.parametrize(
    ("cause", "begins"),
    [
        ("agent_decides", "The person leaves this to you."),
        ("declined", "The person does not want to answer."),
        ("expired", "Nobody answered in time. Go on"),
        ("cancelled", "The question was withdrawn"),
        ("default", "Nobody answered in time; these are the defaults:\n- Which?\n  A"),
    ],
)
def test_every_way_that_a_question_ends_has_its_words(bench: Bench, cause: AnswerCause, begins: str) -> None:
    questions = _questions(bench, {"text": "Which?", "options": ["A", "B"]})
    assert answer_text(questions, {"q1": Answer(selected=("A",))}, cause).startswith(begins)


def test_a_reason_for_declining_reaches_the_model() -> None:
    assert answer_text((), None, "declined", "not now").endswith("The reason given: not now")
