"""The primitives on a real daemon: one queue for all, answers from anywhere, joining late, breaking off and going on."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from palaver.client import (
    AsyncClient,
    ChatSession,
    MessageLog,
    MessageSteering,
    StreamingText,
    ToolConfirmations,
    Transcript,
    connect,
)
from palaver.errors import Refused
from palaver_daemon import Client, palaver, palaver_process

pytestmark = pytest.mark.anyio
SECONDS = 20.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def joins(here: Client, token: str | None = None) -> Any:
    return connect(f"http://127.0.0.1:{here.port}", token or here.token)


@asynccontextmanager
async def clients(folder: Path, count: int = 1, **daemon: Any) -> AsyncIterator[list[AsyncClient]]:
    """Several clients of one daemon."""
    async with palaver(folder, **daemon) as here, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(joins(here)) for _ in range(count)]


async def started(client: AsyncClient, folder: Path, **options: Any) -> ChatSession:
    """A chat in a new session, once it has been told what was there."""
    return await joined(client, await client.new_session(str(folder / "work")), **options)


async def joined(client: AsyncClient, session_id: str, **options: Any) -> ChatSession:
    told: list[Any] = []
    hook = options.pop("on_event", lambda event: None)

    def tell(event: Any) -> None:
        told.append(event["type"])
        hook(event)

    chat = ChatSession(client, session_id=session_id, on_event=tell, **options)
    await client.wait(lambda: told, SECONDS)
    assert told[0] == "session_restored"
    return chat


def session_of(chat: ChatSession) -> str:
    assert chat.session_id is not None
    return chat.session_id


def arrived(client: AsyncClient, chat: ChatSession) -> bool:
    """The daemon has everything that stands in the queue."""
    items = client.session(session_of(chat)).queue.items
    return bool(items) and all(item["id"] for item in items)


async def idle(client: AsyncClient, chat: ChatSession, messages: int) -> None:
    await client.wait(lambda: len(chat.messages) >= messages and not chat.is_executing, SECONDS)


def words(chat: ChatSession) -> list[Any]:
    return [block.get("text") for message in chat.messages for block in message["content"][:1] if isinstance(block, dict)]


def queued(holder: ChatSession | MessageSteering) -> list[Any]:
    return [block["text"] for message in holder.queued for block in message["content"] if isinstance(block, dict)]


# --- a turn -----------------------------------------------------------------------------------------------------------------------


async def test_a_turn_ends_in_messages_with_the_durations_that_the_daemon_measured(tmp_path: Path) -> None:
    """S0-06 level 0, S0-29; CLIENTS.md 4."""
    async with clients(tmp_path) as [client]:
        events: list[Any] = []
        chat = await started(client, tmp_path, confirmation_policy=lambda request: {"action": "approve"}, on_event=events.append)
        chat.submit("run the command `echo hi`")
        assert chat.last_submitted == "run the command `echo hi`"
        await client.wait(lambda: chat.last_submitted is None, SECONDS)
        measured = [event["durationMs"] for event in events if event["type"] == "tool_result"]
        assert [message["role"] for message in chat.messages] == ["user", "assistant", "assistant"]
        assert [call.get("duration") for call in chat.messages[1]["toolCalls"]] == measured
        [end] = [event for event in events if event["type"] == "execution_end"]
        assert [entry["message"]["role"] for entry in end["newTimelineEntries"]] == ["user", "assistant", "tool", "assistant"]
        assert (end["aborted"], end["stopReason"]) == (False, "end_turn")


async def test_what_is_being_written_is_seen_and_ends_as_the_message(tmp_path: Path) -> None:
    """S0-65: streaming text is a primitive here."""
    async with clients(tmp_path, pace_s=0.001) as [client]:
        chat = await started(client, tmp_path)
        text, grown = StreamingText(client, session_id=session_of(chat)), list[str]()
        text.on_state_change(lambda: grown.append(text.text))
        chat.submit("write 40 words")
        await idle(client, chat, 2)
        assert words(chat)[1] == text.text == grown[-1] and not text.is_streaming
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(grown))
        assert len(set(grown)) > 3


async def test_an_abort_keeps_the_queue_and_what_was_said(tmp_path: Path) -> None:
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path, mode="queue")
        chat.submit("wait 60 seconds")
        await client.wait(lambda: chat.is_executing, SECONDS)
        chat.submit("write 1 word")
        await client.wait(lambda: arrived(client, chat), SECONDS)
        client.session(session_of(chat)).abort()
        await idle(client, chat, 1)
        assert queued(chat) == ["write 1 word"] and client.session(session_of(chat)).queue.paused
        chat.flush()
        await idle(client, chat, 3)
        assert queued(chat) == []


async def test_an_interrupt_takes_the_place_of_what_runs(tmp_path: Path) -> None:
    """S0-41, T-10"""
    async with clients(tmp_path) as [client]:
        ends: list[Any] = []
        chat = await started(client, tmp_path, on_event=lambda event: ends.append(event) if event["type"] == "execution_end" else None)
        chat.submit("wait 60 seconds")
        await client.wait(lambda: chat.is_executing, SECONDS)
        reply = await chat.interrupt("write 2 words")
        assert reply["delivered"] == "interrupting"
        await client.wait(lambda: len(ends) == 2, SECONDS)
        assert [(end["executionId"] == reply["turn_id"], end["aborted"]) for end in ends] == [(False, True), (True, False)]


# --- the queue --------------------------------------------------------------------------------------------------------------------


async def test_two_clients_of_one_session_see_one_queue(tmp_path: Path) -> None:
    """REQUIREMENTS 8; T-08: what one removes is gone for both, and does not run."""
    async with clients(tmp_path, 2) as [ada, bob]:
        hers = await started(ada, tmp_path, mode="queue")
        his = await joined(bob, session_of(hers))
        hers.submit("wait 60 seconds")
        await ada.wait(lambda: hers.is_executing, SECONDS)
        for text in ("write 1 word", "write 2 words", "write 3 words"):
            hers.submit(text)
        assert queued(hers) == ["write 1 word", "write 2 words", "write 3 words"], "they are shown at once"
        await bob.wait(lambda: len(queued(his)) == 3, SECONDS)
        his.remove_queued(1)
        assert queued(his) == ["write 1 word", "write 3 words"]
        await ada.wait(lambda: queued(hers) == ["write 1 word", "write 3 words"], SECONDS)
        ada.session(session_of(hers)).abort()
        await ada.wait(lambda: not hers.is_executing, SECONDS)
        hers.flush()
        await idle(ada, hers, 5)
        await idle(bob, his, 5)
        assert hers.messages == his.messages and "write 2 words" not in words(hers)


async def test_queue_while_idle_runs_at_once(tmp_path: Path) -> None:
    """P-04"""
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path)
        chat.queue("write 2 words")
        await idle(client, chat, 2)
        assert queued(chat) == []


async def test_two_submissions_in_the_same_moment_are_two_turns_in_mode_queue(tmp_path: Path) -> None:
    """T-07, P-04, P-10: neither joins the other's turn, and each runs once."""
    async with clients(tmp_path) as [client]:
        ends: list[Any] = []
        chat = await started(
            client, tmp_path, mode="queue", on_event=lambda event: ends.append(event) if event["type"] == "execution_end" else None
        )
        chat.submit("write 1 word")
        chat.submit("write 2 words")
        await client.wait(lambda: len(ends) == 2, SECONDS)
        assert [[entry["message"]["role"] for entry in end["newTimelineEntries"]] for end in ends] == [["user", "assistant"]] * 2
        assert words(chat)[::2] == ["write 1 word", "write 2 words"]


