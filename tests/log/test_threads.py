"""Blocking calls beside the loop: cancelling them, and their share of a busy interpreter."""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
import time
import weakref

import pytest
import uvloop

from palaver.log.threads import in_thread, patience


def test_a_cancelled_caller_leaves_when_the_thread_has_ended() -> None:
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        started.set()
        may_end.wait(10)
        ended.set()
        raise LookupError("nobody is there to hear this")

    async def main() -> None:
        call = asyncio.ensure_future(in_thread(job))
        while not started.is_set():
            await asyncio.sleep(0)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0)
        assert not call.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()

    asyncio.run(main())


def test_what_a_job_raises_reaches_its_caller() -> None:
    def job() -> None:
        raise LookupError

    async def main() -> None:
        with pytest.raises(LookupError):
            await in_thread(job)

    asyncio.run(main())


@pytest.mark.parametrize("spin", [0.00005, 0.0002])
def test_a_job_ends_soon_while_the_loop_is_never_idle(spin: float) -> None:
    """STACK 3's trap, for jobs that need the interpreter several times."""

    def job() -> None:
        for _ in range(3):
            time.sleep(0)  # lets go of the interpreter, and has to get it back

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        busy = True

        def callback() -> None:
            end = time.perf_counter() + spin
            while time.perf_counter() < end:
                pass
            if busy:
                loop.call_soon(callback)

        loop.call_soon(callback)
        took: list[float] = []
        for _ in range(50):
            start = time.perf_counter()
            await in_thread(job)
            took.append(time.perf_counter() - start)
        busy = False
        return took

    assert sorted(uvloop.run(main()))[-5] < 0.25


@pytest.mark.parametrize("waits", [True, False], ids=["a thread has something to do", "none has"])
def test_a_busy_loop_sleeps_now_and_then_only_while_a_thread_has_something_to_do(waits: bool) -> None:
    """STACK 3's trap by its cure, which any machine shows: how long a thread starves without it depends on the machine and its load."""
    many = 20

    def slept() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    async def main() -> int:
        loop, done, ended = asyncio.get_running_loop(), threading.Event(), asyncio.Event()
        running = asyncio.ensure_future(in_thread(done.wait)) if waits else None
        await asyncio.sleep(0)
        before, deadline = slept(), time.monotonic() + (10 if waits else 0.2)

        def callback() -> None:
            if slept() - before >= many or time.monotonic() > deadline:
                ended.set()
            else:
                loop.call_soon(callback)

        loop.call_soon(callback)
        await ended.wait()
        counted = slept() - before
        done.set()
        if running is not None:
            await running
        return counted

    counted = uvloop.run(main())
    assert (counted >= many) == waits


def test_a_loop_that_has_ended_is_forgotten() -> None:
    async def main() -> weakref.ref[asyncio.AbstractEventLoop]:
        await in_thread(lambda: None)
        assert patience() is patience()
        return weakref.ref(asyncio.get_running_loop())

    ended = asyncio.run(main())
    gc.collect()
    assert ended() is None
