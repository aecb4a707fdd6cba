"""API.md, sentence by sentence: what an outside program meets, and what it meets when it asks wrongly."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from palaver.errors import Refused
from palaver.models import ModelCall, from_model_call, to_model_tools
from palaver.policy import ApprovalPolicy, PatchReviewPolicy, VerifyPolicy
from palaver.settings import load
from palaver.tools import MessagePart, Tool, ToolCall, ToolDefinition, ToolKind, ToolRegistry, ToolResult
from palaver.wire.ids import CallId
from palaver_daemon import Chat, Here, Json, Process, palaver, palaver_process, scripted
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
HOLD = "run the command `rm -f nothing`"
"""Runs until its approval is answered."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with palaver(tmp_path) as here:
        yield here


@pytest.fixture
async def chat(here: Here) -> AsyncIterator[Chat]:
    async with here.chat() as chat:
        yield chat


# --- files --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "near"),
    [
        ('[server]\nport = "many"\n', 2, "server.port"),
        ("[server]\nport = 99999\n", 2, "server.port"),
        ('[defaults]\nmode = "ask"\nmodel = 7\n', 3, "defaults.model"),
        ('[defaults]\nagent = "demmo"\n', 2, "Did you mean 'demo'?"),
        ('[agents.mine]\nmode = "plam"\n', 2, "Did you mean 'plan'?"),
    ],
)
def test_a_bad_value_is_told_also_where_a_flag_or_a_variable_beats_it(tmp_path: Path, text: str, line: int, near: str) -> None:
    """API.md, Files: an unknown key or a bad value names file, line and nearest key."""
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(Refused) as refused:
        load(str(file), {"PALAVER_MODEL": "m"}, {"server.port": 0})
    assert refused.value.message.startswith(f"{file}:{line}: ") and near in refused.value.message


# --- settings -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents.mine.command", "/bin/sh"),
        ("agents.mine.args", ["-c", "id"]),
        ("agents.mine.env", {"PATH": "/tmp"}),
        ("agents.mine.env.PATH", "/tmp"),
        ("agents.mine.backend", "acp"),
        ("models.mine.base_url", "http://127.0.0.1:1/v1"),
        ("models.mine.api_key_env", "HOME"),
        ("models.mine", {"base_url": "http://127.0.0.1:1/v1"}),
        ("verify.commands", ["make pwn"]),
        ("verify", {"commands": ["make pwn"]}),
        ("approval.rules", [{"decision": "allow", "tool": "shell"}]),
        ("approval", {"rules": []}),
        ("sandbox.mode", "off"),
        ("sandbox.network", True),
        ("sandbox", {"env": ["HOME"]}),
    ],
)
async def test_what_could_run_something_is_set_in_the_file_alone(here: Here, key: str, value: Any) -> None:
    """SECURITY 4: as admin too; the refusal says which lines to write where."""
    file = here.folder / "settings" / "config.toml"
    answer = await here.answer("PATCH", "/v1/settings", {"values": {"defaults.mode": "edit", key: value}})
    assert (answer.status, answer.code) == (422, "file_only")
    assert str(file) in answer.json["detail"] and answer.json["lines"] in answer.json["detail"]
    assert tomllib.loads(answer.json["lines"])
    assert file.read_text() == ""


SETTINGS = """\
# mine
[defaults]
mode = "ask"   # as long as I am new here
delivery = 'steer'

[limits] # not too much
steps = 100
"""


