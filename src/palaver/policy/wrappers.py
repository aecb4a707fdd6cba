"""Commands that carry another command: `nice git status`, `env X=1 make`, `bash -c 'ls; pwd'`, `find -exec`.

A wrapper is seen through only where every option before the command is in the table; otherwise what it carries is a guess, good for
denying and not for allowing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from palaver.policy.programs import ESCALATION, Word, name_of

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"))
_SAME_GRAMMAR = frozenset(("sh", "bash", "dash", "ash"))
_HARMLESS_SETTINGS = frozenset(("errexit", "nounset", "pipefail", "verbose", "xtrace"))
_GUESSES = 32
"""How many words of an opaque wrapper are tried as the start of what it carries."""


class Wrapper(NamedTuple):
    flags: str = ""
    """Letters of options without a value."""
    values: str = ""
    """Letters of options with a value, attached or as the next word."""
    long: tuple[str, ...] = ()
    """Long options; one that ends in `=` takes a value."""
    operands: int = 0
    """How many words stand before the command, such as timeout's seconds."""


class Unwrapped(NamedTuple):
    commands: tuple[tuple[Word, ...], ...] = ()
    """The commands that are carried."""
    perhaps: tuple[tuple[Word, ...], ...] = ()
    """Words of an opaque one that may be a command."""
    scripts: tuple[str, ...] = ()
    """Lines of shell that are carried, as behind `bash -c`."""
    assigns: bool = False
    unknown: str | None = None
    """Why it cannot be seen through; what is carried is then a guess, good for denying and not for allowing."""


_SEEN_THROUGH = {
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "caffeinate": Wrapper("dimsu", "tw"),
    "command": Wrapper("p"),
    "env": Wrapper("i0v", "u", ("--ignore-environment", "--unset=")),
    "exec": Wrapper("cl", "a"),
    "ionice": Wrapper("t", "cn", ("--class=", "--classdata=", "--ignore")),
    "nice": Wrapper("0123456789", "n", ("--adjustment=",)),
    "nohup": Wrapper(),
    "setsid": Wrapper("cfw", "", ("--ctty", "--fork", "--wait")),
    "stdbuf": Wrapper("", "ioe", ("--input=", "--output=", "--error=")),
    "sudo": Wrapper("AbEHknPSis", "CDgGhpRrTtuU"),
    "doas": Wrapper("nLs", "aCu"),
    "time": Wrapper("pvlh", "f", ("--portability", "--verbose", "--format=")),
    "timeout": Wrapper("v", "ks", ("--foreground", "--preserve-status", "--verbose", "--kill-after=", "--signal="), 1),
    "toybox": Wrapper(),
    "xargs": Wrapper(
        "0rtxp",
        "nPILdsEa",
        (
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--exit",
            "--max-args=",
            "--max-procs=",
            "--max-lines=",
            "--delimiter=",
            "--max-chars=",
        ),
    ),
}
_OPAQUE = frozenset(
    """. alias arch asdf at batch bind bwrap chroot chrt complete coproc crontab dbus-run-session direnv enable entr eval
        expect fakeroot fc firejail flock gdb hash ltrace mise nix nix-shell nsenter open parallel perf proot rlwrap screen
        script setarch setpriv source ssh-agent start-stop-daemon strace systemd-run taskset tmux trap unbuffer unshare
        valgrind watch xdg-open xvfb-run""".split()
)
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def unwrap(words: tuple[Word, ...]) -> Unwrapped | None:
    """What these words carry, or None for a command that is only itself."""
    name = name_of(words[0])
    if name in SHELLS:
        return _unwrap_shell(words)
    if name == "eval":
        return _unwrap_eval(words)
    if name == "find":
        return _unwrap_find(words)
    if name == "command" and len(words) > 1 and words[1].text.startswith("-") and set("vV") & set(words[1].text):
        return None  # it looks a name up
    if name in _SEEN_THROUGH:
        return _unwrap_options(words, name, _SEEN_THROUGH[name])
    if name in _OPAQUE or name in ESCALATION:
        perhaps = tuple(words[at:] for at in range(1, min(len(words), _GUESSES)))
        return Unwrapped(perhaps=perhaps, scripts=_guesses(words[1:]), unknown=f"{name} cannot be seen through")
    return None


