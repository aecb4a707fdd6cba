"""A person without a mouse: approves, answers, queues and stops by keys alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from page_world import PageWorld, page_world
from person import Person

MANY = 60
AT = "((it) => (it.getAttribute('aria-label') ?? it.value ?? it.innerText ?? '').trim() || it.innerText)(document.activeElement)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    with page_world(tmp_path_factory.mktemp("page")) as world:
        yield world


async def tabs_to(one: Person, name: str) -> None:
    """As often as it takes, as somebody does who listens to what has the focus."""
    heard = []
    for _ in range(MANY):
        await one.presses("Tab")
        heard.append(await one.tab.run(f"({AT}).split('\\n')[0].trim()"))
        if heard[-1].startswith(name):
            return
    raise AssertionError(f"Tab never came to {name!r}, but to {heard}")


async def writes(one: Person, text: str) -> None:
    await one.sees("document.activeElement.id === 'composer'")
    await one.types(text)
    await one.presses("Enter")


async def goes_to_what_waits(one: Person) -> None:
    await one.finds(".cardx.waiting")
    began = await one.tab.run("performance.now()")
    await one.presses("Alt+J")
    await one.sees("document.activeElement.closest('.cardx.waiting') !== null")
    await one.sees(f"performance.now() > {began} + 650")


def test_keys_alone_approve_answer_queue_and_stop(world: PageWorld) -> None:
    """UI 8, gate 7: from the skip link to the end of a turn, each deed in the log."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.finds("#composer")
            await ann.tab.run("document.activeElement.blur()")
            await tabs_to(ann, "Skip to")
            await ann.presses("Enter")
            await writes(ann, "run the command `echo hello`")
            await goes_to_what_waits(ann)
            await tabs_to(ann, "Allow once")
            await ann.presses("Enter")
            assert (await chat.happens("approval_granted"))["data"]["scope"] == "once"
            await ann.finds(".end[data-outcome=completed]")

            await writes(ann, "ask me Which colour with red or blue")
            await goes_to_what_waits(ann)
            await tabs_to(ann, "red")
            await ann.presses("ArrowDown")
            await tabs_to(ann, "Send answer")
            await ann.presses("Enter")
            answered = await chat.happens("question_answered")
            assert [one["selected"] for one in answered["data"]["answers"].values()] == [["blue"]]
            await chat.happens("turn_completed", 2)

            await writes(ann, "wait 60 seconds")
            await chat.happens("turn_started", 3)
            await writes(ann, "afterwards write 3 words")
            queued = await chat.happens("queue_changed")
            assert "afterwards write 3 words" in json.dumps(queued["data"])
            await tabs_to(ann, "Stop the agent")
            await ann.presses("Enter")
            assert (await chat.happens("turn_completed", 3))["data"]["outcome"] == "cancelled"
            assert ann.complaints() == []

    world.run(run())
