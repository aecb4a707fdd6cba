"""The sessions of `golden/`, written by hand: between them they show every row of the transcript's table, and its edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, MessageId, PartId, SessionId, TurnId
from palaver.wire.values import (
    Answer,
    Author,
    CommandRun,
    Cost,
    ErrorInfo,
    FileChange,
    FileRef,
    ForkedFrom,
    Message,
    Option,
    Part,
    Peer,
    Plan,
    PlanItem,
    Preview,
    Question,
    QuestionOption,
    ToolCall,
    UndoneFile,
    Usage,
)
from story import Story, at

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
"""One picture, seven code points."""
WHICH = Question("q1", "Colour", "Which colour?", "choice", (QuestionOption("red"), QuestionOption("blue")), False, True)


def text(story: Story) -> None:
    """Thinking, then text; two turns; what says nothing to a reader stays away."""
    story.created()
    story.asks("What is here?")
    story.log(e.ModelResolved(model="m1", provider="local"))
    said = story.opens()
    thought = story.delta(said, "The person wants ", "thinking")
    story.delta(said, "a list.", "thinking", thought)
    words = story.delta(said, "Three ")
    story.delta(said, "files.\n", part=words)
    story.completes(said)
    story.log(e.ContextUsage(message_count=2, tokens=900, source="reported", limit=32_000, compressed=False))
    story.ends(cost=Cost(0.0021, "USD"))
    story.log(e.SessionUpdated(session={"title": "What is here?"}), None)
    story.asks("Thanks  ")
    story.says("You are welcome.")
    story.ends()


def tools(story: Story) -> None:
    """A batch that succeeds, fails, is unknown and runs into its time; output longer than a block shows."""
    story.created()
    story.asks("Look around")
    read, shell, wrong, slow = story.call(path="a.py"), story.call("shell", command="make"), story.call("teleport"), story.call("search")
    said = story.says("I will look.", calls=[read, shell, wrong, slow])
    story.calls(said, read, title="Read a.py", locations=at("a.py", 3))
    story.calls(said, shell, "exec")
    story.calls(said, wrong)
    story.calls(said, slow)
    story.runs(read)
    story.runs(shell)
    story.prints(shell, "compiling…\n", 0)
    story.prints(shell, "warning: old\n", 0, "stderr")
    story.returns(read, "print('é')\n")
    story.prints(shell, "x" * 3000, 11)
    story.prints(shell, "y" * 1500 + "\n", 3011)
    story.prints(shell, "🙂" * 5000, 13, "stderr")
    story.prints(shell, "end", 4512)
    story.returns(shell, "compiling…\n[…]\nend", truncated=True, artifacts=("artifacts/turn_1/call_2.txt",), duration_ms=8123)
    story.log(e.ArtifactAdded(ref="artifacts/turn_1/call_2.txt", mime_type="text/plain", size=24_512, tool_call_id=shell.id))
    story.fails(wrong, "unknown_tool", "There is no tool named 'teleport'. Use one of: read_file, search.")
    story.runs(slow)
    story.fails(slow, "tool_timeout", "The search took longer than 60 s.")
    story.says("Done.")
    story.ends()


def approvals(story: Story) -> None:
    """Every way in which an approval ends, and two that belong to no call."""
    story.created()
    trust = story.wants(None, subject="trust", turn=None, kind="read", preview=Preview(paths=("/home/ada/engine",)))
    story.asks("Build it")
    story.grants(trust, None, None, scope="workspace", by="cli")
    made = [story.call("shell", command=f"step {n}") for n in range(6)]
    said = story.says("Building.", calls=made)
    for call in made:
        story.calls(said, call, "exec")
    asks = [story.wants(call) for call in made[:5]]
    story.grants(asks[0], made[0], input={"command": "step 0 --dry-run"}, reason="dry first", option_id="o1")
    story.runs(made[0])
    story.returns(made[0])
    story.denies(asks[1], made[1], reason="not that one")
    story.fails(made[1], "tool_denied", "Denied by the person: not that one")
    story.denies(asks[2], made[2], by="policy", cause="policy")
    story.fails(made[2], "tool_denied", "Denied by a rule")
    story.denies(asks[3], made[3], by="clock", cause="expired")
    story.fails(made[3], "tool_denied", "Nobody answered in time")
    later = story.wants(made[5], deadline="2026-03-01T10:00:00.000Z")
    story.grants(asks[4], made[4], scope="session", by="web")
    story.grants(later, made[5], scope="session", by="rule", reason="settled by the same grant")
    for call in made[4:]:
        story.runs(call)
        story.returns(call)
    login = story.wants(None, subject="login", kind="network", preview=Preview(network="example.org"))
    story.denies(login, None, cause="cancelled", by="user")
    story.says("Some of it is built.")
    story.ends()


def questions(story: Story) -> None:
    """A question of a call, one without; answered, left to the agent, declined."""
    story.created()
    story.asks("Paint it")
    ask = story.call("ask_user", questions=[{"text": "Which colour?"}])
    said = story.says("One thing first.", calls=[ask])
    story.calls(said, ask, "ask")
    story.log(e.QuestionAsked(question_id=question(1), questions=(WHICH,), tool_call_id=ask.id))
    story.log(e.TurnParked(waiting=(question(1),)))
    answers = {"q1": Answer(("red",), text="a warm one")}
    story.log(e.QuestionAnswered(question_id=question(1), answers=answers, cause="user", by="web"))
    story.returns(ask, "Colour: red (a warm one)")
    again = story.call("ask_user", questions=[{"text": "And the frame?"}])
    said = story.says(calls=[again])
    story.calls(said, again, "ask")
    story.log(e.QuestionAsked(question_id=question(2), questions=(WHICH,), tool_call_id=again.id, deadline="2026-03-01T09:30:00.000Z"))
    story.log(e.QuestionAnswered(question_id=question(2), cause="agent_decides", by="tui"))
    story.returns(again, "Decide yourself.")
    story.log(e.QuestionAsked(question_id=question(3), questions=(WHICH,)))
    story.log(e.QuestionAnswered(question_id=question(3), cause="declined", by="web", reason="not now"))
    story.log(e.QuestionAsked(question_id=question(4), questions=(WHICH,)))
    story.says("Painted.")


def question(number: int) -> AskId:
    return AskId(f"ques_{number}")


def cancel_text(story: Story) -> None:
    """Cancelled in text, in thinking, before the first word, and where nothing was said but a call."""
    story.created()
    story.asks("Tell me a long story")
    said = story.opens()
    part = story.delta(said, "Once upon ")
    story.cancel_asked()
    story.delta(said, "a ti", part=part)
    story.completes(said, interrupted=True, stop_reason=None)
    story.ends("cancelled", cause="user_cancel")
    story.asks("Then think")
    said = story.opens()
    story.delta(said, "Hm", "thinking")
    story.cancel_asked()
    story.completes(said, interrupted=True)
    story.ends("cancelled", cause="user_cancel")
    story.asks("Nothing came of this")
    story.cancel_asked()
    story.ends("cancelled", cause="user_cancel")
    story.asks("An empty beginning")
    said = story.opens()
    story.cancel_asked()
    story.completes(said, interrupted=True)
    story.ends("cancelled", cause="user_cancel")


def cancel_tool(story: Story) -> None:
    """Cancelled while one call runs, one waits for its approval and one for its turn; a true result that comes late is kept."""
    story.created()
    story.asks("Run all of it")
    quick, running, waiting, last = (story.call("shell", command=word) for word in ("a", "b", "c", "d"))
    said = story.says("Running.", calls=[quick, running, waiting, last])
    for call in (quick, running, waiting, last):
        story.calls(said, call, "exec")
    ask = story.wants(waiting)
    story.runs(quick)
    story.runs(running)
    story.prints(running, "half of ", 0)
    story.cancel_asked()
    story.denies(ask, waiting, cause="cancelled")
    story.returns(quick, "it was done all the same")
    story.fails(running, "tool_interrupted", "It was stopped while it ran: outcome unknown.")
    story.fails(waiting, "tool_interrupted", "It did not start.")
    story.fails(last, "tool_interrupted", "It did not start.")
    story.ends("cancelled", cause="user_cancel")
    story.asks("Go on")
    story.says("I was stopped.")
    story.ends()


def steer(story: Story) -> None:
    """A burst of steers: one delivered, one with only an image, one read too late; and one that is edited in the queue first."""
    story.created()
    story.asks("Start")
    call = story.call()
    said = story.says("Reading.", calls=[call])
    story.calls(said, call)
    first = story.steers("Only the first page")
    image = story.message("", parts=(Part("image", id=PartId("part_img"), ref="attachments/a.png", mime_type="image/png", name="a.png"),))
    second = story.steers(image)
    story.runs(call)
    story.returns(call)
    story.delivers(first)
    story.delivers(second)
    said = story.opens()
    story.delta(said, "All right")
    late, edited = story.steers("Too late"), story.message("Wrong words")
    story.steers(edited)
    story.completes(said)
    story.ends()
    story.starts(late, trigger="steer")
    story.cancel_asked()
    story.queue((edited.id, None), paused=True)
    story.ends("cancelled", cause="user_cancel")
    better = Message(edited.id, "user", (Part("text", id=PartId("part_new"), text="Better words"),), edited.created_at, Author("user"))
    story.queue((edited.id, better), paused=True)
    story.queue((edited.id, None))
    story.starts(edited.id, trigger="queue")
    story.queue()
    story.says("Read.")
    story.ends()


def queue(story: Story) -> None:
    """Messages that wait, one that is removed, one that interrupts; stored ones that the next turn takes along."""
    story.created(delivery="auto")
    story.adds(story.message("For later"), None)
    story.adds(story.message("A note of the daemon", role="system", author="system"), None)
    second, third = story.message("Second"), story.message("Third")
    story.starts("msg_1", "msg_2", story.adds("First", "turn_1"), turn="turn_1")
    story.queue((second.id, second))
    story.queue((second.id, None), (third.id, third))
    story.queue((third.id, None))
    said = story.opens()
    story.delta(said, "Workin")
    story.log(e.TurnCancelRequested(by="user", cause="superseded", keep_queue=True))
    now = story.adds("No, this", "turn_9")
    story.completes(said, interrupted=True)
    story.ends("cancelled", cause="superseded")
    story.starts(now, turn="turn_9")
    story.cancel_asked()
    story.ends("cancelled", cause="user_cancel")
    story.adds(third, "turn_10")
    story.starts(third.id, trigger="queue", turn="turn_10")
    story.queue()
    story.says("Third it is.")
    story.ends()
    story.log(e.SessionCompleted(by="user"), None)


def retry(story: Story) -> None:
    """A turn fails and is tried again; the transcript keeps both."""
    story.created()
    story.asks("Before")
    story.says("Yes.")
    story.ends()
    attempt = story.asks("Do it")
    call = story.call()
    said = story.says("Trying.", calls=[call])
    story.works(said, call)
    more = story.steers("Carefully")
    story.delivers(more)
    story.log(e.ModelFallback(preferred="m1", actual="m2", reason="rate limited"))
    story.ends("failed", error=ErrorInfo("provider_silent", "Nothing came for 120 s."), stop_reason="limit")
    story.starts("msg_3", more, trigger="retry", attempt_of=attempt)
    story.says("Done now.")
    story.ends()


def discarded(story: Story) -> None:
    """The backend starts its message over, once with a call in it."""
    story.backend = "claude"
    story.created()
    story.asks("Go")
    said = story.opens()
    story.delta(said, "A false st")
    call = story.calls(said, story.call(), run_by="backend")
    story.prints(call, "half", 0)
    story.log(e.ModelOutputDiscarded(message_id=said.id))
    story.says("A true start.")
    story.ends()
    story.asks("Again")
    said = story.opens()
    story.delta(said, "Nothing of this stays")
    story.log(e.ModelOutputDiscarded(message_id=said.id))
    story.ends("failed", error=ErrorInfo("backend_failed", "claude ended with status 1."))


def fork(story: Story) -> None:
    """What a fork's log holds: copies under its own id and numbers, the open call closed, the turn interrupted."""
    story.created(forked_from=ForkedFrom(SessionId("sess_0"), MessageId("msg_2")), title="Fork of A session")
    story.asks("Original words")
    call = story.call("shell", command="make")
    said = story.says("Making.", calls=[call])
    story.calls(said, call, "exec")
    story.runs(call)
    story.fails(call, "tool_interrupted", "The session was copied while it ran: outcome unknown.")
    story.ends("interrupted")
    story.asks("Other words")
    story.says("Otherwise.")
    story.ends()


