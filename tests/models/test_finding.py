"""What is found on the machine, how it is looked for, and how a person takes it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver.errors import Invalid
from palaver.models.discover import LOOK_S, SERVICES, Discovery, Service, models_at
from palaver.models.registry import ModelSettings, Registry, read_chosen
from palaver_daemon import palaver, until
from scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio
LISTED = b'{"object":"list","data":[{"id":"qwen3:8b","object":"model"},{"id":"nomic-embed-text"}]}'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def answering(answer: bytes, *, closes: bool = True) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A port where each connection gets this answer, and what came in there."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if closes:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def at(port: int, name: str = "ollama") -> tuple[Service, ...]:
    """The services as they are, but that one at another port and no other of this machine."""
    return (*(service for service in SERVICES if service.keys), Service(name, "Ollama", f"http://127.0.0.1:{port}/v1"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.mark.parametrize("closes", [True, False])
async def test_a_server_is_asked_once_for_its_list_and_nothing_else(closes: bool) -> None:
    async with answering(ok(LISTED), closes=closes) as (port, heard):
        discovery = Discovery({}, at(port))
        await asyncio.gather(*(discovery.look() for _ in range(5)))
        await discovery.look()
        [found] = discovery.servers()
        assert (found.service.name, found.models) == ("ollama", ("qwen3:8b",)), "one that embeds cannot answer"
        assert len(heard) == 1 and heard[0].startswith(b"GET /v1/models HTTP/1.0\r\n") and b"uthorization" not in heard[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        ok(b"<html>a web server of somebody's</html>"),
        ok(b'{"data": {"id": "x"}}'),
        ok(b"\xff\xfe"),
        b"",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
async def test_whatever_else_listens_there_is_no_model_server(answer: bytes) -> None:
    async with answering(answer) as (port, _):
        assert await models_at(port) is None


async def test_one_that_does_not_answer_holds_nobody_up_for_long() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", closes=False) as (port, _):
        discovery, began = Discovery({}, at(port)), asyncio.get_running_loop().time()
        await discovery.look()
        assert discovery.servers() == () and asyncio.get_running_loop().time() - began < LOOK_S + 10


async def test_nobody_there_is_found_out_at_once() -> None:
    discovery = Discovery({}, at(free_port()))
    await discovery.look()
    assert discovery.servers() == ()


async def test_a_switch_turns_all_of_it_off() -> None:
    async with answering(ok(LISTED)) as (port, heard):
        discovery = Discovery({"PALAVER_DISCOVER": "0", "OPENAI_API_KEY": "x"}, at(port))
        await discovery.look()
        assert (discovery.servers(), discovery.keys(), heard) == ((), [], [])


def test_keys_are_seen_by_their_names() -> None:
    env = {"OPENAI_API_KEY": "1", "OPENROUTER_API_KEY": "2", "ANTHROPIC_API_KEY": "3", "GOOGLE_API_KEY": "4", "GEMINI_API_KEY": ""}
    offers = [offer for offer in Registry([], env).offers() if offer.found]
    assert [(offer.name, offer.found, offer.adopt) for offer in offers] == [
        (name, variable, f"PALAVER_MODEL={name}/NAME palaver serve")
        for name, variable in zip(("openai", "openrouter", "anthropic", "google"), env, strict=False)
    ]
    assert all(offer.base_url and offer.base_url.startswith("https://") for offer in offers)


@pytest.mark.parametrize(
    ("env", "url", "model", "key"),
    [
        ({"PALAVER_MODEL": "ollama/qwen3:8b"}, "http://127.0.0.1:11434/v1", "qwen3:8b", None),
        ({"PALAVER_MODEL": "lmstudio/a/b", "OPENAI_BASE_URL": "http://h/v1"}, "http://127.0.0.1:1234/v1", "a/b", None),
        ({"PALAVER_MODEL": "anthropic/c", "ANTHROPIC_API_KEY": "k"}, "https://api.anthropic.com/v1", "c", "ANTHROPIC_API_KEY"),
        ({"PALAVER_MODEL": "google/g", "GOOGLE_API_KEY": "k"}, SERVICES[3].base_url, "g", "GOOGLE_API_KEY"),
        ({"PALAVER_MODEL": "a/c", "OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "k"}, "http://h/v1", "a/c", "OPENAI_API_KEY"),
        (
            {"PALAVER_MODEL": "anthropic/c", "OPENAI_BASE_URL": "https://openrouter.ai/api/v1", "ANTHROPIC_API_KEY": "k"},
            "https://openrouter.ai/api/v1",
            "anthropic/c",
            "OPENAI_API_KEY",
        ),
        ({"PALAVER_MODEL": "gpt"}, "https://api.openai.com/v1", "gpt", "OPENAI_API_KEY"),
    ],
)
def test_the_line_that_adopts_a_model_leads_to_its_service(env: dict[str, str], url: str, model: str, key: str | None) -> None:
    """An address in the environment beats what a name reminds of."""
    env = {"OPENAI_API_KEY": "k", **env} if env.get("OPENAI_BASE_URL", "").startswith("https") else env
    settings = Registry([], env).settings(env["PALAVER_MODEL"])
    assert (settings.base_url, settings.model, settings.api_key_env) == (url, model, key)


def test_a_default_that_nothing_describes_goes_nowhere() -> None:
    """A typing error in the settings sends no conversation to whoever has a key."""
    registry = Registry([ModelSettings("local", "http://127.0.0.1:9/v1")], {"OPENAI_API_KEY": "x"}, preferred="locl")
    with pytest.raises(Invalid, match="There is no model 'locl'"):
        registry.get(registry.default() or "")
    assert Registry([], {}, preferred="ollama/x").settings("ollama/x").model == "x"


async def test_what_a_person_chooses_is_known_from_then_on(tmp_path: Path) -> None:
    """API, Sessions: found is offered, never chosen; a choice in a client makes it known, after a restart too."""
    async with ScriptedModel([text("hello")] * 3) as server:
        services = at(int(server.url.split(":")[2].split("/")[0]))

        async with palaver(tmp_path, env={"PALAVER_DISCOVER": "1"}, services=services) as here:
            offered = (await here.ask("GET", "/v1/models"))["models"]
            [found] = [offer for offer in offered if offer.get("found")]
            assert (found["name"], found["model"], found["adopt"]) == (
                "ollama/scripted",
                "scripted",
                "PALAVER_MODEL=ollama/scripted palaver serve",
            )
            agents = {agent["name"]: agent for agent in (await here.ask("GET", "/v1/agents"))["agents"]}
            assert (agents["palaver"]["ready"], agents["palaver"]["fix"]) == (False, "PALAVER_MODEL=ollama/scripted palaver serve")
            async with here.chat() as chat:
                session = await chat.get()
                assert (session["agent"], session["model"]) == ("demo", "demo"), "offered, not chosen"
                wrong = await chat.refused("POST", "model", {"id": "ollama/unheard-of"})
                assert wrong.status == 422 and "ollama/scripted" in wrong.json["detail"]
                chosen = await chat.post("model", {"id": "ollama/scripted"})
                assert "ollama/scripted" in [choice["id"] for choice in chosen["available_models"]]
                assert (await chat.runs("go"))["outcome"] == "completed"
            agents = {agent["name"]: agent for agent in (await here.ask("GET", "/v1/agents"))["agents"]}
            assert agents["palaver"]["ready"] and "fix" not in agents["palaver"]
        assert read_chosen(tmp_path / "data" / "models.json") == ["ollama/scripted"]
        async with palaver(tmp_path, services=services) as here, here.chat() as chat:
            assert (await chat.get())["model"] == "ollama/scripted"
            assert (await chat.runs("go"))["outcome"] == "completed"


async def test_agents_that_others_make_are_listed_with_the_reason_why_they_do_not_answer(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here:
        agents = {agent["name"]: agent for agent in (await here.ask("GET", "/v1/agents"))["agents"]}
        assert agents["demo"]["ready"] and not any(agents[name]["ready"] for name in ("palaver", "claude", "codex", "pi", "opencode"))
        assert "cannot drive Claude Code yet" in agents["claude"]["reason"]
        assert agents["palaver"]["fix"] == "PALAVER_MODEL=NAME OPENAI_API_KEY=… palaver serve"
        body = {"workspace_path": str(here.workspace), "agent": "claude"}
        refused = await here.answer("POST", "/v1/sessions", body)
        assert refused.status == 422 and "cannot drive" in refused.json["detail"] and "demo" in refused.json["detail"]


async def test_a_model_without_its_key_says_what_is_missing_and_the_line_that_fixes_it(tmp_path: Path) -> None:
    config = '[models.far]\nbase_url = "https://models.example/v1"\napi_key_env = "FAR_KEY"\n'
    async with palaver(tmp_path, config=config) as here:
        [far] = [offer for offer in (await here.ask("GET", "/v1/models"))["models"] if offer["name"] == "far"]
        assert (far["missing"], far["fix"]) == ("The variable FAR_KEY is not set.", "export FAR_KEY=…")
        [agent] = [agent for agent in (await here.ask("GET", "/v1/agents"))["agents"] if agent["name"] == "palaver"]
        assert (agent["ready"], agent["reason"], agent["fix"]) == (False, "far: The variable FAR_KEY is not set.", "export FAR_KEY=…")
    async with palaver(tmp_path, config=config, env={"FAR_KEY": "sk-planted"}) as here:
        [agent] = [agent for agent in (await here.ask("GET", "/v1/agents"))["agents"] if agent["name"] == "palaver"]
        assert agent["ready"] and "sk-planted" not in str(await here.ask("GET", "/v1/models"))


SPY = """
import sys
def spy(event, args):
    if event in ("socket.connect", "socket.sendto"):
        print("SENT", args[1], file=sys.stderr)
    elif event.startswith("socket.get") and event != "socket.gethostname":
        print("ASKED", event, args[:1], file=sys.stderr)
