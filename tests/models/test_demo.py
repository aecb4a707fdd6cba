"""The demo model: each of its phrases, how they are joined, and what it makes of results, denials and messages in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from palaver.backends.history import History
from palaver.core.happened import denied
from palaver.errors import ModelFailed
from palaver.models.base import CallPiece, Finish, ModelCall, ModelMessage, ModelRequest, ModelTool, Piece, TextPiece
from palaver.models.demo import Demo
from palaver.models.demo_words import MAX_WAIT_S, WORDS, Fail, Wait, read_phrases
from palaver.tools.ask_user import AskUserArguments, to_questions
from palaver.tools.patch import parse
from palaver.tools.patch_text import Text
from palaver.wire.events import AnyEvent, ContextCompacted, ModelOutputCompleted, Recorded, ToolCallStarted
from palaver.wire.ids import CallId, MessageId, SessionId, TurnId
from palaver.wire.values import Author, Message, Part, ToolCall

TOOLS = tuple(ModelTool(name, "", {}) for name in ("read_file", "search", "shell", "apply_patch", "ask_user"))


def user(text: str) -> ModelMessage:
    return ModelMessage("user", (Part("text", text=text),))


def said(text: str) -> ModelMessage:
    return ModelMessage("assistant", (Part("text", text=text),))


def called(name: str = "shell", id: str = "c") -> ModelMessage:
    return ModelMessage("assistant", (Part("text", text="I do."),), (ModelCall(id, name, "{}"),))


def result(text: str = "fine", *, ok: bool = True, id: str = "c", code: str | None = None) -> ModelMessage:
    return ModelMessage("tool", (Part("text", text=text),), call_id=id, ok=ok, code=code)


def answer(*messages: ModelMessage, tools: Iterable[ModelTool] = TOOLS) -> list[Piece]:
    async def collect() -> list[Piece]:
        model = Demo(pace_s=0, new_call_id=lambda: "made")
        return [piece async for piece in model.stream(ModelRequest(messages, tuple(tools)))]

    return asyncio.run(collect())


def joined(pieces: list[Piece], kind: str = "text") -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.kind == kind)


def the_call(pieces: list[Piece]) -> tuple[str | None, Any]:
    calls = [piece for piece in pieces if isinstance(piece, CallPiece)]
    assert len(calls) == 1 and pieces[-2] is calls[0]
    finish = pieces[-1]
    assert isinstance(finish, Finish) and finish.reason == "tool_calls"
    return calls[0].name, json.loads(calls[0].arguments)


def no_call(pieces: list[Piece]) -> str:
    finish = pieces[-1]
    assert isinstance(finish, Finish) and finish.reason == "end_turn" and not any(isinstance(piece, CallPiece) for piece in pieces)
    return joined(pieces)


# --- each phrase --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "input"),
    [
        ("read the file README.md", "read_file", {"path": "README.md"}),
        ("Please READ the File src/a.py, would you?", "read_file", {"path": "src/a.py"}),
        ("Read the file a.txt.", "read_file", {"path": "a.txt"}),
        ("read the file `my notes.txt` please", "read_file", {"path": "my notes.txt"}),
        ('read the file "my notes.txt"', "read_file", {"path": "my notes.txt"}),
        ("read the file ../secret", "read_file", {"path": "../secret"}),
        ("search for TODO", "search", {"pattern": "TODO"}),
        ("Can you search for two words, please.", "search", {"pattern": "two words"}),
        ('search for "a then b"', "search", {"pattern": "a then b"}),
        ("run the command `ls -la`", "shell", {"command": "ls -la"}),
        ("Please run the command `echo a; if true; then echo b; fi` now", "shell", {"command": "echo a; if true; then echo b; fi"}),
        ("run the command ls -la", "shell", {"command": "ls -la"}),
        ("run the command `printf 'a\nb'`", "shell", {"command": "printf 'a\nb'"}),
        (
            'change "old" to "new" in src/a.py',
            "apply_patch",
            {"patch": "<<<<<<< SEARCH src/a.py\nold\n=======\nnew\n>>>>>>> REPLACE\n"},
        ),
        (
            'Please change "say("a")" to "say("b")" in x.py, thanks',
            "apply_patch",
            {"patch": '<<<<<<< SEARCH x.py\nsay("a")\n=======\nsay("b")\n>>>>>>> REPLACE\n'},
        ),
        (
            'change "now and then" to "" in a.txt',
            "apply_patch",
            {"patch": "<<<<<<< SEARCH a.txt\nnow and then\n=======\n\n>>>>>>> REPLACE\n"},
        ),
        (
            'change "=======" to "<<<<<<<<" in a.txt',
            "apply_patch",
            {"patch": "<<<<<<<<< SEARCH a.txt\n=======\n=========\n<<<<<<<<\n>>>>>>>>> REPLACE\n"},
        ),
        ('write the file empty.txt with ""', "apply_patch", {"patch": "*** Begin Patch\n*** Add File: empty.txt\n*** End Patch\n"}),
        (
            'write the file notes.txt with "hello"',
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Add File: notes.txt\n+hello\n*** End Patch\n"},
        ),
        (
            'write the file a/b.txt with "one\n\nthen two\n"',
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Add File: a/b.txt\n+one\n+\n+then two\n*** End Patch\n"},
        ),
        (
            "ask me which tea with milk or lemon",
            "ask_user",
            {
                "questions": [
                    {
                        "id": "choice",
                        "header": "Your choice",
                        "text": "which tea",
                        "type": "choice",
                        "options": [{"label": "milk"}, {"label": "lemon"}],
                        "multiple": False,
                        "free_text": False,
                    }
                ]
            },
        ),
    ],
)
def test_a_phrase_calls_its_tool(text: str, name: str, input: dict[str, Any]) -> None:
    pieces = answer(user(text))
    assert the_call(pieces) == (name, input)
    assert joined(pieces), "it says what it is about to do"


@pytest.mark.parametrize(
    ("text", "question", "labels"),
    [
        ("Ask me “which one?” with A or B.", "which one?", ["A", "B"]),
        ("ask me what colour to use with red, green or dark blue please", "what colour to use", ["red", "green", "dark blue"]),
        ("ask me who goes with whom with Ann or Bob", "who goes with whom", ["Ann", "Bob"]),
    ],
)
def test_a_question_is_read_with_its_choices(text: str, question: str, labels: list[str]) -> None:
    asked = the_call(answer(user(text)))[1]["questions"][0]
    assert (asked["text"], [option["label"] for option in asked["options"]]) == (question, labels)


def test_thinking_streams_before_the_text() -> None:
    pieces = answer(user("Please think about the weather"))
    kinds = [piece.kind for piece in pieces if isinstance(piece, TextPiece)]
    assert kinds == sorted(kinds, reverse=True) and set(kinds) == {"text", "thinking"}
    assert "the weather" in joined(pieces, "thinking") and "the weather" in no_call(pieces)


@pytest.mark.parametrize("words", [0, 1, 20, 500])
def test_so_many_words_are_written_as_were_asked_for(words: int) -> None:
    assert len(no_call(answer(user(f"write {words} words"))).split()) == words


def test_text_streams_word_by_word() -> None:
    assert len(answer(user("write 50 words"))) == 51


def test_waiting_ends_after_its_time_and_says_so() -> None:
    assert no_call(answer(user("wait 0.01 seconds"))).endswith("Done waiting.")


def test_waiting_is_capped() -> None:
    assert read_phrases("wait 99999 seconds") == [Wait(MAX_WAIT_S)]


def test_waiting_can_be_stopped() -> None:
    async def stop() -> None:
        async def collect() -> list[Piece]:
            async for piece in Demo(pace_s=0).stream(ModelRequest((user("wait 500 seconds"),), TOOLS)):
                pieces.append(piece)
            return pieces

        pieces: list[Piece] = []
        task = asyncio.create_task(collect())
        async with asyncio.timeout(10):
            while joined(pieces) != "Waiting 500 seconds.":
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop())


def test_to_fail_is_an_error_that_nobody_tries_again() -> None:
    with pytest.raises(ModelFailed) as failed:
        answer(user("please fail"))
    assert (failed.value.code, failed.value.retryable) == ("model_failed", False)


@pytest.mark.parametrize("text", ["Hello", "", "What can you do?", "write many words", "wait for me"])
def test_anything_else_is_answered_with_all_the_phrases_and_the_way_to_a_real_model(text: str) -> None:
    explained = no_call(answer(user(text)))
    assert all(words in explained for words, _ in WORDS)
    assert "built-in demo model" in explained and "PALAVER_MODEL" in explained and "config.toml" in explained


def test_every_phrase_that_is_listed_is_understood() -> None:
    filled = [words.replace("write N words", "write 3 words").replace("wait N", "wait 3") for words, _ in WORDS]
    understood = [read_phrases(words) for words in filled]
    assert [len(phrases) for phrases in understood] == [1] * len(WORDS)
    assert len({repr(type(phrases[0])) for phrases in understood}) == 5 and len({repr(phrases) for phrases in understood}) == len(WORDS)


# --- joined -------------------------------------------------------------------------------------------------------------------

JOINED = "Please read the file a.txt, then write 3 words and then run the command `ls` then think about it"


def test_phrases_joined_by_then_are_done_one_call_at_a_time() -> None:
    history = [user(JOINED)]
    assert the_call(answer(*history)) == ("read_file", {"path": "a.txt"})
    history += [called("read_file", "c1"), result("line one", id="c1")]
    second = answer(*history)
    assert the_call(second) == ("shell", {"command": "ls"})
    assert "line one" in joined(second) and "the daemon keeps" in joined(second)
    history += [called("shell", "c2"), result("a.txt", id="c2")]
    last = answer(*history)
    assert "thought about it" in no_call(last) and "line one" not in joined(last)


def test_the_same_history_gets_the_same_answer() -> None:
    history = (user(JOINED), called("read_file", "c1"), result("line one", id="c1"))
    assert answer(*history) == answer(*history)


def test_text_before_a_failure_is_still_said() -> None:
    async def collect() -> list[Piece]:
        pieces = []
        with pytest.raises(ModelFailed):
            async for piece in Demo(pace_s=0).stream(ModelRequest((user("write 3 words then fail"),), ())):
                pieces.append(piece)
        return pieces

    assert len(joined(asyncio.run(collect())).split()) == 3


def test_the_word_then_inside_quotes_joins_nothing() -> None:
    assert len(read_phrases('write the file a with "x then fail" then run the command `a then fail`')) == 2


# --- results ------------------------------------------------------------------------------------------------------------------


def test_a_denial_is_told_with_its_reason_and_the_next_phrase_follows() -> None:
    pieces = answer(user("run the command `rm x` then write 2 words"), called(), result("tool_denied: not on my watch", ok=False))
    assert "did not work" in joined(pieces) and "not on my watch" in no_call(pieces) and "the daemon" in joined(pieces)


def test_a_long_result_is_quoted_in_part() -> None:
    assert len(no_call(answer(user("run the command `yes`"), called(), result("y " * 10_000)))) < 200


def test_a_result_without_words_is_done() -> None:
    assert "is done" in no_call(answer(user("run the command `true`"), called(), result("")))


def test_a_tool_that_is_not_offered_is_said_in_words_and_the_next_phrase_follows() -> None:
    pieces = answer(user("run the command `ls` then read the file a"), tools=[TOOLS[0]])
    assert "`shell`" in joined(pieces) and the_call(pieces) == ("read_file", {"path": "a"})


# --- messages in between ------------------------------------------------------------------------------------------------------


def test_a_steer_starts_its_own_list_after_the_current_one() -> None:
    history = [user("run the command `a` then run the command `b`"), called(id="1"), result(id="1"), user("read the file c")]
    assert the_call(answer(*history)) == ("shell", {"command": "b"})
    history += [called(id="2"), result(id="2")]
    assert the_call(answer(*history)) == ("read_file", {"path": "c"})
    history += [called("read_file", "3"), result("the end", id="3")]
    assert "the end" in no_call(answer(*history))


def test_messages_that_nobody_answered_yet_are_done_in_order() -> None:
    history = [said("Earlier."), user("write 2 words then run the command `a`"), user("run the command `b`")]
    assert the_call(answer(*history)) == ("shell", {"command": "a"})
    assert the_call(answer(*history, called(id="1"), result(id="1"))) == ("shell", {"command": "b"})


def test_what_was_answered_is_not_done_again() -> None:
    history = [user("run the command `a`"), called(), result(), said("Done."), user("write 2 words")]
    assert no_call(answer(*history)) == "the daemon"


def test_a_call_whose_turn_was_stopped_is_over_with_its_list() -> None:
    stopped = result("The call did not start: the turn ended first.", ok=False, code="tool_interrupted")
    history = [user("run the command `a` then run the command `b`"), called(), stopped]
    assert no_call(answer(*history, user("write 2 words"))) == "the daemon"


def test_a_result_that_only_speaks_of_interruption_ends_nothing() -> None:
    spoken = result("tool_interrupted: The call was interrupted", ok=False, code="tool_error")
    history = [user("run the command `a` then run the command `b`"), called(), spoken]
    assert the_call(answer(*history)) == ("shell", {"command": "b"})


@pytest.mark.parametrize("code", ["verify", "summary", "empty_answer"])
def test_a_note_that_nobody_sent_asks_for_nothing(code: str) -> None:
    note = ModelMessage("user", (Part("text", text="fail"),), code=code)
    assert no_call(answer(note, user("write 2 words"))) == "the daemon"
    assert "phrases" not in no_call(answer(said("Done."), note))


def test_what_was_stopped_before_its_first_word_is_not_done_later() -> None:
    stop = ModelMessage("user", (Part("text", text="stopped"),), code="stopped")
    assert no_call(answer(user("run the command `a`"), stop, user("write 2 words"))) == "the daemon"


def happened(*events: AnyEvent) -> tuple[ModelMessage, ...]:
    """As the loop's history tells it."""
    history = History()
    for seq, event in enumerate(events, 1):
        history.take(Recorded(seq, "", SessionId("sess_1"), TurnId("turn_1"), event))
    return tuple(history.messages(closing=True))


