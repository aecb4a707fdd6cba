"""`palaver`: reads the words, calls the command, and turns how it ended into an exit status.

Nothing that a command needs is imported before it is known which one it is: `--help` answers at once.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

USAGE = 2
_USAGE_CODES = frozenset(("bad_settings", "bad_url", "bad_session", "invalid", "bad_usage"))


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 it did not work, 2 it was asked wrongly; `run` has its own besides (`palaver run --help`)."""
    from palaver.cli.parser import make_parser
    from palaver.errors import PalaverError, Refused

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot write a character still gets the line
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        return _run(parser, args)
    except Refused as error:
        return _say(error, USAGE if error.code in _USAGE_CODES else 1)
    except PalaverError as error:
        return _say(error, 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's own flush complains at the end
        return 141
    except KeyboardInterrupt:
        return 130


def _say(error: Exception, status: int) -> int:
    from palaver.views.visible import visible

    sys.stdout.flush()
    print(f"palaver: {visible(str(error))}", file=sys.stderr)
    return status


def _run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    match args.command:
        case "serve":
            gc.disable()  # a start makes what stays; the collector comes back when that is done (`life.spare_the_collector`)
            from palaver.cli.serve import serve

            return serve(args)
        case "open" | "token":
            from palaver.cli import doors

            return doors.open_page(args) if args.command == "open" else doors.make_token(args)
        case "sessions" | "send":
            from palaver.cli import sessions

            return sessions.list_sessions(args) if args.command == "sessions" else sessions.send(args)
        case "export":
            from palaver.cli.export import export

            return export(args)
        case "attach":
            from palaver.cli.attach import attach

            return attach(args)
        case "run":
            from palaver.cli.run import run

            return run(args)
        case "doctor":
            from palaver.cli.doctor import doctor

            return doctor(args)
        case "completion":
            from palaver.cli.completion import script

            print(script(parser, args.shell), end="")
            return 0
        case _ if sys.stdin.isatty() and sys.stdout.isatty():
            from palaver.cli.serve import start_and_say

            return start_and_say(args)
        case _:
            parser.print_help()
            return 0


if __name__ == "__main__":
    sys.exit(main())
