"""What no compaction may lose, folded from the whole log: what was decided, what is still open, what was changed and asked for.

It does not rest on what a model writes about the conversation, and it is folded from the events themselves, so it is as true after the
hundredth summary as after the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from palaver.models.tokens import estimate
from palaver.wire import events as e
from palaver.wire.codec import encode
from palaver.wire.values import Message, Plan, Question

_LONGEST = 320
"""Characters of one line."""
_LONGEST_REQUEST = 4_000
_KEPT = 400
"""Lines of one kind that are remembered."""
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_DECIDES = re.compile(
    r"\b(decid\w+|decision\w*|agreed?|agreement|always|never|must(?:n't)?|from now on|remember|keep in mind|important\w*|prefer\w*"
    r"|insist\w*|require[sd]?|instead of|rather than|do not|don't|we(?:'ll| will| shall)|let's|chose|chosen|choose|settled|forbidden"
    r"|only use)\b",
    re.IGNORECASE,
)
_IS_OPEN = re.compile(
    r"\b(open (?:work|task|question|point|item|issue)s?|to-?do|still (?:to|open|missing|needs?|left)|remain(?:s|ing)|left to do"
    r"|next steps?|not (?:yet )?done|unfinished|later|follow-?ups?)\b",
    re.IGNORECASE,
)


@dataclass
class Pins:
    """Fed with every event, in order (`take`). Changed in place."""

    decided: dict[str, None] = field(default_factory=dict)
    """In order; a line that comes again stands where it came last."""
    open: dict[str, None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The person's messages, their beginnings."""
    changed: dict[str, None] = field(default_factory=dict)
    plan: Plan | None = None
    _questions: dict[str, Sequence[Question]] = field(default_factory=dict)
    current: str = ""
    """What the turn that runs, or ran last, was asked."""
    _unread: dict[str, str] = field(default_factory=dict)

    def take(self, recorded: e.Recorded) -> None:
        event = recorded.data
        match event:
            case e.MessageAdded(message=message):
                self._heard(message)
            case e.TurnStarted(message_ids=ids):
                self.current = "\n".join(self._unread[id] for id in ids if id in self._unread)
                self._unread.clear()
            case e.ModelOutputCompleted(message=message):
                self._note(self.open, filter(_IS_OPEN.search, _sentences(message)))
            case e.QuestionAsked(question_id=id, questions=questions):
                self._questions[id] = questions
            case e.QuestionAnswered():
                self._answered(event)
            case e.ApprovalGranted(tool_call=call) if call is not None and (event.reason or event.input is not None):
                changed = f" with the input changed to {encode(event.input).decode()}" if event.input is not None else ""
                self._note(self.decided, [f"{call.name} was approved{changed}{_because(event.reason)}"])
            case e.ApprovalDenied(tool_call=call, cause="user") if call is not None:
                self._note(self.decided, [f"{call.name} was denied by the person{_because(event.reason)}"])
            case e.PlanUpdated(plan=plan):
                self.plan = plan
            case e.FilesChanged(files=files):
                self._note(self.changed, [file.path for file in files])

    def _heard(self, message: Message) -> None:
        if message.role != "user":
            return
        sentences = list(_sentences(message))
        self._unread[message.id] = "\n".join(part.text for part in message.parts if part.text)[:_LONGEST_REQUEST]
        self._note(self.decided, filter(_DECIDES.search, sentences))
        self._note(self.open, filter(_IS_OPEN.search, sentences))
        if sentences:
            self.asked = [*self.asked[1 - _KEPT :], _line(" ".join(sentences))]

    def _answered(self, event: e.QuestionAnswered) -> None:
        asked = {question.id: question for question in self._questions.pop(event.question_id, ())}
        for id, answer in (event.answers or {}).items():
            value = None if answer.value is None else str(answer.value)
            said = ", ".join([*answer.selected, *(one for one in (answer.text, value) if one)])
            question = asked[id].text if id in asked else id
            self._note(self.decided, [f"Asked: {question} Answered: {said}"])

    @staticmethod
    def _note(lines: dict[str, None], more: Iterable[str]) -> None:
        for line in map(_line, more):
            lines.pop(line, None)
            lines[line] = None
        while len(lines) > _KEPT:
            del lines[next(iter(lines))]

    def text(self, room: int) -> str:
        """All of it in about so many tokens: open work and decisions before what was changed and asked."""
        items = self.plan.items if self.plan else ()
        plan = [f"[{item.status}] {item.text}" for item in items if item.status in ("pending", "in_progress")]
        done = [item.text for item in items if item.status == "done"]
        sections = [
            ("Open work", [*plan, *reversed(self.open)], 0.3),
            ("Decided, word for word", _from_both_ends(list(self.decided)), 0.6),
            ("Done of the plan", list(reversed(done)), 0.5),
            ("Files changed", list(reversed(self.changed)), 0.5),
            ("What the person asked for, latest last", list(reversed(self.asked)), 1.0),
        ]
        told = []
        if self.current and (most := int(room * 0.3 * 3)) > 80:
            current = self.current if len(self.current) <= most else f"{self.current[:most]}…"
            told.append(f"## What is being worked on, as it was asked\n{current}")
            room -= estimate(told[0])
        for title, lines, share in sections:
            taken, cost = _fitting(lines, int(room * share))
            room -= cost
            if taken:
                ordered = taken[::-1] if title.startswith("What") else taken
                told.append(f"## {title}\n" + "\n".join(f"- {line}" for line in ordered))
        return "\n\n".join(told)


def _fitting(lines: Iterable[str], room: int) -> tuple[list[str], int]:
    """The first of the lines that fit, and what they cost."""
    taken, cost = list[str](), 12
    for line in lines:
        price = estimate(line) + 2
        if cost + price > room:
            break
        taken.append(line)
        cost += price
    return taken, cost if taken else 0


def _from_both_ends(lines: list[str]) -> list[str]:
    """The first, the last, the second, …: where not all fit, what was laid down at the start and what is newest stay."""
    ends = [line for pair in zip(lines, reversed(lines), strict=True) for line in pair]
    return list(dict.fromkeys(ends))


def _sentences(message: Message) -> Iterable[str]:
    for part in message.parts:
        if part.type == "text" and part.text:
            yield from (sentence for one in _SENTENCE.split(part.text[:16_000]) if (sentence := one.strip()))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else "."


__all__ = ["Pins"]