async def test_what_is_removed_before_the_daemon_has_it_does_not_run(tmp_path: Path) -> None:
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path)
        chat.submit("wait 60 seconds")
        await client.wait(lambda: chat.is_executing, SECONDS)
        chat.queue("write 1 word")
        chat.queue("write 2 words")
        chat.remove_queued(0)
        assert queued(chat) == ["write 2 words"]
        await client.drain(SECONDS)
        body = await client.request("GET", f"/v1/sessions/{session_of(chat)}/queue")
        assert [item["message"]["parts"][0]["text"] for item in body["items"]] == ["write 2 words"]
        assert queued(chat) == ["write 2 words"]


async def test_an_item_that_somebody_else_removed_is_no_error(tmp_path: Path) -> None:
    """CLIENTS.md 4: 409 `item_gone` is silent."""
    async with clients(tmp_path, 2) as [ada, bob]:
        hers = await started(ada, tmp_path)
        his = await joined(bob, session_of(hers))
        hers.submit("wait 60 seconds")
        await ada.wait(lambda: hers.is_executing, SECONDS)
        hers.queue("write 1 word")
        await ada.wait(lambda: arrived(ada, hers), SECONDS)
        await bob.wait(lambda: len(queued(his)) == 1, SECONDS)
        hers.remove_queued(0)
        his.remove_queued(0)
        await ada.drain(SECONDS)
        await bob.drain(SECONDS)
        assert queued(hers) == queued(his) == [] and his.error is None


