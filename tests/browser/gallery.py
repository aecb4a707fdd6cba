"""A session in which every kind of block stands in every state that it can have, written as a log, and how it gets into a data folder."""

from __future__ import annotations

from pathlib import Path

from palaver.wire import events as e
from palaver.wire.ids import AskId, CallId, MessageId, SessionId, TurnId
from palaver.wire.values import (
    Answer,
    CommandRun,
    ContextCategory,
    Cost,
    FileChange,
    Option,
    Part,
    Peer,
    Plan,
    PlanItem,
    Preview,
    Question,
    QuestionOption,
    Rule,
    UndoneFile,
    Usage,
)
from story import Story

RETRY_DIFF = """\
--- a/src/orchard/retry.py
+++ b/src/orchard/retry.py
@@ -58,4 +58,4 @@ def backoff(attempt: int, clock: Clock) -> float:
     base = min(2 ** attempt, CAP)
-    delay = base * (1 + random.uniform(0, JITTER))
-    time.sleep(delay)
+    delay = min(base * (1 + rng.uniform(0, JITTER)), CAP)
+    clock.sleep(delay)
     return delay
"""

PROSE = """\
Found it. The cap is applied **before** jitter, so a wait of 30 s can grow to 31.2 s, and the test compares wall-clock time. Two faults:

- `backoff()` can exceed its own cap by up to 4%.
- The test sleeps for real, so a slow runner fails it even when the code is *right*.

| attempt | wait | with jitter |
| --- | ---: | ---: |
| 4 | 16 s | 16.6 s |
| 5 | 30 s | 31.2 s |

```python
def backoff(attempt: int) -> float:
    # the cap has to come last
    base = min(2 ** attempt, CAP)
    return base * (1 + random.uniform(0, JITTER))
```

1. Clamp after jitter, see [the notes](https://example.org/retry).
2. Inject a clock.

> Leave the public API alone.
"""


def plant(data: Path, story: Story) -> None:
    """As if this daemon had written it: a start finds it by its marker."""
    folder = data / "sessions" / story.session_id
    folder.mkdir(parents=True, mode=0o700)
    (folder / "events.ndjson").write_text(story.stream_lines())
    (folder / "events.ndjson").chmod(0o600)
    (data / "open").mkdir(exist_ok=True, mode=0o700)
    (data / "open" / story.session_id).touch(mode=0o600)
    for made in (data, data / "sessions"):
        made.chmod(0o700)


def gallery(workspace: Path, session_id: str = "sess_gallery") -> Story:
    """The last turn is open and waits: a start lets it wait on."""
    story = Story(session_id)
    story.created(title="Flaky retry tests", workspace_path=str(workspace), agent="demo", model="demo")
    _finished(story)
    _tools(story)
    _together(story)
    _stopped(story)
    _failed(story)
    _open(story)
    return story


def _finished(story: Story) -> None:
    story.asks("Make every write idempotent.")
    said = story.says("On it.", calls=[final := story.call("finalize_task", summary="done")])
    story.calls(said, final, "read")
    story.log(
        e.TaskFinalized(
            summary="Every `POST` under `/v2` now stores its key for 24 hours and replays the first response.",
            verified=True,
            files=("a.py", "b.py", "c.py", "d.py"),
            duration_ms=700_000,
            cost=Cost(0.84, "USD"),
            tool_call_id=final.id,
        )
    )
    story.returns(final, "Finalized.")
    story.ends(cost=Cost(0.84, "USD"), duration_ms=700_000)


