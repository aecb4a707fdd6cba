"""Golden sessions: commands become events, and events what a client shows."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_cases import CASES, played
from lawful import lawful
from play import Session

from golden import FOLDER, Golden, pretty, to_lines
from palaver.errors import Refused
from palaver.views.transcript import Transcript, show, to_page
from palaver.wire import commands as c
from palaver.wire.commands import decode_command


def folder(name: str) -> Path:
    return FOLDER / "commands" / name


def lines(values: Any) -> str:
    return "".join(msgspec.json.encode(value).decode() + "\n" for value in values)


def shown(answer: c.Reply | Refused | None) -> Any:
    return {"refused": answer.code} if isinstance(answer, Refused) else answer


def replayed(commands: bytes) -> Session:
    session = Session()
    for line in commands.splitlines():
        try:
            session.send(decode_command(line))
        except Refused:
            continue  # kept with the answers
    return session


@pytest.mark.parametrize("name", CASES)
def test_the_commands_of_a_golden_session_are_what_its_case_plays(name: str, golden: Golden) -> None:
    golden.check(folder(name) / "commands.jsonl", lines(command for command, _ in played(name).sent))


@pytest.mark.parametrize("name", CASES)
def test_a_session_replays_to_its_golden_log(name: str, golden: Golden) -> None:
    """Promises 2, 3, 5, 6 and 8, T-07, T-08, T-10, T-11; S4-70, S4-71, S4-72: what is answered and written for each command."""
    session = replayed((folder(name) / "commands.jsonl").read_bytes())
    golden.check(folder(name) / "answers.jsonl", lines(shown(answer) for _, answer in session.sent))
    golden.check(folder(name) / "events.jsonl", to_lines(session.log))
    golden.check(folder(name) / "transcript.json", pretty(to_page(reduce(show, session.log, Transcript()))))
    lawful(session.log, session.state)


def test_every_golden_folder_has_a_case() -> None:
    assert {path.name for path in (FOLDER / "commands").iterdir()} == set(CASES)
