from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tool_bench import PATH, Bench

from palaver.errors import ToolFailed
from palaver.tools.environment import child_environment, find_program

_PLANTED = {
    "PALAVER_TOKEN": "a",
    "PALAVER_DATA": "b",
    "PALAVER_CALL": "c",
    "OPENAI_API_KEY": "d",
    "aws_secret_access_key": "e",
    "GITHUB_TOKEN": "f",
    "DB_PASSWORD": "g",
    "GOOGLE_APPLICATION_CREDENTIALS": "h",
    "SSH_AUTH_SOCK": "i",
    "DBUS_SESSION_BUS_ADDRESS": "j",
    "MY_MODEL_ACCESS": "k",
}
_HARMLESS = {"PATH": PATH, "HOME": "/home/me", "LANG": "C.UTF-8", "EDITOR": "vi", "HTTP_PROXY": "http://p"}


def test_a_child_gets_the_environment_without_secrets() -> None:
    """SECURITY 10."""
    assert child_environment({**_PLANTED, **_HARMLESS}, secret_names={"MY_MODEL_ACCESS"}) == _HARMLESS


def test_names_are_given_back_but_never_palavers_own() -> None:
    """SECURITY 10: `[sandbox] env` gives some back."""
    keep = {"GITHUB_TOKEN", "SSH_AUTH_SOCK", "MY_MODEL_ACCESS", "PALAVER_TOKEN", "PALAVER_CALL"}
    kept = child_environment(_PLANTED, keep=keep, secret_names={"MY_MODEL_ACCESS"})
    assert kept == {"GITHUB_TOKEN": "f", "SSH_AUTH_SOCK": "i", "MY_MODEL_ACCESS": "k"}


def test_no_planted_variable_reaches_a_command(tmp_path: Path) -> None:
    """SECURITY 10: planted variables are in no child."""
    bench = Bench(tmp_path, env=child_environment({**_PLANTED, **_HARMLESS}, secret_names={"MY_MODEL_ACCESS"}), mark="s.r.call_1")
    names = {line.split("=")[0] for line in bench.text("shell", command="env").split("\n")}
    assert not names & (set(_PLANTED) - {"PALAVER_CALL"})
    assert {"PATH", "HOME", "LANG", "PALAVER_CALL"} <= names


_DAEMON = """
import ctypes, os, subprocess
from palaver.tools.environment import keep_private

if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # to give up root closes it already: open it again, as any process begins

def looked():
    return subprocess.run(["/bin/cat", f"/proc/{os.getpid()}/environ"], capture_output=True).returncode

before = looked()
keep_private()
where = subprocess.run(["/bin/pwd"], capture_output=True, text=True, cwd="/proc/self/fd/0", stdin=os.open("/usr", os.O_RDONLY)).stdout
print(before, looked(), where)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a call against it")
def test_a_child_without_root_cannot_read_the_environment_of_the_daemon() -> None:
    """SECURITY 10. A child can be started in a folder that is named by its descriptor all the same."""
    told = subprocess.run([sys.executable, "-c", _DAEMON], capture_output=True, text=True, check=False)
    assert told.stdout.split() == ["0", "1", "/usr"], told


def _plant(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\necho planted\n")
    program.chmod(0o755)
    return program


def test_a_program_is_found_outside_the_workspace_only(tmp_path: Path) -> None:
    """SECURITY 11: a PATH without relative or workspace entries, seen through links."""
    workspace = tmp_path / "ws"
    for name in ("git", "."):
        _plant(workspace / "bin", "git") if name == "git" else _plant(workspace, "git")
    elsewhere = _plant(tmp_path / "good", "git")
    (tmp_path / "door").symlink_to(workspace / "bin")
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "git").symlink_to(workspace / "git")
    search_path = os.pathsep.join(
        ["", ".", "bin", str(workspace / "bin"), str(tmp_path / "door"), str(tmp_path / "single"), str(tmp_path / "good")]
    )
    assert find_program("git", search_path, workspace) == str(elsewhere)
    with pytest.raises(ToolFailed, match="was not found"):
        find_program("git", search_path.removesuffix(str(tmp_path / "good")), workspace)


def test_the_rg_that_came_with_us_is_taken_first(tmp_path: Path) -> None:
    assert Path(find_program("rg", PATH, tmp_path)).parent == Path(sys.executable).parent
