"""`GET …/export` and `palaver export`: CLIENTS.md 3."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path

import pytest

from palaver.client import connect
from palaver.errors import Refused
from palaver.serve.export import as_page, renderer
from palaver_daemon import fold, page_of, palaver

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def test_json_holds_the_session_its_events_and_every_file_and_folds_to_the_same_transcript(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat(mode="auto", title="Töö / 1") as chat:
            for name, data in (("dot.png", PNG), ("e.txt", b""), ("x.html", b"<script>alert(1)</script>")):
                await chat.post("attachments", {"name": name, "mime_type": "", "data": base64.b64encode(data).decode()})
            await chat.runs(
                [{"type": "text", "text": 'write the file a.txt with "</script><!--"'}, {"type": "image", "ref": "attachments/dot.png"}]
            )
            answer = await here.answer("GET", f"{chat.path}/export?format=json")
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
            assert answer.headers["content-disposition"].startswith('attachment; filename="T__  1.json"')
            exported = answer.json
            assert list(exported) == ["format", "session", "events", "files"] and exported["format"] == 1
            assert exported["session"] == await chat.get() and exported["events"] == await chat.log()
            assert page_of(fold(exported["events"])) == await chat.transcript()
            for ref, file in exported["files"].items():
                data = (here.data / "sessions" / chat.id / ref).read_bytes()
                assert (base64.b64decode(file["data"]), file["sha256"]) == (data, sha256(data).hexdigest()), ref
            kinds = {ref: file["mime_type"] for ref, file in exported["files"].items()}
            assert kinds["attachments/dot.png"] == "image/png" and kinds["attachments/x.html"].startswith("text/plain")
            async with connect(f"http://127.0.0.1:{here.port}", here.token) as client:
                assert json.loads(await client.export(chat.id)) == exported
                assert (await client.search("a.txt", session=chat.id))["hits"]
            async with here.socket() as ws:
                await ws.send(json.dumps({"op": "request", "id": 1, "method": "GET", "path": f"{chat.path}/export?format=json"}))
                assert json.loads(await ws.recv())["body"] == exported

    asyncio.run(run())


def test_a_page_that_was_not_built_is_said_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="make setup") as refused:
        renderer(tmp_path)
    assert refused.value.code == "page_not_built"


def test_the_page_is_one_file_that_runs_its_own_script_and_nothing_else(tmp_path: Path) -> None:
    """The policy names script and style by their hashes; nothing of the session can end the element that it is in."""

    async def run() -> None:
        (tmp_path / "export.js").write_text('show(JSON.parse(document.getElementById("palaver-export").textContent), "</script><!--")')
        (tmp_path / "export.css").write_text("body { color: red } /* </style> */")
        hostile = {"text": "</script><script>alert(1)</script><!-- & \u2028 😀"}

        async def document() -> AsyncGenerator[bytes, None]:
            for byte in json.dumps(hostile, ensure_ascii=False).encode():
                yield bytes([byte])

        whole = b"".join([piece async for piece in as_page(renderer(tmp_path), "<b>&", document())]).decode()
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", whole, re.DOTALL)
        assert [attributes for attributes, _ in scripts] == [' type="application/json" id="palaver-export"', ""]
        assert json.loads(scripts[0][1]) == hostile and "<" not in scripts[0][1]
        [style] = re.findall(r"<style>(.*?)</style>", whole, re.DOTALL)
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', whole)
        assert policy is not None and policy[1].startswith("default-src 'none'; ") and "img-src data:" in policy[1]
        for kind, text in (("script", scripts[1][1]), ("style", style)):
            assert f"{kind}-src 'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'" in policy[1]
        assert "<!--" not in whole and "<title>&lt;b&gt;&amp;</title>" in whole and "unsafe" not in policy[1]

    asyncio.run(run())


def test_the_command_line_writes_the_same_file(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat:
            await chat.runs("write 3 words")
            target = tmp_path / "talk.json"
            for words in (["--output", str(target)], []):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "palaver.cli.main", "export", chat.id, "--format", "json", *words),
                    env={"PALAVER_URL": f"http://127.0.0.1:{here.port}", "PALAVER_TOKEN": here.token or "", "HOME": str(tmp_path)},
                    stdout=asyncio.subprocess.PIPE,
                )
                out, _ = await asyncio.wait_for(process.communicate(), 20)
                assert process.returncode == 0
                assert out.decode() == f"{target}\n" if words else json.loads(out) == json.loads(target.read_bytes())
            assert json.loads(target.read_bytes())["events"] == await chat.log()

    asyncio.run(run())


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat:
            assert (await chat.refused("GET", "export?format=pdf")).status == 422
            assert (await here.answer("GET", "/v1/sessions/sess_none/export?format=json")).status == 404

    asyncio.run(run())