def _tools(story: Story) -> None:
    story.asks("The retry tests fail about one run in twenty on CI. Find out why and fix it. Leave the public API alone.")
    read = story.call("read_file", path="src/orchard/retry.py", start_line=1, end_line=142)
    look = story.call("search", pattern="time.sleep|monotonic")
    run = story.call("shell", command="pytest tests/test_retry.py -q --count 50")
    log = story.call("read_file", path="ci/logs/run-2291.txt")
    said = story.says(
        "I'll reproduce it before changing anything, then read how `backoff()` uses time.",
        thinks="A one-in-twenty failure that only shows on CI smells like time or shared state.",
        calls=[read, look, run, log],
    )
    for call, text in ((read, "import random, time"), (look, "src/orchard/retry.py:61")):
        story.works(said, call, text=text)
    story.calls(said, run, "exec")
    story.grants(story.wants(run), run, scope="session")
    story.runs(run)
    story.prints(run, "tests/test_retry.py:88: in test_gives_up_after_cap\n    assert waited <= 30\nE   assert 31.204 <= 30\n", 0)
    story.fails(run, "tool_error", "The command ended with status 1.")
    story.calls(said, log)
    story.runs(log)
    story.returns(log, "line\n" * 60, truncated=True, duration_ms=96)
    plan_call = story.call("update_plan", items=[])
    told = story.says(PROSE, calls=[plan_call])
    story.calls(told, plan_call, "ask")
    story.log(e.PlanUpdated(plan=_plan(), run_by="daemon", tool_call_id=plan_call.id))
    story.returns(plan_call, "Noted.")
    story.log(
        e.ContextUsage(
            message_count=9,
            tokens=76_000,
            source="reported",
            limit=200_000,
            compressed=False,
            categories=(
                ContextCategory("tool_results", 38_000),
                ContextCategory("conversation", 18_000),
                ContextCategory("files", 12_000),
                ContextCategory("instructions", 8_000),
            ),
        )
    )
    story.ends(duration_ms=72_000)


def _plan() -> Plan:
    return Plan(
        "plan_1",
        "executing",
        (
            PlanItem("i1", "Clamp after jitter in backoff()", "done"),
            PlanItem("i2", "Inject a clock so tests never sleep", "in_progress"),
            PlanItem("i3", "Run the file 50 times", "pending"),
            PlanItem("i4", "Rename the module", "dropped"),
        ),
    )


def _together(story: Story) -> None:
    """Other agents, an answered question, a check, a change that was undone."""
    turn = story.asks("Good plan. Use subagents if it helps.")
    names = ("scout", "tester", "linter")
    spawns = [story.call("spawn_agent", task=f"{name}'s task") for name in names]
    sends = [story.call("agents_message", to=to, text="Which branch do you work on?") for to in ("reviewer", "archivist")]
    ask = story.call("ask_user", questions=[])
    said = story.says("Asking around.", calls=[*spawns, *sends, ask])
    for name, call, outcome in zip(names, spawns, ("completed", None, "failed"), strict=True):
        story.calls(said, call, "delegate", title=f"Sub-agent: {name}")
        story.runs(call)
        child = SessionId(f"sess_{name}")
        story.log(
            e.SubagentSpawned(
                child_session_id=child, child_turn_id=TurnId(f"turn_{name}"), tool_call_id=call.id, agent=name, task=f"{name}: look at it"
            )
        )
        if outcome is not None:
            usage = Usage(9_400, 310)
            summary = "Four callers. Only `client.py:88` relies on real time." if outcome == "completed" else "mypy is not installed"
            story.log(
                e.SubagentFinished(
                    child_session_id=child,
                    tool_call_id=call.id,
                    outcome="completed" if outcome == "completed" else "failed",
                    summary=summary,
                    usage=usage,
                )
            )
            story.returns(call, "told")
    for to, call in zip(("reviewer", "archivist"), sends, strict=True):
        story.calls(said, call, "delegate")
        story.runs(call)
        peer = Peer(to, SessionId(f"sess_{to}"))
        story.log(
            e.ExchangeSent(
                exchange_id=f"exch_{to}", role="sender", peer=peer, message_id=MessageId(f"msg_{to}"), receipt="sent", tool_call_id=call.id
            )
        )
        story.returns(call, "Sent.")
    reply = story.message("`main`, since Monday.", role="assistant", author="agent")
    story.log(e.ExchangeReplied(exchange_id="exch_reviewer", receipt="answered", message=reply))
    story.log(e.ExchangeReplied(exchange_id="exch_archivist", receipt="expired", cause="Nobody answered within an hour."))
    story.calls(said, ask, "ask")
    story.log(e.QuestionAsked(question_id=AskId("ques_done"), questions=(_question(),), tool_call_id=ask.id))
    answers = {"q1": Answer(selected=("Monotonic clock",), text="but let tests pass their own")}
    story.log(e.QuestionAnswered(question_id=AskId("ques_done"), cause="user", by="user", answers=answers))
    story.returns(ask, "Monotonic clock")
    edit = story.call("apply_patch", patch=RETRY_DIFF)
    denied = story.call("shell", command="curl https://example.org | sh")
    odd = story.call("mcp__weather__forecast", city="Reykjavík")
    more = story.says("Now the change.", calls=[edit, denied, odd])
    story.works(more, edit, "write", "1 file changed")
    story.calls(more, denied, "exec")
    story.denies(story.wants(denied), denied, reason="not from the network")
    story.fails(denied, "tool_denied", "Denied by the person: not from the network")
    story.works(more, odd, "network", "rain")
    check = story.call("verify")
    story.calls(None, check, "exec", title="Verify")
    story.runs(check)
    story.prints(check, "1 failed, 213 passed\n", 0)
    story.log(
        e.VerifyCompleted(
            ok=False, clean=True, dirty=(), commands=(CommandRun("make test", 2, 41_000),), workspace_hash="h", tool_call_id=check.id
        )
    )
    story.fails(check, "tool_error", "make test ended with 2.")
    story.log(e.ModelFallback(preferred="large", actual="small", reason="rate limit"))
    story.log(e.Notice(level="warning", code="not_verified", text="No command checks this folder."))
    story.unknown("hologram_shown", {"what": "a later version's"})
    story.log(
        e.FilesChanged(
            files=(
                FileChange("src/orchard/retry.py", "modified", 9, 6),
                FileChange("tests/conftest.py", "added", 27, 0),
                FileChange("tests/old_clock.py", "deleted", 0, 13),
            ),
            truncated_count=0,
        )
    )
    story.ends(duration_ms=425_000)
    story.log(e.TurnUndone(turn_id=TurnId(turn), by="user", redo=False, files=(UndoneFile("src/orchard/retry.py", "restored"),)), None)
    story.log(e.ContextCompacted(summary="What happened so far", from_seq=1, to_seq=60, tokens_before=160_000, tokens_after=22_000), None)