def _unwrap_options(words: tuple[Word, ...], name: str, wrapper: Wrapper) -> Unwrapped | None:
    at, unknown = _after_options(words, wrapper)
    at += wrapper.operands
    assigns = False
    while name in ("env", "sudo", "doas") and at < len(words) and "=" in words[at].text:
        at, assigns = at + 1, True
    if at >= len(words):
        return Unwrapped(assigns=assigns, unknown=unknown) if assigns or unknown else None
    if any(not word.literal for word in words[:at]):
        unknown = f"an option of {name} is only known when it runs"
    if name == "xargs":
        unknown = "xargs adds words from its input"
    return Unwrapped((words[at:],), assigns=assigns, unknown=unknown)


def _after_options(words: Sequence[Word], wrapper: Wrapper) -> tuple[int, str | None]:
    """Where the options end, and what among them is not in the table."""
    at = 1
    while at < len(words):
        text = words[at].text
        if text == "--":
            return at + 1, None
        if not text.startswith("-") or not words[at].literal:
            return at, None
        taken = _option_length(text, wrapper)
        if not taken:
            return at + 1, f"the option {text} of {words[0].text} is not known"
        at += taken
    return at, None


def _option_length(text: str, wrapper: Wrapper) -> int:
    """1 or 2 words; 0 for an option that is not in the table."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in wrapper.long:
            return 1
        return (1 if equals else 2) if f"{name}=" in wrapper.long else 0
    for place, letter in enumerate(text[1:], 2):
        if letter in wrapper.values:
            return 1 if place < len(text) else 2
        if letter not in wrapper.flags:
            return 0
    return 1


def _unwrap_shell(words: tuple[Word, ...]) -> Unwrapped | None:
    """`bash -c LINE` is that line; `bash FILE` is a program of its own; a shell without either reads its input."""
    name, at = name_of(words[0]), 1
    foreign = None if name in _SAME_GRAMMAR else f"{name} reads a line in its own way"
    while at < len(words) and words[at].literal and len(words[at].text) > 1 and words[at].text[0] in "-+":
        text = words[at].text
        at += 1
        if text in ("--version", "--help"):
            return None
        if re.fullmatch(r"-[eulxv]*c", text):
            if at < len(words) and words[at].literal and not words[at].text.startswith(("-", "+")):
                return Unwrapped(scripts=(words[at].text,), unknown=foreign)
            return Unwrapped(scripts=_guesses(words[at:]), unknown=f"{name} runs what is only known when it runs")
        if re.fullmatch(r"-[eulxv]*o", text) and at < len(words) and words[at].text in _HARMLESS_SETTINGS:
            at += 1
        elif not re.fullmatch(r"-[eulxv]+|--norc|--noprofile|--login|--posix", text):
            return Unwrapped(scripts=_guesses(words[at:]), unknown=f"the option {text} of {name} is not known")
    if at >= len(words) or not words[at].literal or words[at].text == "-":
        return Unwrapped(unknown=f"{name} runs what is only known when it runs")
    return None


def _guesses(words: Sequence[Word]) -> tuple[str, ...]:
    """Words that may be a line of shell, where the options before it are not known."""
    return tuple(word.text for word in words if word.literal and not word.text.startswith("-"))[:_GUESSES]


def _unwrap_eval(words: tuple[Word, ...]) -> Unwrapped:
    if all(word.literal for word in words):
        return Unwrapped(scripts=(" ".join(word.text for word in words[1:]),))
    return Unwrapped(unknown="eval runs what is only known when it runs")


def _unwrap_find(words: tuple[Word, ...]) -> Unwrapped | None:
    carried: list[tuple[Word, ...]] = []
    start = 0
    for at, word in enumerate(words):
        if start and word.text in (";", "+"):
            carried.append(words[start:at])
            start = 0
        elif not start and word.text in _FIND_RUNS:
            start = at + 1
    if start:
        carried.append(words[start:])
    return Unwrapped(tuple(carried), unknown="find runs a program") if carried else None
