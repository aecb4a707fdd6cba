"""`openapi.json`: fresh, valid, and true of the daemon as it runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from openapi_spec_validator import validate

import palaver
from palaver.serve.http import ROUTES
from palaver.serve.openapi import codes_of, document
from palaver.serve.problems import MEANINGS, STATUSES

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = Path(sys.executable).parent
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"


class Process(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    token: str
    folder: Path


@contextmanager
def daemon_process(folder: Path) -> Iterator[Process]:
    """The daemon as a person starts it, on a port of its own choice."""
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PALAVER_DISCOVER": "0"}
    command = [str(PROGRAMS / "palaver"), "serve", "--port", "0", "--data", str(data)]
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), (folder / "stderr").read_text()
            yield Process(process, url, (data / "token").read_text().strip(), folder)
        finally:
            process.terminate()
            process.wait(15)


def test_the_document_is_valid_and_the_file_is_fresh() -> None:
    made = msgspec.json.encode(document(ROUTES, palaver.__version__))
    validate(msgspec.json.decode(made))
    assert (ROOT / "docs" / "openapi.json").read_bytes() == msgspec.json.format(made, indent=1) + b"\n"


def test_every_refusal_of_every_route_has_a_status_and_a_meaning() -> None:
    assert set(STATUSES) == set(MEANINGS)
    assert {code for route in ROUTES for code in codes_of(route)} <= set(STATUSES)


def test_schemathesis_finds_no_server_error_and_no_undocumented_status(tmp_path: Path) -> None:
    """The issue's own words; the event streams, which do not end, have tests of their own."""
    with daemon_process(tmp_path) as daemon:
        run = subprocess.run(
            [
                str(PROGRAMS / "st"),
                *("run", f"{daemon.url}/openapi.json", "-H", f"Authorization: Bearer {daemon.token}", "--checks", CHECKS),
                *("--phases", "examples,coverage,fuzzing", "--max-examples", "4", "--exclude-path-regex", "/events$"),
                *("--request-timeout", "10", "--generation-database", "none", "--seed", "1", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
        assert " passed" in run.stdout
        assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_sigterm_ends_streams_at_once_and_the_process_with_0(tmp_path: Path) -> None:
    """The daemon as a process, with a reader that follows and one that stopped reading."""
    with daemon_process(tmp_path) as daemon:
        host, port = daemon.url.removeprefix("http://").split(":")
        lines = ["GET /v1/events HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {daemon.token}", "", ""]
        readers = [socket.create_connection((host, int(port)), timeout=10) for _ in range(2)]
        for reader in readers:
            reader.sendall("\r\n".join(lines).encode())
            assert reader.recv(4096).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        daemon.process.terminate()
        while readers[0].recv(4096):
            pass
        assert time.monotonic() - began < 2
        assert daemon.process.wait(10) == 0
        for reader in readers:
            reader.close()