def truncated(story: Story) -> None:
    """Strings too big for their line: what stays says so, and names the file with the rest."""
    story.created()
    long = Part("text", id=PartId("part_long"), text="A long paste […", truncated=True)
    message = story.message("", parts=(Part("text", id=PartId("part_short"), text="See:"), long))
    refs = {"/message/parts/1/text": FileRef("attachments/msg_1-1.txt", 90_210, "aa" * 32)}
    story.starts(story.adds(message, "turn_1", refs=refs), turn="turn_1")
    patch = story.call("apply_patch", patch="*** Begin Patch […")
    said = story.says("Patching.", calls=[patch])
    big = {"/tool_call/input/patch": FileRef("artifacts/turn_1/patch.txt", 70_000, "bb" * 32)}
    story.calls(said, patch, "write", refs=big)
    ask = story.wants(patch, kind="write", preview=Preview(diff="--- a […", paths=("a.py",)), refs={"/preview/diff": big.popitem()[1]})
    story.grants(ask, patch)
    story.runs(patch)
    whole = FileRef("artifacts/turn_1/result.txt", 65_000, "cc" * 32)
    parts = (Part("text", id=PartId("part_r"), text="Changed […", truncated=True),)
    story.returns(patch, parts=parts, truncated=True, refs={"/tool_result/parts/0/text": whole})
    ask = story.wants(None, subject="review", kind="write", preview=Preview(diff="--- b […"), refs={"/preview/diff": whole})
    story.log(e.Notice(level="warning", code="low_disk", text="Little room is left."))