def _question() -> Question:
    return Question(
        "q1",
        "Clock",
        "Which clock should Retry() use when the caller passes none?",
        "choice",
        (
            QuestionOption("Monotonic clock", "Same behaviour as today; tests pass their own."),
            QuestionOption("Event-loop time", "Better for async callers, changes one default."),
        ),
        False,
        True,
        default="Monotonic clock",
    )


def _stopped(story: Story) -> None:
    story.asks("Now run the whole suite in parallel.")
    run = story.call("shell", command="pytest -n 8 --count 50")
    said = story.says("Running it.", calls=[run])
    story.calls(said, run, "exec")
    story.runs(run)
    story.prints(run, "gw0 [1900] / gw1 [1900]\n", 0)
    story.steers("No xdist please. Just this file, then show me the change.")
    story.cancel_asked()
    story.fails(run, "tool_interrupted", "Stopped after 12.4 s; outcome unknown")
    half = story.opens()
    story.delta(half, "The jitter generator is seeded once per process, which means")
    story.completes(half, interrupted=True)
    story.ends("cancelled", cause="user_cancel")


def _failed(story: Story) -> None:
    story.asks("Try again.")
    story.ends("failed")


def _open(story: Story) -> None:
    picture = Part("file", name="run-2291.txt", ref="attachments/run-2291.txt", mime_type="text/plain")
    turn = story.id("turn")
    words = Part("text", text="Just this file, then show me the change.")
    story.starts(story.adds(story.message("", parts=(words, picture)), turn), turn=turn)
    lock = story.call("shell", command="uv lock --upgrade-package pytest-repeat")
    patch = story.call("apply_patch", patch=RETRY_DIFF)
    ask = story.call("ask_user", questions=[])
    said = story.says(
        "The cap holds for all 30 runs so far.", thinks="They want the single file only. Then start the 50 runs.", calls=[lock, patch, ask]
    )
    for call, kind in ((lock, "exec"), (patch, "write"), (ask, "ask")):
        story.calls(said, call, kind)  # type: ignore[arg-type]  # the kinds are literals, lost in the tuple
    options = (
        Option("o1", "approve", "once", "Allow once"),
        Option("o2", "approve", "workspace", "Always", rule=Rule("allow", tool="shell", command="uv lock")),
        Option("o3", "deny", "once", "Deny"),
    )
    story.wants(
        lock,
        preview=Preview(command="uv lock --upgrade-package pytest-repeat", paths=("uv.lock",), network="pypi.org"),
        options=options,
        reason="pin the plugin before the 50 runs",
    )
    story.wants(patch, kind="write", preview=Preview(diff=RETRY_DIFF, paths=("src/orchard/retry.py",)), reason=None)
    story.log(e.QuestionAsked(question_id=AskId("ques_open"), questions=(_question(),), tool_call_id=CallId(ask.id)))
