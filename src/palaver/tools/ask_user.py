"""`ask_user`: questions to the person. Its only effect is `question_asked`; the answer comes back as its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.wire.values import Answer, AnswerCause, Question, QuestionOption, ToolCall, ToolResult

_HEADER = 30
_TITLE = 80


class OptionArguments(Arguments, frozen=True, kw_only=True):
    label: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    preview: str | None = None


class QuestionArguments(Arguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, description="The question, whole.")]
    header: Annotated[str, Meta(description="Two or three words that name it.")] | None = None
    id: Annotated[str, Meta(min_length=1)] | None = None
    type: Literal["choice", "text", "number", "integer", "boolean", "url"] | None = None
    options: Annotated[list[str | OptionArguments], Meta(max_length=20)] = msgspec.field(default_factory=list)
    multiple: Annotated[bool, Meta(description="More than one may be chosen.")] = False
    free_text: Annotated[bool, Meta(description="Own words are always taken.")] | None = None
    required: bool | None = None
    default: Annotated[Any, Meta(description="The answer if nobody gives one: an option's label, else a value of the type.")] = None


class AskUserArguments(Arguments, frozen=True, kw_only=True):
    questions: Annotated[list[QuestionArguments], Meta(min_length=1, max_length=4)]


class AskUser:
    """Asks one to four questions at once."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "ask_user",
            "Ask the person one to four questions at once, when only they can decide; the answers are this call's result. Give options "
            "where you can, the one you would choose first, each with what it would mean. They may always answer in their own words, "
            "leave it to you, or decline. State a default for what may go on without them: it counts where nobody answers in time.",
            schema_of(AskUserArguments),
            ToolKind.ASK,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        questions = to_questions(arguments(call, AskUserArguments).questions)
        first = questions[0].text.strip().split("\n")[0]
        title = first if len(first) <= _TITLE else first[: _TITLE - 1] + "…"
        return Description(title=title, questions=questions)

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        raise ToolFailed("A question has no effect to run: it is asked, and its answer is its result.")


def to_questions(asked: Sequence[QuestionArguments]) -> tuple[Question, ...]:
    """As the wire has them. Raises `ToolFailed("invalid_arguments")` for two questions or options of one name, and the like."""
    given = [question.id for question in asked if question.id is not None]
    if len(set(given)) != len(given):
        raise refuse("ask_user: two questions have the same id. Leave the ids out.")
    free = iter(name for number in range(1, 10) if (name := f"q{number}") not in given)
    return tuple(_question(question, question.id or next(free)) for question in asked)


def _question(asked: QuestionArguments, name: str) -> Question:
    options = tuple(_option(option) for option in asked.options)
    labels = [option.label for option in options]
    kind = asked.type or ("choice" if options else "text")
    if not asked.text.strip() or not all(label.strip() for label in labels):
        raise refuse("ask_user: a question or an option is blank. Give each its words.")
    if kind == "choice" and not options:
        raise refuse(f"ask_user: the question {asked.text[:60]!r} is a choice without options. Add options, or leave type out.")
    if kind != "choice" and options:
        raise refuse(f"ask_user: the question {asked.text[:60]!r} has options, so its type is choice. Leave type out.")
    if len(set(labels)) != len(labels):
        raise refuse(f"ask_user: the question {asked.text[:60]!r} has two options of the same label. Give each its own.")
    if asked.default is not None and not _is_answer(asked, kind, labels):
        raise refuse(f"ask_user: the default of {asked.text[:60]!r} is no answer to it: {asked.default!r}. Give {_DEFAULTS[kind]}.")
    return Question(
        id=name,
        header=asked.header or asked.text.strip().split("\n")[0][:_HEADER],
        text=asked.text,
        type=kind,
        options=options,
        multiple=asked.multiple and kind == "choice",
        free_text=True,
        required=asked.required,
        default=asked.default,
    )


_DEFAULTS = {
    "choice": "the label of an option",
    "text": "text",
    "url": "an address",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
}


def _is_answer(asked: QuestionArguments, kind: str, labels: Sequence[str]) -> bool:
    match kind, asked.default:
        case "choice", list() as chosen:
            return asked.multiple and bool(chosen) and all(label in labels for label in chosen)
        case "choice", chosen:
            return chosen in labels
        case "boolean", default:
            return isinstance(default, bool)
        case "number", default:
            return isinstance(default, int | float) and not isinstance(default, bool)
        case "integer", default:
            return isinstance(default, int) and not isinstance(default, bool)
        case _, default:
            return isinstance(default, str)


def default_of(question: Question) -> Answer:
    """The stated default as an answer."""
    match question.type, question.default:
        case "choice", list() as chosen:
            return Answer(tuple(chosen))
        case "choice", chosen:
            return Answer((chosen,))
        case "text" | "url", text:
            return Answer(text=text)
        case _, value:
            return Answer(value=value)


def _option(asked: str | OptionArguments) -> QuestionOption:
    if isinstance(asked, str):
        return QuestionOption(asked)
    return QuestionOption(asked.label, asked.description, asked.preview)


_WITHOUT_ANSWER: dict[AnswerCause, str] = {
    "agent_decides": "The person leaves this to you. Decide yourself, and say what you chose.",
    "declined": "The person does not want to answer. Do not ask this again; go on without it, or stop and say what is missing.",
    "expired": "Nobody answered in time. Go on with what is safe, or stop and say what is missing.",
    "cancelled": "The question was withdrawn before it was answered.",
}


def answer_text(questions: Sequence[Question], answers: Mapping[str, Answer] | None, cause: AnswerCause, reason: str | None = None) -> str:
    """What the model reads as the result of its question."""
    if cause in _WITHOUT_ANSWER:
        return _WITHOUT_ANSWER[cause] + (f" The reason given: {reason}" if reason else "")
    head = "Nobody answered in time; these are the defaults:" if cause == "default" else "The person answered:"
    given = answers or {}
    return "\n".join([head, *(f"- {question.text}\n  {_words(given.get(question.id))}" for question in questions)])


def _words(answer: Answer | None) -> str:
    if answer is None:
        return "(no answer)"
    words = list(answer.selected)
    if not isinstance(answer.value, msgspec.UnsetType):
        words.append(answer.value if isinstance(answer.value, str) else msgspec.json.encode(answer.value).decode())
    chosen = ", ".join(words)
    if isinstance(answer.text, str) and answer.text:
        chosen = f"{chosen}; in their words: {answer.text}" if chosen else answer.text
    return chosen.replace("\n", "\n  ") or "(no answer)"


__all__ = ["AskUser", "AskUserArguments", "answer_text", "default_of", "to_questions"]
