"""The words of the command line: every command, what it takes, and an example of it.

`palaver --help`, each command's help and the completion scripts are made from this one value.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from palaver import __version__

SHELLS = ("bash", "zsh", "fish")
SCOPES = ("read", "prompt", "approve", "admin")
MODES = ("plan", "ask", "edit", "auto")
STATUSES = ("active", "waiting_approval", "failed", "completed", "canceled")
DELIVERIES = ("auto", "queue", "steer", "interrupt")
SESSION_HELP = "its id, the start or the end of it, or `last`"


class Help(argparse.HelpFormatter):
    """Fits paragraphs to the terminal; lines that are indented stay as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled: list[str] = []
        paragraph: list[str] = []
        for line in [*text.split("\n"), ""]:
            if line and not line.startswith(" "):
                paragraph.append(line)
                continue
            if paragraph:
                filled += textwrap.wrap(" ".join(paragraph), width)
                paragraph = []
            filled.append(line)
        return "\n".join(indent + line if line else "" for line in filled[:-1])


def make_parser() -> argparse.ArgumentParser:
    shared = _shared(argparse.SUPPRESS)
    parser = argparse.ArgumentParser(
        prog="palaver",
        description="One daemon on this machine owns every conversation with your coding agents; any client may join it.\n"
        "Without a command, in a terminal: starts the daemon if none runs, and says where it is.",
        epilog="example:\n  palaver run 'read the file README.md'\n\n`palaver COMMAND --help` says more about each.",
        parents=[_shared(None)],
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"palaver {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, says: str, *, more: str = "", example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=says,
            description=f"{says[:1].upper()}{says[1:]}.{textwrap.dedent(more)}",
            epilog=f"example:\n{textwrap.indent(textwrap.dedent(example).strip(), '  ')}",
            parents=[shared],
            formatter_class=Help,
            allow_abbrev=False,
        )

    _add_serve(command)
    _add_doors(command)
    _add_sessions(command)
    _add_export(command)
    _add_conversation(command)
    _add_around(command)
    return parser


def _shared(default: Any) -> argparse.ArgumentParser:
    """What every command takes, before or after its name; a command's own default would undo what stood before it."""
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("which daemon")
    group.add_argument("--data", metavar="DIR", default=default, help="the data folder (else $PALAVER_DATA, else the user's)")
    group.add_argument("--config", metavar="FILE", default=default, help="the settings (else $PALAVER_CONFIG, else the user's)")
    group.add_argument("--url", default=default, help="the daemon's address; only $PALAVER_TOKEN is sent there (else $PALAVER_URL)")
    return shared


Command = Callable[..., argparse.ArgumentParser]
Number = TypeVar("Number", int, float)


def _add_serve(command: Command) -> None:
    serve = command(
        "serve",
        "run the daemon in the foreground",
        more="""
        It listens on 127.0.0.1 only. If one already runs on this data folder, its address is printed and this one ends with 0.""",
        example="palaver serve --port 0 --print-url",
    )
    serve.add_argument("--port", type=_port, metavar="N", help="0 picks a free one (default: 8787, or [server] port)")
    serve.add_argument("--print-url", action="store_true", help="print the sign-in URL even when this is not a terminal")
    serve.add_argument("--no-token", action="store_true", help="ask nobody for a token: whoever reaches the port may run commands")


def _add_doors(command: Command) -> None:
    open_ = command(
        "open",
        "open the page in the browser, signed in",
        more="""
        The browser gets a file that sends it on; the one-time code in it is good for 60 seconds and never stands on a command line.""",
        example="palaver open last\npalaver open --print-url --scope read",
    )
    open_.add_argument("session", nargs="?", metavar="SESSION", help=SESSION_HELP)
    open_.add_argument("--print-url", action="store_true", help="print the URL as one line instead of opening it")
    open_.add_argument("--scope", type=_scopes, metavar="S", help="what the page may do, as in `token` (default: all that you may)")
    token = command("token", "make a token for a script or another program", example="palaver token --scope read --name backup --days 7")
    token.add_argument("--scope", type=_scopes, default="read,prompt", metavar="S", help="any of read,prompt,approve,admin (%(default)s)")
    token.add_argument("--name", metavar="N", help="what it is for")
    token.add_argument("--days", type=_days, metavar="D", help="how long it is good for")
    _add_json(token, "print the whole answer")


def _add_sessions(command: Command) -> None:
    sessions = command("sessions", "list the conversations, the latest first", example="palaver sessions --status waiting_approval")
    sessions.add_argument("--status", choices=STATUSES, metavar="S", help=f"only those that are {', '.join(STATUSES)}")
    sessions.add_argument("--workspace", metavar="DIR", help="only those in this folder")
    sessions.add_argument("--limit", type=_count, default=50, metavar="N", help="at most so many (%(default)s)")
    _add_json(sessions, "print the API's answer")
    send = command(
        "send",
        "send a message to a conversation and go on",
        more="""
        Prints what became of it: started, queued, steered, interrupting or stored.""",
        example="palaver send last 'and now the tests'\ngit diff | palaver send last -",
    )
    send.add_argument("session", metavar="SESSION", help=SESSION_HELP)
    send.add_argument("text", metavar="TEXT", help="the message; - reads it from stdin")
    send.add_argument(
        "--delivery",
        choices=DELIVERIES,
        metavar="D",
        help=f"what to do when it is busy: {', '.join(DELIVERIES)} (default: the session's own)",
    )
    _add_json(send, "print the API's answer")