async def test_changed_settings_stand_in_the_file_beside_what_stood_there(tmp_path: Path) -> None:
    """API.md, Queue, turns, the rest: `PATCH /v1/settings {values}` keeps the file's comments; the next start reads it."""
    async with palaver(tmp_path, config=SETTINGS) as here:
        file = here.folder / "settings" / "config.toml"
        values = {"defaults.mode": "edit", "defaults": {"delivery": None}, "limits": {"seconds": 60}, "patch_review.mode": "auto"}
        changed = await here.ask("PATCH", "/v1/settings", {"values": values})
        assert set(changed["restart_needed"]) == {"defaults.mode", "defaults.delivery", "limits.seconds", "patch_review.mode"}
        assert changed["values"]["defaults.mode"] == "ask"
        expected = SETTINGS.replace('"ask"', '"edit"').replace("delivery = 'steer'\n", "").replace("much\n", "much\nseconds = 60\n")
        assert file.read_text() == f'{expected}\n[patch_review]\nmode = "auto"\n'
        assert file.stat().st_mode & 0o777 == 0o600
        after = load(str(file), {})
        assert (after.defaults.mode, after.defaults.delivery, after.limits.steps, after.limits.seconds) == ("edit", "queue", 100, 60)
        again = await here.ask("PATCH", "/v1/settings", {"values": {"defaults.mode": "edit", "defaults.model": None, "limits": {}}})
        assert again["restart_needed"] == []


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"defaults.mode": "edti"}, "defaults.mode"),
        ({"defaults.mode": "edit", "limits.steps": 0}, "limits.steps"),
        ({"defaults.moed": "ask"}, "defaults.moed"),
        ({"nothing": 1}, "nothing"),
        ({"limits.steps": {"a": 1}}, "limits.steps.a"),
        ({"models.none.vision": True}, "models.none.vision"),
        ({"defaults.model": 'x"\n[sandbox]\nmode = "off'}, None),
    ],
)
async def test_settings_that_make_no_sense_change_nothing(here: Here, values: Json, place: str | None) -> None:
    """CLIENTS.md 3: 422 for each key. A value stays a value, whatever is written in it."""
    file = here.folder / "settings" / "config.toml"
    answer = await here.answer("PATCH", "/v1/settings", {"values": values})
    if place is None:
        assert answer.status == 200
        assert load(str(file), {}).sandbox.mode == "auto"
    else:
        assert (answer.status, answer.json["errors"][0]["path"]) == (422, place)
        assert "TOML" not in answer.json["detail"] and file.read_text() == ""


async def test_every_wrong_setting_is_named(here: Here) -> None:
    """CLIENTS.md 3: 422 per key."""
    values = {"defaults.mode": "edti", "limits.steps": 5, "limits.seconds": -1, "server": {"prot": 1}}
    answer = await here.answer("PATCH", "/v1/settings", {"values": values})
    assert (answer.status, answer.code) == (422, "invalid")
    assert [error["path"] for error in answer.json["errors"]] == ["defaults.mode", "limits.seconds", "server.prot"]
    assert (here.folder / "settings" / "config.toml").read_text() == ""


async def test_the_settings_come_with_a_schema_that_they_fit(tmp_path: Path) -> None:
    """CLIENTS.md 3: `{values, origins, schema}`; what is changed in the file alone says so (SECURITY 4)."""
    config = '[models.mine]\nbase_url = "http://127.0.0.1:1/v1"\n[[approval.rules]]\ndecision = "deny"\ntool = "shell"\n'
    async with palaver(tmp_path, config=config) as here:
        settings = await here.ask("GET", "/v1/settings")
        schema = settings["schema"]
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(settings["values"])
        assert not Draft202012Validator(schema).is_valid({**settings["values"], "defaults.mode": "edti"})
        assert settings["origins"]["models.mine.base_url"] == "file" and settings["origins"]["limits.steps"] == "default"
        assert set(schema["properties"]) >= {key for key in settings["values"] if not key.startswith(("models", "agents"))}
        for key, shape in schema["properties"].items():
            if key != "discover" and "default" in shape:
                answer = await here.answer("PATCH", "/v1/settings", {"values": {key: shape["default"]}})
                assert (answer.json.get("code") == "file_only") == shape["readOnly"], (key, answer.body)


async def test_settings_are_closed_to_lesser_tokens(here: Here) -> None:
    """SECURITY 2: settings are for `admin`."""
    approve = await here.mint("approve")
    for method, body in (("GET", None), ("PATCH", {"values": {"defaults.mode": "auto"}})):
        answer = await here.answer(method, "/v1/settings", body, token=approve)
        assert (answer.status, answer.code, answer.json["needed"]) == (403, "scope", "admin")


# --- errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "/v1/sessions", {}, "workspace_path"),
        ("POST", "/v1/login", {}, "code"),
        ("POST", "/v1/approvals", {"answers": [{"action": "approve"}]}, "answers[0].approval_id"),
        ("POST", "/v1/rules", {"decision": "allow", "tool": "shell", "workspace": "/not/there"}, "workspace"),
        ("POST", "/v1/sessions", {"workspace_path": "/not/there"}, "workspace_path"),
    ],
)
async def test_a_422_names_the_field(here: Here, method: str, path: str, body: Json, place: str) -> None:
    """API.md, Errors: 422 `invalid` with `errors: [{path, message}]`."""
    answer = await here.answer(method, path, body)
    assert (answer.status, answer.code) == (422, "invalid")
    assert [error["path"] for error in answer.json["errors"]] == [place]
    assert all(error["message"] for error in answer.json["errors"])