def emoji(story: Story) -> None:
    """Pieces cut between the code points of one picture and of combining letters, with a tail that overlaps, repeats and runs ahead."""
    story.created()
    story.asks("Draw " + FAMILY)
    said = story.opens()
    first = "part_1t"
    story.tail(said, first, 0, FAMILY[:1])
    story.tail(said, first, 1, FAMILY[1:3])
    story.delta(said, FAMILY[:2], part=first)
    story.tail(said, first, 0, FAMILY[:4])
    story.tail(said, first, 6, FAMILY[6:])
    story.tail(said, first, 3, FAMILY[3:])
    story.tail(said, first, 3, FAMILY[3:])
    story.delta(said, FAMILY[2:5], part=first)
    story.tail(said, first, 6, FAMILY[6:] + " e\u0301")
    story.delta(said, FAMILY[5:] + " e", part=first)
    story.delta(said, "\u0301n\u0303\u2028\u0085", part=first)
    story.tail(said, first, 14, "\U0001f1e9")
    story.tail(said, first, 15, "\U0001f1ea")
    story.delta(said, "\U0001f1e9", part=first)
    story.delta(said, "\U0001f1ea\U0001d54f", part=first)
    story.tail(said, "part_2t", 0, "never logged before the end", "thinking")
    story.completes(said)
    shell = story.call("shell", command="echo")
    said = story.says(calls=[shell])
    story.calls(said, shell, "exec")
    story.runs(shell)
    story.piece(e.ToolOutputDelta(tool_call_id=shell.id, stream="stdout", offset=0, text="🙂🙂"))
    story.piece(e.ToolOutputDelta(tool_call_id=shell.id, stream="stderr", offset=0, text="z"))
    story.prints(shell, "🙂", 0)
    story.piece(e.ToolOutputDelta(tool_call_id=shell.id, stream="stdout", offset=1, text="🙂a"))
    story.prints(shell, "🙂a\u0308", 1)
    story.returns(shell)
    said = story.opens()
    end = story.delta(said, "o")
    story.tail(said, end, 1, "\u0308 wait")
    story.cancel_asked()
    story.delta(said, "\u0308", part=end)
    story.completes(said, interrupted=True)
    story.ends("cancelled", cause="user_cancel")


