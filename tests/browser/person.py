"""Somebody in front of the page: looks, clicks and types in a real Chromium, and waits for what should happen, never for a while.

`async with person(browser, daemon) as ann` is a fresh profile that is signed in. What a person cannot do, such as reading the log, a test
asks the daemon.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from chromium import Browser, Json, Tab, chromium

from palaver_daemon import Client, palaver_process

DEADLINE_MS = 20_000
DESK = (1440, 900)
PHONE = (390, 844)

_SOON = """new Promise((done, fail) => {
  const end = performance.now() + DEADLINE;
  const look = () => {
    let found;
    try { found = (CODE); } catch (error) { found = null; }
    if (found) done(found instanceof Node ? true : found);
    else if (performance.now() > end)
      fail(new Error("It did not come: " + SAID + "\\n" + (document.querySelector("main")?.innerText ?? "").slice(-700)));
    else setTimeout(look, 15);
  };
  look();
})"""

_FIND = """((what) => {
  const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getBoundingClientRect().width > 0;
  const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
  if (!what.startsWith("=")) return [...top.querySelectorAll(what)].find(shown) ?? [...document.querySelectorAll(what)].find(shown);
  const name = (one) => (one.getAttribute("aria-label") ?? one.innerText ?? "").trim().replace(/\\s+/g, " ");
  const all = [...top.querySelectorAll("button, a, summary, [role=option], [role=menuitem], label, input, textarea, select")].filter(shown);
  return all.find((one) => name(one) === what.slice(1)) ?? all.find((one) => name(one).startsWith(what.slice(1)));
})"""

_NAMED = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), "ArrowUp": ("ArrowUp", 38, "")}
_NAMED |= {"ArrowDown": ("ArrowDown", 40, ""), "PageUp": ("PageUp", 33, ""), "End": ("End", 35, ""), "F6": ("F6", 117, "")}
_HELD = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class Person:
    def __init__(self, tab: Tab, daemon: Client) -> None:
        self.tab = tab
        self.daemon = daemon

    async def goes(self, path: str = "/") -> None:
        """To an address of the daemon, as if it had been typed."""
        assert not await self.tab.open(f"http://127.0.0.1:{self.daemon.port}{path}")

    async def reloads(self) -> None:
        await self.goes(await self.tab.run("location.pathname + location.search"))

    async def sees(self, code: str) -> Any:
        """The first true value of an expression in the page."""
        told = json.dumps(code[:300])
        return await self.tab.run(_SOON.replace("DEADLINE", str(DEADLINE_MS)).replace("SAID", told).replace("CODE", code))

    async def finds(self, what: str) -> None:
        """`what`: a selector, or `=` and the name that a button or a link has."""
        await self.sees(f"!!{_FIND}({json.dumps(what)})")

    async def reads(self, text: str, where: str = "body") -> None:
        await self.sees(f"document.querySelector({json.dumps(where)}).innerText.includes({json.dumps(text)})")

    async def misses(self, what: str) -> None:
        """It goes, or was never there."""
        await self.sees(f"!{_FIND}({json.dumps(what)})")

    async def clicks(self, what: str) -> None:
        """In its middle, once it is there and nothing lies over it."""
        place = await self.sees(f"""(() => {{
          const it = {_FIND}({json.dumps(what)});
          if (!it || it.disabled) return null;
          it.scrollIntoView({{ block: "nearest" }});
          const box = it.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
          const hit = document.elementFromPoint(x, y);
          return hit && (it.contains(hit) || hit.contains(it)) ? [x, y] : null;
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            await self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def types(self, text: str, into: str | None = None) -> None:
        """Key by key, as a hand does."""
        if into is not None:
            await self.clicks(into)
            await self.sees(f"document.activeElement === {_FIND}({json.dumps(into)})")
        for letter in text:
            await self._call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            await self._call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    async def pastes(self, text: str) -> None:
        """At the focus, all at once."""
        await self.tab.run(f"""(() => {{
          const data = new DataTransfer();
          data.setData("text/plain", {json.dumps(text)});
          const it = document.activeElement;
          if (it.dispatchEvent(new ClipboardEvent("paste", {{ clipboardData: data, bubbles: true, cancelable: true }})))
            document.execCommand("insertText", false, {json.dumps(text)});
        }})()""")

    async def presses(self, keys: str) -> None:
        """Like `Enter`, `Alt+Y`, `Control+K`."""
        *held, key = keys.split("+")
        modifiers = sum(_HELD[one] for one in held)
        name, number, text = _NAMED.get(key, (key.lower(), ord(key[0]), key.lower() if not held else ""))
        code = key if key in _NAMED else f"Key{key.upper()}"
        what = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        await self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **({"text": text} if text else {}), **what)
        await self._call("Input.dispatchKeyEvent", type="keyUp", **what)

    async def says(self, text: str) -> None:
        """Into the message box, and sends it."""
        await self.types(text, into="#composer")
        await self.presses("Enter")

    async def looks_away(self, away: bool = True) -> None:
        """At another window, or back at this one."""
        await self._call("Emulation.setFocusEmulationEnabled", enabled=not away)
        await self.tab.run(f"window.dispatchEvent(new Event('{'blur' if away else 'focus'}'))")

    async def sized(self, size: tuple[int, int], *, touch: bool = False) -> None:
        await self._call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=touch)
        await self._call("Emulation.setTouchEmulationEnabled", enabled=touch)

    async def in_theme(self, theme: str) -> None:
        await self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    async def transcript(self) -> str:
        """What stands in the log, without what depends on the clock or belongs to the moment."""
        html: str = await self.tab.run("""(() => {
          const copy = document.querySelector("[role=log]").cloneNode(true);
          for (const one of copy.querySelectorAll("[data-now]")) one.remove();
          for (const one of copy.querySelectorAll("time")) one.textContent = "";
          for (const one of copy.querySelectorAll("[data-ref]")) one.removeAttribute("src");
          for (const one of copy.querySelectorAll("details")) one.removeAttribute("open");
          copy.querySelector(".col").removeAttribute("style");
          return copy.innerHTML.replaceAll("><", ">\\n<");
        })()""")
        return html

    def complaints(self) -> list[Any]:
        """What the browser and the page had to complain about."""
        errors = [one["exceptionDetails"] for one in self.tab.named("Runtime.exceptionThrown")]
        logged = [one["entry"] for one in self.tab.named("Log.entryAdded") if one["entry"]["level"] == "error"]
        said = [one for one in self.tab.named("Runtime.consoleAPICalled") if one["type"] in ("error", "warning")]
        return [*errors, *logged, *said, *self.tab.policy_reports()]

    async def _call(self, method: str, **params: Any) -> Json:
        return await self.tab.browser.call(method, self.tab.session, **params)


@asynccontextmanager
async def person(
    browser: Browser, daemon: Client, path: str = "/", *, size: tuple[int, int] = DESK, touch: bool = False
) -> AsyncGenerator[Person]:
    """Signed in, in a window of that size that has the focus."""
    code = (await daemon.ask("POST", "/v1/codes", {"scope": "admin"}))["code"]
    async with browser.tab() as tab:
        one = Person(tab, daemon)
        await one._call("Emulation.setFocusEmulationEnabled", enabled=True)
        await one.sized(size, touch=touch)
        await one.goes(f"{path}#code={code}")
        await one.sees("document.querySelector('.foot .dot.ok')")
        yield one


@asynccontextmanager
async def desk(folder: Path, **options: Any) -> AsyncGenerator[tuple[Browser, Client]]:
    """A daemon of its own, and a browser that reaches nothing else."""
    async with palaver_process(folder, **options) as daemon, chromium(folder, daemon.port) as browser:
        yield browser, daemon


@contextmanager
def no_complaints(one: Person) -> Iterator[None]:
    yield
    assert one.complaints() == []
