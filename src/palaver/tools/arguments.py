"""The input of a call as a struct: checked once, with an answer that a model can act on."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from palaver.errors import ToolFailed
from palaver.wire.values import ToolCall

T = TypeVar("T", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a tool takes. Its fields are the tool's schema."""


def refuse(message: str) -> ToolFailed:
    return ToolFailed(message, code="invalid_arguments")


def arguments(call: ToolCall, shape: type[T]) -> T:
    """The call's input as `shape`. Raises `ToolFailed("invalid_arguments")` that names the keys there are."""
    if call.input_raw is not None:
        raise refuse(f"The arguments of {call.name} are no JSON object. It takes {_keys(shape)}.")
    try:
        taken = msgspec.convert(call.input, shape)
        encoded = msgspec.json.encode(taken)
    except msgspec.ValidationError as error:
        raise refuse(f"{call.name}: {error}. It takes {_keys(shape)}.") from error
    except (UnicodeError, RecursionError) as error:
        raise refuse(f"{call.name}: the arguments hold text that is no valid Unicode. Send it again without lone surrogates.") from error
    if b"\\u0000" in encoded and _holds_nul(msgspec.to_builtins(taken)):
        raise refuse(f"{call.name}: the arguments hold a NUL character. Send them without it.")
    return taken


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(map(_holds_nul, value.values()))
    return isinstance(value, list) and any(map(_holds_nul, value))


def _keys(shape: type[Arguments]) -> str:
    fields = msgspec.structs.fields(shape)
    return "{" + ", ".join(field.encode_name if field.required else f"{field.encode_name}?" for field in fields) + "}"


@lru_cache(maxsize=64)
def schema_of(shape: type[Arguments]) -> bytes:
    """JSON Schema with the object itself at the top, as providers want it."""
    schema = msgspec.json.schema(shape)
    definitions = schema.get("$defs", {})
    top = definitions.pop(schema["$ref"].rsplit("/", 1)[1]) if "$ref" in schema else schema
    top.pop("title", None)
    return msgspec.json.encode({**top, "$defs": definitions} if definitions else top)


__all__ = ["Arguments", "arguments", "refuse", "schema_of"]
