"""The client for programs without an event loop, on a real daemon: everything comes in the caller's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from palaver.client import ChatSession, Transcript, connect_sync
from palaver.errors import Refused
from palaver_daemon import Here, palaver

T = TypeVar("T")
SECONDS = 20.0
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def beside(folder: Path, script: Callable[[Here, str], T]) -> T:
    """Run a synchronous script in a thread beside the daemon; it gets the daemon and its address."""
    async with palaver(folder) as here:
        return await asyncio.to_thread(script, here, f"http://127.0.0.1:{here.port}")


async def test_listeners_run_in_the_callers_thread_inside_wait(tmp_path: Path) -> None:
    """CLIENTS.md 4"""

    def script(here: Here, url: str) -> None:
        threads: set[threading.Thread] = set()
        with connect_sync(url, here.token) as client:
            chat = ChatSession(
                client,
                session_id=client.new_session(str(here.workspace)),
                confirmation_policy=lambda request: {"action": "approve"},
                on_event=lambda event: threads.add(threading.current_thread()),
            )
            chat.on_state_change(lambda: threads.add(threading.current_thread()))
            chat.submit("run the command `echo hi`")
            client.wait(lambda: chat.last_submitted is None, SECONDS)
            assert [message["role"] for message in chat.messages] == ["user", "assistant", "assistant"]
            assert threads == {threading.current_thread()}
            assert client.request("GET", f"/v1/sessions/{chat.session_id}")["head_seq"] > 5 and client.url == url

    await beside(tmp_path, script)


async def test_approvals_and_questions_are_answered_by_their_ids(tmp_path: Path) -> None:
    def script(here: Here, url: str) -> None:
        with connect_sync(url, here.token) as client:
            chat = ChatSession(client, session_id=client.new_session(str(here.workspace)))
            chat.submit("run the command `echo hi` then ask me which colour with red or blue")
            client.wait(lambda: chat.tool_confirmation, SECONDS)
            assert chat.tool_confirmation is not None
            answered = client.approve(chat.tool_confirmation.request["metadata"]["approvalId"], "deny", reason="no")
            assert answered["outcome"] == "denied"
            client.wait(lambda: chat.tool_confirmation is None, SECONDS)
            [item] = _eventually(lambda: client.request("GET", "/v1/inbox")["items"], client.wait)
            [question] = item["data"]["questions"]
            told = client.answer(item["id"], {question["id"]: {"selected": ["blue"]}})
            assert told["answers"][question["id"]]["selected"] == ["blue"]
            client.wait(lambda: chat.last_submitted is None, SECONDS)

    await beside(tmp_path, script)


def _eventually(ask: Callable[[], T], wait: Callable[..., T]) -> T:
    """Asked again at each event of the session that is followed."""
    return wait(ask, SECONDS)


async def test_events_can_be_iterated(tmp_path: Path) -> None:
    """S0-06 level 3"""

    def script(here: Here, url: str) -> list[str]:
        seen: list[str] = []
        with connect_sync(url, here.token) as client:
            session_id = client.new_session(str(here.workspace))
            for event in client.events(session_id):
                seen.append(event["type"])
                if event["type"] == "session_restored":
                    client.send("write 2 words", session_id=session_id)
                if event["type"] == "execution_end":
                    break
        return seen

    seen = await beside(tmp_path, script)
    assert [one for one in seen if one != "message_accepted"] == ["session_restored", "execution_start", "execution_end"]


async def test_a_transcript_is_live_without_an_event_loop(tmp_path: Path) -> None:
    def script(here: Here, url: str) -> None:
        with connect_sync(url, here.token) as client:
            session_id = client.new_session(str(here.workspace))
            transcript = Transcript(client, session_id=session_id)
            client.wait(lambda: transcript.state.page, SECONDS)
            client.send("write 2 words", session_id=session_id)
            client.wait(lambda: [entry for entry in transcript.entries if entry["blocks"][-1]["kind"] == "turn_end"], SECONDS)
            assert transcript.state.page == client.request("GET", f"/v1/sessions/{session_id}/transcript")
            transcript.destroy()

    await beside(tmp_path, script)


async def test_leaving_waits_tells_and_raises_the_first_refusal(tmp_path: Path) -> None:
    def script(here: Here, url: str) -> None:
        client = connect_sync(url, here.token)
        session_id = client.new_session(str(here.workspace))
        chat = ChatSession(client, session_id=session_id)
        client.request("POST", f"/v1/sessions/{session_id}/close", {})
        chat.submit("Hello")
        assert chat.error is None, "what comes back waits until it is asked for"
        with pytest.raises(Refused) as caught:
            client.close()
        assert chat.error is not None and chat.error.code == caught.value.code == "session_closed"
        client.close()
        chat.destroy()
        for late in (lambda: client.send("x", session_id=session_id), lambda: client.request("GET", "/v1/inbox")):
            with pytest.raises(Refused) as caught:
                late()
            assert caught.value.code == "client_closed"

    await beside(tmp_path, script)


async def test_a_wait_has_a_deadline(tmp_path: Path) -> None:
    def script(here: Here, url: str) -> None:
        with connect_sync(url, here.token) as client, pytest.raises(TimeoutError):
            client.wait(lambda: False, 0.01)

    await beside(tmp_path, script)


async def test_a_block_that_raises_is_not_drowned_by_a_refusal(tmp_path: Path) -> None:
    def script(here: Here, url: str) -> None:
        with pytest.raises(ZeroDivisionError), connect_sync(url, here.token) as client:
            client.send("Hello", session_id="sess_" + "0" * 26)
            raise ZeroDivisionError

    await beside(tmp_path, script)


def test_where_no_daemon_is_the_client_says_how_to_start_one_and_leaves_no_thread(tmp_path: Path) -> None:
    before: set[Any] = set(threading.enumerate())
    with pytest.raises(Refused, match="palaver serve") as caught:
        connect_sync(data=str(tmp_path))
    assert caught.value.code == "no_daemon" and set(threading.enumerate()) == before