async def test_an_unknown_field_of_a_patch_is_named(chat: Chat) -> None:
    answer = await chat.refused("PATCH", "", {"titel": "x"})
    assert answer.json["errors"][0]["path"] == "titel"


async def test_a_session_that_is_not_there_is_said_to_be_none(here: Here) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/transcript"), ("GET", "/events"), ("POST", "/cancel")):
        answer = await here.answer(method, f"/v1/sessions/sess_nobody{path}")
        assert (answer.status, answer.code) == (404, "not_found")
        assert "There is no session sess_nobody" in answer.json["detail"]


# --- sessions -----------------------------------------------------------------------------------------------------------------

ITEM = "queue/item_none"
WRITES: list[tuple[str, str, Any]] = [
    ("POST", "messages", {"role": "user", "parts": [{"type": "text", "text": "more"}]}),
    ("POST", "messages", {"role": "user", "parts": [{"type": "text", "text": "more"}], "auto_run": False}),
    ("PATCH", "", {"title": "new"}),
    ("PATCH", "", {}),
    ("PATCH", "", {"archived": True}),
    ("POST", "mode", {"id": "ask"}),
    ("POST", "mode", {"id": "plan"}),
    ("POST", "model", {"id": "demo"}),
    ("POST", "close", None),
    ("POST", "cancel", None),
    ("POST", "read", {"seq": 1}),
    ("PUT", "draft", {"text": "later", "attachments": [], "rev": 0}),
    ("POST", "queue/pause", None),
    ("POST", "queue/resume", None),
    ("PATCH", ITEM, {"parts": [{"type": "text", "text": "other"}]}),
    ("PATCH", ITEM, {"before": None}),
    ("DELETE", ITEM, None),
    ("POST", f"{ITEM}/promote", None),
    ("POST", "turns/turn_none/retry", None),
    ("POST", "approve", {"turn_id": "turn_none", "tool_call_id": "call_none", "action": "approve"}),
    ("POST", "attachments", {"name": "a.txt", "data": "YQ=="}),
]


async def test_every_write_to_a_closed_session_but_fork_and_delete_is_refused(here: Here, chat: Chat) -> None:
    """API.md, Sessions: after close every write but fork and DELETE is 409 `session_closed`; reading goes on."""
    await chat.runs("write 2 words")
    assert (await chat.post("close"))["status"] == "completed"
    log = await chat.log()
    for method, path, body in WRITES:
        answer = await chat.refused(method, path, body)
        assert (answer.status, answer.code) == (409, "session_closed"), (method, path)
    assert await chat.log() == log
    assert (await chat.transcript())["entries"]
    fork = await chat.post("fork")
    async with here.chat(fork["session_id"]) as other:
        assert (await other.runs("write 2 words"))["outcome"] == "completed"
    assert (await here.answer("DELETE", chat.path)).status == 204


async def test_a_new_fork_is_the_latest_session(here: Here, chat: Chat) -> None:
    """API.md, Sessions: the list is by `updated_at`, descending. A copied past does not make the copy old."""
    await chat.runs("write 2 words")
    await here.new_session()
    fork = (await chat.post("fork"))["session"]
    assert fork["updated_at"] >= fork["created_at"]
    assert (await here.ask("GET", "/v1/sessions?limit=1"))["sessions"][0]["id"] == fork["id"]


async def test_a_folder_is_found_however_it_is_written(here: Here, chat: Chat) -> None:
    """API.md, Sessions and the rest: `?workspace=` finds the sessions of a folder, `tree` lists what lies in a known one, and no other."""
    (here.workspace / "src" / "deep").mkdir(parents=True)
    (here.folder / "link").symlink_to(here.workspace)
    for written in (f"{here.workspace}/", f"{here.workspace}/../work", str(here.folder / "link")):
        found = await here.ask("GET", f"/v1/sessions?workspace={written}")
        assert [session["id"] for session in found["sessions"]] == [chat.id]
    below = await here.ask("GET", f"/v1/workspace/tree?path={here.workspace / 'src'}")
    assert [(entry["path"], entry["kind"]) for entry in below["entries"]] == [("deep", "folder")]
    for other in (here.folder, here.data, "/", "src"):
        answer = await here.answer("GET", f"/v1/workspace/tree?path={other}")
        assert (answer.status, answer.code) == (403, "workspace_unknown")
    await here.ask("POST", "/v1/sessions", {"workspace_path": str(here.folder)})
    assert (await here.answer("GET", f"/v1/workspace/tree?path={here.data}")).code == "workspace_unknown"


