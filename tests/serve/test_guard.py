"""SECURITY 1 and 8: what every request must be before anything looks at it."""

from __future__ import annotations

import asyncio
import re
from itertools import product
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from serving import Daemon, QuietHub, exchange, read_answer, serving

HOSTS = {"127.0.0.1:{port}": True, "localhost:{port}": True, "LOCALHOST:{port}": True} | dict.fromkeys(
    ("127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "[::1]:{port}", "127.0.0.1.evil.example:{port}", "localhost.:{port}", ""), False
)
ORIGINS = {None: True, "http://{host}": True} | dict.fromkeys(
    ("null", "http://evil.example", "https://{host}", "http://127.0.0.1:1", "http://{host}/", "file://", ""), False
)
FETCHES: dict[tuple[str | None, str | None, str | None], str] = {
    (None, None, None): "all",
    ("same-origin", "cors", "empty"): "all",
    ("none", "navigate", "document"): "all",
    ("cross-site", "navigate", "document"): "page",
    ("same-site", "navigate", "document"): "page",
    ("same-site", "no-cors", "image"): "none",
    ("same-site", "navigate", "iframe"): "none",
    ("cross-site", "cors", "empty"): "none",
    ("same-site", "websocket", "websocket"): "none",
}
ROUTES = (
    ("GET", "/"),
    ("GET", "/s/sess_1"),
    ("GET", "/v1/health"),
    ("GET", "/v1/sessions/sess_1"),
    ("POST", "/v1/tickets"),
    ("GET", "/v1/none"),
)


def test_only_our_own_host_origin_and_pages_pass_the_guard_with_and_without_a_token(tmp_path: Path) -> None:
    """SECURITY 1: the whole table Host × Origin × Sec-Fetch × route × token."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            rows = product(HOSTS, ORIGINS, FETCHES, ROUTES, (True, False))
            # The guard sees one fault or none: all pairs of a fault with everything else are in the table, pairs of faults are not.
            for row in rows:
                if sum((not HOSTS[row[0]], not ORIGINS[row[1]], FETCHES[row[2]] != "all")) <= 1:
                    await _check(daemon, *row)

    asyncio.run(run())


async def _check(
    daemon: Daemon, host: str, origin: str | None, fetch: tuple[str | None, str | None, str | None], route: tuple[str, str], token: bool
) -> None:
    host_sent = host.format(port=daemon.port)
    headers = [("Host", host_sent)]
    if origin is not None:
        headers.append(("Origin", origin.format(host=host_sent.lower())))
    names = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")
    headers += [(name, value) for name, value in zip(names, fetch, strict=True) if value is not None]
    if token:
        headers.append(("Authorization", f"Bearer {daemon.token}"))
    answer = await exchange(daemon.port, *route, headers)
    page = route in (("GET", "/"), ("GET", "/s/sess_1"))
    allowed = {"all": True, "page": page, "none": False}[FETCHES[fetch]]
    if not HOSTS[host]:
        expected = 421
    elif not ORIGINS[origin] or not allowed:
        expected = 403
    elif page or route[1] == "/v1/health":
        expected = 200
    elif not token:
        expected = 401
    else:
        expected = {"/v1/sessions/sess_1": 200, "/v1/tickets": 201, "/v1/none": 404}[route[1]]
    assert answer.status == expected, (headers, route, answer)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


def test_two_host_headers_and_none_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            ours = ("Host", f"127.0.0.1:{daemon.port}")
            for headers in ([ours, ours], []):
                assert (await exchange(daemon.port, "GET", "/v1/health", headers)).status == 421

    asyncio.run(run())


def test_a_second_origin_header_is_refused_even_if_the_first_is_ours(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            host = f"127.0.0.1:{daemon.port}"
            headers = [("Host", host), ("Origin", f"http://{host}"), ("Origin", "http://evil.example")]
            assert (await exchange(daemon.port, "GET", "/v1/health", headers)).status == 403

    asyncio.run(run())


@pytest.mark.parametrize("token", [True, False])
def test_a_socket_opens_only_for_our_own_host_and_origin(tmp_path: Path, token: bool) -> None:
    """SECURITY 1: the same guard stands before the WebSocket upgrade."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            carried = {"Authorization": f"Bearer {daemon.token}"} if token else {}
            for more, status in (
                ({"Origin": "http://evil.example"}, 403),
                ({"Origin": "null"}, 403),
                ({"Origin": "http://127.0.0.1:1"}, 403),
                ({"Sec-Fetch-Site": "cross-site"}, 403),
                ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
            ):
                with pytest.raises(InvalidStatus) as refused:
                    async with daemon.socket(additional_headers={**carried, **more}):
                        pass
                assert refused.value.response.status_code == status, more
            async with daemon.socket(origin=f"http://127.0.0.1:{daemon.port}", additional_headers=carried) as ws:
                assert ws.response is not None and ws.response.status_code == 101
            upgrade = [
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
            ]
            assert (await exchange(daemon.port, "GET", "/v1/ws", [("Host", "evil.example"), *upgrade])).status == 421

    asyncio.run(run())


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 202),
        ("application/json; charset=utf-8", 202),
        ("APPLICATION/JSON", 202),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonx", 415),
        ("", 415),
    ],
)
def test_a_write_with_a_body_says_that_it_is_json(tmp_path: Path, content_type: str, status: int) -> None:
    """SECURITY 1: what another site's page can send without asking is never JSON."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            raw = b'{"parts":[{"type":"text","text":"hello"}]}'
            headers = {"Content-Type": content_type} if content_type else {}
            answer = await daemon.ask("POST", "/v1/sessions/sess_1/messages", raw=raw, headers=headers)
            assert answer.status == status, answer

    asyncio.run(run())


def test_a_write_without_a_body_needs_no_content_type(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            assert (await daemon.ask("POST", "/v1/tickets")).status == 201

    asyncio.run(run())


def test_headers_are_bounded_whether_they_end_or_not(tmp_path: Path) -> None:
    """T-18: bodies, headers and nesting are bounded."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            host = ("Host", f"127.0.0.1:{daemon.port}")
            assert (await exchange(daemon.port, "GET", "/v1/health", [host, ("X-Long", "x" * 70_000)])).status == 431
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            writer.write(b"GET / HTTP/1.1\r\nX-Endless: " + b"x" * 1_000_000)
            async with asyncio.timeout(10):
                answer = await read_answer(reader)
            assert (answer.status, answer.code) == (431, "headers_too_large")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "line", [b"nonsense\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA\x00: b\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"]
)
def test_what_is_no_http_is_answered_with_a_problem_too(tmp_path: Path, line: bytes) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            writer.write(line)
            async with asyncio.timeout(10):
                answer = await read_answer(reader)
            assert (answer.status, answer.code) == (400, "bad_request")
            assert answer.headers["x-content-type-options"] == "nosniff"
            writer.close()

    asyncio.run(run())


