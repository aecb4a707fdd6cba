"""The command line with the real daemon: processes, a data folder and a terminal, as a person has them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from palaver.client.connect import Connection
from palaver.errors import Refused
from stand_in import StandIn

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Home:
    """A person's folders. `start` runs the daemon in the foreground; a command may also start one by itself."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.config = folder / "config" / "config.toml"
        self.config.parent.mkdir(mode=0o700)
        self.config.write_text("[server]\nport = 0\n")
        self.config.chmod(0o600)
        self.workspace = folder / "work"
        self.workspace.mkdir()
        (self.workspace / "notes.txt").write_text("remember the milk\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PALAVER_", "OPENAI_"))}
        folders = {"HOME": str(folder), "PALAVER_DATA": str(self.data), "PALAVER_CONFIG": str(self.config)}
        self.env = {**kept, **folders, "PALAVER_DISCOVER": "0"}
        self._daemons: list[asyncio.subprocess.Process] = []

    async def begin(self, *words: str, **env: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "palaver.cli.main", *words)
        return await asyncio.create_subprocess_exec(*command, env={**self.env, **env}, stdin=pipe, stdout=pipe, stderr=pipe)

    async def palaver(self, *words: str, **env: str) -> Ended:
        process = await self.begin(*words, **env)
        out, err = await asyncio.wait_for(process.communicate(b""), 60)
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def run(self, text: str, *words: str) -> Ended:
        return await self.palaver("run", text, "--workspace", str(self.workspace), *words)

    async def start(self, port: int = 0) -> asyncio.subprocess.Process:
        process = await self.begin("serve", "--port", str(port))
        self._daemons.append(process)
        await until(lambda: self.about().get("pid") == process.pid or process.returncode is not None)
        assert process.returncode is None
        return process

    def about(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.data / "daemon.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found

    async def stop(self) -> None:
        if pid := self.about().get("pid"):
            os.kill(pid, signal.SIGTERM)
            await until(lambda: not self.about())
        for process in self._daemons:
            await asyncio.wait_for(process.communicate(), 30)

    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    async def only_session(self) -> str:
        found: str = json.loads((await self.palaver("sessions", "--json")).out)["sessions"][0]["id"]
        return found

    def log(self, session_id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.data / "sessions" / session_id / "events.ndjson").read_bytes().splitlines()]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[Home, None]:
    home = Home(tmp_path)
    yield home
    await home.stop()


