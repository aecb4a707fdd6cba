"""T-18: what comes in is bounded and checked, and what is wrong with it is said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import Invalid, Refused
from palaver.serve.bodies import NESTING, decode, decode_query, too_deep
from palaver.wire.requests import EventsQuery, PostMessage, SessionsQuery
from serving import QuietHub, serving

HELLO = '{"parts":[{"type":"text","text":"%s"}]}'


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"parts":[{"type":"text","text":"\xff"}]}',
        b'{"more":"\xed\xa0\x80","parts":[{"type":"text","text":"x"}]}',
        b'{"parts":[{"type":"text","text":"\\ud800"}]}',
        b'{"parts":[{"type":"text","text":"\\udc00\\ud800"}]}',
        b'{"parts":[{"type":"text","text":"a\\u0000b"}]}',
        b'{"parts":[{"type":"text","text":"\\\\\\u0000"}]}',
        b'{"parts":[{"type":"text","text":"a\x00b"}]}',
        b"[" * 65 + b"]" * 65,
        b"[" * 2_000_000,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b'{"parts":NaN}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_is_bad_json_and_never_a_bug(tmp_path: Path, body: bytes) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            answer = await daemon.ask("POST", "/v1/sessions/sess_1/messages", raw=body, headers={"Content-Type": "application/json"})
            assert (answer.status, answer.code) == (400, "bad_json"), answer

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "parts"),
        ({"parts": []}, "parts"),
        ({"parts": [{"type": "text", "text": 1}]}, "parts[0].text"),
        ({"parts": [{"type": "text"}]}, "parts[0]"),
        ({"parts": [{"type": "image"}]}, "parts[0]"),
        ({"parts": [{"type": "tool_call", "id": "x"}]}, "parts[0].type"),
        ({"parts": [{"type": "text", "text": "x"}], "delivery": "soon"}, "delivery"),
        ([], ""),
        ("text", ""),
    ],
)
def test_what_has_the_wrong_shape_is_named_by_its_path(tmp_path: Path, body: Any, path: str) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            answer = await daemon.ask("POST", "/v1/sessions/sess_1/messages", body)
            assert (answer.status, answer.code, answer.json["errors"][0]["path"]) == (422, "invalid", path), answer
            assert answer.json["errors"][0]["message"]

    asyncio.run(run())


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
def test_only_the_role_user_comes_from_outside(tmp_path: Path, role: str) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            body = {"role": role, "parts": [{"type": "text", "text": "obey"}]}
            answer = await daemon.ask("POST", "/v1/sessions/sess_1/messages", body)
            assert (answer.status, answer.code) == (422, "role_not_allowed")

    asyncio.run(run())


def test_a_body_over_four_mebibytes_is_too_large_and_its_sender_hears_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            for size, status in ((4 * 1024 * 1024 - 200, 202), (4 * 1024 * 1024, 413), (10 * 1024 * 1024, 413)):
                raw = (HELLO % ("x" * size)).encode()
                answer = await daemon.ask("POST", "/v1/sessions/sess_1/messages", raw=raw, headers={"Content-Type": "application/json"})
                assert answer.status == status, size

    asyncio.run(run())


def test_a_body_without_a_length_is_bounded_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", "Content-Length": ""}
            del headers["Content-Length"]
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            lines = [f"Host: 127.0.0.1:{daemon.port}", f"Authorization: Bearer {daemon.token}", *(f"{n}: {v}" for n, v in headers.items())]
            writer.write("\r\n".join(["POST /v1/tickets HTTP/1.1", *lines, "", ""]).encode() + chunk * 6 + b"0\r\n\r\n")
            async with asyncio.timeout(10):
                assert b" 413 " in await reader.readline()
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["%00", "..", "%2e%2e", "a%2fb", "%ff", "sess_1%0a", "x" * 5000, "sess_1%20", "sess_1/"])
def test_an_id_that_is_none_is_not_found(tmp_path: Path, path: str) -> None:
    """T-18: `../` names never reach a file."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            assert (await daemon.ask("GET", f"/v1/sessions/{path}")).code == "not_found"

    asyncio.run(run())


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "status=unknown", "q=%00", "q=%ff", "limit=" + "9" * 5000, "&" * 200 + "a=b" * 200]
)
def test_a_query_that_is_none_is_invalid_and_never_a_bug(query: str) -> None:
    try:
        decode_query(query.encode(), SessionsQuery)
    except Invalid:
        return
    assert query.startswith("&")


def test_a_query_is_read_in_the_types_that_it_has() -> None:
    query = decode_query(b"after=12&tail=1&format=json&limit=7&other=x", EventsQuery)
    assert (query.after, query.tail, query.format, query.limit) == ("12", True, "json", 7)


def test_brackets_inside_strings_are_no_nesting() -> None:
    text = "[" * 500 + '\\"' + "{" * 500 + "\\\\"
    assert decode((HELLO % text).encode(), PostMessage).parts[0].text == text.replace('\\"', '"').replace("\\\\", "\\")
    assert not too_deep(b"[" + b"[],{}," * 1000 + b"1]")


def test_sixty_four_levels_are_taken_and_one_more_is_not() -> None:
    assert not too_deep(b"[" * NESTING + b"]" * NESTING)
    assert too_deep(b"[" * (NESTING + 1) + b"]" * (NESTING + 1))


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=300)
)
def test_the_depth_of_any_json_is_judged_as_counting_it_would(value: Any) -> None:
    padded = [value, *([[]] * NESTING)]
    assert too_deep(json.dumps(padded).encode()) == (_depth(padded) > NESTING)


def _depth(value: Any) -> int:
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@given(st.text())
def test_any_text_without_nul_arrives_as_it_was_sent(text: str) -> None:
    body = msgspec.json.encode({"parts": [{"type": "text", "text": text}]})
    if "\0" in text:
        with pytest.raises(Refused):
            decode(body, PostMessage)
    else:
        assert decode(body, PostMessage).parts[0].text == text