def _add_export(command: Command) -> None:
    export = command(
        "export",
        "write a conversation into one file",
        more="""
        html is a page that opens anywhere, with everything in it; json is for programs. In a terminal the file is named after the
        conversation, elsewhere it goes to stdout.""",
        example="palaver export last --output talk.html\npalaver export last --format json | jq .events[].type",
    )
    export.add_argument("session", metavar="SESSION", help=SESSION_HELP)
    export.add_argument("--format", choices=("html", "json"), default="html", metavar="F", help="html or json (default: %(default)s)")
    export.add_argument("--output", metavar="FILE", help="where to; - is stdout")


def _add_conversation(command: Command) -> None:
    attach = command(
        "attach",
        "follow a conversation as it happens, and answer it",
        more="""
        In a terminal, type: a line is sent as a message; when something is asked, y n s w or the number of an option answers it.
        Ctrl-C or Ctrl-D leaves; what runs goes on. /cancel stops the running turn.""",
        example="palaver attach last\npalaver attach 01j9 --json | jq .type",
    )
    attach.add_argument("session", metavar="SESSION", help=SESSION_HELP)
    attach.add_argument(
        "--after", type=_cursor, metavar="SEQ", help="begin after this event (default: where the last turn began; with --json: 0)"
    )
    _add_json(attach, "print the logged envelopes, one a line")
    run = command(
        "run",
        "ask an agent one thing and wait for the answer",
        more="""
        Starts the daemon if none runs. The answer goes to stdout, what its tools do to stderr. In a terminal you are asked what has
        to be decided. Ctrl-C cancels the turn; a second one leaves at once.

        ends with:
          0  completed
          1  failed or interrupted
          2  wrong usage
          3  cancelled, also by --timeout
          4  something must be answered and nobody is there (stdin is no
             terminal): the inbox item is the last line of stdout (with
             --json of stderr), and it stays open""",
        example="palaver run 'run the command `make test`' --workspace ~/project --timeout 600",
    )
    run.add_argument("text", metavar="TEXT", help="the message; - reads it from stdin")
    run.add_argument("--workspace", metavar="DIR", default=".", help="the folder to work in (default: this one)")
    run.add_argument("--agent", metavar="A", help="who answers")
    run.add_argument("--model", metavar="M", help="which model it uses")
    run.add_argument("--mode", metavar="M", help=f"what it may do unasked: {', '.join(MODES)}")
    run.add_argument("--session", metavar="SESSION", help="go on with this conversation instead of a new one")
    run.add_argument("--timeout", type=_seconds, metavar="S", help="cancel the turn after so many seconds, and end with 3")
    _add_json(run, "print the logged envelopes, one a line")


def _add_around(command: Command) -> None:
    doctor = command(
        "doctor",
        "say what is set, what is found and what is missing",
        more="""
        Ends with 0 when Palaver can be used as it is, with 1 when the line marked ✗ has to be settled first.""",
        example="palaver doctor",
    )
    _add_json(doctor, "print it as JSON")
    completion = command(
        "completion",
        "print a completion script for your shell",
        example='eval "$(palaver completion bash)"      # in ~/.bashrc, or zsh in ~/.zshrc\npalaver completion fish | source',
    )
    completion.add_argument("shell", choices=SHELLS)


def _add_json(parser: argparse.ArgumentParser, says: str) -> None:
    parser.add_argument("--json", action="store_true", help=says)


def _port(word: str) -> int:
    return _between(word, int, 0, 65535)


def _count(word: str) -> int:
    return _between(word, int, 1, 1_000_000)


def _cursor(word: str) -> int:
    return _between(word, int, 0, 2**53)


def _days(word: str) -> int:
    return _between(word, int, 1, 36_500)


def _seconds(word: str) -> float:
    return _between(word, float, 0.001, 10_000_000)


def _between(word: str, kind: Callable[[str], Number], least: float, most: float) -> Number:
    wrong = argparse.ArgumentTypeError(f"{word!r} is not a number from {least} to {most}")
    try:
        value = kind(word)
    except ValueError as error:
        raise wrong from error
    if not least <= value <= most:
        raise wrong
    return value


def _scopes(word: str) -> str:
    scopes = [scope.strip() for scope in word.split(",")]
    if wrong := [scope for scope in scopes if scope not in SCOPES]:
        raise argparse.ArgumentTypeError(f"there is no scope {wrong[0]!r}; any of {','.join(SCOPES)}, with commas")
    return ",".join(scopes)