class Terminal:
    """A command in a terminal of its own, with somebody who reads and types."""

    def __init__(self, home: Home, *words: str, **env: str) -> None:
        self._home = home
        self._words = words
        self._env = env
        self.seen = bytearray()

    async def __aenter__(self) -> Terminal:
        self._ours, theirs = pty.openpty()
        command = (sys.executable, "-m", "palaver.cli.main", *self._words)
        env = {**self._home.env, "TERM": "xterm", **self._env}
        self.process = await asyncio.create_subprocess_exec(*command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        return self

    async def __aexit__(self, *error: object) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def _read(self) -> None:
        try:
            self.seen += os.read(self._ours, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._ours)  # the other side is closed: Linux says so with an error

    async def sees(self, text: str) -> None:
        await until(lambda: text.encode() in self.seen)

    def types(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    async def answers(self, line: str, then: str) -> None:
        """Type until it counts: what comes within 400 ms of the question does not."""
        async with asyncio.timeout(30):
            while then.encode() not in self.seen:
                self.types(line)
                await asyncio.sleep(0.2)

    async def ends(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 30)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_run_starts_a_daemon_that_outlives_it_and_the_next_one_finds_it(home: Home) -> None:
    first = await home.run("read the file notes.txt")
    assert first.status == 0 and "remember the milk" in first.out
    assert "read_file" in first.err and "— done" in first.err
    pid = home.about()["pid"]
    second = await home.run("write 5 words")
    assert second.status == 0 and len(second.out.split()) == 5
    assert home.about()["pid"] == pid


async def test_commands_that_start_a_daemon_at_once_end_up_with_one(home: Home) -> None:
    ended = await asyncio.gather(*(home.run("write 3 words") for _ in range(3)))
    assert [one.status for one in ended] == [0, 0, 0]
    assert len(json.loads((await home.palaver("sessions", "--json")).out)["sessions"]) == 3


async def test_run_ends_as_its_turn_does(home: Home) -> None:
    await home.start()
    assert (await home.run("fail")).status == 1
    late = await home.run("wait 60 seconds", "--timeout", "0.5")
    assert late.status == 3
    wrong = await home.run("hello", "--agent", "nobody")
    assert wrong.status == 2 and "demo" in wrong.err


async def test_run_is_cancelled_by_ctrl_c(home: Home) -> None:
    await home.start()
    process = await home.begin("run", "wait 60 seconds", "--workspace", str(home.workspace), "--json")
    assert process.stdout is not None
    while json.loads(await asyncio.wait_for(process.stdout.readline(), 30))["type"] != "turn_started":
        pass
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 3
    assert json.loads(out.splitlines()[-1])["data"]["outcome"] == "cancelled"


async def test_what_run_left_open_is_answered_from_a_terminal(home: Home) -> None:
    """The whole way of an approval: nobody there (4), attached to, approved by a key, run, told."""
    await home.start()
    asked = await home.run("run the command `echo it ran`")
    assert asked.status == 4
    item = json.loads(asked.out.splitlines()[-1])
    assert item["kind"] == "approval" and item["data"]["preview"]["command"] == "echo it ran"
    async with Terminal(home, "attach", "last") as terminal:
        await terminal.sees("command: echo it ran")
        await terminal.answers("y", "— done")
        terminal.types("write 4 words")
        await until(lambda: terminal.seen.count("— done".encode()) == 2)
        terminal.types("/quit")
        assert await terminal.ends() == 0
    session_id = await home.only_session()
    kinds = [line["type"] for line in home.log(session_id)]
    assert kinds.count("approval_granted") == 1 and kinds.count("turn_completed") == 2


async def test_run_in_a_terminal_asks_and_goes_on(home: Home) -> None:
    await home.start()
    text = "ask me which colour with red or blue then run the command `echo done`"
    async with Terminal(home, "run", text, "--workspace", str(home.workspace)) as terminal:
        await terminal.sees("blue")
        await terminal.answers("2", "answered by")
        await terminal.sees("command: echo done")
        await terminal.answers("n not today", "denied by")
        assert await terminal.ends() == 0
    log = home.log(await home.only_session())
    answered = next(line for line in log if line["type"] == "question_answered")
    assert [one["selected"] for one in answered["data"]["answers"].values()] == [["blue"]]
    denied = next(line for line in log if line["type"] == "approval_denied")
    assert denied["data"]["reason"] == "not today"


async def test_what_a_model_and_a_person_write_is_shown_in_a_terminal_and_not_obeyed(home: Home) -> None:
    """SECURITY 19: with NO_COLOR not one control sequence reaches the terminal, whatever stands in a conversation."""
    (home.workspace / "evil.txt").write_text("a\x1b[2J\u202eb\x9b31m\x07")
    await home.start()
    text = "read the file evil.txt then think about \x1b]0;owned\x07 then run the command `printf '\x1b[31m' \u202e`"
    async with Terminal(home, "run", text, "--workspace", str(home.workspace), NO_COLOR="1") as terminal:
        await terminal.answers("y", "— done")
        assert await terminal.ends() == 0
    async with Terminal(home, "attach", "last", NO_COLOR="1") as again:
        await again.sees("— done")
        again.types("/quit")
        assert await again.ends() == 0
    for seen in (terminal.seen.decode(), again.seen.decode()):
        assert "⟨U+001B⟩[31m" in seen and "⟨U+202E⟩" in seen
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(seen)


async def test_a_daemon_without_tokens_is_spoken_to_all_the_same(home: Home) -> None:
    process = await home.begin("serve", "--port", "0", "--no-token")
    await until(lambda: home.about().get("pid") == process.pid)
    assert (await home.run("write 2 words")).status == 0
    assert (await home.palaver("sessions", "--url", home.about()["url"])).status == 0
    assert (await home.palaver("token")).status == 0
    process.terminate()
    await process.communicate()


async def test_without_a_token_an_address_says_what_is_missing(home: Home) -> None:
    await home.start()
    ended = await home.palaver("sessions", "--url", home.about()["url"])
    assert ended.status == 1 and "token" in ended.err


async def test_send_is_a_message_and_attach_prints_the_whole_log(home: Home) -> None:
    await home.start()
    await home.run("write 3 words")
    session_id = await home.only_session()
    sent = await home.palaver("send", session_id[-6:], "write 7 words", "--json")
    assert sent.status == 0 and json.loads(sent.out)["delivered"] == "started"
    process = await home.begin("attach", "last", "--json")
    assert process.stdout is not None
    printed: list[dict[str, Any]] = []
    while sum(line["type"] == "turn_completed" for line in printed) < 2:
        printed.append(json.loads(await asyncio.wait_for(process.stdout.readline(), 30)))
    process.send_signal(signal.SIGINT)
    await process.wait()
    assert process.returncode == 0
    assert printed == home.log(session_id)[: len(printed)]


async def test_attach_goes_on_after_the_daemon_was_killed_and_started_again(home: Home) -> None:
    """Promises 1 and 6: each logged event once, across kill -9 and a new daemon on the same port."""
    first = await home.start()
    port = int(home.about()["url"].rsplit(":", 1)[1])
    await home.run("write 3 words")
    session_id = await home.only_session()
    await home.palaver("send", "last", "wait 60 seconds")
    process = await home.begin("attach", "last", "--json")
    assert process.stdout is not None
    printed: list[dict[str, Any]] = []

    async def read_until(kind: str, count: int) -> None:
        assert process.stdout is not None
        while sum(line["type"] == kind for line in printed) < count:
            printed.append(json.loads(await asyncio.wait_for(process.stdout.readline(), 30)))

    await read_until("turn_started", 2)
    first.kill()
    await first.wait()
    await home.start(port)
    await read_until("turn_completed", 2)
    process.send_signal(signal.SIGINT)
    await process.wait()
    assert printed[-1]["data"]["outcome"] == "interrupted"
    assert printed == home.log(session_id)[: len(printed)]


async def test_a_squatter_on_the_port_of_a_killed_daemon_records_no_token(home: Home) -> None:
    """SECURITY 6."""
    daemon = await home.start()
    about = home.about()
    daemon.kill()
    await daemon.wait()
    alive = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    async with StandIn(token=None, port=int(about["url"].rsplit(":", 1)[1])) as squatter:
        assert (await home.palaver("sessions")).status == 1
        assert squatter.asked == []
        (home.data / "daemon.json").write_text(json.dumps({**about, "pid": alive.pid}))  # the number was given out again
        by_folder = await home.palaver("sessions")
        by_address = await home.palaver("sessions", "--url", about["url"], PALAVER_TOKEN=home.token())
        (home.data / "daemon.json").unlink()
    await alive.communicate(b"\n")
    assert (by_folder.status, by_address.status) == (1, 1) and "another program" in by_folder.err
    secret = home.token().partition(".")[2]
    assert squatter.asked != []
    assert all("authorization" not in one.headers and secret not in str(one) for one in squatter.asked)


async def test_the_address_of_open_signs_in_once(home: Home) -> None:
    """SECURITY 5."""
    await home.start()
    ended = await home.palaver("open", "--print-url", "--scope", "read")
    url, _, code = ended.out.strip().partition("/#code=")
    async with Connection(url, None) as connection:
        first = (await connection.request("POST", "/v1/login", {"code": code})).body
        assert first["token"] and first["scope"] == "read"
        with pytest.raises(Refused):
            await connection.request("POST", "/v1/login", {"code": code})


async def test_a_token_works_at_an_address_and_for_its_scope_only(home: Home) -> None:
    await home.start()
    await home.run("write 2 words")
    token = (await home.palaver("token", "--scope", "read", "--days", "1")).out.strip()
    url = home.about()["url"]
    elsewhere = {"PALAVER_DATA": str(home.data.parent / "other"), "PALAVER_URL": url, "PALAVER_TOKEN": token}
    assert (await home.palaver("sessions", "--json", **elsewhere)).status == 0
    refused = await home.palaver("send", "last", "hi", **elsewhere)
    assert refused.status == 1 and "prompt" in refused.err


async def test_palaver_alone_in_a_terminal_starts_the_daemon_and_says_where_it_is(home: Home) -> None:
    async with Terminal(home) as terminal:
        assert await terminal.ends() == 0
        await terminal.sees(f"Palaver is at {home.about()['url']}")


async def test_a_daemon_that_cannot_start_says_why(home: Home) -> None:
    home.config.write_text("[server]\nprot = 0\n")
    ended = await home.run("hello")
    assert ended.status == 2 and f"{home.config}:2: there is no key 'server.prot'" in ended.err


async def test_a_second_serve_prints_where_the_first_one_is(home: Home) -> None:
    await home.start()
    second = await home.palaver("serve", "--port", "0")
    assert (second.status, second.out) == (0, f"{home.about()['url']}\n")
    assert (await home.palaver("doctor")).status == 0


# --- signing in ---------------------------------------------------------------------------------------------------------------


async def log_in(home: Home, code: str) -> dict[str, Any]:
    """Raises `Refused` for a code that is none, any more."""
    async with Connection(home.about()["url"], None) as connection:
        body: dict[str, Any] = (await connection.request("POST", "/v1/login", {"code": code})).body
        return body


async def test_serve_prints_the_sign_in_address_in_a_terminal(home: Home) -> None:
    """SECURITY 5."""
    async with Terminal(home, "serve", "--port", "0") as terminal:
        await terminal.sees("/#code=")
        await until(lambda: terminal.seen.endswith(b"\n"))
        code = terminal.seen.decode().strip().rpartition("#code=")[2]
        assert (await log_in(home, code))["scope"] == "admin"
        with pytest.raises(Refused):
            await log_in(home, code)
        terminal.process.terminate()
        assert await terminal.ends() == 0


@pytest.mark.parametrize("flags", [(), ("--print-url",)])
async def test_elsewhere_serve_prints_it_only_when_it_is_told_to(home: Home, flags: tuple[str, ...]) -> None:
    """SECURITY 5: what a service manager keeps holds no code, unless somebody wanted that."""
    daemon = await home.begin("serve", "--port", "0", *flags)
    assert daemon.stdout is not None
    line = (await asyncio.wait_for(daemon.stdout.readline(), 30)).decode().strip()
    await until(lambda: home.about().get("pid") == daemon.pid)
    url, _, code = line.partition("/#code=")
    assert url == home.about()["url"]
    if flags:
        assert (await log_in(home, code))["token"]
    else:
        assert line == url
    daemon.terminate()
    out, err = await asyncio.wait_for(daemon.communicate(), 30)
    assert b"code=" not in out + err


BROWSER = """#!/bin/sh
page="${1#file://}"
{ printf '%s\\n' "$1"; printf '%s\\n' "$@"; env; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null || ps -axww; } > SEEN.part
ls -l "$page" | cut -c1-10 > SEEN.mode
cat "$page" > SEEN.page
mv SEEN.part SEEN
"""
"""Keeps what it was given, and what any program of this machine can see meanwhile: every command line, and environments where we may."""


def browser_at(path: Path) -> Path:
    path.write_text(BROWSER.replace("SEEN", str(path.with_name("seen"))))
    path.chmod(0o700)
    return path.with_name("seen")


async def test_open_hands_the_browser_a_private_file_and_the_code_in_it_signs_in_once(home: Home, tmp_path: Path) -> None:
    """SECURITY 5: no command line and no environment of any program holds the code; the file redirects; the second use is refused."""
    await home.start()
    seen = browser_at(tmp_path / "browser")
    ended = await home.palaver("open", BROWSER=str(tmp_path / "browser"), TMPDIR=str(tmp_path))
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    await until(seen.exists)
    page, mode = seen.with_suffix(".page").read_text(), seen.with_suffix(".mode").read_text().strip()
    refresh = f'<meta http-equiv="refresh" content="0;url={home.about()["url"]}/#code='
    assert refresh in page and mode == "-rw-------" and "<script" not in page
    code = page.partition(refresh)[2].partition('"')[0]
    assert len(code) >= 22 and code.encode() not in seen.read_bytes()
    assert (await log_in(home, code))["token"]
    with pytest.raises(Refused) as refused:
        await log_in(home, code)
    assert refused.value.code == "bad_code"


async def test_the_file_for_the_browser_is_gone_when_its_time_is_over(tmp_path: Path) -> None:
    """SECURITY 5: with the folder that it was in, though the command has long ended."""
    seen, temporary = browser_at(tmp_path / "browser"), tmp_path / "temporary"
    temporary.mkdir()
    program = "import os, sys; from palaver.cli.doors import hand_over; sys.exit(not hand_over(sys.stdin.read(), os.environ, kept_s=0.05))"
    env = {**os.environ, "BROWSER": str(tmp_path / "browser"), "TMPDIR": str(temporary)}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=env, stdin=asyncio.subprocess.PIPE)
    await asyncio.wait_for(process.communicate(b"http://127.0.0.1:1/#code=c0de"), 30)
    assert process.returncode == 0
    await until(seen.exists)
    assert seen.read_bytes().startswith(f"file://{temporary}/palaver-".encode())
    await until(lambda: list(temporary.iterdir()) == [])


async def test_a_code_is_worth_nothing_after_a_restart(home: Home) -> None:
    """SECURITY 5: its hash was in memory only."""
    first = await home.start()
    code = (await home.palaver("open", "--print-url")).out.strip().rpartition("#code=")[2]
    first.terminate()
    await first.wait()
    await home.start()
    with pytest.raises(Refused) as refused:
        await log_in(home, code)
    assert refused.value.code == "bad_code"
    for path in (path for path in home.data.rglob("*") if path.is_file()):
        assert code.encode() not in path.read_bytes(), path
