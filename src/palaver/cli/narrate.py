"""A session's events told in lines: text as it streams, a line for each call, a line for each end.

A fold without clock or screen. It takes logged envelopes and pieces of the tail alike and never tells a character twice: a piece
counts only for what lies beyond what was told of its part. Asks are not told here; `asks` shows them whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palaver.cli.screen import Said, one_line
from palaver.views.visible import visible

Envelope = dict[str, Any]


class Narrator:
    def __init__(self, *, tell_messages: bool = True) -> None:
        self._tell_messages = tell_messages
        """Whether input is told; who has just typed it need not read it again."""
        self._told: dict[str, int] = {}
        self._parts: dict[str, list[str]] = {}
        """The parts told of each open message."""
        self._last_part = ""
        self._calls: dict[str, dict[str, Any]] = {}
        self._paused = False

    def take(self, envelope: Envelope) -> list[Said]:
        """What to print now. A type that has no line is skipped, and so is one that this version does not know."""
        teller = _TELLERS.get(envelope["type"])
        return [] if teller is None else teller(self, envelope)

    def _delta(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        return self._text(data["message_id"], data["part_id"], data["kind"], data["offset"], data["text"], "seq" in envelope)

    def _text(self, message_id: str, part_id: str, kind: str, offset: int, text: str, logged: bool) -> list[Said]:
        told = self._told.get(part_id, 0)
        missed = offset > told
        if missed and not logged:
            return []
        new = text if missed else text[told - offset :]
        if not new:
            return []
        said: list[Said] = []
        if self._last_part not in ("", part_id):
            said.append(Said("end"))
        if missed:
            new_told = offset + len(text)
            new = f"…{new}"
        else:
            new_told = told + len(new)
        self._last_part = part_id
        self._told[part_id] = new_told
        self._parts.setdefault(message_id, []).append(part_id)
        return [*said, Said("thinking" if kind == "thinking" else "text", visible(new, prose=True))]

    def _completed(self, envelope: Envelope) -> list[Said]:
        message = envelope["data"]["message"]
        said: list[Said] = []
        for part in message["parts"]:
            if part["type"] in ("text", "thinking"):
                text = part.get("text") or ""
                if self._told.get(part["id"], 0) > len(text):
                    said += [Said("end"), Said("bad", "⚠ the end of this text was not saved before the daemon stopped")]
                said += self._text(message["id"], part["id"], part["type"], 0, text, True)
        if message.get("interrupted"):
            said += [Said("end"), Said("bad", "⚠ interrupted")]
        self._forget(message["id"])
        return [*said, Said("end")]

    def _discarded(self, envelope: Envelope) -> list[Said]:
        told = bool(self._parts.get(envelope["data"]["message_id"]))
        self._forget(envelope["data"]["message_id"])
        return [Said("end"), Said("note", "… the answer begins anew")] if told else []

    def _forget(self, message_id: str) -> None:
        for part_id in self._parts.pop(message_id, []):
            self._told.pop(part_id, None)
        self._last_part = ""

    def _message(self, envelope: Envelope) -> list[Said]:
        message = envelope["data"]["message"]
        if not self._tell_messages:
            return []
        author = message["author"]
        who = author.get("name") or {"user": "you"}.get(author["kind"], author["kind"])
        parts = [part.get("text") or f"[{part['type']}: {part.get('name') or part.get('ref', '')}]" for part in message["parts"]]
        return [Said("person", f"{one_line(who)}: {visible(' '.join(parts), prose=True)}")]

    def _started(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        self._calls[data["tool_call"]["id"]] = data
        return []

    def _title(self, call: dict[str, Any]) -> str:
        known = self._calls.get(call["id"])
        name = one_line(call["name"])
        title = one_line(known["title"]) if known else ""
        return title if title.startswith(name) else f"{name} {title}".rstrip()

    def _running(self, envelope: Envelope) -> list[Said]:
        known = self._calls.get(envelope["data"]["tool_call_id"])
        if known is None or known["kind"] == "read":
            return []  # over before anybody has read the line
        return [Said("note", f"▸ {self._title(known['tool_call'])}")]

    def _ended(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        title = self._title(data["tool_call"])
        self._calls.pop(data["tool_call"]["id"], None)
        result = data["tool_result"]
        marks = "  (shortened)" if result.get("truncated") else ""
        if result["ok"]:
            return [Said("good", f"✓ {title}  {_duration(data['duration_ms'])}{marks}")]
        error = result.get("error") or {"code": "tool_error", "message": ""}
        mark = "⚠" if error["code"] == "tool_interrupted" else "✗"
        return [Said("bad", f"{mark} {title}  {one_line(error['code'])}: {one_line(error['message'])}{marks}")]

    def _granted(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        return [Said("good", f"✓ allowed ({data['scope']}) by {one_line(data['by'])}{_reason(data)}")]

    def _denied(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        how = {"expired": "nobody answered in time", "cancelled": "no longer asked"}.get(data["cause"])
        return [Said("bad", f"✗ {how or 'denied by ' + one_line(data['by'])}{_reason(data)}")]

    def _answered(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        if data["cause"] not in ("user", "default"):
            return [Said("note", f"? {data['cause'].replace('_', ' ')}{_reason(data)}")]
        given = [", ".join([*one.get("selected", []), *_also(one)]) for one in (data.get("answers") or {}).values()]
        return [Said("good", f"✓ answered by {one_line(data['by'])}: {one_line('; '.join(given))}")]

    def _queue(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        was, self._paused = self._paused, data["paused"]
        new = [Said("note", f"+ queued: {one_line(_words(item['message']))}") for item in data["items"] if item.get("message")]
        if data["paused"] and not was:
            reason = f" ({one_line(data['reason'])})" if data.get("reason") else ""
            new.append(Said("note", f"the queue is paused{reason}"))
        return new

    def _plan(self, envelope: Envelope) -> list[Said]:
        marks = {"pending": "·", "in_progress": "▸", "done": "✓", "dropped": "–"}
        items = envelope["data"]["plan"]["items"]
        return [Said("note", f"  {marks.get(item['status'], '·')} {one_line(item['text'])}") for item in items]

    def _files(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        files = [f"{one_line(file['path'])} +{file['added']} −{file['removed']}" for file in data["files"]]
        more = [f"and {data['truncated_count']} more"] if data.get("truncated_count") else []
        return [Said("note", f"changed: {', '.join([*files, *more])}")] if files else []

    def _verified(self, envelope: Envelope) -> list[Said]:
        ok = envelope["data"]["ok"]
        return [Said("good" if ok else "bad", "✓ verified" if ok else "✗ the verification failed")]

    def _notice(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        return [Said("bad" if data["level"] == "error" else "note", f"! {one_line(data['text'])}")]

    def _fallback(self, envelope: Envelope) -> list[Said]:
        data = envelope["data"]
        return [Said("note", f"! {one_line(data['actual'])} answers instead of {one_line(data['preferred'])}: {one_line(data['reason'])}")]

    def _spawned(self, envelope: Envelope) -> list[Said]:
        return [Said("note", f"▸ {one_line(envelope['data']['agent'])} begins: {one_line(envelope['data']['task'])}")]

    def _closed(self, envelope: Envelope) -> list[Said]:
        return [Said("note", f"closed by {one_line(envelope['data']['by'])}")]

    def _deleted(self, envelope: Envelope) -> list[Said]:
        return [Said("end"), Said("bad", "this conversation was deleted")]

    def _turn_ended(self, envelope: Envelope) -> list[Said]:
        return [Said("end"), turn_end(envelope["data"])]


def turn_end(data: dict[str, Any]) -> Said:
    """One line for the end of a turn."""
    usage, cost = data["usage"], data.get("cost")
    facts = [_duration(data["duration_ms"]), f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"]
    if cost:
        facts.append(f"{cost['amount']:.4g} {one_line(cost['currency'])}")
    tail = " · ".join(facts)
    error = data.get("error")
    match data["outcome"]:
        case "completed":
            return Said("note", f"— done · {tail}")
        case "cancelled":
            return Said("bad", f"— cancelled · {tail}")
        case outcome:
            why = f": {one_line(error['message'])} ({one_line(error['code'])})" if error else ""
            return Said("bad", f"— {one_line(outcome)}{why} · {tail}")


def _words(message: dict[str, Any]) -> str:
    return " ".join(part.get("text") or f"[{part['type']}]" for part in message["parts"])


def _also(answer: dict[str, Any]) -> list[str]:
    return [str(answer[key]) for key in ("text", "value") if answer.get(key) not in (None, "")]


def _reason(data: dict[str, Any]) -> str:
    return f": {one_line(data['reason'])}" if data.get("reason") else ""


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


_TELLERS: dict[str, Callable[[Narrator, Envelope], list[Said]]] = {
    "message_added": Narrator._message,
    "queue_changed": Narrator._queue,
    "turn_completed": Narrator._turn_ended,
    "model_output_delta": Narrator._delta,
    "model_output_completed": Narrator._completed,
    "model_output_discarded": Narrator._discarded,
    "tool_call_started": Narrator._started,
    "tool_call_running": Narrator._running,
    "tool_call_completed": Narrator._ended,
    "approval_granted": Narrator._granted,
    "approval_denied": Narrator._denied,
    "question_answered": Narrator._answered,
    "plan_updated": Narrator._plan,
    "files_changed": Narrator._files,
    "verify_completed": Narrator._verified,
    "notice": Narrator._notice,
    "model_fallback": Narrator._fallback,
    "subagent_spawned": Narrator._spawned,
    "session_completed": Narrator._closed,
    "deleted": Narrator._deleted,
}