async def test_a_log_of_a_newer_version_is_read_and_not_written(tmp_path: Path) -> None:
    """API.md, Files: it opens read-only and says so; a fork goes on from there."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.runs("write 2 words")
        log = await chat.log()
    newer = {**log[-1], "v": 2, "seq": len(log) + 1, "type": "told_by_the_future", "data": {"more": True}}
    file = here.data / "sessions" / chat.id / "events.ndjson"
    (file.parent / "checkpoint").unlink(missing_ok=True)
    file.write_bytes(file.read_bytes() + json.dumps(newer).encode() + b"\n")
    before = file.read_bytes()
    async with palaver(tmp_path) as here, here.chat(chat.id) as again:
        assert "newer version" in (await again.get())["read_only"]
        assert (await again.log())[-1] == newer
        for method, path, body in WRITES:
            if path not in ("read", "draft"):  # these two lie beside the log
                answer = await again.refused(method, path, body)
                assert (answer.status, answer.code) == (409, "read_only"), (method, path)
        assert not list((file.parent / "attachments").glob("*"))
        fork = await again.post("fork")
        assert "read_only" not in fork["session"]
        assert (await here.ask("POST", f"/v1/sessions/{fork['session_id']}/queue/pause"))["paused"] is False
    assert file.read_bytes() == before


# --- asking -------------------------------------------------------------------------------------------------------------------


async def test_a_settled_call_has_a_turn_too(chat: Chat) -> None:
    """API.md, Asking: `…/approve` with a turn that the call is not of is 409 `wrong_turn`, before and after its answer."""
    sent = await chat.say(HOLD)
    [ask] = await chat.asks()
    call = ask["data"]["tool_call"]["id"]
    wrong = {"turn_id": "turn_other", "tool_call_id": call, "action": "approve"}
    assert (await chat.refused("POST", "approve", wrong)).code == "wrong_turn"
    right = {**wrong, "turn_id": sent["turn_id"]}
    assert (await chat.post("approve", right))["outcome"] == "granted"
    assert (await chat.refused("POST", "approve", wrong)).code == "wrong_turn"
    late = await chat.refused("POST", "approve", right)
    assert (late.status, late.code, late.json["outcome"]) == (409, "already_answered", "granted")


QUESTIONS = {
    "questions": [
        {"id": "colour", "text": "Which colour?", "options": ["Red", "Blue"], "required": True},
        {"id": "count", "text": "How many?", "type": "integer"},
        {"id": "sure", "text": "Sure?", "type": "boolean"},
    ]
}


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        ({}, "answers.colour"),
        ({"colour": {"selected": []}}, "answers.colour"),
        ({"colour": {"selected": ["Green"]}}, "answers.colour.selected"),
        ({"colour": {"selected": ["Red", "Blue"]}}, "answers.colour.selected"),
        ({"colour": {"selected": ["Red"]}, "shape": {"selected": ["Round"]}}, "answers.shape"),
        ({"colour": {"selected": ["Red"]}, "count": {"value": "three"}}, "answers.count.value"),
        ({"colour": {"selected": ["Red"]}, "count": {"value": True}}, "answers.count.value"),
        ({"colour": {"selected": ["Red"]}, "sure": {"value": 1}}, "answers.sure.value"),
    ],
)
async def test_an_answer_that_is_none_leaves_the_question_open(tmp_path: Path, answers: Json, place: str) -> None:
    """API.md, Events: a question's `type`, `options`, `multiple` and `required` say what an answer is."""
    async with (
        ScriptedModel([calls(("ask_user", QUESTIONS)), text("Thanks.")]) as model,
        palaver(tmp_path, env=scripted(model.url)) as here,
    ):
        async with here.chat() as chat:
            sent = await chat.say("ask me")
            [ask] = await chat.asks()
            answer = await chat.refused("POST", f"/v1/questions/{ask['id']}", {"answers": answers})
            assert (answer.status, answer.json["errors"][0]["path"]) == (422, place)
            assert [item["id"] for item in await here.inbox()] == [ask["id"]]
            good = {"colour": {"selected": ["Red"]}, "count": {"value": 3}, "sure": {"value": False}}
            settled = await here.ask("POST", f"/v1/questions/{ask['id']}", {"answers": good})
            assert settled["answers"]["count"] == {"selected": [], "value": 3}
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"


