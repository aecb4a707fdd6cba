"""Tokens, sign-in codes and tickets, over the wire: SECURITY 2, 5, 6, 7."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import socket
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from palaver.errors import DiskFailed, Refused
from palaver.serve.http import ROUTES
from palaver.serve.peer import can_tell, peer_uid
from palaver.serve.scopes import FIELDS, expand
from palaver.serve.tokens import Tokens
from palaver.wire.requests import NewSession, SessionPatch
from serving import Clock, Daemon, QuietHub, serving, streaming

EVENTS = "/v1/sessions/sess_1/events"


def test_a_token_opens_what_its_scope_names_and_the_refusal_names_the_scope_that_is_needed(tmp_path: Path) -> None:
    """SECURITY 2."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            read = await daemon.mint("read", name="reader")
            assert (await daemon.ask("GET", "/v1/sessions/sess_1", token=read)).status == 200
            message = {"parts": [{"type": "text", "text": "hello"}]}
            refused = await daemon.ask("POST", "/v1/sessions/sess_1/messages", message, token=read)
            assert (refused.status, refused.code, refused.json["needed"]) == (403, "scope", "prompt")
            prompt = await daemon.mint("read,prompt", name="phone")
            assert (await daemon.ask("POST", "/v1/sessions/sess_1/messages", message, token=prompt)).json["by"] == "phone"
            assert (await daemon.ask("POST", "/v1/sessions/sess_1/messages", message)).json["by"] == "user"
            assert (await daemon.ask("GET", "/v1/tokens", token=await daemon.mint("approve"))).json["needed"] == "admin"

    asyncio.run(run())


def test_every_route_and_every_field_has_a_scope() -> None:
    """SECURITY 2: a route without a scope is one of the few that stand open, by name."""
    open_routes = {route.path for route in ROUTES if route.scope is None}
    assert open_routes == {"/v1/health", "/api/health", "/v1/login", "/", "/s/{session_id}", "/page.css", "/assets/{name}"}
    for shape in (NewSession, SessionPatch):
        assert set(shape.__struct_fields__) <= set(FIELDS)
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)


def test_every_route_refuses_the_scope_below_its_own(tmp_path: Path) -> None:
    """SECURITY 2: a walk of the route table, each route asked with the largest token that is too small, and with none."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            below = {"prompt": await daemon.mint("read"), "approve": await daemon.mint("prompt"), "admin": await daemon.mint("approve")}
            for route in ROUTES:
                if route.scope is None:
                    continue
                path = route.path.replace("{session_id}", "sess_1").replace("{", "").replace("}", "")
                assert (await daemon.ask(route.method, path, token=None)).status == 401, route.path
                if route.scope in below:
                    answer = await daemon.ask(route.method, path, token=below[route.scope])
                    assert (answer.status, answer.code, answer.json["needed"]) == (403, "scope", route.scope), route.path

    asyncio.run(run())


@pytest.mark.parametrize(
    ("field", "needed"),
    [
        ({"system_prompt": "x"}, "approve"),
        ({"model": "x"}, "approve"),
        ({"mode": "auto"}, "approve"),
        ({"mode": "edit"}, "approve"),
        ({"title": "x", "mode": "auto"}, "approve"),
        ({"something": 1}, "admin"),
    ],
)
def test_a_field_may_need_more_than_its_route(tmp_path: Path, field: dict[str, Any], needed: str) -> None:
    """SECURITY 2: per PATCH field; the same fields count when a session is created."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            prompt = await daemon.mint("prompt")
            answer = await daemon.ask("PATCH", "/v1/sessions/sess_1", field, token=prompt)
            assert (answer.status, answer.json.get("needed")) == (403, needed)
            if needed == "approve":
                new = await daemon.ask("POST", "/v1/sessions", {"workspace_path": "/", **field}, token=prompt)
                assert (new.status, new.json.get("needed")) == (403, needed)

    asyncio.run(run())


