"""The settings file, its errors and its origins (API.md, Files)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from palaver.errors import Refused
from palaver.settings import Settings, config_path, data_folder, load


def loaded(folder: Path, text: str, env: dict[str, str] | None = None, flags: dict[str, object] | None = None) -> Settings:
    path = folder / "config.toml"
    path.write_text(text, "utf-8")
    return load(str(path), env or {}, flags)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(Refused) as caught:
        loaded(folder, text)
    assert caught.value.code == "bad_settings"
    assert caught.value.message.startswith(f"{folder / 'config.toml'}:{caught.value.extra['line']}: ")
    return caught.value.message.removeprefix(f"{folder / 'config.toml'}:")


WHOLE = """
[defaults]
agent = "palaver"
model = "fast"
mode = "edit"
delivery = "steer"
[server]
port = 9000
[models.fast]
base_url = "http://127.0.0.1:11434/v1"
model = "small:7b"
api_key_env = "FAST_KEY"
context_window = 32768
max_output = 4096
vision = true
tools = false
price_in = 1
price_out = 2.5
fallback = "demo"
[agents.mine]
backend = "acp"
command = "my-agent"
args = ["--acp"]
env = { LEVEL = "debug" }
model = "fast"
mode = "plan"
protocol = 2
prompt = "Be brief."
tools = ["read_file"]
[approval]
require_for_kinds = ["exec", "write"]
require_for_tools = ["shell"]
deadline_s = 60
[[approval.rules]]
decision = "allow"
tool = "shell"
command = "git status"
[[approval.rules]]
decision = "deny"
kind = "network"
domain = "example.org"
path = "x/**"
[verify]
auto = false
commands = ["make check"]
require_clean = true
attempts = 1
[patch_review]
mode = "auto"
[limits]
steps = 10
same_call = 3
tool_calls_per_minute = 60
silence_s = 30
seconds = 600
cost = 1.5
[sandbox]
mode = "auto"
network = true
"""


def test_every_key_of_the_page_is_taken(tmp_path: Path) -> None:
    settings = loaded(tmp_path, WHOLE)
    assert settings.defaults.mode == "edit" and settings.defaults.delivery == "steer"
    assert settings.server.port == 9000
    assert settings.models["fast"].price_in == 1.0 and settings.models["fast"].vision and not settings.models["fast"].tools
    assert settings.agents["mine"].args == ("--acp",) and settings.agents["mine"].env == {"LEVEL": "debug"}
    assert [rule.decision for rule in settings.approval.rules] == ["allow", "deny"]
    assert settings.approval.deadline_s == 60.0
    assert settings.verify.commands == ("make check",) and settings.verify.attempts == 1
    assert settings.limits.seconds == 600.0 and settings.limits.cost == 1.5
    assert settings.sandbox.network
    given = {key for key, origin in settings.origins.items() if origin == "file"}
    assert given == set(settings.origins) - {
        "discover",
        "limits.ask",
        "limits.output_mib",
        "sandbox.env",
        "models.fast.audio",
        "models.fast.files",
        "models.fast.echo",
        "models.fast.extra",
    }


def test_an_absent_file_means_the_defaults_of_the_page(tmp_path: Path) -> None:
    settings = load(None, {"HOME": str(tmp_path)})
    assert settings.path == tmp_path / ".config" / "palaver" / "config.toml"
    assert (settings.server.port, settings.limits.steps, settings.limits.same_call) == (8787, 200, 5)
    assert (settings.limits.tool_calls_per_minute, settings.limits.silence_s) == (120, 120.0)
    assert settings.limits.seconds is None and settings.limits.cost is None
    assert settings.verify.auto and settings.verify.attempts == 2 and not settings.verify.require_clean
    assert (settings.patch_review.mode, settings.sandbox.mode, settings.sandbox.network) == ("off", "auto", False)
    assert (settings.defaults.mode, settings.defaults.delivery) == ("ask", "queue")
    assert set(settings.origins.values()) == {"default"} and set(settings.origins) == set(settings.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[server]\nprot = 1\n", "2: there is no key 'server.prot'. Did you mean 'port'?"),
        ("# a comment\n\n[modles.x]\n", "3: there is no key 'modles'. Did you mean 'models'?"),
        ("server.prot = 1\n", "1: there is no key 'server.prot'. Did you mean 'port'?"),
        ("server = { prot = 1 }\n", "1: there is no key 'server.prot'."),
        ("[server]\nport = 99999\n", "2: server.port: expected `int` <= 65535."),
        ("[server]\nport = 'eighty'\n", "2: server.port: expected `int`, got `str`."),
        ("server = 3\n", "1: server: expected `object`, got `int`."),
        ("[defaults]\nmode = 'aks'\n", "2: defaults.mode: invalid enum value 'aks'. Did you mean 'ask'? Use one of: plan, ask,"),
        ("[models.fast]\nmodel = 'x'\n", "1: models.fast: 'base_url' is missing. Add it."),
        ("[models.'a b']\nbase_url = 'http://x'\napi_key = 'k'\n", "3: there is no key 'models.a b.api_key'. Did you mean 'api_key_env'?"),
        ("[models.a]\nbase_url = 'ftp://x'\n", "2: models.a.base_url: expected `str` matching regex"),
        ("[models.a]\nbase_url = 'http://x'\nfallback = 'b'\n", "3: models.a.fallback: there is no model named 'b'. There are: a, demo."),
        ("[models.a]\nbase_url = 'http://x'\n[models.a.extra]\nstream = false\n", "4: models.a.extra.stream: Palaver sets this member"),
        ("[agents.x]\nenv = { A = 1 }\n", "2: agents.x.env: expected `str`, got `int`."),
        ("[approval]\nrequire_for_kinds = ['exce']\n", "2: approval.require_for_kinds.0: invalid enum value 'exce'. Did you mean 'exec'?"),
        (
            "[[approval.rules]]\ndecision = 'allow'\ntool = 'x'\n\n[[approval.rules]]\ndecision = 'deny'\nkinds = 'exec'\n",
            "7: there is no key 'approval.rules.1.kinds'. Did you mean 'kind'?",
        ),
        (
            "[[approval.rules]]\ndecision = 'allow'\ntool = 'x'\n[[approval.rules]]\ndecision = 'allow'\n",
            "4: approval.rules.1: a rule needs one of",
        ),
        ("[server\n", "1: this is not TOML: "),
        ("a = 1\na = 2\n", "2: this is not TOML: "),
        ("[server]\n[server]\n", "2: this is not TOML: "),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_would_be_right(tmp_path: Path, text: str, says: str) -> None:
    assert refusal(tmp_path, text).startswith(says)


def test_a_key_that_stands_in_the_file_by_mistake_is_never_printed(tmp_path: Path) -> None:
    assert "sk-secret" not in refusal(tmp_path, "[models.a]\nbase_url = 'http://x'\napi_key = 'sk-secret'\n")


def test_the_environment_beats_the_file_and_a_flag_beats_both(tmp_path: Path) -> None:
    text = "[defaults]\nmodel = 'from-file'\n[server]\nport = 1\n"
    env = {"PALAVER_MODEL": "from-env", "PALAVER_DISCOVER": "0"}
    settings = loaded(tmp_path, text, env, {"server.port": 0, "defaults.agent": None})
    assert (settings.defaults.model, settings.server.port, settings.discover) == ("from-env", 0, False)
    assert settings.origins["defaults.model"] == "env"
    assert settings.origins["server.port"] == "flag"
    assert settings.origins["discover"] == "env"
    assert settings.origins["defaults.agent"] == "default"


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    for config, env in ((str(tmp_path / "no.toml"), {}), (None, {"PALAVER_CONFIG": str(tmp_path / "no.toml")})):
        with pytest.raises(Refused, match="there is no such file"):
            load(config, env)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="not UTF-8"):
        load(str(tmp_path / "config.toml"), {})


def test_the_flag_comes_before_the_variable_and_the_variable_before_the_home_folder(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PALAVER_DATA": str(tmp_path / "env"), "PALAVER_CONFIG": str(tmp_path / "env.toml")}
    assert data_folder(str(tmp_path / "flag"), env) == tmp_path / "flag"
    assert data_folder(None, env) == tmp_path / "env"
    assert config_path(str(tmp_path / "flag.toml"), env) == tmp_path / "flag.toml"
    assert config_path(None, env) == tmp_path / "env.toml"
    home = {"HOME": str(tmp_path)}
    users = tmp_path / "Library" / "Application Support" if sys.platform == "darwin" else tmp_path / ".local" / "share"
    assert data_folder(None, home) == users / "palaver"


def test_a_relative_folder_is_made_absolute() -> None:
    assert data_folder("here", {}) == Path.cwd() / "here"
