"""A real Chromium without a window, driven over its DevTools socket.

`async with chromium(folder, wire.port) as browser, browser.tab() as tab` is a fresh profile that keeps nothing and reaches nothing but the
wire; `await tab.open(url)` loads a page, `await tab.run("1 + 1")` asks it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Json = dict[str, Any]

PATIENCE = 60.0
"""How long anything may take here: a browser starts many processes, and the machine may be busy."""

# `make browser` looks for the same names.
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root and most containers cannot have it; the only pages that it meets are ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-popup-blocking",  # a hostile page would wait for a click; the attempt is what counts
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-port=0",
)


def find() -> str:
    """The path of a Chromium. Raises `AssertionError`, which says how to get one."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, "There is no Chromium here. `make browser` installs it, or says what to install."
    return found


class Event(NamedTuple):
    method: str
    params: Json


class Browser:
    """One connection to a running Chromium."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._events: dict[str, list[Event]] = {}
        self._changed = asyncio.Event()

    async def call(self, method: str, session: str | None = None, **params: Any) -> Json:
        """Raises `AssertionError` with Chromium's words where it refuses."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        frame = {"id": number, "method": method, "params": params}
        await self._socket.send(json.dumps(frame if session is None else {**frame, "sessionId": session}))
        async with asyncio.timeout(PATIENCE):
            said = await answer
        assert "error" not in said, (method, said["error"])
        result: Json = said["result"]
        return result

    async def read(self) -> None:
        """Takes in what Chromium says until the connection ends."""
        with suppress(ConnectionClosed):  # it closes without a word
            async for frame in self._socket:
                self._take(json.loads(frame))
        for number in list(self._answers):
            self._take({"id": number, "error": "Chromium is gone"})

    def _take(self, said: Json) -> None:
        if "id" in said:
            answer = self._answers.pop(said["id"])
            if not answer.done():  # whoever asked may have stopped waiting
                answer.set_result(said)
        else:
            self.events(said.get("sessionId", "")).append(Event(said["method"], said["params"]))
            self._changed.set()

    def events(self, session: str) -> list[Event]:
        return self._events.setdefault(session, [])

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Looks again at every event."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not happen") from None

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        """An empty tab in a profile of its own; that profile's tabs are closed with it, those that pages opened too."""
        context = (await self.call("Target.createBrowserContext", disposeOnDetach=True))["browserContextId"]
        try:
            await self.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
            target = (await self.call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
            yield await self._attached(context, target)
        finally:
            await self.call("Target.disposeBrowserContext", browserContextId=context)

    async def _attached(self, context: str, target: str) -> Tab:
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Audits", "Network"):
            await self.call(f"{domain}.enable", session)
        return Tab(self, context, session)


class Tab:
    """One page after another."""

    def __init__(self, browser: Browser, context: str, session: str) -> None:
        self.browser, self.context, self.session = browser, context, session

    async def open(self, url: str) -> str:
        """Goes there as if the address had been typed, and waits until everything is loaded. Why it did not, if it did not."""
        begun = len(self.events())
        said = await self.browser.call("Page.navigate", self.session, url=url)
        if error := said.get("errorText"):
            return str(error)
        await self.loaded(begun)
        return ""

    async def loaded(self, since: int) -> None:
        """A page has been loaded since there were that many events."""
        await self.browser.until(lambda: self.named("Page.loadEventFired", since), "the end of the page's loading")

    async def run(self, code: str) -> Any:
        """What the expression comes to, waited for if it is a promise; it runs as if the person had just clicked."""
        said = await self.browser.call(
            "Runtime.evaluate", self.session, expression=code, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def events(self) -> list[Event]:
        return self.browser.events(self.session)

    def named(self, method: str, since: int = 0) -> list[Json]:
        return [event.params for event in self.events()[since:] if event.method == method]

    def statuses(self) -> dict[str, int]:
        """Of every address that the tab itself went to, what the server said."""
        answers = self.named("Network.responseReceived")
        return {one["response"]["url"]: one["response"]["status"] for one in answers if one["type"] == "Document"}

    def policy_reports(self) -> list[Json]:
        """Whatever Chromium had to say about a Content-Security-Policy, in its console or as an issue."""
        logged = [one["entry"] for one in self.named("Log.entryAdded") if "Content Security Policy" in one["entry"]["text"]]
        issues = [one["issue"] for one in self.named("Audits.issueAdded")]
        return logged + [issue for issue in issues if issue["code"] == "ContentSecurityPolicyIssue"]

    async def frames(self) -> list[str]:
        """The addresses of what the page's frames show."""
        tree = (await self.browser.call("Page.getFrameTree", self.session))["frameTree"]
        return [child["frame"]["url"] for child in tree.get("childFrames", [])]

    async def pages(self) -> list[Json]:
        """Every tab of this profile."""
        infos = (await self.browser.call("Target.getTargets"))["targetInfos"]
        return [one for one in infos if one["type"] == "page" and one.get("browserContextId") == self.context]


@asynccontextmanager
async def chromium(folder: Path, wire_port: int) -> AsyncIterator[Browser]:
    """A browser for which every address of the world is the wire."""
    profile, log = folder / "profile", folder / "chromium.log"
    command = (find(), *FLAGS, f"--user-data-dir={profile}", f"--host-resolver-rules=MAP * 127.0.0.1:{wire_port}", "about:blank")
    with log.open("wb") as out:
        env = {**os.environ, "HOME": str(folder)}
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        async with connect(await _devtools(process, profile, log), max_size=None, ping_interval=None) as socket:
            browser = Browser(socket)
            reading = asyncio.create_task(browser.read())
            yield browser
            await browser.call("Browser.close")
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(reading, process.wait())
    finally:
        with suppress(ProcessLookupError):  # it ended by itself, with all that belongs to it
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _devtools(process: asyncio.subprocess.Process, profile: Path, log: Path) -> str:
    """Where it listens, once it does."""
    written = profile / "DevToolsActivePort"
    end = asyncio.get_running_loop().time() + PATIENCE
    while not (written.exists() and len(lines := written.read_text().split()) == 2):
        told = log.read_text(errors="replace")[-2000:]
        assert process.returncode is None, f"Chromium ended with {process.returncode}: {told}"
        assert asyncio.get_running_loop().time() < end, f"Chromium does not listen: {told}"
        await asyncio.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