@pytest.mark.parametrize("token", ["", "x", "tok_1.", ".", "admin", "Bearer", "tok_1.\xff", "x" * 10_000])
def test_a_wrong_token_is_no_token(tmp_path: Path, token: str) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            headers = {"Authorization": f"Bearer {token}"}
            assert (await daemon.ask("GET", "/v1/inbox", token=None, headers=headers)).code == "no_token"
            right_id = daemon.token.partition(".")[0]
            headers = {"Authorization": f"Bearer {right_id}.{token}"}
            assert (await daemon.ask("GET", "/v1/inbox", token=None, headers=headers)).code == "no_token"

    asyncio.run(run())


def test_a_token_mints_nothing_wider_or_longer_than_itself(tmp_path: Path) -> None:
    """SECURITY 2."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            short = await daemon.mint("admin", days=1)
            longer = await daemon.ask("POST", "/v1/tokens", {"scope": "read", "days": 2}, token=short)
            assert (longer.status, longer.json["errors"][0]["path"]) == (422, "days")
            parent = await daemon.ask("GET", "/v1/tokens", token=short)
            ends = next(token["expires_at"] for token in parent.json["tokens"] if token["id"] == short.partition(".")[0])
            assert (await daemon.ask("POST", "/v1/tokens", {"scope": "read"}, token=short)).json["expires_at"] == ends
            prompt = await daemon.mint("prompt")
            assert (await daemon.ask("POST", "/v1/codes", {"scope": "approve"}, token=prompt)).code == "scope"
            assert (await daemon.ask("POST", "/v1/codes", {"scope": "prompt"}, token=prompt)).status == 201

    asyncio.run(run())


def test_what_a_token_minted_ends_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            parent = await daemon.mint("admin")
            child = (await daemon.ask("POST", "/v1/tokens", {"scope": "read"}, token=parent)).json["token"]
            assert (await daemon.ask("GET", "/v1/inbox", token=child)).status == 200
            assert (await daemon.ask("DELETE", f"/v1/tokens/{parent.partition('.')[0]}")).status == 204
            for gone in (parent, child):
                assert (await daemon.ask("GET", "/v1/inbox", token=gone)).status == 401
            listed = (await daemon.ask("GET", "/v1/tokens")).json["tokens"]
            assert [token["name"] for token in listed] == ["user"]

    asyncio.run(run())


def test_a_small_token_can_end_itself_and_no_other(tmp_path: Path) -> None:
    """API.md, Doors: "Sign out" revokes the page's token."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            one, other = await daemon.mint("read"), await daemon.mint("read")
            assert (await daemon.ask("DELETE", f"/v1/tokens/{other.partition('.')[0]}", token=one)).code == "scope"
            assert (await daemon.ask("DELETE", f"/v1/tokens/{one.partition('.')[0]}", token=one)).status == 204
            assert (await daemon.ask("GET", "/v1/inbox", token=one)).status == 401
            assert (await daemon.ask("DELETE", f"/v1/tokens/{daemon.token.partition('.')[0]}")).status == 422
            assert (await daemon.ask("DELETE", "/v1/tokens/tok_none")).status == 404

    asyncio.run(run())


def test_the_disk_holds_hashes_in_private_files_only(tmp_path: Path) -> None:
    """SECURITY 7: by mode, whatever the umask is."""

    async def run(umask: int, folder: Path) -> None:
        folder.mkdir()
        before = os.umask(umask)
        try:
            async with serving(folder, QuietHub()) as daemon:
                token = await daemon.mint("read", name="phone")
        finally:
            os.umask(before)
        assert sorted(path.name for path in folder.iterdir()) == ["token", "tokens.json"]
        for path in folder.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
            assert token.partition(".")[2] not in path.read_text()
        async with serving(folder, QuietHub()) as daemon:
            assert (await daemon.ask("GET", "/v1/inbox", token=token)).status == 200

    asyncio.run(run(0o000, tmp_path / "open"))
    asyncio.run(run(0o022, tmp_path / "usual"))
    asyncio.run(run(0o777, tmp_path / "closed"))


def test_a_disk_that_takes_nothing_mints_nothing(tmp_path: Path) -> None:
    """A clear 507, and the tokens that were there still count."""
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = Tokens(folder, clock=lambda: 0.0)
    admin = tokens.authenticate((folder / "token").read_text().strip())
    assert admin is not None
    (folder / "token").unlink()
    folder.rmdir()
    with pytest.raises(DiskFailed):
        tokens.mint(admin, name="x", scopes=("read",), seconds=None)
    assert len(tokens.list()) == 1


