"""SECURITY 19 and 20 in a real browser: nothing hides on a card, and nothing is answered that somebody did not mean."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from page_world import PageWorld, page_world
from person import Person

from palaver_daemon import Chat

HIDDEN = "a\u202eb\u200bc\u2066d\U000e0041e\u00adf" + " " * 12 + "g"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    with page_world(tmp_path_factory.mktemp("page")) as world:
        yield world


async def after(ann: Person, ms: int) -> None:
    began = await ann.tab.run("performance.now()")
    await ann.sees(f"performance.now() - {began} > {ms}")


async def unanswered(chat: Chat) -> bool:
    return not chat.of("approval_granted", "approval_denied", "question_answered")


def test_typing_into_the_composer_never_approves(world: PageWorld) -> None:
    """UI 8, gate 3: somebody writes while a card appears; every letter and every Enter is the message's."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.types("first ", into="#composer")
            await chat.say("run the command `echo hello`")
            await ann.types("yes yes please allow it y a n ")
            await ann.finds(".cardx.waiting")
            await ann.types("yes y y y allow ")
            await ann.presses("Tab")
            assert await ann.tab.run("document.activeElement.closest('.cardx') === null")
            assert await unanswered(chat)
            assert (await ann.tab.run("document.querySelector('#composer').value")).startswith("first yes yes please")

    world.run(run())


def test_a_card_does_not_take_the_focus(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.clicks("#composer")
            await chat.say("run the command `echo hello`")
            await ann.finds(".cardx.waiting")
            assert await ann.tab.run("document.activeElement.id") == "composer"

    world.run(run())


@pytest.mark.parametrize("ms", [0, 50, 300])
def test_a_click_on_a_card_that_has_just_appeared_does_nothing(world: PageWorld, ms: int) -> None:
    """SECURITY 20: 400 ms; the page says why."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await after(ann, 600)
            await ann.tab.run(f"""(() => {{
              window.clicked = 0;
              new MutationObserver(() => {{
                const button = document.querySelector("[data-answer=allow]");
                if (button && !window.clicked) {{ window.clicked = 1; setTimeout(() => {{ button.click(); window.clicked = 2; }}, {ms}); }}
              }}).observe(document.body, {{ childList: true, subtree: true }});
            }})()""")
            await chat.say("run the command `echo hello`")
            await ann.sees("window.clicked === 2")
            await ann.reads("only just appeared", "[role=status]")
            assert await unanswered(chat)
            await after(ann, 700)
            await ann.clicks("=Allow once")
            await chat.happens("approval_granted")

    world.run(run())


def test_a_click_right_after_coming_back_to_the_window_does_nothing(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await chat.say("run the command `echo hello`")
            await ann.finds(".cardx.waiting")
            await after(ann, 700)
            await ann.tab.run("""(() => {
              const focused = document.hasFocus;
              document.hasFocus = () => false;
              window.dispatchEvent(new Event("blur"));
              document.hasFocus = focused;
              window.dispatchEvent(new Event("focus"));
              document.querySelector("[data-answer=allow]").click();
            })()""")
            await ann.reads("only just come back", "[role=status]")
            assert await unanswered(chat)

    world.run(run())


def test_a_key_means_the_card_that_was_there_and_not_the_one_that_arrives(world: PageWorld) -> None:
    """SECURITY 20: a second ask just before the key never becomes the marked one."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await chat.say("run the command `echo first` then run the command `echo second`")
            first = (await chat.asks())[0]["id"]
            await ann.finds(".cardx.waiting")
            await after(ann, 700)
            await ann.presses("Alt+Y")
            assert (await chat.happens("approval_granted"))["data"]["approval_id"] == first
            await chat.asks()
            await ann.presses("Alt+Y")
            await ann.finds(".cardx.waiting")
            assert len(chat.of("approval_granted")) == 1

    world.run(run())


def test_nothing_hides_on_a_card(world: PageWorld) -> None:
    """SECURITY 19: what a screen obeys or does not show comes out by its number; the command is whole and wrapped."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await chat.say(f"run the command `echo {HIDDEN} {'x' * 3000}`")
            await ann.finds(".approve .cmd")
            shown = await ann.tab.run("document.querySelector('.approve .cmd').textContent")
            for said in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+2066⟩", "⟨U+E0041⟩", "⟨U+00AD⟩", "⟨12 blanks⟩"):
                assert said in shown, shown[:200]
            assert "x" * 3000 in shown
            box = await ann.tab.run(
                "(({scrollWidth, clientWidth, scrollHeight, clientHeight}) => [scrollWidth, clientWidth, scrollHeight, clientHeight])"
                "(document.querySelector('.approve .cmd'))"
            )
            assert box[0] <= box[1] + 1 and box[2] <= box[3] + 1

    world.run(run())


def test_approving_waits_until_the_end_of_a_long_change_was_in_view(world: PageWorld) -> None:
    """SECURITY 19: Approve is off until then, and says so."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.sized((1000, 480))
            await chat.runs("write 350 words")
            await ann.finds(".end[data-outcome=completed]")
            await ann.tab.run("document.querySelector('.log').focus()")
            await ann.presses("PageUp")
            await ann.sees("((log) => log.scrollHeight - log.scrollTop - log.clientHeight > 60)(document.querySelector('.log'))")
            await chat.say("run the command `" + "; ".join(f"echo {number}" for number in range(400)) + "`")
            await ann.finds("[data-answer=allow]")
            await after(ann, 700)
            await ann.tab.run("document.querySelector('[data-answer=allow]').click()")
            await ann.reads("goes on below", "[role=status]")
            assert await unanswered(chat)
            await ann.tab.run("document.querySelector('.end-mark').scrollIntoView({ block: 'center' })")
            await after(ann, 200)
            await ann.clicks("=Allow once")
            await ann.finds(".tool.success")

    world.run(run())


def test_a_link_of_the_model_shows_where_it_goes_and_loads_nothing(world: PageWorld) -> None:
    """SECURITY 20: http, https and mailto only, the real host beside it, no opener; a picture is a link."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            said = "[your bank](https://evil.example/x) ![dot](https://evil.example/dot.png) [run](javascript:alert(1)) <b>bold</b>"
            await chat.say(f'write the file a.md with "{said}"')
            await ann.finds(".cardx.waiting")
            await after(ann, 700)
            await ann.presses("Alt+Y")
            await ann.says("read the file a.md")
            await ann.sees("[...document.querySelectorAll('.prose a')].length >= 2")
            links = await ann.tab.run("[...document.querySelectorAll('.prose a')].map((a) => [a.href, a.rel, a.textContent])")
            assert all(rel == "noopener noreferrer" for _, rel, _ in links)
            assert ["https://evil.example/x", "noopener noreferrer", "your bank (evil.example)"] in links
            assert not [href for href, _, _ in links if href.startswith("javascript:")]
            assert await ann.tab.run("document.querySelectorAll('.prose img, .prose b').length") == 0
            assert json.dumps(ann.complaints()) == "[]"

    world.run(run())
