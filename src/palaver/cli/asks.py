"""What waits for a person, shown whole, and the lines that answer it.

Pure: an ask is the inbox's item, an answer is a body for the daemon. Nothing is shortened, folded or obeyed here, since somebody
decides on what it says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from palaver.views.visible import visible

Item = dict[str, Any]


class Post(NamedTuple):
    """An answer on its way: where it goes and what it says."""

    path: str
    body: dict[str, Any]


class Unclear(NamedTuple):
    """A line that answers nothing, and why."""

    says: str


class More(NamedTuple):
    """One question is answered, and another one of the same ask comes next."""

    answers: dict[str, Any]


Reply = Post | Unclear | More

_LETTERS = {"y": ("approve", "once"), "s": ("approve", "session"), "w": ("approve", "workspace"), "n": ("deny", "once")}
_FACTS = (("command", "command"), ("network", "network"), ("diff", "changes"))


def item_of(envelope: dict[str, Any]) -> Item:
    """The inbox's item for an `approval_requested` or a `question_asked`, as far as the event alone tells."""
    data = envelope["data"]
    is_question = envelope["type"] == "question_asked"
    kind = "question" if is_question else {"tool": "approval"}.get(data["subject"], data["subject"])
    return {
        "id": data["question_id" if is_question else "approval_id"],
        "kind": kind,
        "session_id": envelope["session_id"],
        "turn_id": envelope["turn_id"],
        "requested_at": envelope["ts"],
        "data": data,
    }


def card(item: Item) -> str:
    """The whole ask as lines, but for its questions: those come one by one, by `prompt`."""
    data = item["data"]
    lines = [f"? {_heading(item)}"]
    if item["kind"] != "question":
        preview = data.get("preview") or {}
        lines += [line for key, name in _FACTS if preview.get(key) for line in _field(name, preview[key])]
        lines += [line for path in preview.get("paths") or () for line in _field("path", path)]
        if not any(preview.get(key) for key, _ in _FACTS) and data.get("tool_call"):
            lines += _field("input", _plain(data["tool_call"]["input"]))
    if data.get("reason"):
        lines += _field("in the agent's words", data["reason"])
    if item.get("deadline") or data.get("deadline"):
        lines += _field("until", item.get("deadline") or data["deadline"])
    return "\n".join(lines)


def prompt(item: Item, answers: dict[str, Any]) -> str:
    """What may be typed now; `answers` are those given so far to an ask of several questions."""
    if item["kind"] != "question":
        return "\n".join([*(_option(number, option) for number, option in enumerate(_options(item), 1)), _keys(item)])
    question = _next_question(item, answers)
    lines = _field(_inline(question["header"]) or "asked", question["text"])
    for number, option in enumerate(question["options"], 1):
        says = f"  {_inline(option['description'])}" if option.get("description") else ""
        lines.append(f"  {number}  {_inline(option['label'])}{says}")
        if option.get("preview"):
            lines += _field("preview", option["preview"])
    return "\n".join([*lines, f"  [{_how(question)}]  /agent lets the agent decide, /decline refuses"])


def answer(item: Item, line: str, answers: dict[str, Any]) -> Reply:
    """What `line` says to the ask. Only exact words count, so that typing on never approves anything."""
    line = line.strip()
    return _answer_question(item, line, answers) if item["kind"] == "question" else _answer_approval(item, line)


def _heading(item: Item) -> str:
    data = item["data"]
    where = f"  in {_inline(item['session_title'])}" if item.get("session_title") else ""
    if item["kind"] == "question":
        return f"a question{where}  ({item['id']})"
    call = data.get("tool_call")
    what = _inline(call["name"]) if call else item["kind"]
    subject = "" if item["kind"] == "approval" else f"{item['kind']}: "
    return f"may it? {subject}{what} [{_inline(data['kind'])}]{where}  ({item['id']})"


def _inline(text: str) -> str:
    """For what must not begin a line of its own: a name or a label that holds a line end could pass for the rest of the card."""
    return visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def _field(name: str, text: str) -> list[str]:
    """Lines of the text stand deeper than the names of fields, so none of them can pass for one."""
    shown = visible(text).split("\n")
    if len(shown) == 1:
        return [f"  {name}: {shown[0]}"]
    return [f"  {name}:", *(f"    {line}" for line in shown)]