def test_a_token_file_that_holds_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(Refused, match="holds no token"):
        Tokens(tmp_path, clock=lambda: 0.0)


def test_health_proves_that_it_knows_the_token_and_tells_a_stranger_nothing(tmp_path: Path) -> None:
    """SECURITY 6."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            for token in (daemon.token, await daemon.mint("read")):
                path = f"/v1/health?token_id={token.partition('.')[0]}&nonce=abc"
                proof = (await daemon.ask("GET", path, token=None)).json["proof"]
                key = sha256(token.encode()).digest()
                assert proof == hmac.new(key, f"abc{daemon.port}".encode(), sha256).hexdigest()
            assert "proof" not in (await daemon.ask("GET", "/v1/health?token_id=tok_no&nonce=abc", token=None)).json
            assert "proof" not in (await daemon.ask("GET", f"/v1/health?token_id={token}", token=None)).json

    asyncio.run(run())


# --- sign-in codes ------------------------------------------------------------------------------------------------------------


async def _code(daemon: Daemon, scope: str = "admin") -> str:
    return str((await daemon.ask("POST", "/v1/codes", {"scope": scope})).json["code"])


async def _login(daemon: Daemon, code: str) -> Any:
    return await daemon.ask("POST", "/v1/login", {"code": code}, token=None)


def test_a_code_becomes_a_token_once_and_within_a_minute(tmp_path: Path) -> None:
    """SECURITY 5: a second use, a use after 61 s and one after a restart fail."""

    async def run() -> None:
        clock = Clock()
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            code = await _code(daemon, "read,prompt")
            answer = await _login(daemon, code)
            assert (answer.status, answer.json["scope"]) == (200, "read,prompt")
            assert (await daemon.ask("GET", "/v1/inbox", token=answer.json["token"])).status == 200
            assert (await daemon.ask("GET", "/v1/tokens", token=answer.json["token"])).status == 403
            assert (await _login(daemon, code)).code == "bad_code"
            late, lost = await _code(daemon), await _code(daemon)
            clock.now += 61
            assert (await _login(daemon, late)).code == "bad_code"
            lost = await _code(daemon)
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            assert (await _login(daemon, lost)).code == "bad_code"

    asyncio.run(run())


def test_two_browsers_with_one_code_get_one_token(tmp_path: Path) -> None:
    """SECURITY 5: one use, taken atomically."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            code = await _code(daemon)
            answers = await asyncio.gather(*(_login(daemon, code) for _ in range(8)))
            assert sorted(answer.status for answer in answers) == [200] + [401] * 7

    asyncio.run(run())


def test_ten_wrong_codes_in_a_minute_shut_the_door_for_a_minute(tmp_path: Path) -> None:
    """SECURITY 5."""

    async def run() -> None:
        clock = Clock()
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            for _ in range(10):
                assert (await _login(daemon, "wrong")).status == 401
            shut = await _login(daemon, await _code(daemon))
            assert (shut.status, shut.code, shut.headers["retry-after"]) == (429, "too_many", "60")
            clock.now += 60
            assert (await _login(daemon, await _code(daemon))).status == 200
            for _ in range(20):
                clock.now += 7
                assert (await _login(daemon, "wrong")).status == 401

    asyncio.run(run())


def test_a_sign_in_lasts_thirty_days_from_its_last_use(tmp_path: Path) -> None:
    """API.md, Doors: renewed in use; other tokens are not."""

    async def run() -> None:
        clock = Clock()
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            signed_in = (await _login(daemon, await _code(daemon))).json["token"]
            minted = await daemon.mint("read", days=30)
            for _ in range(3):
                clock.now += 29 * 86_400
                assert (await daemon.ask("GET", "/v1/inbox", token=signed_in)).status == 200
            assert (await daemon.ask("GET", "/v1/inbox", token=minted)).status == 401
            clock.now += 30 * 86_400
            assert (await daemon.ask("GET", "/v1/inbox", token=signed_in)).status == 401

    asyncio.run(run())