async def test_a_batched_flush_promotes_all_that_waits(tmp_path: Path) -> None:
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path, flush_mode="batched")
        chat.submit("wait 1 seconds then write 1 word")
        await client.wait(lambda: chat.is_executing, SECONDS)
        chat.queue("write 2 words")
        chat.queue("write 3 words")
        chat.flush()
        await client.drain(SECONDS)
        assert queued(chat) == []
        log = await client.request("GET", f"/v1/sessions/{session_of(chat)}/events", query={"format": "json", "limit": 1000})
        steered = [event["data"]["message"]["parts"][0]["text"] for event in log["events"] if event["data"].get("delivery") == "steer"]
        assert steered == ["write 2 words", "write 3 words"]


# --- confirmations ----------------------------------------------------------------------------------------------------------------

THREE = "run the command `echo one` then run the command `echo two` then run the command `echo three`"


async def test_what_is_answered_elsewhere_is_dropped_and_a_late_answer_is_no_error(tmp_path: Path) -> None:
    """R-07, T-11; CLIENTS.md 4: `tool_confirmation_settled`, and 409 after a policy's answer."""
    async with clients(tmp_path, 2) as [ada, bob]:
        events: list[Any] = []
        hers = await started(ada, tmp_path)
        his = await joined(bob, session_of(hers), on_event=events.append)
        hers.submit("run the command `echo hi`")
        await bob.wait(lambda: his.tool_confirmation, SECONDS)
        await ada.wait(lambda: hers.tool_confirmation, SECONDS)
        stale = his.tool_confirmation
        assert stale is not None and hers.chat_mode == his.chat_mode == "confirming_tool"
        hers.respond_to_confirmation({"approved": False, "reason": "not today"})
        await bob.wait(lambda: his.tool_confirmation is None, SECONDS)
        stale.respond({"approved": True})
        await idle(ada, hers, 3)
        await bob.drain(SECONDS)
        [settled] = [event for event in events if event["type"] == "tool_confirmation_settled"]
        [result] = [event for event in events if event["type"] == "tool_result"]
        assert settled["approved"] is False and result["isError"] is True
        assert "not today" in str(result["result"]), "P-02: the reason reaches the model"


async def test_changed_arguments_reach_the_tool(tmp_path: Path) -> None:
    """P-02, T-11"""
    async with clients(tmp_path) as [client]:
        results: list[Any] = []
        chat = await started(
            client, tmp_path, on_event=lambda event: results.append(event["result"]) if event["type"] == "tool_result" else None
        )
        chat.submit("run the command `echo hi`")
        await client.wait(lambda: chat.tool_confirmation, SECONDS)
        assert chat.tool_confirmation is not None
        assert chat.tool_confirmation.request["arguments"] == {"command": "echo hi"}
        chat.respond_to_confirmation({"approved": True, "modifiedArguments": {"command": "echo changed"}})
        await client.wait(lambda: results, SECONDS)
        assert "changed" in results[0][0]["text"]


async def test_always_is_for_the_rest_of_the_session(tmp_path: Path) -> None:
    """P-03, API.md "Asking": `always` is the scope `session`."""
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path)
        chat.submit("run the command `echo hi`")
        await client.wait(lambda: chat.tool_confirmation, SECONDS)
        chat.respond_to_confirmation({"approved": True, "always": True})
        await idle(client, chat, 3)
        chat.submit("run the command `echo hi`")
        await idle(client, chat, 6)
        assert chat.tool_confirmations == ()


async def test_an_answer_that_is_refused_comes_back_to_the_person(tmp_path: Path) -> None:
    """A token that may not approve: the policy's answer is not taken, and it is not asked again."""
    async with palaver(tmp_path) as here:
        asked: list[Any] = []

        def policy(request: Any) -> Any:
            asked.append(request)
            return {"action": "approve"}

        session_id = await here.new_session()
        with pytest.raises(Refused) as caught:
            async with joins(here, await here.mint("read,prompt")) as client:
                chat = await joined(client, session_id, confirmation_policy=policy)
                chat.submit("run the command `echo hi`")
                await _told(chat, lambda: chat.tool_confirmation)
                assert chat.tool_confirmation is not None
                assert chat.tool_confirmation.request["metadata"]["refused"]["code"] == "scope"
        assert caught.value.code == "scope" and len(asked) == 1


async def _told(chat: ChatSession, until: Callable[[], Any]) -> None:
    """Wait without being told of refusals, as a screen does."""
    async with asyncio.timeout(SECONDS):
        while not until():
            changed = asyncio.Event()
            leave = chat.on_state_change(changed.set)
            await changed.wait()
            leave()