def agents(story: Story) -> None:
    """A sub-agent, an exchange that is answered after its turn has ended, one that comes in, one that fails."""
    story.created()
    story.asks("Get help")
    spawn, send = story.call("spawn_agent", task="count"), story.call("agents_message", to="reviewer")
    said = story.says("Asking around.", calls=[spawn, send])
    story.calls(said, spawn, "delegate", title="Sub-agent: count")
    story.calls(said, send, "delegate")
    child = SessionId("sess_child")
    story.runs(spawn)
    story.log(
        e.SubagentSpawned(
            child_session_id=child, child_turn_id=TurnId("turn_child"), tool_call_id=spawn.id, agent="palaver", task="Count the files"
        )
    )
    story.runs(send)
    peer = Peer("reviewer", SessionId("sess_peer"))
    sent: dict[str, Any] = {"peer": peer, "message_id": MessageId("msg_sent"), "receipt": "queued"}
    story.log(e.ExchangeSent(exchange_id="exch_1", role="sender", tool_call_id=send.id, **sent))
    story.returns(send, "Sent.")
    done: dict[str, Any] = {"tool_call_id": spawn.id, "summary": "12 files", "usage": Usage(400, 20), "cost": Cost(0.001, "USD")}
    story.log(e.SubagentFinished(child_session_id=child, outcome="completed", **done))
    story.returns(spawn, "12 files")
    story.says("12 files; the reviewer will answer.")
    story.ends()
    reply = Message(
        MessageId("msg_reply"),
        "assistant",
        (Part("text", id=PartId("part_p"), text="Looks good"),),
        "2026-03-01T09:00:00.000Z",
        Author("agent"),
    )
    story.log(e.ExchangeReplied(exchange_id="exch_1", receipt="answered", message=reply), None)
    asked = story.adds(story.message("Reviewer asks: which branch?", author="agent", via="exchange"), "turn_2")
    story.starts(asked, trigger="exchange", turn="turn_2")
    story.log(e.ExchangeSent(exchange_id="exch_2", role="target", **sent))
    story.says("main")
    story.ends()
    story.log(e.ExchangeReplied(exchange_id="exch_2", receipt="failed", cause="The other session was closed."), None)


