"""Two readers of HTTP, ours for this machine and httpx2's for all others: whatever a server does, they tell it alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from palaver.models.connections import new_client
from palaver.models.direct import HIGH_WATER, Direct
from palaver_daemon import until

pytestmark = pytest.mark.anyio
TIMEOUT = httpx2.Timeout(20)
Clients = Callable[[], httpx2.AsyncClient]
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["direct", "httpx2"])
def client(request: pytest.FixtureRequest) -> Clients:
    if request.param == "direct":
        return lambda: httpx2.AsyncClient(transport=Direct(), trust_env=False)
    return lambda: httpx2.AsyncClient(trust_env=False)


@asynccontextmanager
async def serving(answer: Answering) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def saying(*pieces: bytes, requests: int = 1) -> Answering:
    """These bytes, a write each, to every request of a connection; then it is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(requests):
            await asked(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()

    return answer


async def asked(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return head, await reader.readexactly(length)


async def post(clients: Clients, url: str, content: bytes = b"{}", timeout: httpx2.Timeout = TIMEOUT) -> tuple[int, bytes]:
    async with clients() as client:
        request = client.build_request("POST", url, content=content, headers={"X-Own": "1"}, timeout=timeout)
        response = await client.send(request, stream=True)
        try:
            return response.status_code, b"".join([piece async for piece in response.aiter_raw()])
        finally:
            await response.aclose()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "status", "body"),
    [
        ([CHUNKED, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"], 200, b"abcde"),
        ([CHUNKED[:30], CHUNKED[30:], b"3;ext=1\r", b"\na", b"bc\r\n0\r\nTrailer: x\r\n\r\n"], 200, b"abc"),
        ([OK + b"Content-Length: 3\r\n\r\nabc"], 200, b"abc"),
        ([OK + b"Content-Length: 0\r\n\r\n"], 200, b""),
        ([OK + b"\r\nabc", b"de"], 200, b"abcde"),
        ([b"HTTP/1.0 200 OK\r\n\r\nabc"], 200, b"abc"),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK + b"Content-Length: 1\r\n\r\na"], 200, b"a"),
        ([b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\n\r\nno"], 429, b"no"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
    ],
)
async def test_an_answer_is_read_however_it_is_framed(client: Clients, pieces: list[bytes], status: int, body: bytes) -> None:
    async with serving(saying(*pieces)) as url:
        assert await post(client, url) == (status, body)


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [OK],
        [CHUNKED + b"3\r\nabc\r\n"],
        [OK + b"Content-Length: 5\r\n\r\nabc"],
        [b"SSH-2.0-OpenSSH_9\r\n\r\n"],
        [CHUNKED + b"zz\r\nabc\r\n"],
    ],
    ids=["nothing", "half a head", "no end", "too short", "no HTTP", "no chunk"],
)
async def test_an_answer_that_breaks_off_or_is_none_is_an_error_of_httpx2s(client: Clients, pieces: list[bytes]) -> None:
    async with serving(saying(*pieces)) as url:
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            await post(client, url)


async def test_nobody_there_and_nothing_said_are_told_apart(client: Clients) -> None:
    async with serving(saying()) as url:
        gone = url
    with pytest.raises(httpx2.ConnectError):
        await post(client, gone)
    silence = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silence.wait()

    async with serving(silent) as url:
        with pytest.raises(httpx2.ReadTimeout):
            await post(client, url, timeout=httpx2.Timeout(20, read=0.1))
        silence.set()


async def test_a_request_arrives_as_it_was_written_however_long_it_is(client: Clients) -> None:
    got: list[tuple[bytes, bytes]] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await asked(reader))
        writer.write(OK + b"Content-Length: 0\r\n\r\n")

    content = b"x" * 3_000_000
    async with serving(keep) as url:
        await post(client, url + "/a%20b?c=d", content)
    head = got[0][0].lower()
    assert head.startswith(b"post /v1/a%20b?c=d http/1.1\r\n") and b"\r\nx-own: 1\r\n" in head and b"\r\nhost: 127.0.0.1:" in head
    assert got[0][1] == content


async def test_a_connection_is_kept_for_the_next_request_unless_the_server_ends_it(client: Clients) -> None:
    opened = 0
    whole = OK + b"Content-Length: 1\r\n\r\na"
    last = OK + b"Content-Length: 1\r\nConnection: close\r\n\r\na"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await saying(whole, requests=2)(reader, writer)
        await saying(last)(reader, writer)

    async with serving(answer) as url, client() as one:
        for _ in range(4):
            assert (await one.post(url, content=b"{}", timeout=TIMEOUT)).content == b"a"
        assert opened == 2, "the fourth needs another one, since the server closed the first"


async def test_closing_an_answer_early_closes_its_connection(client: Clients) -> None:
    gone = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED + b"1\r\na\r\n")
        await reader.read()
        gone.set()

    async with serving(endless) as url, client() as one:
        response = await one.send(one.build_request("POST", url, content=b"{}"), stream=True)
        async for piece in response.aiter_raw():
            assert piece == b"a"
            break
        await response.aclose()
        async with asyncio.timeout(5):
            await gone.wait()


async def test_what_nobody_reads_makes_the_server_wait() -> None:
    """Ours alone: memory stays bounded when the reader is slower than the server."""
    written, block = 0, b"10000\r\n" + b"x" * 65536 + b"\r\n"
    stuck = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await asked(reader)
        writer.write(CHUNKED)
        while written < 1000:
            writer.write(block)
            written += 1
            try:
                await asyncio.wait_for(writer.drain(), 0.3)
            except TimeoutError:
                stuck.set()
                await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with serving(flood) as url, httpx2.AsyncClient(transport=Direct(), trust_env=False) as one:
        response = await one.send(one.build_request("POST", url, content=b"{}", timeout=TIMEOUT), stream=True)
        async with asyncio.timeout(20):
            await stuck.wait()
        await until(lambda: written > HIGH_WATER // 65536)
        assert written < 1000
        assert sum([len(piece) async for piece in response.aiter_raw()]) == 1000 * 65536
        await response.aclose()


@pytest.mark.parametrize(
    ("base_url", "direct"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost:8080/v1", True),
        ("http://[::1]:8080/v1", True),
        ("https://127.0.0.1/v1", False),
        ("http://192.168.1.7:8000/v1", False),
        ("https://api.openai.com/v1", False),
    ],
)
async def test_only_plain_http_to_this_machine_is_read_by_ours(base_url: str, direct: bool) -> None:
    """TLS, proxies and far connections stay httpx2's."""
    async with new_client(base_url) as client:
        assert isinstance(client._transport, Direct) is direct