sys.addaudithook(spy)
from palaver.cli.main import main
sys.exit(main(["doctor", "--json"]))
"""


async def test_nothing_is_sent_anywhere_but_to_this_machine_to_find_out(tmp_path: Path) -> None:
    """DESIGN 6: no name is resolved, no proxy asked, no key tried; every port that is asked is one of 127.0.0.1."""
    async with answering(ok(b"{}")) as (proxy, heard):
        keys = {name: "sk-planted" for service in SERVICES for name in service.keys}
        away = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), f"http://127.0.0.1:{proxy}")
        home = {"HOME": str(tmp_path), "PALAVER_DATA": str(tmp_path / "data"), "PATH": "/usr/bin:/bin"}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", SPY],
            env={**keys, **away, **home, "OPENAI_BASE_URL": "https://models.example/v1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        found = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "found"]
        assert len([one for one in found if "API_KEY" in one["says"] or "OPENAI_BASE_URL" in one["says"]]) == 4
        sent = [line for line in done.stderr.splitlines() if line.startswith(("SENT", "ASKED"))]
        ports = {service.port for service in SERVICES if not service.keys}
        assert {line for line in sent if "AF_UNIX" not in line} == {f"SENT ('127.0.0.1', {port})" for port in ports}
        assert heard == [] and "sk-planted" not in done.stdout


async def test_a_start_and_health_wait_for_no_look(tmp_path: Path) -> None:
    async with answering(b"", closes=False) as (port, heard):
        async with palaver(tmp_path, env={"PALAVER_DISCOVER": "1"}, services=at(port)) as here:
            assert (await here.ask("GET", "/v1/health"))["ok"] and heard == []
            asked = asyncio.create_task(here.ask("GET", "/v1/models"))
            await until(lambda: heard)
            assert (await here.ask("GET", "/v1/health"))["ok"]
            assert [offer["name"] for offer in (await asked)["models"]] == ["demo"]