# --- what is open ends --------------------------------------------------------------------------------------------------------


def test_streams_and_sockets_close_within_a_second_of_their_tokens_end(tmp_path: Path) -> None:
    """SECURITY 2: 4401."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            token = await daemon.mint("read")
            async with (
                streaming(daemon.port, EVENTS, token=token) as stream,
                streaming(daemon.port, EVENTS, token=daemon.token) as other,
                daemon.authorized(token) as ws,
            ):
                await stream.until(lambda frame: frame.event == "caught_up")
                await other.until(lambda frame: frame.event == "caught_up")
                assert (await daemon.ask("DELETE", f"/v1/tokens/{token.partition('.')[0]}")).status == 204
                async with asyncio.timeout(1):
                    assert await stream.next() is None
                    with pytest.raises(ConnectionClosed) as closed:
                        await ws.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await other.next()

    asyncio.run(run())


def test_a_stream_ends_when_its_token_expires(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            token = await daemon.mint("read", days=1.5 / 86_400)
            async with streaming(daemon.port, EVENTS, token=token) as stream, daemon.authorized(token) as ws:
                async with asyncio.timeout(2.5):
                    while await stream.next():
                        pass
                    with pytest.raises(ConnectionClosed) as closed:
                        await ws.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401

    asyncio.run(run())


def test_when_the_daemon_ends_its_streams_end_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            async with streaming(daemon.port, EVENTS, token=daemon.token) as stream, daemon.authorized() as ws:
                await stream.until(lambda frame: frame.event == "caught_up")
                daemon.app.doors.leases.end_all()
                async with asyncio.timeout(1):
                    assert await stream.next() is None
                    with pytest.raises(ConnectionClosed) as closed:
                        await ws.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012

    asyncio.run(run())


# --- tickets ------------------------------------------------------------------------------------------------------------------


async def _ticket(daemon: Daemon, token: str = "") -> str:
    return str((await daemon.ask("POST", "/v1/tickets", token=token)).json["ticket"])


async def _opens(daemon: Daemon, path: str) -> int:
    async with streaming(daemon.port, path) as stream:
        return stream.status


def test_a_ticket_opens_one_event_route_and_reopens_the_same_one_only(tmp_path: Path) -> None:
    """API.md, Doors: an EventSource reconnects to the URL that it has, with `Last-Event-ID`."""

    async def run() -> None:
        clock = Clock()
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            ticket = await _ticket(daemon)
            for _ in range(3):
                async with streaming(daemon.port, f"{EVENTS}?ticket={ticket}", headers={"Last-Event-ID": "0"}) as stream:
                    assert stream.status == 200
                    await stream.until(lambda frame: frame.event == "caught_up")
                clock.now += 299
                await _closed(daemon)
            assert await _opens(daemon, f"/v1/events?ticket={ticket}") == 401
            assert (await daemon.ask("GET", f"/v1/inbox?ticket={ticket}", token=None)).status == 401
            await _closed(daemon)
            clock.now += 301
            assert await _opens(daemon, f"{EVENTS}?ticket={ticket}") == 401

    asyncio.run(run())


async def _closed(daemon: Daemon) -> None:
    """Waits until the daemon has seen that its streams are closed."""
    async with asyncio.timeout(5):
        while any(ticket.streams for ticket in daemon.app.doors.tickets._tickets.values()):
            await asyncio.sleep(0.01)


def test_a_ticket_that_was_not_used_within_half_a_minute_is_none(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        async with serving(tmp_path, QuietHub(), clock=clock) as daemon:
            ticket = await _ticket(daemon)
            clock.now += 31
            assert await _opens(daemon, f"{EVENTS}?ticket={ticket}") == 401
            assert await _opens(daemon, f"{EVENTS}?ticket=wrong") == 401

    asyncio.run(run())


def test_a_ticket_dies_with_its_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            token = await daemon.mint("read")
            ticket = await _ticket(daemon, token)
            async with streaming(daemon.port, f"{EVENTS}?ticket={ticket}") as stream:
                await stream.until(lambda frame: frame.event == "caught_up")
                await daemon.ask("DELETE", f"/v1/tokens/{token.partition('.')[0]}")
                async with asyncio.timeout(1):
                    assert await stream.next() is None
            assert await _opens(daemon, f"{EVENTS}?ticket={ticket}") == 401

    asyncio.run(run())


# --- without a token ----------------------------------------------------------------------------------------------------------


def test_without_a_token_everything_opens_but_tokens_and_settings(tmp_path: Path) -> None:
    """SECURITY 7."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub(), no_token=True) as daemon:
            assert (await daemon.ask("GET", "/v1/sessions/sess_1", token=None)).status == 200
            assert await _opens(daemon, EVENTS) == 200
            for method, path in (("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("POST", "/v1/codes"), ("GET", "/v1/settings")):
                assert (await daemon.ask(method, path, token=None)).code == "scope", path
            for path in ("/v1/tokens", "/v1/settings"):
                assert (await daemon.ask("GET", path)).status == 200
            assert (await daemon.ask("GET", "/v1/inbox", token=None, headers={"Origin": "http://evil.example"})).status == 403
            assert (await daemon.ask("GET", "/v1/inbox", token=None, headers={"Host": "evil.example"})).status == 421
            async with daemon.socket() as ws:
                assert json.loads(await ws.recv())["op"] == "ready"

    asyncio.run(run())


def test_without_a_token_another_users_program_is_refused(tmp_path: Path) -> None:
    """SECURITY 7: what counts is the connection; a header that claims another address changes nothing."""
    asked: list[tuple[str, int]] = []

    def same_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
        asked.append(client)
        return False

    async def run() -> None:
        async with serving(tmp_path, QuietHub(), no_token=True, same_user=same_user) as daemon:
            for path in ("/", "/v1/health", "/v1/inbox"):
                answer = await daemon.ask("GET", path, token=None, headers={"X-Forwarded-For": "10.0.0.9"})
                assert (answer.status, answer.code) == (403, "peer")
            with pytest.raises(InvalidStatus) as refused:
                async with daemon.socket(additional_headers={"X-Forwarded-For": "10.0.0.9"}):
                    pass
            assert refused.value.response.status_code == 403
        assert len(asked) == 4 and {host for host, _ in asked} == {"127.0.0.1"}

    asyncio.run(run())


def test_the_kernels_table_names_the_user_of_the_other_end() -> None:
    rows = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:2253 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 111 1 0",
        "   1: 0100007F:D431 0100007F:2253 01 00000000:00000000 00:00000000 00000000  1001        0 222 1 0",
        "   2: 0100007F:D432 0100007F:2253 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0",
    ]
    server = ("127.0.0.1", 0x2253)
    assert peer_uid(rows, ("127.0.0.1", 0xD431), server) == 1001
    assert peer_uid(rows, ("127.0.0.1", 0xD432), server) is None
    assert peer_uid(rows, ("127.0.0.1", 1), server) is None
    six = ["   0: 0000000000000000FFFF00000100007F:D431 0000000000000000FFFF00000100007F:2253 01 0:0 0:0 0  1002 0 5 1 0"]
    assert peer_uid(six, ("127.0.0.1", 0xD431), server) == 1002


if can_tell:
    from palaver.serve.peer import is_our_user

    def test_a_connection_of_our_own_is_ours_and_another_users_is_not() -> None:
        """SECURITY 7: on Linux, with real sockets; the other user only where this test may become one."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            with socket.create_connection(address):
                connection, client = server.accept()
                with connection:
                    assert is_our_user(client, address)
                    assert not is_our_user((client[0], client[1] ^ 1), address)
            if os.getuid() == 0:
                server.settimeout(10)
                program = f"import os, socket; s = socket; os.setuid(65534); c = s.socket(); c.connect({address!r}); c.recv(1)"
                child = subprocess.Popen([sys.executable, "-c", program])
                connection, client = server.accept()
                with connection:
                    assert not is_our_user(client, address)
                assert child.wait(10) == 0


def test_scopes_imply_those_below_them() -> None:
    assert expand(("approve",)) == {"read", "prompt", "approve"}
    assert expand(("read",)) == {"read"}
    assert expand(()) == frozenset()
    assert expand(("admin",)) == {"read", "prompt", "approve", "admin"}
