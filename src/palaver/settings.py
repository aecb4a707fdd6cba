"""What the person chose: `config.toml`, the environment and the command line as one value, each with its origin.

The structs below are the whole file: a key that is in none of them is refused, with its line and the nearest key that is. Nothing
here reads a clock or keeps state; what the values mean is for those who get them.
"""

from __future__ import annotations

import difflib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from palaver.errors import Refused

Origin = Literal["file", "env", "default", "flag"]
Kind = Literal["read", "write", "exec", "network", "delegate", "ask"]
LoopMode = Literal["plan", "ask", "edit", "auto"]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]
Url = Annotated[str, msgspec.Meta(pattern="^https?://[^/]")]
Variable = Annotated[str, msgspec.Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file."""


class Defaults(Section, frozen=True, forbid_unknown_fields=True):
    agent: str | None = None
    model: str | None = None
    """`PALAVER_MODEL` beats the file."""
    mode: LoopMode = "ask"
    delivery: Literal["auto", "queue", "steer", "interrupt"] = "queue"


class Server(Section, frozen=True, forbid_unknown_fields=True):
    port: Port = 8787


class ModelSection(Section, frozen=True, forbid_unknown_fields=True):
    base_url: Url
    model: str | None = None
    """The provider's name for it; absent: the table's."""
    api_key_env: Variable | None = None
    """The variable that holds the key. A key itself never stands in the file."""
    context_window: Count | None = None
    max_output: Count | None = None
    vision: bool = False
    """It takes images."""
    audio: bool = False
    """It takes WAV and MP3."""
    files: bool = False
    """It takes PDF; text files go to every model."""
    tools: bool = True
    price_in: Price | None = None
    """For a million tokens."""
    price_out: Price | None = None
    fallback: str | None = None
    """The model that answers when this one cannot."""
    echo: Literal["auto", "none", "reasoning_content"] = "auto"
    """What of its thinking it is given back: what came, as far as that is known to help; nothing; or always `reasoning_content`."""
    extra: dict[str, Any] = {}
    """More members of each request, such as `reasoning_effort`."""


class AgentSection(Section, frozen=True, forbid_unknown_fields=True):
    backend: Literal["loop", "claude", "codex", "pi", "acp"] = "loop"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    model: str | None = None
    mode: str | None = None
    protocol: Literal[1, 2] | None = None
    prompt: str | None = None
    tools: tuple[str, ...] | None = None
    """Absent: all that there are."""


class RuleSection(Section, frozen=True, forbid_unknown_fields=True):
    decision: Literal["allow", "ask", "deny"]
    tool: str | None = None
    kind: Kind | None = None
    path: str | None = None
    command: str | None = None
    domain: str | None = None


class Approval(Section, frozen=True, forbid_unknown_fields=True):
    require_for_kinds: tuple[Kind, ...] = ()
    require_for_tools: tuple[str, ...] = ()
    deadline_s: Positive | None = None
    rules: tuple[RuleSection, ...] = ()


class Verify(Section, frozen=True, forbid_unknown_fields=True):
    auto: bool = True
    commands: tuple[str, ...] | None = None
    """Absent: what the workspace itself says."""
    require_clean: bool = False
    attempts: Annotated[int, msgspec.Meta(ge=0)] = 2


class PatchReview(Section, frozen=True, forbid_unknown_fields=True):
    mode: Literal["off", "request", "auto"] = "off"


class Limits(Section, frozen=True, forbid_unknown_fields=True):
    steps: Count = 200
    same_call: Count = 5
    tool_calls_per_minute: Count = 120
    silence_s: Positive = 120.0
    seconds: Positive | None = None
    cost: Positive | None = None
    ask: bool = False
    """Where steps, seconds or cost are used up, a person is asked for more; else the turn ends."""
    output_mib: Count = 64
    """What one call may print before it ends with an error."""


class Sandbox(Section, frozen=True, forbid_unknown_fields=True):
    mode: Literal["auto", "off"] = "auto"
    network: bool = False
    env: tuple[Variable, ...] = ()
    """Variables that children get although their names look secret."""


class _File(Section, frozen=True, forbid_unknown_fields=True):
    defaults: Defaults = Defaults()
    server: Server = Server()
    models: dict[str, ModelSection] = {}
    agents: dict[str, AgentSection] = {}
    approval: Approval = Approval()
    verify: Verify = Verify()
    patch_review: PatchReview = PatchReview()
    limits: Limits = Limits()
    sandbox: Sandbox = Sandbox()


class Settings(msgspec.Struct, frozen=True):
    defaults: Defaults
    server: Server
    models: dict[str, ModelSection]
    agents: dict[str, AgentSection]
    approval: Approval
    verify: Verify
    patch_review: PatchReview
    limits: Limits
    sandbox: Sandbox
    discover: bool
    """Look for models on this machine; `PALAVER_DISCOVER=0` does not."""
    path: Path
    """Where the file is, or would be."""
    origins: dict[str, Origin]
    """For each value, by its dotted key, where it comes from."""

    def values(self) -> dict[str, Any]:
        """Every value by its dotted key, as JSON has it: what `origins` speaks of."""
        plain = {name: msgspec.to_builtins(getattr(self, name)) for name in _SECTIONS}
        return {**dict(_flat(plain)), "discover": self.discover}


_SECTIONS = tuple(field.name for field in msgspec.structs.fields(_File))
SECTIONS: tuple[tuple[str, type[Section], bool], ...] = (
    ("defaults", Defaults, False),
    ("server", Server, False),
    ("models", ModelSection, True),
    ("agents", AgentSection, True),
    ("approval", Approval, False),
    ("verify", Verify, False),
    ("patch_review", PatchReview, False),
    ("limits", Limits, False),
    ("sandbox", Sandbox, False),
)
"""Every table, what is in it, and whether that stands below a name which the person gives."""
_FREE_KEYS: dict[tuple[str, ...], type[Section]] = {("models",): ModelSection, ("agents",): AgentSection}
"""Tables whose keys are names that the person gives."""
_OURS = {"model", "messages", "tools", "stream", "stream_options"}
"""Members of a request that `extra` cannot have."""
_ENV_KEYS = {"PALAVER_MODEL": ("defaults", "model")}


def data_folder(flag: str | None, env: Mapping[str, str]) -> Path:
    """Where everything is kept: the flag, else `$PALAVER_DATA`, else the platform's user data folder."""
    if chosen := flag or env.get("PALAVER_DATA"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return _home(env) / "Library" / "Application Support" / "palaver"
    shared = env.get("XDG_DATA_HOME", "")
    return (Path(shared) if shared.startswith("/") else _home(env) / ".local" / "share") / "palaver"


def config_path(flag: str | None, env: Mapping[str, str]) -> Path:
    """The settings file: the flag, else `$PALAVER_CONFIG`, else the one in the home folder."""
    if chosen := flag or env.get("PALAVER_CONFIG"):
        return Path(chosen).expanduser().absolute()
    return _home(env) / ".config" / "palaver" / "config.toml"


def load(config: str | None, env: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Settings:
    """All settings; `config` is the flag `--config`, `flags` holds values by dotted key (`server.port`), None for one not given.

    Raises `Refused("bad_settings")`, whose message names the file, the line and the nearest key, and whose `extra` has `path` and
    `line`. A file that was named and is not there is refused too; the one in the home folder may be missing.
    """
    path = config_path(config, env)
    text = _read(path, required=bool(config or env.get("PALAVER_CONFIG")))
    check_text(path, text)  # a bad value is told also where something else beats it
    table = _parse(path, text)
    origins: dict[str, Origin] = {}
    for key, _ in _flat(table):
        origins[key] = "file"
    for variable, env_key in _ENV_KEYS.items():
        if env.get(variable):
            _put(table, env_key, env[variable])
            origins[".".join(env_key)] = "env"
    for dotted, value in (flags or {}).items():
        if value is not None:
            _put(table, tuple(dotted.split(".")), value)
            origins[dotted] = "flag"
    found = _convert(path, text, table)
    settings = Settings(
        **{name: getattr(found, name) for name in _SECTIONS},
        discover=env.get("PALAVER_DISCOVER", "") != "0",
        path=path,
        origins={"discover": "env" if env.get("PALAVER_DISCOVER") else "default"},
    )
    settings.origins.update({key: _origin(key, origins) for key in settings.values() if key != "discover"})
    return settings


def check_text(path: Path, text: str) -> None:
    """Whether this could be the file. Raises `Refused("bad_settings")`."""
    _convert(path, text, _parse(path, text))


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or Path.home())


def _read(path: Path, *, required: bool) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        if not required:
            return ""
        raise _bad(path, None, "there is no such file. Create it, or leave out --config and PALAVER_CONFIG.") from error
    except UnicodeDecodeError as error:
        raise _bad(path, None, "it is not UTF-8. Save it as UTF-8.") from error
    except OSError as error:
        raise _bad(path, None, f"it cannot be read ({error.strerror}). Check its mode and its owner.") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        said = str(error)[: where.start()] if where else str(error)
        line = int(where[1]) if where else len(text.splitlines())
        raise _bad(path, line, f"this is not TOML: {said[:1].lower()}{said[1:]}.") from error


def _convert(path: Path, text: str, table: dict[str, Any]) -> _File:
    """Each table on its own, so that an error can be found by its name again."""
    shapes = {field.name: field.type for field in msgspec.structs.fields(_File)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in shapes:
            raise _unknown(path, text, (), name, list(shapes))
        if (section := _FREE_KEYS.get((name,))) and isinstance(value, dict):
            values[name] = {key: _section(path, text, (name, key), section, one) for key, one in value.items()}
        else:
            values[name] = _section(path, text, (name,), shapes[name], value)
    found = _File(**values)
    _check_together(path, text, found)
    return found


def _section(path: Path, text: str, at: tuple[str, ...], shape: Any, value: Any) -> Any:
    _check_names(path, text, at, shape, value)
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        said, _, inner = str(error).partition(" - at `$")
        key = (*at, *_steps(inner))
        allowed = _choices(shape, key[len(at) :])
        raise _bad(path, _line(text, key), f"{'.'.join(map(str, key))}: {_plain(said, allowed)}") from error


def _check_names(path: Path, text: str, at: tuple[str | int, ...], shape: Any, value: Any) -> None:
    """Unknown keys first: msgspec would name only the first one, without its place in a list."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            _check_names(path, text, (*at, number), shape, one)
        return
    if not (isinstance(shape, type) and issubclass(shape, Section) and isinstance(value, dict)):
        return
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for key, one in value.items():
        if key not in fields:
            raise _unknown(path, text, at, key, list(fields))
        inner = [kind for kind in get_args(fields[key]) if isinstance(kind, type) and issubclass(kind, Section)]
        _check_names(path, text, (*at, key), inner[0] if inner else fields[key], one)


def _check_together(path: Path, text: str, found: _File) -> None:
    def one_of(what: str, key: tuple[str, ...], given: str | None, known: Sequence[str]) -> None:
        if given is not None and given not in known:
            said = f"{'.'.join(key)}: there is no {what} named {given!r}. {_nearest(given, list(known))}"
            raise _bad(path, _line(text, key), said)

    one_of("agent", ("defaults", "agent"), found.defaults.agent, ["palaver", "demo", *found.agents])
    for name, agent in found.agents.items():
        if agent.backend == "loop":  # what modes a program has, it says itself
            one_of("mode", ("agents", name, "mode"), agent.mode, get_args(LoopMode))
    for name, model in found.models.items():
        if own := _OURS.intersection(model.extra):
            key = ("models", name, "extra", min(own))
            raise _bad(path, _line(text, key), f"{'.'.join(key)}: Palaver sets this member of the request itself. Leave it out.")
        one_of("model", ("models", name, "fallback"), model.fallback, [*found.models, "demo"])
    for number, rule in enumerate(found.approval.rules):
        if not (rule.tool or rule.kind or rule.path or rule.command or rule.domain):
            key_of_rule = ("approval", "rules", number)
            said = "a rule needs one of tool, kind, path, command, domain: without any it would match every call."
            raise _bad(path, _line(text, key_of_rule), f"approval.rules.{number}: {said}")


def _unknown(path: Path, text: str, at: tuple[str | int, ...], key: str, known: list[str]) -> Refused:
    full = (*at, key)
    return _bad(path, _line(text, full), f"there is no key {'.'.join(map(str, full))!r}. {_nearest(key, known)}")


def _bad(path: Path, line: int | None, said: str) -> Refused:
    where = f"{path}:{line}" if line else str(path)
    return Refused("bad_settings", f"{where}: {said}", path=str(path), line=line)


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."


def _plain(said: str, allowed: tuple[Any, ...]) -> str:
    """msgspec's words, and what would have been right."""
    if allowed and (found := re.match(r"Invalid enum value ('?)(.*)\1$", said)):
        near = _nearest(found[2], [str(choice) for choice in allowed])
        return f"{said[:1].lower()}{said[1:]}. {near if near.startswith('Did') else ''}".rstrip() + (
            f" Use one of: {', '.join(map(str, allowed))}."
        )
    if missing := re.match(r"Object missing required field `(\w+)`", said):
        return f"{missing[1]!r} is missing. Add it."
    return f"{said[:1].lower()}{said[1:]}."


def _choices(shape: Any, key: tuple[str | int, ...]) -> tuple[Any, ...]:
    """The words that a value at `key` below `shape` may be, where it is one of a few."""
    for step in key:
        if isinstance(step, int):
            shape = next((kind for kind in get_args(shape) if kind is not Ellipsis), shape)
        elif isinstance(shape, type) and issubclass(shape, Section):
            shape = {field.name: field.type for field in msgspec.structs.fields(shape)}.get(step)
    for kind in (shape, *get_args(shape)):
        if getattr(kind, "__origin__", None) is Literal:
            return get_args(kind)
    return ()


def _steps(inner: str) -> tuple[str | int, ...]:
    """`.rules[0].kind` as its steps."""
    return tuple(int(number) if number else word for word, number in re.findall(r"\.(\w+)|\[(\d+)\]", inner.rstrip("`")))


# --- where a key stands in the text -------------------------------------------------------------------------------------------

_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)\s*=""")


class Place(NamedTuple):
    line: int
    key: tuple[str | int, ...]


def _line(text: str, key: tuple[str | int, ...]) -> int:
    """The line of `key`, else of the innermost table around it; 1 where even that cannot be found."""
    known = list(places(text))
    for length in range(len(key), 0, -1):
        for place in known:
            if place.key == key[:length]:
                return place.line
    return 1


def places(text: str) -> Iterator[Place]:
    """Each header and key with its line: tomllib keeps no positions. What stands inside a string of many lines may count too."""
    table: tuple[str | int, ...] = ()
    seen: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := _path_of(line) if line.lstrip().startswith("[") else ():
            table = header
            if line.lstrip().startswith("[["):
                table = (*header, seen.get(header, 0))
                seen[header] = seen.get(header, 0) + 1
            yield from (Place(number, table[:length]) for length in range(1, len(table) + 1))
        elif found := _KEY.match(line):
            key = (*table, *_path_of(f"{found[1]} = 0"))
            yield from (Place(number, key[:length]) for length in range(len(table) + 1, len(key) + 1))


def _path_of(line: str) -> tuple[str, ...]:
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(value, (dict, list)) and value:
        if isinstance(value, list):
            value = value[0]
            continue
        key, value = next(iter(value.items()))
        path.append(key)
    return tuple(path)


# --- tables as dotted keys ----------------------------------------------------------------------------------------------------


def _flat(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        dotted = f"{before}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _put(table: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    for step in key[:-1]:
        inner = table.setdefault(step, {})
        if not isinstance(inner, dict):
            return  # the file has no table there, which is refused for itself
        table = inner
    table[key[-1]] = value


def _origin(key: str, origins: dict[str, Origin]) -> Origin:
    return next((origin for known, origin in origins.items() if key == known or key.startswith(f"{known}.")), "default")
