"""The connection to a daemon: who listens, what is refused, and streams that are taken up again."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from palaver.client.connect import Connection, check_url, proof
from palaver.errors import Failed, Refused
from stand_in import Asked, Reply, StandIn, control, event, frame

HELLO = frame(control("hello", {"epoch": "e1", "head_seq": 0}))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


def test_the_proof_is_an_hmac_keyed_with_the_hash_of_the_token() -> None:
    """SECURITY 6, spelled out once more, as a daemon in another language would."""
    key = hashlib.sha256(b"abc.def").digest()
    assert proof("abc.def", "00ff", 8787) == hmac.new(key, b"00ff8787", "sha256").hexdigest()
    assert len({proof("abc.def", "n", 1), proof("abc.deg", "n", 1), proof("abc.def", "m", 1), proof("abc.def", "n", 2)}) == 4


@pytest.mark.anyio
async def test_every_new_connection_is_proven_before_the_token_goes_over_it() -> None:
    """SECURITY 6."""
    answers: dict[tuple[str, str], Any] = {("GET", "/x"): Reply(body={"ok": 1})}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        assert await connection.request("GET", "/x") == (200, {"ok": 1})
        await asyncio.gather(*(connection.request("GET", "/x") for _ in range(4)))
        first: dict[int, Asked] = {}
        for asked in daemon.asked:
            first.setdefault(asked.connection, asked)
        assert all(asked.path == "/v1/health" and "authorization" not in asked.headers for asked in first.values())
        assert all(asked.query["token_id"] == "id" and "secret" not in str(asked.query) for asked in first.values())
        assert len({asked.query["nonce"] for asked in first.values()}) == daemon.connections
        assert all(asked.headers["authorization"] == "Bearer id.secret" for asked in daemon.asked if asked.path == "/x")


def health(token: str, nonce: str, port: int) -> Reply:
    return Reply(body={"ok": True, "proof": proof(token, nonce, port)})


SQUATTERS: dict[str, Callable[[StandIn], Any]] = {
    "no proof": lambda _: Reply(body={"ok": True, "version": "0.1.0"}),
    "another token's": lambda daemon: lambda asked: health("id.wrong", asked.query["nonce"], daemon.port),
    "another nonce's": lambda daemon: health("id.secret", "0" * 32, daemon.port),
    "another port's": lambda daemon: lambda asked: health("id.secret", asked.query["nonce"], 1),
    "no JSON": lambda _: Reply(body=b"<html>hello"),
    "not 200": lambda _: Reply(404, {"code": "not_found"}),
    "no length": lambda _: Reply(stream=[b"data"]),
    "a list": lambda _: Reply(body=[1]),
    "a number": lambda _: Reply(body={"ok": True, "proof": 7}),
}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SQUATTERS)
async def test_a_program_that_took_the_port_gets_no_token(kind: str) -> None:
    """SECURITY 6."""
    async with StandIn() as daemon, Connection(daemon.url, "id.secret") as connection:
        daemon.answers[("GET", "/v1/health")] = SQUATTERS[kind](daemon)
        for ask in (connection.request("GET", "/x"), connection.health(), anext(connection.events("sess_1"))):
            with pytest.raises(Refused) as caught:
                await ask
            assert caught.value.code == "not_proven"
        assert daemon.paths() == []
        assert all("secret" not in str(asked) for asked in daemon.asked)


@pytest.mark.anyio
async def test_without_a_token_nothing_is_proven_and_none_is_sent() -> None:
    async with StandIn({("GET", "/x"): Reply(body={})}, token=None) as daemon, Connection(daemon.url, None) as connection:
        await connection.request("GET", "/x")
        assert [asked.path for asked in daemon.asked] == ["/x"]
        assert "authorization" not in daemon.asked[0].headers


@pytest.mark.anyio
async def test_a_problem_is_refused_with_its_code_and_its_other_members() -> None:
    problem = {"title": "Conflict", "status": 409, "detail": "Ann was first.", "code": "already_answered", "by": "Ann"}
    async with StandIn({("POST", "/x"): Reply(409, problem)}) as daemon, Connection(daemon.url, "id.secret") as connection:
        with pytest.raises(Refused) as caught:
            await connection.request("POST", "/x", {"a": 1})
        assert (caught.value.code, str(caught.value)) == ("already_answered", "Ann was first.")
        assert caught.value.extra["status"] == 409 and caught.value.extra["by"] == "Ann"
        assert daemon.asked[-1].body == {"a": 1} and daemon.asked[-1].headers["content-type"] == "application/json"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "code"),
    [(Reply(507, {"code": "disk", "detail": "full"}), "disk"), (Reply(500, b"<html>"), "bad_answer"), (Reply(404, b""), "bad_answer")],
)
async def test_a_fault_of_the_daemon_is_a_failure(reply: Reply, code: str) -> None:
    async with StandIn({("GET", "/x"): reply}) as daemon, Connection(daemon.url, "id.secret") as connection:
        with pytest.raises(Failed) as caught:
            await connection.request("GET", "/x")
        assert caught.value.code == code


@pytest.mark.anyio
async def test_a_daemon_that_is_not_there_is_a_failure_that_says_how_to_start_it() -> None:
    async with StandIn() as daemon:
        url = daemon.url
    async with Connection(url, "id.secret") as connection:
        with pytest.raises(Failed, match="palaver serve") as caught:
            await connection.request("GET", "/x")
        assert caught.value.code == "unreachable"


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1:1", "http://127.0.0.1", "http://example.org:80", "http://a@127.0.0.1:1", "127.0.0.1:1", "http://localhost:x", ""],
)
def test_an_address_that_no_daemon_can_have_is_refused(url: str) -> None:
    with pytest.raises(Refused) as caught:
        check_url(url)
    assert caught.value.code == "bad_url"


def test_an_address_is_taken_without_its_path() -> None:
    assert check_url("http://localhost:8787/s/x#y") == "http://localhost:8787"


@pytest.mark.anyio
async def test_a_stream_that_breaks_goes_on_at_its_cursor() -> None:
    """Promise 1, seen from a client: each logged event once and in order, whatever the connection does."""
    log = [frame(event(seq, "notice", {"n": seq})) for seq in range(1, 7)]
    half = log[3][: len(log[3]) // 2]
    streams = [[b"retry: 5\n\n", HELLO, *log[:3], half], [HELLO, *log[2:5]], [HELLO, *log[5:]]]

    def stream(asked: Asked) -> Reply:
        return Reply(stream=streams.pop(0)) if streams else Reply(503, {"code": "starting", "detail": "wait"})

    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with StandIn({("GET", "/v1/sessions/sess_1/events"): stream}) as daemon, Connection(daemon.url, "id.secret") as connection:
        seen = []
        async for envelope in connection.events("sess_1", pause=pause):
            if "seq" in envelope:
                seen.append(envelope["data"]["n"])
            if len(seen) == 6:
                break
        assert seen == [1, 2, 3, 4, 5, 6]
        asked = [one for one in daemon.asked if one.path.endswith("/events")]
        assert [one.query["after"] for one in asked] == ["0", "3", "5"]
        assert [one.headers["last-event-id"] for one in asked] == ["0", "3", "5"]
        assert pauses == [0.005, 0.005]


@pytest.mark.anyio
async def test_the_tail_is_asked_for_and_given_without_a_number() -> None:
    piece = {key: value for key, value in event(1, "model_output_delta", {"text": "x"}).items() if key != "seq"}
    hold = asyncio.Event()
    answer = Reply(stream=[HELLO, frame(control("caught_up", {"seq": 0})), frame(piece)], hold=hold)
    async with StandIn({("GET", "/v1/sessions/sess_1/events"): answer}) as daemon, Connection(daemon.url, "id.secret") as connection:
        events = connection.events("sess_1", tail=True)
        kinds = [(await anext(events))["type"] for _ in range(3)]
        await events.aclose()
        hold.set()
        assert kinds == ["hello", "caught_up", "model_output_delta"]
        assert daemon.asked[-1].query["tail"] == "1"


@pytest.mark.anyio
async def test_a_log_that_was_replaced_ends_the_stream_with_a_refusal() -> None:
    streams = [[HELLO], [frame(control("hello", {"epoch": "e2"}))]]
    answers: dict[tuple[str, str], Any] = {("GET", "/v1/sessions/sess_1/events"): lambda _: Reply(stream=streams.pop(0))}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        with pytest.raises(Refused) as caught:
            async for _ in connection.events("sess_1", pause=at_once):
                pass
        assert caught.value.code == "log_replaced"


@pytest.mark.anyio
async def test_a_cursor_that_the_log_does_not_have_is_refused_and_not_tried_again() -> None:
    problem = {"code": "cursor_ahead", "detail": "The log ends at 3.", "status": 410, "newest_seq": 3}
    answers: dict[tuple[str, str], Any] = {("GET", "/v1/sessions/sess_1/events"): Reply(410, problem)}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        with pytest.raises(Refused) as caught:
            await anext(connection.events("sess_1", 9, pause=at_once))
        assert caught.value.code == "cursor_ahead" and caught.value.extra["newest_seq"] == 3
        assert daemon.paths() == ["GET /v1/sessions/sess_1/events"]


@pytest.mark.anyio
async def test_a_deleted_session_ends_its_stream() -> None:
    answers: dict[tuple[str, str], Any] = {("GET", "/v1/sessions/sess_1/events"): Reply(stream=[HELLO, frame(control("deleted", {}))])}
    async with StandIn(answers) as daemon, Connection(daemon.url, "id.secret") as connection:
        assert [envelope["type"] async for envelope in connection.events("sess_1", pause=at_once)] == ["hello", "deleted"]


@pytest.mark.anyio
async def test_a_daemon_that_stays_away_is_given_up_in_the_end() -> None:
    async with StandIn() as daemon:
        url = daemon.url
    async with Connection(url, "id.secret") as connection:
        with pytest.raises(Failed, match="stayed away"):
            await anext(connection.events("sess_1", patience_s=0.05, pause=at_once))
