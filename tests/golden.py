"""Golden files: what a case must come out as, read by more than one language. `--rewrite-golden` writes them; read the diff."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from palaver.wire.codec import decode_event, encode_event
from palaver.wire.events import Recorded

FOLDER = Path(__file__).parent.parent / "golden"


class Golden:
    """Compares text with a golden file, byte by byte, or writes it there."""

    def __init__(self, rewrite: bool) -> None:
        self._rewrite = rewrite

    def check(self, path: Path, text: str) -> None:
        if self._rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert path.exists(), f"{path.name} of {path.parent.name} is missing: run pytest --rewrite-golden and read the diff"
        assert path.read_bytes().decode() == text


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(bool(request.config.getoption("--rewrite-golden")))


def cases() -> list[Path]:
    """Every session with a log, by name."""
    return sorted(path.parent for path in FOLDER.glob("*/log.ndjson"))


def read_lines(path: Path) -> list[Recorded]:
    """A log; of a stream with its tail also the pieces, whose `seq` is 0."""
    return [decode_event(line) for line in path.read_bytes().splitlines()]


def to_lines(events: Iterable[Recorded]) -> str:
    return "".join(encode_event(recorded).decode() + "\n" for recorded in events)


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