def plan_and_checks(story: Story) -> None:
    """A plan in several updates, its approval; files change; verify fails, is repaired, passes; the task is finalized; undo and redo."""
    story.created(mode="plan")
    story.asks("Repair the build")
    update = story.call("update_plan", items=[{"text": "look"}])
    said = story.says("First a plan.", calls=[update])
    story.calls(said, update, "ask")
    look, repair = PlanItem("i1", "look", "pending"), PlanItem("i2", "repair", "pending")
    story.log(e.PlanUpdated(plan=Plan("plan_1", "planned", (look, repair), "How"), run_by="daemon", tool_call_id=update.id))
    options = (Option("p1", "approve", "once", "Go"), Option("p2", "deny", "once", "Keep planning"))
    ask = story.wants(update, subject="plan", kind="ask", preview=Preview(), options=options)
    story.grants(ask, update, option_id="p1")
    story.returns(update, "Approved.")
    again, patch = story.call("update_plan", items=[]), story.call("apply_patch", patch="*** Begin Patch\n")
    said = story.says("Repairing.", calls=[again, patch])
    story.calls(said, again, "ask")
    done = PlanItem("i1", "look", "done")
    story.log(e.PlanUpdated(plan=Plan("plan_1", "executing", (done, repair)), run_by="daemon", tool_call_id=again.id))
    story.returns(again, "Noted.")
    story.works(said, patch, "write", "1 file changed")
    verify = story.calls(None, story.call("verify"), "exec", title="Verify")
    ask = story.wants(verify)
    story.grants(ask, verify, scope="workspace")
    story.runs(verify)
    story.prints(verify, "FAILED\n", 0)
    runs = (CommandRun("make test", 2, 900, "artifacts/turn_1/verify-1.txt"),)
    story.log(e.VerifyCompleted(ok=False, clean=True, dirty=(), commands=runs, workspace_hash="h1", tool_call_id=verify.id))
    story.fails(verify, "tool_error", "make test ended with 2.")
    more = story.call("apply_patch", patch="*** Begin Patch\n*** more")
    said = story.says("Once more.", calls=[more])
    story.works(said, more, "write", "1 file changed")
    story.log(e.PlanUpdated(plan=Plan("plan_1", "completed", (done,)), run_by="backend"))
    verify = story.calls(None, story.call("verify"), "exec", title="Verify")
    story.runs(verify)
    runs = (CommandRun("make test", 0, 800),)
    story.log(e.VerifyCompleted(ok=True, clean=False, dirty=("a.py",), commands=runs, workspace_hash="h2", tool_call_id=verify.id))
    story.returns(verify, "ok")
    final = story.call("finalize_task", summary="Repaired")
    said = story.says(calls=[final])
    story.calls(said, final, "ask")
    story.log(
        e.TaskFinalized(summary="Repaired", verified=True, files=("a.py",), duration_ms=9000, cost=Cost(0.02, "USD"), tool_call_id=final.id)
    )
    story.returns(final)
    changes = (FileChange("a.py", "modified", 3, 1, "artifacts/turn_1/a.diff"), FileChange("b.py", "added", 9, 0))
    story.log(e.FilesChanged(files=changes, truncated_count=0))
    turn = story.ends()
    story.log(e.TurnUndone(turn_id=turn, by="web", redo=False, files=(UndoneFile("a.py", "restored"), UndoneFile("b.py", "deleted"))), None)
    story.asks("And now?")
    story.says("Undone.")
    story.ends()
    story.log(e.TurnUndone(turn_id=turn, by="web", redo=True, files=(UndoneFile("b.py", "recreated"),)), None)


