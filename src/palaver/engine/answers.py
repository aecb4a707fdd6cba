"""Whether an answer to a question is one: of its options, of its type, and there where it must be."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from palaver.errors import Invalid
from palaver.wire.events import QuestionAsked
from palaver.wire.values import Answer, Question

_VALUES: dict[str, tuple[tuple[type, ...], str]] = {
    "number": ((int, float), "a number"),
    "integer": ((int,), "a whole number"),
    "boolean": ((bool,), "true or false"),
}
"""What `value` is, for the types that words do not answer."""


def check_answers(asked: QuestionAsked, answers: Mapping[str, Answer]) -> None:
    """Raises `Invalid`, with the place of the first thing that is wrong."""
    known = {question.id: question for question in asked.questions}
    for id, answer in answers.items():
        question = known.get(id)
        if question is None:
            raise Invalid(f"There is no question {id!r} here. Answer: {', '.join(known)}.", path=f"answers.{id}")
        _check_chosen(question, answer)
        _check_value(question, answer)
    for question in asked.questions:
        if question.required and not _says_something(answers.get(question.id)):
            raise Invalid(f"The question {question.header!r} needs an answer. Answer it, or decline.", path=f"answers.{question.id}")


def _check_chosen(question: Question, answer: Answer) -> None:
    path = f"answers.{question.id}.selected"
    labels = {option.label: None for option in question.options}
    wrong = [label for label in answer.selected if label not in labels]
    if wrong:
        raise Invalid(f"{wrong[0]!r} is none of the options: {', '.join(labels)}.", path=path)
    if len(answer.selected) > 1 and not question.multiple:
        raise Invalid("Only one option can be chosen here. Send one.", path=path)
    if isinstance(answer.text, str) and answer.text and question.type == "choice" and not question.free_text:
        raise Invalid(f"This question takes one of its options only: {', '.join(labels)}.", path=f"answers.{question.id}.text")


def _check_value(question: Question, answer: Answer) -> None:
    """Their own words are always an answer; what is sent as `value` is one of the type."""
    if question.type not in _VALUES or not _says_something(answer) or (isinstance(answer.text, str) and answer.value is UNSET):
        return
    types, words = _VALUES[question.type]
    if not isinstance(answer.value, types) or (isinstance(answer.value, bool) and bool not in types):
        raise Invalid(f"The answer to {question.header!r} is {words}. Send it as `value`.", path=f"answers.{question.id}.value")


def _says_something(answer: Answer | None) -> bool:
    if answer is None:
        return False
    return bool(answer.selected or (isinstance(answer.text, str) and answer.text) or answer.value not in (None, "", UNSET))
