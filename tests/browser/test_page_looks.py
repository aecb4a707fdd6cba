"""The gallery in both themes and both widths: no violation that axe can see, nothing wider than its screen, states told in words too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gallery import gallery, plant
from page_world import PageWorld, page_world
from person import DESK, PHONE, Person

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "data").mkdir(mode=0o700)
    (folder / "work").mkdir(mode=0o700)
    plant(folder / "data", gallery(folder / "work"))
    with page_world(folder) as world:
        yield world


async def violations(ann: Person) -> list[str]:
    await ann.tab.run(f"window.axe ? 0 : (() => {{ {AXE.read_text()} }})()")
    found = await ann.tab.run(f"""axe.run(document, {{ runOnly: {RULES} }}).then(({{ violations, passes }}) => [
      ...(passes.length > 20 ? [] : ["axe looked at nothing"]),
      ...violations.flatMap((one) => one.nodes.map((node) => one.id + ": " + node.html.slice(0, 160) + node.failureSummary)),
    ])""")
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_gallery_has_no_violation(world: PageWorld, size: tuple[int, int], theme: str) -> None:
    """UI 8, gate 7."""

    async def run() -> None:
        async with world.person("/s/sess_gallery", size=size, touch=size == PHONE) as ann:
            await ann.in_theme(theme)
            await ann.finds(".cardx.waiting")
            await ann.tab.run(
                "(() => { for (const one of document.querySelectorAll('.turn')) one.style.contentVisibility = 'visible'; })()"
            )
            await ann.sees("document.getAnimations().every((one) => one.playState !== 'pending')")
            assert await violations(ann) == []
            assert await ann.tab.run("document.documentElement.scrollWidth") <= size[0]

    world.run(run())


@pytest.mark.parametrize("keys", ["Control+K", "Alt+C"])
def test_dialogs_have_no_violation(world: PageWorld, keys: str) -> None:
    async def run() -> None:
        async with world.person("/s/sess_gallery") as ann:
            await ann.finds(".cardx.waiting")
            await ann.presses(keys)
            await ann.finds("dialog[open] input")
            assert await violations(ann) == []

    world.run(run())


def test_every_state_of_a_tool_has_its_class_its_attribute_and_a_word(world: PageWorld) -> None:
    """Item 3: `data-state` and class; an interrupted block says `⚠ Interrupted`, the sign hidden from screen readers."""

    async def run() -> None:
        async with world.person("/s/sess_gallery") as ann:
            await ann.finds(".cardx.waiting")
            each = "[one.dataset.state, one.classList.contains(one.dataset.state)]"
            found = await ann.tab.run(f"[...document.querySelectorAll('[role=log] [data-state]')].map((one) => {each})")
            assert {state for state, _ in found} == {"pending", "success", "error", "interrupted", "truncated", "agent-callback"}
            assert [state for state, has in found if not has and state != "pending"] == []
            assert await ann.tab.run("document.querySelector('.tool.interrupted').textContent.includes('⚠ Interrupted')")
            assert await ann.tab.run("[...document.querySelectorAll('.glyph')].every((one) => one.ariaHidden === 'true')")

    world.run(run())


def test_on_a_phone_the_list_is_a_drawer_and_what_waits_stands_above_the_composer(world: PageWorld) -> None:
    """UI 6, Mobile: 44 px targets, nothing that only a hover shows."""

    async def run() -> None:
        async with world.person("/s/sess_gallery", size=PHONE, touch=True) as ann:
            await ann.finds(".needbar")
            await ann.clicks(".needbar")
            await ann.sees("document.activeElement.matches('.cardx.waiting')")
            small = await ann.tab.run("""[...document.querySelectorAll(".acts .btn, .send, .halt, .needbar, .top .icon-btn")]
              .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
              .map((one) => one.outerHTML.slice(0, 120))""")
            assert small == []
            await ann.clicks("=Sessions, 1 need you")
            await ann.sees("getComputedStyle(document.querySelector('.side')).visibility === 'visible'")
            await ann.clicks("[data-session=sess_gallery]")
            await ann.sees("getComputedStyle(document.querySelector('.side')).visibility === 'hidden'")

    world.run(run())


def test_a_keyboard_alone_reaches_approve_answer_and_stop(world: PageWorld) -> None:
    """UI 7: F6 goes round the regions, Alt+J to what waits; after that Tab and Enter do."""

    async def run() -> None:
        async with world.person("/s/sess_gallery") as ann:
            await ann.finds(".cardx.waiting")
            await ann.presses("Alt+J")
            await ann.sees("document.activeElement.matches('.cardx.waiting')")
            await ann.presses("Tab")
            await ann.sees("document.activeElement.closest('.cardx.waiting') !== null && document.activeElement.matches('button')")
            await ann.presses("F6")
            await ann.sees("document.activeElement.closest('.cardx') === null")

    world.run(run())
