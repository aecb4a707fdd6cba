"""Server-sent events, whatever the network does to their bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.client.sse import Frame, FrameReader

STREAM = (
    'retry: 1500\n\nevent: hello\ndata: {"type":"hello"}\n\n: keep-alive\n\n'
    'id: 7\ndata: {"text":"a\u2028b\u0085c\u000cd"}\n\nid: 8\r\ndata:no blank\r\n\r\ndata: one\ndata: two\n\nfuture: field\n\n'
).encode()
FRAMES = [
    Frame("hello", None, b'{"type":"hello"}'),
    Frame("", "7", '{"text":"a\u2028b\u0085c\u000cd"}'.encode()),
    Frame("", "8", b"no blank"),
    Frame("", None, b"one\ntwo"),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_frames_do_not_depend_on_where_the_pieces_end(cuts: list[int]) -> None:
    reader = FrameReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    frames = [frame for begin, end in pairwise(edges) for frame in reader.feed(STREAM[begin:end])]
    assert frames == FRAMES
    assert reader.retry_s == 1.5


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c", "\r"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    """The trap of STACK 4: a line that is split as text is split breaks JSON apart."""
    assert FrameReader().feed(f"data: a{separator}b\n\n".encode()) == [Frame("", None, f"a{separator}b".encode())]


def test_a_frame_that_is_not_ended_is_not_given() -> None:
    reader = FrameReader()
    assert reader.feed(b"id: 1\ndata: x\n") == []
    assert reader.feed(b"\n") == [Frame("", "1", b"x")]


def test_a_line_of_megabytes_arrives_whole() -> None:
    reader = FrameReader()
    big = b"x" * 300_000
    frames = [frame for piece in (b"data: ", *[big] * 10, b"\n\n") for frame in reader.feed(piece)]
    assert frames == [Frame("", None, big * 10)]
