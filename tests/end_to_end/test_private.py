"""What a whole session leaves on disk: readable by its person alone, and without any secret."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from palaver_daemon import Chat, Process, check_ended, palaver_process, scripted
from scripted_model import ScriptedModel, calls, status, text

pytestmark = pytest.mark.anyio
SECRETS = {
    "OPENAI_API_KEY": "sk-planted-0123456789abcdef",
    "MY_SERVICE_KEY": "key-planted-0123456789abcdef",
    "GITHUB_TOKEN": "ghp_planted0123456789abcdef",
    "DB_PASSWORD": "hunter-planted-0123456789",
    "SSH_AUTH_SOCK": "/tmp/planted-agent-socket",
    "PALAVER_SOMETHING": "planted-palaver-variable",
}
CONFIG = '[models.own]\nbase_url = "{url}"\napi_key_env = "MY_SERVICE_KEY"\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def whole_session(daemon: Process) -> str:
    """Messages, tools that look around, an approval, a question, an attachment, a fork, a cancel, a failure."""
    async with daemon.chat(mode="auto") as chat:
        await chat.runs("show me everything")
        await chat.runs("and break")
        stored = await chat.post("attachments", {"name": "a.txt", "mime_type": "text/plain", "data": "YWJj"})
        sent = await chat.say([{"type": "text", "text": "and wait"}, {"type": "file", "ref": stored["ref"], "mime_type": "text/plain"}])
        await chat.happens("question_asked")
        await chat.post("cancel")
        await chat.ended(sent["turn_id"])
        fork = (await chat.post("fork"))["session_id"]
        await _drafts(chat)
        await chat.post("fork", {"at_message_id": sent["message_id"]})
        check_ended(await chat.check())
        assert fork
        return chat.id


async def _drafts(chat: Chat) -> None:
    await chat.client.ask("POST", "/v1/tokens", {"scope": "read", "name": "phone"})
    await chat.client.ask("PUT", f"{chat.path}/draft", {"text": "half a thought", "attachments": [], "rev": 0})
    await chat.post("read", {"seq": 3})


def script() -> ScriptedModel:
    look = ("shell", {"command": "env; set; export; head -c 70000 /dev/zero | tr '\\0' y"})
    steal = [("shell", {"command": "cat ../data/token"}), ("read_file", {"path": "../data/token"}), ("search", {"pattern": "sk-planted"})]
    question = {"questions": [{"text": "Which?", "options": ["red", "blue"]}]}
    steps = [calls(look, *steal), text("seen"), status(401, message="no such key: " + SECRETS["MY_SERVICE_KEY"])]
    return ScriptedModel([*steps, calls(("ask_user", question))])


async def test_no_secret_reaches_the_disk_or_stderr(tmp_path: Path) -> None:
    """SECURITY 10, API Files: planted keys, and Palaver's own token, are in no log, artifact, index, checkpoint or message."""
    async with script() as model:
        env = {**SECRETS, "PALAVER_MODEL": "own"}
        async with palaver_process(tmp_path, env=env, config=CONFIG.format(url=model.url)) as daemon:
            assert daemon.token is not None
            planted = [*SECRETS.values(), daemon.token, daemon.token.partition(".")[2]]
            await whole_session(daemon)
            assert model.headers[0]["authorization"] == f"Bearer {SECRETS['MY_SERVICE_KEY']}", "the model's server does get its key"
            said = await daemon.end()
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and path.name not in ("token", "tokens.json")]
        assert len(files) > 10
        for secret in planted:
            assert secret not in said
            for path in files:
                assert secret.encode() not in path.read_bytes(), (path, secret)
        assert planted[-1].encode() not in (tmp_path / "data" / "tokens.json").read_bytes(), "only its hash"


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=oct)
async def test_everything_in_the_data_folder_is_for_one_person(tmp_path: Path, umask: int) -> None:
    """SECURITY 7: by mode and not by umask, while it runs and afterwards; children keep the person's umask."""
    async with script() as model, palaver_process(tmp_path, env=scripted(model.url), umask=umask) as daemon:
        session_id = await whole_session(daemon)
        _walk(daemon.data)
        await daemon.end()
        _walk(daemon.data)
        assert (daemon.data / "sessions" / session_id / "artifacts").is_dir()


async def test_children_keep_the_persons_umask(tmp_path: Path) -> None:
    """SECURITY 7."""
    steps = [calls(("shell", {"command": "umask > mask; touch made"})), text("ok")]
    async with ScriptedModel(steps) as model, palaver_process(tmp_path, env=scripted(model.url), umask=0o027) as daemon:
        async with daemon.chat(mode="auto") as chat:
            await chat.runs("go")
        assert int((daemon.workspace / "mask").read_text(), 8) == 0o027
        assert stat.S_IMODE((daemon.workspace / "made").stat().st_mode) == 0o640


async def test_a_second_daemon_on_the_folder_sends_to_the_first(tmp_path: Path) -> None:
    """DESIGN 4: one writer; the second prints the first one's address, ends with 0, and changes nothing."""
    async with palaver_process(tmp_path) as first, first.chat() as chat:
        await chat.runs("write 2 words")
        before = (first.data / "daemon.json").read_bytes()
        async with palaver_process(tmp_path) as second:
            assert second.port == first.port
            assert await asyncio.wait_for(second.process.wait(), 30) == 0
        assert (first.data / "daemon.json").read_bytes() == before
        assert (await chat.runs("write 3 words"))["outcome"] == "completed"


def _walk(data: Path) -> None:
    seen = 0
    for folder, names, files in os.walk(data):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        for name in files:
            path = Path(folder, name)
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600, path
            seen += 1
        assert not [name for name in names if Path(folder, name).is_symlink()]
    assert seen > 10