def _plain(value: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _options(item: Item) -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = list(item["data"].get("options") or ())
    return options


def _option(number: int, option: dict[str, Any]) -> str:
    rule = option.get("rule")
    stored = f"  remembers {_inline(_rule(rule))}" if rule else ""
    return f"  {number}  {_inline(option['label'])}{stored}"


def _rule(rule: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in rule.items() if key != "id" and value not in (None, False))


def _keys(item: Item) -> str:
    words = {"y": "y once", "s": "s this session", "w": "w this workspace", "n": "n [note] deny"}
    offered = [word for letter, word in words.items() if _by_letter(item, letter) is not None]
    return f"  [{' · '.join(offered)} · or a number]"


def _by_letter(item: Item, letter: str) -> dict[str, Any] | None:
    action, scope = _LETTERS[letter]
    for option in _options(item):
        if option["action"] == action and (action == "deny" or option["scope"] == scope):
            return option
    return None


def _answer_approval(item: Item, line: str) -> Reply:
    word, _, note = line.partition(" ")
    options = _options(item)
    if word.isdecimal() and not note:
        if not 1 <= int(word) <= len(options):
            return Unclear(f"There is no option {word}.")
        chosen = options[int(word) - 1]
    elif word in _LETTERS and (word == "n" or not note):
        offered = _by_letter(item, word)
        if offered is None:
            return Unclear(f"{word} is not offered here.")
        chosen = offered
    else:
        return Unclear("That answers nothing.")
    body = {"action": chosen["action"], "scope": chosen["scope"], "option_id": chosen["id"]}
    if note.strip():
        body["reason"] = note.strip()
    return Post(f"/v1/approvals/{item['id']}", body)


def _next_question(item: Item, answers: dict[str, Any]) -> dict[str, Any]:
    question: dict[str, Any] = next(one for one in item["data"]["questions"] if one["id"] not in answers)
    return question


def _how(question: dict[str, Any]) -> str:
    words = {"text": "some text", "number": "a number", "integer": "a whole number", "boolean": "y or n", "url": "an address"}
    if question["type"] != "choice":
        how = words[question["type"]]
    else:
        how = "numbers, with commas between them" if question["multiple"] else "a number"
        how += " or words of your own" if question["free_text"] else ""
    if question.get("default") is not None:
        return f"{how}; Enter for {_inline(str(question['default']))}"
    return how if question.get("required") else f"{how}; Enter for none"


def _answer_question(item: Item, line: str, answers: dict[str, Any]) -> Reply:
    path = f"/v1/questions/{item['id']}"
    if line == "/agent":
        return Post(path, {"agent_decides": True})
    if line == "/decline" or line.startswith("/decline "):
        reason = line.removeprefix("/decline").strip()
        return Post(path, {"declined": True, **({"reason": reason} if reason else {})})
    question = _next_question(item, answers)
    given = _given(question, line)
    if isinstance(given, Unclear):
        return given
    now = {**answers, question["id"]: given}
    if len(now) < len(item["data"]["questions"]):
        return More(now)
    return Post(path, {"answers": {key: value for key, value in now.items() if value is not None}})


def _given(question: dict[str, Any], line: str) -> dict[str, Any] | Unclear | None:
    """One answer in the API's shape; None for a question that was left out."""
    default = question.get("default")
    if not line:
        if default is not None:
            return _default(question, default)
        return Unclear("This one needs an answer.") if question.get("required") else None
    match question["type"]:
        case "choice":
            return _chosen(question, line)
        case "boolean" if line.lower() in ("y", "yes", "n", "no"):
            return {"selected": [], "value": line.lower().startswith("y")}
        case "boolean":
            return Unclear("Type y or n.")
        case "integer" | "number" as kind:
            try:
                return {"selected": [], "value": int(line) if kind == "integer" else float(line)}
            except ValueError:
                return Unclear(f"{line!r} is not {'a whole number' if kind == 'integer' else 'a number'}.")
        case _:
            return {"selected": [], "text": line}


def _default(question: dict[str, Any], default: Any) -> dict[str, Any]:
    if question["type"] == "choice":
        return {"selected": list(default) if isinstance(default, list) else [str(default)]}
    key = "text" if question["type"] in ("text", "url") else "value"
    return {"selected": [], key: default}


def _chosen(question: dict[str, Any], line: str) -> dict[str, Any] | Unclear:
    labels = [option["label"] for option in question["options"]]
    words = [word.strip() for word in line.split(",")]
    if all(word.isdecimal() and 1 <= int(word) <= len(labels) for word in words):
        picked = [labels[int(word) - 1] for word in words]
    elif line in labels:
        picked = [line]
    elif question["free_text"]:
        return {"selected": [], "text": line}
    else:
        return Unclear(f"Type {_how(question)}.")
    if len(picked) > 1 and not question["multiple"]:
        return Unclear("Only one of them can be chosen.")
    return {"selected": list(dict.fromkeys(picked))}