def backend(story: Story) -> None:
    """A program that is an agent itself: calls between its parts, parts known only at the end, a plan without a call."""
    story.backend = "codex"
    story.created()
    story.asks("Use your own tools")
    said = story.opens()
    before = story.delta(said, "Let me see.")
    call = story.calls(said, story.call("exec", cmd="ls"), "exec", run_by="backend", title="ls")
    said.calls.append(call)
    story.runs(call)
    story.prints(call, "a.py\n", 0, "output")
    story.log(e.PlanUpdated(plan=Plan("codex", "executing", (PlanItem("i1", "see", "done"),)), run_by="backend"))
    after = story.delta(said, "One fi")
    story.returns(call, "a.py\n", duration_ms=40)
    said.parts[PartId(before)] = Part("text", id=PartId(before), text="Let me look.")
    story.delta(said, "le.", part=after)
    drawn = Part("image", id=PartId("part_drawn"), ref="artifacts/turn_1/tree.png", mime_type="image/png")
    story.completes(said, more=(drawn, Part("text", id=PartId("part_tail"), text="See the picture.")))
    lone = story.call("exec", cmd="sleep 9")
    silent = story.opens()
    silent.calls.append(story.calls(silent, lone, "exec", run_by="backend"))
    story.runs(lone)
    story.log(e.Notice(level="info", code="shutdown", text="The daemon is ending."))
    story.fails(lone, "tool_interrupted", "It was stopped while it ran: outcome unknown.")
    story.completes(silent, interrupted=True)
    story.ends("interrupted", cause="shutdown")


