"""The schema says what the structs say, by the word of a validator that knows nothing of either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from palaver.wire.codec import encode_event, encode_frame
from palaver.wire.events import EVENT_TYPES, ModelOutputDelta, Notice, Recorded
from palaver.wire.ids import MessageId, PartId, SessionId
from palaver.wire.schema import events_document, schemas

DOCUMENT = events_document()
LOGS = sorted((Path(__file__).parents[2] / "golden").glob("*/log.ndjson"))


def validator(component: str = "Envelope") -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**DOCUMENT, "$ref": f"#/$defs/{component}"})


def notice(**changed: Any) -> dict[str, Any]:
    recorded = Recorded(1, "2026-01-02T03:04:05.678Z", SessionId("sess_a"), None, Notice(level="info", code="hello", text="Hello."))
    return {**json.loads(encode_event(recorded)), **changed}


def test_the_document_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT)


def test_every_event_type_has_its_envelope_in_the_union() -> None:
    named = {option["$ref"].rsplit("/", 1)[1] for option in DOCUMENT["$defs"]["Envelope"]["oneOf"]}
    assert named == {*EVENT_TYPES, "UnknownType"}


def test_every_reference_leads_somewhere() -> None:
    pointers = [value for key, value in walk(schemas()) if key == "$ref"]
    assert pointers
    assert {pointer.removeprefix("#/components/schemas/") for pointer in pointers} <= set(schemas())


def walk(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, dict):
        return [pair for key, value in node.items() for pair in [(key, value), *walk(value)]]
    return [pair for value in node for pair in walk(value)] if isinstance(node, list) else []


def test_what_the_codec_writes_is_valid() -> None:
    validator().validate(notice())


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "turn_parked"},
        {"seq": 0},
        {"seq": None},
        {"ts": "2026-01-02T03:04:05Z"},
        {"data": {"level": "loud", "code": "x", "text": "y"}},
        {"data": {}},
        {"turn_id": 7},
    ],
    ids=str,
)
def test_what_breaks_the_shape_is_not_valid(broken: dict[str, Any]) -> None:
    assert not validator().is_valid(notice(**broken))


def test_a_type_that_nobody_knows_is_valid_and_a_known_one_cannot_pass_as_unknown() -> None:
    validator().validate(notice(type="weather_changed", data={"sky": "blue"}))
    assert not validator("UnknownType").is_valid(notice())


def test_a_tail_piece_has_no_seq() -> None:
    piece = ModelOutputDelta(message_id=MessageId("msg_a"), part_id=PartId("part_a"), kind="text", offset=3, text="lo")
    frame = json.loads(encode_frame("sess_a", "turn_a", "2026-01-02T03:04:05.678Z", piece))
    validator("TailPiece").validate(frame)
    assert not validator("TailPiece").is_valid({**frame, "seq": 4})
    assert not validator("Envelope").is_valid(frame)


def test_a_session_change_may_clear_a_field_but_not_give_it_another_type() -> None:
    validator().validate(notice(type="session_updated", data={"session": {"title": None, "archived": True}}))
    assert not validator().is_valid(notice(type="session_updated", data={"session": {"archived": "yes"}}))


def test_more_structs_stand_beside_the_events() -> None:
    class Greeting(msgspec.Struct):
        to: str

    assert schemas([Greeting])["Greeting"]["required"] == ["to"]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.parent.name)
def test_every_line_of_a_golden_log_is_valid(log: Path) -> None:
    check = validator()
    for line in log.read_bytes().split(b"\n")[:-1]:
        check.validate(json.loads(line))