async def test_a_confirmation_comes_whole_however_long_it_is(tmp_path: Path) -> None:
    """API.md, Messages: a client loads a shortened preview before it offers Approve."""
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path)
        command = "echo " + "x" * 60_000
        chat.submit(f"run the command `{command}`")
        await client.wait(lambda: chat.tool_confirmation, SECONDS)
        assert chat.tool_confirmation is not None
        assert chat.tool_confirmation.request["arguments"] == {"command": command}
        chat.respond_to_confirmation({"approved": False})


# --- joining late, and going on -----------------------------------------------------------------------------------------------------


async def test_who_joins_in_mid_run_is_told_what_was_there_and_is_asked_what_is_open(tmp_path: Path) -> None:
    """R-08, P-26; CLIENTS.md 4: one `session_restored`, then every open approval, then only what is new."""
    async with clients(tmp_path, 2) as [ada, bob]:
        hers = await started(ada, tmp_path)
        hers.submit("write 3 words")
        await idle(ada, hers, 2)
        hers.submit("run the command `echo hi`")
        await ada.wait(lambda: hers.tool_confirmation, SECONDS)
        events: list[Any] = []
        his = await joined(bob, session_of(hers), on_event=events.append)
        await bob.wait(lambda: his.tool_confirmation, SECONDS)
        assert his.is_executing and his.chat_mode == "confirming_tool"
        assert [message["role"] for message in his.messages] == ["user", "assistant", "user", "assistant"]
        his.respond_to_confirmation({"approved": True})
        await idle(bob, his, 5)
        await idle(ada, hers, 5)
        assert his.messages == hers.messages
        assert [event["type"] for event in events].count("session_restored") == 1
        assert all(event["sequence"] > events[0]["sequence"] for event in events[1:] if "sequence" in event)


async def test_single_primitives_join_whenever_they_like(tmp_path: Path) -> None:
    """S0-02, S0-06 level 2: each for itself, some of them late, and each leaves for itself."""
    async with clients(tmp_path) as [client]:
        chat = await started(client, tmp_path)
        chat.submit("run the command `echo hi`")
        await client.wait(lambda: chat.tool_confirmation, SECONDS)
        id = session_of(chat)
        log, steering = MessageLog(client, session_id=id), MessageSteering(client, session_id=id)
        confirmations = ToolConfirmations(client, session_id=id)
        await client.wait(lambda: log.messages and steering.is_executing and confirmations.pending, SECONDS)
        chat.destroy()
        confirmations.respond({"approved": True})
        await client.wait(lambda: len(log.messages) == 3 and not steering.is_executing, SECONDS)
        for leave in (log.destroy, steering.destroy, confirmations.destroy):
            assert client.session(id).is_subscribed
            leave()
        assert not client.session(id).is_subscribed


async def test_a_transcript_is_the_page_that_a_reload_gives(tmp_path: Path) -> None:
    """Promise 1, T-02"""
    async with clients(tmp_path, 2) as [ada, bob]:
        chat = await started(ada, tmp_path, confirmation_policy=lambda request: {"action": "approve"})
        first = Transcript(ada, session_id=session_of(chat))
        chat.submit("write 20 words then run the command `echo hi` then think about rivers")
        await ada.wait(lambda: chat.is_executing, SECONDS)
        late = Transcript(bob, session_id=session_of(chat))
        await idle(ada, chat, 3)
        page = await ada.request("GET", f"/v1/sessions/{session_of(chat)}/transcript", query={"limit": 100})
        for client, transcript in ((ada, first), (bob, late)):
            await client.wait(partial(_shows, transcript, page), SECONDS)
            assert transcript.entries == page["entries"] and transcript.state.provisional == {}
        told: list[int] = []
        first.on_state_change(lambda: told.append(1))
        first.flush()
        assert told == [1], "a flush tells at once"


def _shows(transcript: Transcript, page: Any) -> bool:
    return bool(transcript.state.page == page)