def test_the_page_holds_no_script_of_its_own_text_and_may_load_nothing_foreign(tmp_path: Path) -> None:
    """SECURITY 8."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            page = await daemon.ask("GET", "/s/sess_1", token=None)
            policy = page.headers["content-security-policy"]
            assert f"connect-src 'self' ws://127.0.0.1:{daemon.port};" in policy
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "trusted-types 'none'" in policy
            assert page.headers["cross-origin-opener-policy"] == "same-origin"
            assert re.findall(rb"<script[^>]*>[^<]", page.body) == [] and b"style=" not in page.body
            sources = re.findall(rb'(?:src|href)="([^"]*)"', page.body)
            assert sources and all(source.startswith((b"/assets/", b"/page.css", b"data:,")) for source in sources)
            assert (await daemon.ask("GET", "/page.css", token=None)).headers["content-type"].startswith("text/css")

    asyncio.run(run())


def test_health_is_exactly_what_other_programs_expect(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            assert (await daemon.ask("GET", "/api/health", token=None)).json == {"ok": True}
            assert (await daemon.ask("GET", "/v1/health", token=None)).json == {"ok": True, "version": "0.0"}
            head = await daemon.ask("HEAD", "/v1/health", token=None)
            assert head.status == 200 and head.body == b""

    asyncio.run(run())


def test_without_a_token_nobody_learns_what_is_there(tmp_path: Path) -> None:
    """401 before 404, 405 and 403."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            for method, path in (
                ("GET", "/v1/none"),
                ("GET", "/openapi.json"),
                ("PUT", "/v1/sessions"),
                ("DELETE", "/v1/sessions/sess_1"),
                ("GET", "/x"),
            ):
                answer = await daemon.ask(method, path, token=None)
                assert (answer.status, answer.code) == (401, "no_token"), path
            wrong = await daemon.ask("PUT", "/v1/sessions")
            assert (wrong.status, wrong.code, wrong.headers["allow"]) == (405, "method_not_allowed", "GET, POST")
            assert (await daemon.ask("GET", "/v1/none")).code == "not_found"
            assert (await daemon.ask("POST", "/v1/health", token=None)).status == 405

    asyncio.run(run())


def test_a_bug_in_one_request_is_a_problem_document_and_the_next_request_is_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            answer = await daemon.ask("GET", "/v1/agents")
            assert (answer.status, answer.code) == (500, "internal")
            assert b"ZeroDivision" not in answer.body
            assert (await daemon.ask("GET", "/v1/inbox")).status == 200

    asyncio.run(run())
