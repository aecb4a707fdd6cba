"""What `doctor` finds, and the line that settles it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from palaver.settings import load


def run(folder: Path, *words: str, config: str = "", **env: str) -> tuple[int, dict[str, Any]]:
    """`palaver doctor --json`; whatever it says must also come out in words."""
    (folder / "config.toml").write_text(config)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    home = {"HOME": str(folder), "PALAVER_DATA": str(folder / "data"), "PALAVER_CONFIG": str(folder / "config.toml")}
    command = [sys.executable, "-m", "palaver.cli.main", "doctor", *words]
    done = subprocess.run([*command, "--json"], env={**kept, **home, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    plain = subprocess.run(command, env={**kept, **home, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert plain.returncode == done.returncode and done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"] is (done.returncode == 0)
    assert all(check["name"] in plain.stdout for check in found["checks"])
    assert "\x1b" not in plain.stdout
    return done.returncode, found


def checks(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in found["checks"] if check["name"] == name]


def test_a_fresh_machine_is_usable_and_says_what_answers(tmp_path: Path) -> None:
    status, found = run(tmp_path)
    assert status == 0
    assert "demo" in checks(found, "model")[0]["says"]
    assert "No daemon is running" in checks(found, "daemon")[0]["says"]
    assert any(words in checks(found, "sandbox")[0]["says"] for words in ("holds what is let run", "all that you can"))
    assert {check["name"] for check in found["checks"]} >= {
        "palaver",
        "settings",
        "data",
        "daemon",
        "git",
        "rg",
        "bash",
        "sandbox",
        "model",
    }


def test_every_setting_is_told_with_its_origin(tmp_path: Path) -> None:
    """API.md, Files: doctor prints every value and where it comes from."""
    _, found = run(tmp_path, config="[server]\nport = 9000\n", PALAVER_MODEL="fast")
    told = {value["key"]: (value["value"], value["origin"]) for value in found["settings"]}
    assert told["server.port"] == (9000, "file")
    assert told["defaults.model"] == ("fast", "env")
    assert told["limits.steps"] == (200, "default")
    assert set(told) == set(load(str(tmp_path / "config.toml"), {}).origins)


def test_what_an_agents_variables_hold_is_not_told(tmp_path: Path) -> None:
    _, found = run(tmp_path, config='[agents.x]\nbackend = "acp"\nenv = { ITS_TOKEN = "s3cret" }\n')
    assert "s3cret" not in json.dumps(found) and "agents.x.env.ITS_TOKEN" in json.dumps(found)


def test_bad_settings_are_the_first_thing_to_settle(tmp_path: Path) -> None:
    status, found = run(tmp_path, config="[server]\nprot = 1\n")
    assert status == 1
    assert "config.toml:2" in checks(found, "settings")[0]["says"]


def test_a_data_folder_that_others_can_read_is_named_with_the_chmod_line(tmp_path: Path) -> None:
    """SECURITY 7."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data" / "token").write_text("x")
    (tmp_path / "data" / "token").chmod(0o644)
    status, found = run(tmp_path)
    assert status == 1
    assert [check["fix"] for check in checks(found, "data")] == [f"chmod 700 '{tmp_path}/data'", f"chmod 600 '{tmp_path}/data/token'"]
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "data" / "token").chmod(0o600)
    assert run(tmp_path)[0] == 0


def test_a_model_without_its_key_is_named_with_the_variable_and_never_the_key(tmp_path: Path) -> None:
    config = '[models.fast]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "FAST_KEY"\n'
    assert checks(run(tmp_path, config=config)[1], "model")[0]["fix"] == "export FAST_KEY=…"
    _, found = run(tmp_path, config=config, FAST_KEY="s3cret")
    assert checks(found, "model")[0]["state"] == "ok" and "s3cret" not in json.dumps(found)


def test_what_is_found_is_told_with_the_line_that_adopts_it(tmp_path: Path) -> None:
    """API, Sessions: offered, never chosen; the key itself is nowhere."""
    _, found = run(tmp_path, OPENROUTER_API_KEY="s3cret", PALAVER_DISCOVER="1")
    [offer] = [check for check in checks(found, "found") if "OPENROUTER_API_KEY" in check["says"]]
    assert offer["fix"] == "PALAVER_MODEL=openrouter/NAME palaver serve" and "s3cret" not in json.dumps(found)
    assert "demo answers" in checks(found, "model")[0]["says"]
    _, found = run(tmp_path, OPENROUTER_API_KEY="s3cret", PALAVER_MODEL="openrouter/some/model")
    assert checks(found, "model")[0]["says"] == "openrouter/some/model: some/model at https://openrouter.ai/api/v1 (the default)"
    _, found = run(tmp_path, OPENROUTER_API_KEY="s3cret", PALAVER_DISCOVER="0")
    assert "PALAVER_DISCOVER=0" in checks(found, "found")[0]["says"]


def test_a_default_that_is_no_model_is_missing(tmp_path: Path) -> None:
    status, found = run(tmp_path, config='[defaults]\nmodel = "slip"\n', OPENAI_API_KEY="x")
    assert status == 1 and "no such model" in checks(found, "model")[0]["says"] and "[models.slip]" in checks(found, "model")[0]["fix"]


def test_a_program_that_is_there_is_told_of_and_why_it_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "claude").chmod(0o755)
    _, found = run(tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert any(f"claude is at {tmp_path / 'bin' / 'claude'}" in check["says"] for check in checks(found, "agent"))


def test_where_no_sandbox_holds_doctor_says_what_a_command_can_do(tmp_path: Path) -> None:
    """SECURITY 14."""
    _, found = run(tmp_path, config='[sandbox]\nmode = "off"\n')
    [check] = checks(found, "sandbox")
    assert check["state"] == "note"
    assert "all that you can, answering approvals included" in check["says"] and 'mode = "off"' in check["says"]