async def test_a_session_that_is_deleted_says_so(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here:
        session_id = await here.new_session()
        with pytest.raises(Refused) as caught:
            async with joins(here) as client:
                seen: list[Any] = []
                async for event in client.events(session_id):
                    seen.append(event["type"])
                    if event["type"] == "session_restored":
                        await here.ask("DELETE", f"/v1/sessions/{session_id}")
                assert seen == ["session_restored", "stream_failed"]
        assert caught.value.code == "deleted"


async def test_a_session_that_is_not_there_ends_the_wait(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, joins(here) as client:
        ChatSession(client, session_id="sess_" + "0" * 26)
        with pytest.raises(Refused) as caught:
            await client.wait(lambda: False, SECONDS)
        assert caught.value.code == "not_found"


async def test_a_client_goes_on_at_its_cursor_when_the_daemon_was_killed(tmp_path: Path) -> None:
    """R-10, P-06, T-01: nothing twice, nothing left out, one restored; what was sent meanwhile is sent once."""
    port = ("--port", str(_free_port()))
    async with AsyncExitStack() as stack:
        async with palaver_process(tmp_path, *port) as first:
            client = await stack.enter_async_context(joins(first))
            events: list[Any] = []
            chat = await started(client, tmp_path, on_event=events.append)
            chat.submit("write 3 words")
            await idle(client, chat, 2)
            await first.kill()
        chat.submit("write 4 words")
        async with palaver_process(tmp_path, *port) as second:
            await idle(client, chat, 4)
            await client.drain(SECONDS)
            sequences = [event["sequence"] for event in events if "sequence" in event]
            assert sequences == sorted(set(sequences))
            assert [event["type"] for event in events].count("session_restored") == 1
            assert words(chat)[::2] == ["write 3 words", "write 4 words"]
            await second.kill()
        (tmp_path / "data" / "epoch").write_text("another")
        async with palaver_process(tmp_path, *port):
            await client.wait(lambda: [event["type"] for event in events].count("session_restored") == 2, SECONDS)
            assert words(chat)[::2] == ["write 3 words", "write 4 words"], "a replaced log begins anew"
            await client.drain(SECONDS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


# --- refusals and leaving ---------------------------------------------------------------------------------------------------------


async def test_a_refused_text_stands_in_the_error_and_leaving_raises_it(tmp_path: Path) -> None:
    """CLIENTS.md 4"""
    async with palaver(tmp_path) as here:
        session_id = await here.new_session()
        with pytest.raises(Refused) as caught:
            async with joins(here) as client:
                chat = await joined(client, session_id)
                await here.ask("POST", f"/v1/sessions/{session_id}/close", {})
                chat.submit("Hello")
                chat.queue("Later")
                assert chat.last_submitted == "Hello" and queued(chat) == ["Later"]
                await _told(chat, lambda: chat.last_submitted is None and not chat.queued)
                assert chat.error is not None and chat.error.code == "session_closed"
        assert caught.value.code == "session_closed"


async def test_a_refusal_that_was_heard_is_not_raised_again(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, joins(here) as client:
        session_id = await here.new_session()
        await here.ask("POST", f"/v1/sessions/{session_id}/close", {})
        with pytest.raises(Refused):
            await client.send("Hello", session_id=session_id).result
        client.send("Again", session_id=session_id)
        with pytest.raises(Refused):
            await client.drain(SECONDS)
        with pytest.raises(Refused) as caught:
            client.send("Nowhere")
        assert caught.value.code == "no_session"


async def test_leaving_waits_for_what_was_handed_over_and_then_takes_no_more(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here:
        session_id = await here.new_session()
        async with joins(here) as client:
            for number in range(1, 4):
                client.send(f"write {number} words", session_id=session_id, delivery="queue")
        events = (await here.ask("GET", f"/v1/sessions/{session_id}/events?format=json&limit=1000"))["events"]
        first = [event["data"]["message"]["parts"][0]["text"] for event in events if event["type"] == "message_added"]
        assert first[0] == "write 1 words"
        with pytest.raises(Refused) as caught:
            client.send("too late", session_id=session_id)
        assert caught.value.code == "client_closed"


async def test_a_block_that_raises_is_not_drowned_by_a_refusal(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here:
        with pytest.raises(ZeroDivisionError):
            async with joins(here) as client:
                client.send("Hello", session_id="sess_" + "0" * 26)
                raise ZeroDivisionError


async def test_events_without_a_session_are_those_of_all_that_are_read(tmp_path: Path) -> None:
    """S0-05, P-08: each names its session."""
    async with clients(tmp_path) as [client]:
        first, second = await started(client, tmp_path), await started(client, tmp_path)
        events = client.events()
        ended = asyncio.ensure_future(_ends(events, 2))
        await asyncio.sleep(0)
        for chat in (first, second):
            chat.submit("write 2 words")
        assert await asyncio.wait_for(ended, SECONDS) == {session_of(first), session_of(second)}


async def _ends(events: AsyncGenerator[Any, None], count: int) -> set[str]:
    found: set[str] = set()
    async with aclosing(events):
        async for event in events:
            if event["type"] == "execution_end":
                found.add(event["sessionId"])
            if len(found) == count:
                break
    return found
