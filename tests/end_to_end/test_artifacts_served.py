"""SECURITY 8: what a tool leaves comes back as a file, never as something that a browser runs."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from palaver.daemon import Daemon as Built
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind, ToolRegistry
from palaver.wire.values import Part, ToolCall, ToolResult
from palaver_daemon import palaver, scripted
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio
SCRIPT = b"<script>alert(1)</script>"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
TEXT, BYTES = "text/plain; charset=utf-8", "application/octet-stream"

CORPUS: list[tuple[str, str, bytes, str]] = [
    ("page.html", "text/html", SCRIPT, TEXT),
    ("page.svg", "image/svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', TEXT),
    ("page.xhtml", "application/xhtml+xml", b'<html xmlns="http://www.w3.org/1999/xhtml">' + SCRIPT + b"</html>", TEXT),
    ("code.js", "text/javascript", b"alert(1)", TEXT),
    ("paper.pdf", "application/pdf", b"%PDF-1.7\n" + SCRIPT + b"\x00\xff", BYTES),
    ("liar.html", "image/png", SCRIPT, TEXT),
    ("odd", "text/html\r\nX-Injected: 1", SCRIPT, TEXT),
    ("frame.mhtml", "multipart/related", b"MIME-Version: 1.0\r\n\r\n" + SCRIPT, TEXT),
    ("x.wasm", "application/wasm", b"\x00asm\x01\x00\x00\x00", BYTES),
    ("</script>\r\nX-Injected: 1\u202egnp.html", "text/html", SCRIPT, TEXT),
    ("../../../../token.html", "text/html", SCRIPT, TEXT),
    ("polyglot.gif", "text/html", b"GIF89a/*" + SCRIPT + b"*/=1;", "image/gif"),
    ("picture.png", "image/png", PNG, "image/png"),
]
"""Name, type and bytes as a tool gives them, and the type that they come back as."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Keeper:
    """A tool that leaves the corpus."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition("keeper", "Leaves files.", b'{"type": "object"}', ToolKind.READ)

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        return Description("keeper")

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        refs = [await context.artifact(name, data, mime_type) for name, mime_type, data, _ in CORPUS]
        return ToolResult(call.id, True, (Part("text", text="kept"),), artifacts=tuple(refs))


def with_keeper(built: Built) -> None:
    calls_ = built.hub.calls
    calls_.tools = ToolRegistry([*(calls_.tools.find(each.name) for each in calls_.tools.definitions()), Keeper()])


async def test_no_artifact_of_a_tool_comes_back_as_active_content(tmp_path: Path) -> None:
    """SECURITY 8: html, svg, scripts, pdf and liars: harmless types, offered for download under a clean name, in a sandbox."""
    steps = [calls(("keeper", {})), text("done")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), change=with_keeper) as here, here.chat() as chat:
        turn = (await chat.say("go"))["turn_id"]
        await chat.ended(turn)
        [completed] = chat.of("tool_call_completed")
        refs = completed["data"]["tool_result"]["artifacts"]
        assert len(set(refs)) == len(CORPUS)
        for (name, _, data, served), ref in zip(CORPUS, refs, strict=True):
            assert ref.startswith(f"artifacts/{turn}/") and ref.count("/") == 2, ref
            back = await here.answer("GET", f"{chat.path}/{quote(ref)}")
            assert (back.status, back.body, back.headers["content-type"]) == (200, data, served), name
            assert back.headers["content-security-policy"] == "sandbox; default-src 'none'"
            assert back.headers["x-content-type-options"] == "nosniff"
            assert back.headers["cross-origin-resource-policy"] == "same-origin"
            offered = unquote(back.headers["content-disposition"])
            assert offered.startswith("attachment; filename=") and not {"\u202e", "\r", "\n", "<", "/"} & set(offered), offered
            assert "x-injected" not in back.headers
        stored = {path for path in here.data.rglob("*") if path.is_file() and SCRIPT in path.read_bytes()}
        assert {path.parent for path in stored} == {here.data / "sessions" / chat.id / "artifacts" / turn}