# --- streams ------------------------------------------------------------------------------------------------------------------


async def test_a_piece_of_the_tail_comes_after_the_event_that_opens_its_message(tmp_path: Path) -> None:
    """DESIGN.md 3: a reader with the tail gets pieces of open parts; one that came before its message it would have to drop."""
    async with palaver(tmp_path, pace_s=0.01) as here, here.chat() as chat:
        async with here.stream(f"{chat.path}/events?tail=1") as stream:
            await chat.say("write 20 words then think about order")
            begun: set[str] = set()
            pieces = 0
            while (frame := await stream.next()) is not None and frame.data["type"] != "turn_completed":
                data = frame.data["data"]
                if frame.data["type"] == "model_output_started":
                    begun.add(data["message_id"])
                elif "seq" not in frame.data and frame.data["type"] == "model_output_delta":
                    pieces += 1
                    assert data["message_id"] in begun
            assert pieces


async def test_the_stream_of_all_sessions_says_where_it_stands(here: Here, chat: Chat) -> None:
    """API.md, Streams: `GET /v1/events` numbers one sequence; `hello` says its head, and one can go on from there."""
    async with here.stream("/v1/events") as stream:
        hello = await stream.next()
        assert hello is not None and hello.event == "hello" and hello.data["data"]["session"] is None
        head = hello.data["data"]["head_seq"]
        await chat.post("queue/pause")
        await chat.say("write 1 words", auto_run=False)
        first = await stream.next()
        assert first is not None and int(first.id or 0) == head + 1
    async with here.stream(f"/v1/events?after={head}") as again:
        hello, first = await again.next(), await again.next()
        assert hello is not None and hello.event == "hello"
        assert first is not None and int(first.id or 0) == head + 1 and first.data["type"] == "message_added"


async def test_a_body_of_null_in_a_frame_is_no_body(here: Here, chat: Chat) -> None:
    """API.md, Streams: the frame `{"op":"request","id","method","path","body"}` has a place for a body that need not be there."""
    async with here.socket() as ws:
        await ws.send(json.dumps({"op": "request", "id": 1, "method": "POST", "path": f"{chat.path}/cancel", "body": None}))
        assert json.loads(await ws.recv()) == {"op": "reply", "id": 1, "status": 200, "body": {"turn_id": None}}


# --- messages -----------------------------------------------------------------------------------------------------------------


def _together(*steps: Step) -> Step:
    """One answer of several; the finish reason of a call wins."""
    whole = steps[0]
    for step in steps[1:]:
        whole = whole + step
    return whole


async def test_a_call_has_its_part_at_its_place(tmp_path: Path) -> None:
    """API.md, Messages: `{type: "tool_call", id}` stands at the place of the call, also between two texts."""
    script = [_together(text("Before."), calls(("search", {"pattern": "x"})), text("After.")), text("Done.")]
    async with ScriptedModel(script) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        assert (await chat.runs("go"))["outcome"] == "completed"
        message = chat.of("model_output_completed")[0]["data"]["message"]
        assert [part["type"] for part in message["parts"]] == ["text", "tool_call", "text"]
        assert message["parts"][1]["id"] == message["tool_calls"][0]["id"]
        assert [part.get("text") for part in message["parts"]] == ["Before.", None, "After."]
        await chat.check()


# --- the sketch in Python -----------------------------------------------------------------------------------------------------


class Echo:
    """A tool that a stranger writes from API.md alone: a definition and what it does."""

    def definition(self) -> ToolDefinition:
        schema = json.dumps({"type": "object", "properties": {"say": {"type": "string"}}}).encode()
        return ToolDefinition(
            name="echo", description="Says it again.", input_schema_json=schema, kind=ToolKind.READ, requires_approval=False
        )

    async def invoke(self, context: object, call: ToolCall) -> ToolResult:
        return ToolResult(id=call.id, ok=True, parts=(MessagePart(type="text", text=call.input["say"]),))


