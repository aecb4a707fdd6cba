"""Background jobs of `shell`: listed, read and ended, by the person and by the model, and ended with their session and their daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.sandbox.variants import Sandbox
from palaver_daemon import Chat, Json, palaver, process_is_there, scripted, texts, until
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
HELD = [False, True] if Sandbox().look().variant is not None else [False]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def shell(command: str, **more: object) -> Step:
    return calls(("shell", {"command": command, **more}))


def background(command: str) -> Step:
    return shell(command, background=True)


async def jobs_of(chat: Chat) -> list[Json]:
    jobs: list[Json] = (await chat.get("jobs"))["jobs"]
    return jobs


async def started(chat: Chat) -> Json:
    """The one job, once it has printed something."""
    await chat.runs("go")
    while not (job := (await jobs_of(chat))[0])["output"]:
        pass
    return job


@pytest.mark.parametrize("held", HELD)
async def test_a_job_outlives_its_call_is_listed_and_killed_with_all_it_started(tmp_path: Path, held: bool) -> None:
    steps = [background("echo begun; sleep 600 & sleep 600"), text("started")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), sandbox=held) as here:
        async with here.chat(mode="auto") as chat:
            job = await started(chat)
            assert (job["running"], job["output"], job["session_id"]) == (True, "begun\n", chat.id)
            assert job["command"] == "echo begun; sleep 600 & sleep 600" and process_is_there(job["pid"])
            ended = await chat.post(f"jobs/{job['id']}/kill")
            assert ended["running"] is False
            await until(lambda: not process_is_there(job["pid"]))
            assert (await jobs_of(chat)) == [ended]
            assert (await chat.post(f"jobs/{job['id']}/kill")) == ended
            assert (await chat.refused("POST", "jobs/job_nothing/kill")).status == 404


async def test_the_model_lists_reads_and_ends_its_jobs_by_words(tmp_path: Path) -> None:
    steps = [background("seq 1 20000; sleep 600"), text("started")]
    async with (
        ScriptedModel(lambda request: steps.pop(0)) as model,
        palaver(tmp_path, env=scripted(model.url)) as here,
        here.chat(mode="auto") as chat,
    ):
        job = await started(chat)
        for word, ok in ((f"jobs {job['id']}", True), ("jobs", True), (f"kill {job['id']}", True), ("jobs job_none", False)):
            steps += [shell(word), text("done")]
            await chat.runs(word)
            call = chat.of("tool_call_started")[-1]["data"]["tool_call"]["id"]
            result = chat.result(call)
            said = texts(result)
            assert result["ok"] is ok and job["id"] in said
            if word == f"jobs {job['id']}":
                assert said.startswith(f"{job['id']}  running") and "\n1\n2\n" in said
                [ref] = result["artifacts"]
                whole = (await here.answer("GET", f"{chat.path}/{ref}")).body.decode()
                assert whole.startswith("1\n2\n") and "\n10000\n" in whole
        assert not (await jobs_of(chat))[0]["running"]


async def test_one_session_does_not_see_the_jobs_of_another(tmp_path: Path) -> None:
    steps = [background("echo mine; sleep 600"), text("started")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat(mode="auto") as chat, here.chat(mode="auto") as other:
            job = await started(chat)
            assert await jobs_of(other) == []
            assert (await other.refused("POST", f"jobs/{job['id']}/kill")).status == 404
            assert (await jobs_of(chat))[0]["running"]


@pytest.mark.parametrize("how", ["the session is closed", "the daemon ends"])
async def test_a_job_ends_with(tmp_path: Path, how: str) -> None:
    steps = [background("echo begun; sleep 600"), text("started")]
    async with ScriptedModel(steps) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
            job = await started(chat)
            if how == "the session is closed":
                await chat.post("close")
                assert not process_is_there(job["pid"])
        assert not process_is_there(job["pid"])


async def test_to_end_a_job_takes_a_token_that_may_prompt(tmp_path: Path) -> None:
    steps = [background("echo begun; sleep 600"), text("started")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
        job = await started(chat)
        reader, prompter = await here.mint("read"), await here.mint("prompt")
        assert (await here.answer("GET", f"{chat.path}/jobs", token=reader)).status == 200
        assert (await here.answer("POST", f"{chat.path}/jobs/{job['id']}/kill", token=reader)).status == 403
        assert (await here.answer("POST", f"{chat.path}/jobs/{job['id']}/kill", token=prompter)).status == 200