def recovered(story: Story) -> None:
    """What a start after a crash adds: the message completed from its deltas, calls and asks closed, the turn interrupted."""
    story.created()
    story.asks("Work")
    one, two = story.call("shell", command="a"), story.call("ask_user", questions=[])
    said = story.says("Two things.", calls=[one, two])
    story.calls(said, one, "exec")
    story.calls(said, two, "ask")
    story.log(e.QuestionAsked(question_id=question(1), questions=(WHICH,), tool_call_id=two.id))
    story.runs(one)
    story.prints(one, "be", 0)
    story.log(e.QuestionAnswered(question_id=question(1), cause="cancelled", by="daemon"))
    story.fails(one, "tool_interrupted", "The daemon ended while it ran: outcome unknown.")
    story.fails(two, "tool_interrupted", "It did not start.")
    story.ends("interrupted", cause="crash")
    story.asks("Go on")
    said = story.opens()
    part = story.delta(said, "I was ")
    story.delta(said, "at", part=part)
    story.completes(said, interrupted=True, stop_reason=None, usage=None)
    story.ends("interrupted", cause="crash")


def compacted(story: Story) -> None:
    """The history is summed up while a turn runs; the transcript keeps everything."""
    story.created()
    story.asks("Remember the number 7")
    story.says("7.")
    story.ends()
    upto = len(story.recorded)
    story.asks("And 8")
    call = story.call()
    said = story.says("Reading.", calls=[call])
    story.log(e.ContextCompacted(summary="The number is 7.", from_seq=1, to_seq=upto, tokens_before=9000, tokens_after=700))
    story.works(said, call)
    story.says("7 and 8.")
    story.ends()


def unknown(story: Story) -> None:
    """Events of a later version between ours."""
    story.created()
    story.unknown("sparkle_added", {"brightness": 11})
    story.asks("Hi")
    said = story.opens()
    part = story.delta(said, "Hel")
    story.unknown("model_output_sung", {"message_id": said.id, "notes": ["c", "e"]})
    story.delta(said, "lo", part=part)
    story.completes(said)
    story.ends()
    story.log(e.MissionTriggered(mission_id="mis_1", run_id="run_1", trigger="cron", agent="palaver"), None)
    story.log(e.MissionSkipped(mission_id="mis_1", run_id="run_2", trigger="cron", agent="palaver", reason="busy"), None)


def open_now(story: Story) -> None:
    """A page taken in the middle: a turn, two asks, a growing text and a running call."""
    story.created()
    story.asks("Work on")
    shell, other = story.call("shell", command="make"), story.call("shell", command="rm x")
    said = story.opens()
    story.delta(said, "Working ")
    for call in (shell, other):
        said.calls.append(story.calls(said, call, "exec"))
    story.wants(other)
    story.log(e.QuestionAsked(question_id=question(1), questions=(WHICH,)))
    story.runs(shell)
    story.prints(shell, "line\n", 0)
    story.prints(shell, "hm\n", 0, "stderr")
    story.cancel_asked()


def raw_call(story: Story) -> None:
    """A call whose arguments were no object: its own words are kept."""
    story.created()
    story.asks("Call something")
    call = ToolCall(CallId("call_raw"), "read_file", {}, input_raw='{"path": ')
    said = story.says(calls=[call])
    story.calls(said, call)
    story.fails(call, "invalid_arguments", "The input is no JSON object.")
    story.log(e.MessageAdded(message=story.message("a tool's words", role="tool")))
    story.says("Sorry.", thinks="It was cut.")
    story.ends(stop_reason="max_tokens")


CASES: dict[str, Callable[[Story], None]] = {
    case.__name__: case
    for case in (
        text,
        tools,
        approvals,
        questions,
        cancel_text,
        cancel_tool,
        steer,
        queue,
        retry,
        discarded,
        fork,
        truncated,
        emoji,
        agents,
        plan_and_checks,
        backend,
        recovered,
        compacted,
        unknown,
        open_now,
        raw_call,
    )
}


def written(name: str) -> Story:
    story = Story(f"sess_{name}")
    CASES[name](story)
    return story