def test_notes_and_interruptions_are_known_as_the_history_tells_them() -> None:
    call, message = ToolCall(CallId("call_1"), "shell", {}), MessageId("msg_1")
    ran = ToolCallStarted(tool_call=call, kind="exec", title="", locations=(), run_by="daemon", message_id=None, step_id=None)
    noted = denied(call.id, "shell", "tool_error", "run the command `x`")
    assert no_call(answer(*happened(ran, noted), user("write 2 words"))) == "the daemon"
    summed = ContextCompacted(summary="fail", from_seq=1, to_seq=1, tokens_before=2, tokens_after=1)
    assert no_call(answer(*happened(ran, noted, summed), user("write 2 words"))) == "the daemon"
    calling = ModelOutputCompleted(message=Message(message, "assistant", (), "", Author("agent"), tool_calls=(call,)))
    unanswered = (user("run the command `a` then run the command `b`"), *happened(calling), user("write 2 words"))
    assert no_call(answer(*unanswered)) == "the daemon"


def test_a_failure_that_was_asked_for_does_not_happen_again_with_the_next_message() -> None:
    assert no_call(answer(user("fail"), user("write 2 words"))) == "the daemon"
    assert read_phrases("fail") == [Fail()]


def test_a_history_without_anything_to_do_still_gets_an_answer() -> None:
    assert no_call(answer(said("Done.")))


