"""Random sessions that a daemon could have written: everything in an order that the design allows, nothing that it forbids."""

from __future__ import annotations

from random import Random
from typing import Any

from palaver.wire import events as e
from palaver.wire.ids import AskId, MessageId, SessionId, TurnId
from palaver.wire.values import (
    Answer,
    FileChange,
    Message,
    Peer,
    Plan,
    PlanItem,
    Question,
    ToolCall,
    UndoneFile,
    Usage,
)
from story import Said, Story

LETTERS = ("a", "bc ", "é", "🙂", "\u0301", "\n", "\u2028", "")


def random_log(random: Random, turns: int = 4) -> Story:
    """Stops anywhere, also in the middle of a turn."""
    return _Session(random, turns).story


class _Session:
    def __init__(self, random: Random, turns: int) -> None:
        self.random, self.story = random, Story()
        self.story.backend = random.choice(("loop", "claude"))
        self.unread: list[MessageId] = []
        """Steers that no turn has read."""
        self.coming: tuple[str, list[MessageId]] | None = None
        """The turn that an interrupt has announced."""
        self.stored: list[MessageId] = []
        self.ended: list[TurnId] = []
        self.last: tuple[TurnId, list[MessageId]] | None = None
        """The latest turn, if it can be retried, and what it has read."""
        self.exchanges: list[str] = []
        self.story.created()
        for _ in range(random.randrange(turns + 1)):
            self._idle()
            self._turn()
        cut = random.choice((0, 0, random.randrange(len(self.story.recorded))))
        if cut:
            del self.story.recorded[-cut:]

    def _maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _words(self) -> str:
        return "".join(self.random.choice(LETTERS) for _ in range(self.random.randrange(5)))

    def _is_cancelled(self) -> bool:
        last = [recorded.type for recorded in self.story.recorded if recorded.turn_id == self.story.turn]
        return "turn_cancel_requested" in last

    # --- between turns

    def _idle(self) -> None:
        for _ in range(self.random.randrange(3)):
            self.random.choice(
                (self._stored, self._notice, self._undo, self._reply, self._compact, self._trust, lambda: self.story.unknown("later", {}))
            )()

    def _stored(self) -> None:
        self.stored.append(self.story.adds(self._words(), None))

    def _notice(self) -> None:
        self.story.log(e.Notice(level="info", code="x", text=self._words()))

    def _undo(self) -> None:
        if self.ended:
            files = (UndoneFile("a", "restored"),)
            self.story.log(e.TurnUndone(turn_id=self.random.choice(self.ended), by="web", redo=self._maybe(), files=files), None)

    def _reply(self) -> None:
        if self.exchanges:
            id = self.exchanges.pop(self.random.randrange(len(self.exchanges)))
            self.story.log(e.ExchangeReplied(exchange_id=id, receipt="answered", message=None), None)

    def _compact(self) -> None:
        head = len(self.story.recorded)
        first = self.random.randrange(1, head + 1)
        last = self.random.randrange(first, head + 1)
        event = e.ContextCompacted(summary=self._words() or "s", from_seq=first, to_seq=last, tokens_before=9, tokens_after=1)
        self.story.log(event)

    def _trust(self) -> None:
        ask = self.story.wants(None, subject="trust", turn=None)
        self.open_trust = ask
        if self._maybe():
            self.story.grants(ask, None, None)

    # --- a turn

    def _turn(self) -> None:
        story, attempt = self.story, None
        read: list[MessageId] = []
        if self.coming is not None:
            turn, read = self.coming
            self.coming = None
            read = [*self.unread, *read]
            self.unread = []
            story.starts(*read, turn=turn)
        elif self.unread and self._maybe():
            self._edit()
            read, self.unread = self.unread, []
            story.starts(*read, trigger="steer")
        elif self.last is not None and self._maybe():
            attempt, read = self.last
            story.starts(*read, trigger="retry", attempt_of=attempt)
        else:
            turn = story.id("turn")
            read = [*self.stored, story.adds(self._words() or "hi", turn)]
            self.stored = []
            story.starts(*read, turn=turn)
        self._steps(read)
        self._end(read)

    def _edit(self) -> None:
        id = self.random.choice(self.unread)
        edited = self.story.message(self._words() or "edited")
        self.story.queue((id, Message(id, "user", edited.parts, edited.created_at, edited.author)), paused=True)

    def _steps(self, read: list[MessageId]) -> None:
        for _ in range(self.random.randrange(4)):
            if self._is_cancelled():
                return
            self._deliver(read)
            self._message()
            if self._maybe(0.1):
                self._notice()
            if self._maybe(0.1):
                self._compact()
            if self._maybe(0.1) and not self._is_cancelled():
                self._own_call()
            if self._maybe(0.1):
                self._plan(None)

    def _deliver(self, read: list[MessageId]) -> None:
        for id in self.unread:
            self.story.delivers(id)
            read.append(id)
        self.unread = []

    def _meanwhile(self) -> None:
        """What a person may do at any moment of a turn."""
        chance = self.random.random()
        if chance < 0.1:
            self.unread.append(self.story.steers(self._words() or "steer"))
        elif chance < 0.15 and not self._is_cancelled():
            self.story.cancel_asked()
        elif chance < 0.2 and not self._is_cancelled():
            self.story.cancel_asked(cause="superseded")
            turn = self.story.id("turn")
            self.coming = (turn, [self.story.adds(self._words() or "now", turn)])
        elif chance < 0.25 and self.coming is not None:
            self.coming[1].append(self.story.adds("and", self.coming[0]))

    def _message(self) -> None:
        story, said = self.story, self.story.opens()
        during = story.backend != "loop"
        started = list[ToolCall]()
        for _ in range(self.random.randrange(4)):
            self._part(said)
            self._meanwhile()
            if self._is_cancelled():
                break
            if during and self._maybe(0.4):
                started.append(self._start(said))
        if self._maybe(0.1):
            story.log(e.ModelOutputDiscarded(message_id=said.id))
            self._finish(started, None)
            return
        cancelled = self._is_cancelled()
        said.calls.extend(started)
        if not during and not cancelled:
            said.calls.extend(story.call(path=self._words()) for _ in range(self.random.choice((0, 0, 1, 2, 3))))
        if during and self._maybe(0.3) and not cancelled:
            self._results(started)
        story.completes(said, interrupted=cancelled)
        if not during:
            started = [self._start(said, call) for call in said.calls]
        self._finish(started, said)

    def _part(self, said: Said) -> None:
        part = None
        for _ in range(self.random.randrange(1, 4)):
            part = self.story.delta(said, self._words(), self.random.choice(("text", "thinking")) if part is None else "text", part)

    def _start(self, said: Said | None, call: ToolCall | None = None) -> ToolCall:
        run_by: Any = "daemon" if self.story.backend == "loop" else "backend"
        return self.story.calls(said, call or self.story.call(path=self._words()), run_by=run_by)

    def _finish(self, started: list[ToolCall], said: Said | None) -> None:
        """Every call gets its one result, in any order."""
        self._results(started)
        started.clear()

    def _results(self, started: list[ToolCall]) -> None:
        waiting = list(started)
        started.clear()
        self.random.shuffle(waiting)
        for call in waiting:
            self._meanwhile()
            if self._is_cancelled():
                self.story.fails(call, "tool_interrupted", "It did not start.")
            else:
                self._perform(call)

    def _perform(self, call: ToolCall) -> None:
        story = self.story
        match self.random.randrange(9):
            case 0:
                ask = story.wants(call)
                story.grants(ask, call, input={"path": "other"} if self._maybe() else None)
            case 1:
                ask = story.wants(call)
                story.denies(ask, call, reason="no")
                story.fails(call, "tool_denied", "no")
                return
            case 2:
                ask_id = AskId(story.id("ques"))
                asked = (Question("q", "h", "t", "text", (), False, True),)
                story.log(e.QuestionAsked(question_id=ask_id, questions=asked, tool_call_id=call.id))
                story.log(e.QuestionAnswered(question_id=ask_id, cause="user", by="web", answers={"q": Answer((), text="x")}))
            case 3:
                self._plan(call)
            case 4:
                child = SessionId(story.id("sess"))
                turn = TurnId(story.id("turn"))
                story.log(e.SubagentSpawned(child_session_id=child, child_turn_id=turn, tool_call_id=call.id, agent="palaver", task="t"))
                story.log(
                    e.SubagentFinished(child_session_id=child, tool_call_id=call.id, outcome="completed", summary="s", usage=Usage(1, 2))
                )
            case 5:
                id = story.id("exch")
                peer = Peer("x", SessionId("sess_x"))
                sent = e.ExchangeSent(
                    exchange_id=id, role="sender", peer=peer, message_id=MessageId("m"), receipt="queued", tool_call_id=call.id
                )
                story.log(sent)
                self.exchanges.append(id)
            case 6:
                story.log(e.TaskFinalized(summary="s", verified=None, files=(), duration_ms=1, tool_call_id=call.id))
            case _:
                story.runs(call)
                story.prints(call, self._words(), 0)
        if self._maybe(0.2):
            story.fails(call, "tool_error", "It broke.")
        else:
            story.returns(call, self._words())

    def _plan(self, call: ToolCall | None) -> None:
        id = self.random.choice(("plan_a", "plan_b"))
        plan = Plan(id, "executing", (PlanItem("i", self._words(), "done"),))
        self.story.log(e.PlanUpdated(plan=plan, run_by="daemon", tool_call_id=None if call is None else call.id))

    def _own_call(self) -> None:
        call = self._start(None, self.story.call("verify"))
        self.story.runs(call)
        if self._maybe():
            self.story.log(e.VerifyCompleted(ok=True, clean=True, dirty=(), commands=(), workspace_hash="h", tool_call_id=call.id))
        self.story.returns(call, "ok")

    def _end(self, read: list[MessageId]) -> None:
        story = self.story
        if self._maybe(0.3):
            story.log(e.FilesChanged(files=(FileChange("a", "modified", 1, 1),), truncated_count=0))
        outcome: Any = "cancelled" if self._is_cancelled() else self.random.choice(("completed", "completed", "failed", "interrupted"))
        turn = story.ends(outcome)
        self.ended.append(turn)
        self.last = None if outcome == "completed" else (turn, list(read))
