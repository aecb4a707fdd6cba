"""SECURITY 8: what is uploaded comes back as a file, never as something that a browser runs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from urllib.parse import quote

import pytest

from hubs import daemon_in
from palaver.serve.files import safe_name, served_type
from serving import Answer, Daemon

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SCRIPT = b"<script>alert(1)</script>"

CORPUS = {
    ("page.html", "text/html"): SCRIPT,
    ("page.svg", "image/svg+xml"): b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    ("page.xhtml", "application/xhtml+xml"): b'<html xmlns="http://www.w3.org/1999/xhtml">' + SCRIPT + b"</html>",
    ("code.js", "text/javascript"): b"alert(1)",
    ("paper.pdf", "application/pdf"): b"%PDF-1.7\n" + SCRIPT + b"\x00\xff",
    ("polyglot.gif", "image/gif"): b"GIF89a/*" + SCRIPT + b"*/=1;",
    ("liar.png", "text/html"): SCRIPT,
    ("liar.html", "image/png"): SCRIPT,
    ("odd", "text/html\r\nX-Injected: 1"): SCRIPT,
    ("style.css", "text/css"): b"@import url(http://127.0.0.1:1/)",
    ("x.wasm", "application/wasm"): b"\x00asm\x01\x00\x00\x00",
    ("frame.mhtml", "multipart/related"): b"MIME-Version: 1.0\r\n\r\n" + SCRIPT,
    ("</script>.txt", "text/plain"): b"</script>",
}
HARMLESS = ("text/plain; charset=utf-8", "application/octet-stream", "image/png", "image/gif")


async def _session(daemon: Daemon, folder: Path) -> str:
    answer = await daemon.ask("POST", "/v1/sessions", {"workspace_path": str(folder)})
    assert answer.status == 201, answer
    return str(answer.json["session_id"])


async def _multipart(daemon: Daemon, session: str, name: str, mime: str, data: bytes, *, field: str = "file", cut: int = 0) -> Answer:
    head = f'--XX\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\nContent-Type: {mime}\r\n\r\n'
    body = head.encode() + data + b"\r\n--XX--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=XX"}
    return await daemon.ask("POST", f"/v1/sessions/{session}/attachments", raw=body[: len(body) - cut], headers=headers)


async def _base64(daemon: Daemon, session: str, name: str, mime: str, data: bytes) -> Answer:
    body = {"name": name, "mime_type": mime, "data": base64.b64encode(data).decode()}
    return await daemon.ask("POST", f"/v1/sessions/{session}/attachments", body)


def test_no_upload_comes_back_as_active_content(tmp_path: Path) -> None:
    """SECURITY 8: the corpus, by both ways in."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            for (name, mime), data in CORPUS.items():
                stored = await _base64(daemon, session, name, mime, data)
                assert stored.status == 201, stored
                back = await daemon.ask("GET", f"/v1/sessions/{session}/{quote(stored.json['ref'])}")
                assert (back.status, back.body) == (200, data), name
                assert back.headers["content-type"] in HARMLESS, name
                assert back.headers["content-disposition"].startswith("attachment; filename=")
                assert back.headers["content-security-policy"] == "sandbox; default-src 'none'"
                assert back.headers["x-content-type-options"] == "nosniff"
                assert back.headers["cross-origin-resource-policy"] == "same-origin"
                assert "x-injected" not in back.headers

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, 1, 300_000, 5_000_000])
def test_an_upload_by_multipart_and_by_base64_comes_back_whole(tmp_path: Path, size: int) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            data = (b"--XX\r\n" + bytes(range(256)) * (size // 256 + 1))[:size]
            for upload in (_multipart, _base64):
                stored = await upload(daemon, session, "a b.bin", "application/x-thing", data)
                assert stored.status == 201, stored
                assert stored.json["size"] == size
                assert stored.json["sha256"] == hashlib.sha256(data).hexdigest()
                assert stored.json["ref"].startswith("attachments/")
                assert (await daemon.ask("GET", f"/v1/sessions/{session}/{quote(stored.json['ref'])}")).body == data

    asyncio.run(run())


def test_a_picture_comes_back_as_a_picture(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            for name in ("img.png", "img"):
                stored = (await _multipart(daemon, session, name, "image/png", PNG)).json
                assert stored["mime_type"] == "image/png"
                back = await daemon.ask("GET", f"/v1/sessions/{session}/{stored['ref']}")
                assert (back.headers["content-type"], back.body) == ("image/png", PNG)

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["../../token", "..", "/etc/passwd", "a\\..\\b", "\u202egnp.exe", "a\nb", "x" * 3000, ".", " ", "…/…", "con\x07"]
)
def test_a_name_cannot_lead_out_of_the_session(tmp_path: Path, name: str) -> None:
    """T-18: attachment name tricks."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            before = {path for path in tmp_path.rglob("*") if path.is_file()}
            stored = await _base64(daemon, session, name[:1024], "text/plain", b"x")
            new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
            folder = tmp_path / "data" / "sessions" / session / "attachments"
            assert all(path.parent == folder for path in new if path.parent.name != session)
            if stored.status == 201:
                back = await daemon.ask("GET", f"/v1/sessions/{session}/{quote(stored.json['ref'])}")
                assert (back.status, back.body) == (200, b"x")

    asyncio.run(run())


def test_only_refs_of_the_session_are_served(tmp_path: Path) -> None:
    """T-18."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session, other = await _session(daemon, tmp_path), await _session(daemon, tmp_path)
            stored = (await _base64(daemon, other, "secret.txt", "text/plain", b"x")).json
            for path in (
                stored["ref"],
                "attachments/..%2f..%2f..%2ftoken",
                "attachments/%2e%2e",
                "attachments/",
                "attachments/none",
                "artifacts/..%2f/x",
            ):
                assert (await daemon.ask("GET", f"/v1/sessions/{session}/{path}")).status == 404, path
            message = {"parts": [{"type": "file", "ref": stored["ref"]}]}
            refused = await daemon.ask("POST", f"/v1/sessions/{session}/messages", message)
            assert (refused.status, refused.code) == (422, "unknown_attachment")

    asyncio.run(run())


def test_a_form_that_is_broken_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            folder = tmp_path / "data" / "sessions" / session / "attachments"
            assert (await _multipart(daemon, session, "a", "text/plain", b"x", field="other")).status == 422
            assert (await _multipart(daemon, session, "a", "text/plain", b"x" * 100_000, cut=6)).status == 422
            bad = await daemon.ask("POST", f"/v1/sessions/{session}/attachments", {"name": "a", "data": "no base64!"})
            assert (bad.status, bad.json["errors"][0]["path"]) == (422, "data")
            nothing = await daemon.ask(
                "POST", f"/v1/sessions/{session}/attachments", raw=b"x", headers={"Content-Type": "multipart/form-data"}
            )
            assert nothing.status == 422
            assert not folder.exists() or list(folder.iterdir()) == []

    asyncio.run(run())


def test_a_file_over_twenty_five_mebibytes_is_too_large(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await _session(daemon, tmp_path)
            limit = 25 * 1024 * 1024
            assert (await _multipart(daemon, session, "fits", "x/y", b"\0" * limit)).status == 201
            assert (await _multipart(daemon, session, "over", "x/y", b"\0" * (limit + 1))).code == "too_large"
            assert (await _multipart(daemon, session, "far", "x/y", b"\0" * (limit + 1_000_000))).code == "too_large"
            assert (await _base64(daemon, session, "over", "x/y", b"\0" * (limit + 1))).code == "too_large"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.txt", "a.txt"),
        ("../a", "a"),
        ("a\u202eb", "ab"),
        ("a\r\nb", "ab"),
        ('a"b', "ab"),
        ("...", "file"),
        ("", "file"),
        ("é\U0001f600.png", "é\U0001f600.png"),
    ],
)
def test_a_file_is_offered_under_a_name_that_hides_nothing(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@pytest.mark.parametrize(
    ("mime", "name", "head", "served"),
    [
        ("image/png", "x", b"", "image/png"),
        ("IMAGE/PNG; x=y", "x", b"", "image/png"),
        ("", "x.JPG", b"", "image/jpeg"),
        ("", "x", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("audio/mpeg", "x", b"", "audio/mpeg"),
        ("audio/mpeg\r\nX: y", "x", b"", "text/plain; charset=utf-8"),
        ("image/svg+xml", "x.svg", b"<svg/>", "text/plain; charset=utf-8"),
        ("text/html", "x.html", b"\x00\x01", "application/octet-stream"),
        ("", "x", "é".encode()[:1], "text/plain; charset=utf-8"),
    ],
)
def test_a_file_is_served_as_a_picture_as_sound_as_text_or_as_bytes(mime: str, name: str, head: bytes, served: str) -> None:
    assert served_type(mime, name, head) == served