def test_the_usage_follows_from_the_length() -> None:
    finish = answer(user("write 2 words"))[-1]
    assert isinstance(finish, Finish) and finish.usage is not None
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (4, 3)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('change "old" to "new" in a.txt', "an old file\n", "an new file\n"),
        ('change "two\nlines" to "" in a.txt', "x two\nlines y\n", "x  y\n"),
        ('change "a" to "=======" in a.txt', "a\n", "=======\n"),
        ('write the file a.txt with "hello"', None, "hello\n"),
        ('write the file a.txt with ""', None, ""),
    ],
)
def test_the_patches_that_it_writes_do_what_was_asked(text: str, before: str | None, after: str) -> None:
    (patch,) = parse(the_call(answer(user(text)))[1]["patch"])
    done = patch.content
    if before is not None:
        changed = Text(before.encode(), "a.txt")
        changed.apply(patch.hunks)
        done = changed.data()
    assert (patch.path, done.decode()) == ("a.txt", after)


def test_its_question_is_one_that_the_tool_takes() -> None:
    asked = msgspec.convert(the_call(answer(user("ask me which tea with milk or lemon")))[1], AskUserArguments)
    (question,) = to_questions(asked.questions)
    assert (question.type, [option.label for option in question.options]) == ("choice", ["milk", "lemon"])