async def test_the_sketch_of_spec_004_is_there_in_python() -> None:
    """API.md, The built-in tools' inputs: the Go sketch with its fields in snake_case, and its defaults."""
    registry = ToolRegistry([Echo()])  # type: ignore[list-item]  # without `describe`, as the sketch has it
    [tool] = to_model_tools(registry.definitions())
    assert tool.name == "echo"
    call = from_model_call(ModelCall("call_1", "echo", '{"say": "hi"}'))
    assert call == ToolCall(CallId("call_1"), "echo", {"say": "hi"})
    result = await registry.invoke(None, call)  # type: ignore[arg-type]  # this tool needs no context
    assert (result.ok, result.id, result.parts[0].text) == (True, "call_1", "hi")
    assert (VerifyPolicy().auto_verify, VerifyPolicy().commands, VerifyPolicy().require_clean) == (True, ("make test",), False)
    assert PatchReviewPolicy().mode == "off"
    assert (tuple(ApprovalPolicy().require_for_kinds), tuple(ApprovalPolicy().require_for_tools)) == ((), ())


def test_the_names_of_the_sketch_have_its_fields() -> None:
    """S4-50 to S4-55, S4-65 to S4-68: exactly these imports, their fields in snake_case, in the sketch's order and with its defaults."""
    names = {"read", "write", "exec", "network", "delegate", "ask"}
    assert {kind.value for kind in ToolKind} == names
    fields = {
        ToolDefinition: ("name", "description", "input_schema_json", "kind", "requires_approval"),
        ToolCall: ("id", "name", "input"),
        ToolResult: ("id", "ok", "parts", "artifacts", "error"),
        MessagePart: ("type", "text"),
        VerifyPolicy: ("auto_verify", "commands", "require_clean"),
        ApprovalPolicy: ("require_for_kinds", "require_for_tools"),
        PatchReviewPolicy: ("mode",),
    }
    for of, expected in fields.items():
        named = list(inspect.signature(of).parameters)
        assert [name for name in named if name in expected] == list(expected), of
    assert [name for name, one in vars(Tool).items() if inspect.isfunction(one) and not name.startswith("_")] == [
        *("definition", "describe", "invoke")
    ]
    assert inspect.iscoroutinefunction(Tool.invoke) and list(inspect.signature(Tool.invoke).parameters) == ["self", "context", "call"]
    assert list(inspect.signature(ToolRegistry.invoke).parameters) == ["self", "context", "call"]


OWN = """\
import json
from palaver.settings import load
from palaver.tools import MessagePart, ToolDefinition, ToolKind, ToolResult


class Echo:
    def definition(self):
        return ToolDefinition(name="echo", description="Says it again.", input_schema_json=b'{"type": "object"}', kind=ToolKind.READ)

    async def invoke(self, context, call):
        return ToolResult(id=call.id, ok=True, parts=(MessagePart(type="text", text=call.input["say"]),))
"""


def plug_in(folder: Path) -> Path:
    """An installed package with one tool that loads and two that do not."""
    about = folder / "own-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "own_tools.py").write_text(OWN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    lines = ["[palaver.tools]", "echo = own_tools:Echo", "gone = own_tools:Gone", "again = own_tools:Echo"]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


async def test_a_persons_own_tool_is_used_and_one_that_does_not_load_is_named(tmp_path: Path) -> None:
    """API.md: entry point group `palaver.tools`; one that fails to load is named in `GET /v1/tools` and stops nothing."""
    folder = plug_in(tmp_path / "site")
    async with ScriptedModel([calls(("echo", {"say": "it is mine"})), text("Done.")]) as model:
        env = {**scripted(model.url), "PYTHONPATH": str(folder)}
        async with palaver_process(tmp_path, env=env) as process:
            await _uses_echo(process)


async def _uses_echo(process: Process) -> None:
    tools = await process.ask("GET", "/v1/tools")
    assert {"echo", "shell", "read_file"} <= {tool["name"] for tool in tools["tools"]}
    failed = {tool["name"]: tool["reason"] for tool in tools["failed"]}
    assert set(failed) == {"gone", "again"} and "Gone" in failed["gone"]
    async with process.chat() as chat:
        assert (await chat.runs("go"))["outcome"] == "completed"
        started = chat.of("tool_call_started")[0]["data"]
        assert (started["title"], started["kind"]) == ("echo", "read")
        assert chat.result(started["tool_call"]["id"])["parts"][0]["text"] == "it is mine"
