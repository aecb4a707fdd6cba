"""Rules: what they match, what they cannot say.

A rule that forbids or asks matches *widely*: one part of a command, one path, a program by its name wherever it lies, options in
between passed over. A rule that allows matches *narrowly*: every part and every path must be covered by some rule, word for word.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise

from palaver.errors import Invalid
from palaver.policy.command import Line, Part, parse
from palaver.policy.paths import clean, has_wildcard, is_inside, mentioned, pattern_matches, relative
from palaver.policy.programs import name_of
from palaver.policy.values import Case, Decision
from palaver.wire.values import Rule

_MAX_FIELD = 4096
_DOMAIN = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")


@dataclass(frozen=True)
class Sourced:
    """A rule and where it comes from."""

    rule: Rule
    origin: str
    is_grant: bool = False

    def __str__(self) -> str:
        word = "grant" if self.is_grant and self.rule.decision == "allow" else f"{self.rule.decision} rule"
        return f"{word} of {self.origin}: {described(self.rule)}"


@dataclass(frozen=True)
class Facts:
    """A case with what is worked out from it once."""

    case: Case

    @cached_property
    def line(self) -> Line | None:
        command = self.case.description.command
        return None if command is None else parse(command)

    @cached_property
    def mentioned(self) -> tuple[str, ...]:
        """Paths that a shell line may name."""
        return () if self.line is None else mentioned(self.line, self.start, self.case.home)

    @property
    def start(self) -> str:
        """Where a shell line starts."""
        return clean(posixpath.join(self.case.workspace, self.case.cwd or "."))

    @property
    def paths(self) -> tuple[str, ...]:
        """What a path rule must cover: what is written, or what is read by a call that writes nothing."""
        return tuple(self.case.description.writes or self.case.description.reads)

    def rules(self, decision: Decision) -> list[Sourced]:
        """Those in force that decide so, the settings' first."""
        case = self.case
        every = (
            *(Sourced(rule, "the settings") for rule in case.approval.rules),
            *(Sourced(rule, "this session", is_grant=True) for rule in case.session_rules),
            *(Sourced(rule, "this workspace", is_grant=True) for rule in case.workspace_rules),
        )
        return [sourced for sourced in every if sourced.rule.decision == decision]


@dataclass(frozen=True)
class Uncovered:
    """A path or a part of a command that no rule allows."""

    text: str
    why: str


@dataclass(frozen=True)
class Coverage:
    used: tuple[Sourced, ...]
    missing: tuple[Uncovered, ...]


def described(rule: Rule) -> str:
    """A rule in words: `tool shell, command git status`."""
    fields = ("tool", "kind", "path", "command", "domain")
    said = ", ".join(f"{name} {value}" for name in fields if (value := getattr(rule, name)) is not None)
    return f"{said} (exactly)" if rule.exact else said


# --- forbidding and asking ----------------------------------------------------------------------------------------------------


def concerns(rule: Rule, facts: Facts) -> bool:
    """Whether its tool and kind are this call's."""
    tool_fits = rule.tool is None or fnmatchcase(facts.case.tool, rule.tool)
    return tool_fits and (rule.kind is None or rule.kind == facts.case.kind)


def matches_widely(rule: Rule, facts: Facts) -> bool:
    """Whether a rule that forbids or asks speaks of this call, or of any part of it."""
    return (
        concerns(rule, facts)
        and (rule.domain is None or _domain_matches_widely(rule.domain, facts))
        and (rule.path is None or any(_path_matches(rule.path, path, facts, forgiving=True) for path in _all_paths(facts)))
        and (rule.command is None or (facts.line is not None and _command_matches_widely(rule, facts.line)))
    )


def _all_paths(facts: Facts) -> Iterable[str]:
    description = facts.case.description
    return (*description.reads, *description.writes, *facts.mentioned)


def _path_matches(pattern: str, path: str, facts: Facts, *, forgiving: bool) -> bool:
    return pattern_matches(pattern, path, facts.case.workspace, facts.case.home, forgiving=forgiving)


def _domain_matches_widely(pattern: str, facts: Facts) -> bool:
    """The domain that a call says it reaches, and every name in a shell line that is this one or below it."""
    pattern = _plain_domain(pattern).removeprefix("*.")
    if facts.line is not None and _line_names(pattern, facts.line):
        return True
    if facts.case.description.domain is None:
        return False
    domain = _plain_domain(facts.case.description.domain)
    return domain == pattern or domain.endswith(f".{pattern}")


def _line_names(domain: str, line: Line) -> bool:
    """Quotes hide nothing: the words are looked at as the program gets them."""
    named = re.compile(rf"(?<![\w-]){re.escape(domain)}(?![\w-]|\.\w)", re.IGNORECASE)
    words = (word.text for part in line.parts for word in part.words)
    return any(named.search(text) for text in (line.text, *words))


def _plain_domain(domain: str) -> str:
    return domain.rstrip(".").lower()


def _command_matches_widely(rule: Rule, line: Line) -> bool:
    command = rule.command or ""
    if rule.exact and line.text.strip() == command.strip():
        return True
    wanted = words_of(command)
    if not wanted:
        return False
    if rule.exact:
        return any([word.text for word in part.words] == wanted for part in line.parts)
    return any(_part_matches_widely(wanted, part) for part in line.parts)


def _part_matches_widely(wanted: list[str], part: Part) -> bool:
    """The same program by name; then the rule's words in order, options and their values between them passed over."""
    if not part.words or name_of(part.words[0]) != wanted[0].rpartition("/")[2]:
        return False
    texts = [word.text for word in part.words[1:]]
    at = 0
    for before, word in pairwise(wanted):
        if word.startswith("-"):
            if not _has_option(word, texts):
                return False
        elif before.startswith("-"):  # it may be that option's value, which stands anywhere
            if word not in texts and before + word not in texts:
                return False
        elif (found := _next_operand(word, texts, at)) is None:
            return False
        else:
            at = found + 1
    return True


def _has_option(wanted: str, texts: list[str]) -> bool:
    """`-rf` is also `-fr` and `-r -f`; `--force` is also `--force=1`."""
    if wanted in texts or any(text.startswith(f"{wanted}=") for text in texts):
        return True
    letters = set("".join(text[1:] for text in texts if text.startswith("-") and not text.startswith("--")))
    return not wanted.startswith("--") and set(wanted[1:]) <= letters


def _next_operand(wanted: str, texts: list[str], at: int) -> int | None:
    while at < len(texts):
        if texts[at] == wanted:
            return at
        follows_option = at > 0 and texts[at - 1].startswith("-") and "=" not in texts[at - 1]
        if not texts[at].startswith("-") and not follows_option:
            return None
        at += 1
    return None


def words_of(command: str) -> list[str]:
    """The words of a rule's command; none when it is not a plain command."""
    line = parse(command.strip())
    if line.unparsed or not line.parts or not all(word.literal for word in line.parts[0].words):
        return []
    return [word.text for word in line.parts[0].words]


# --- allowing -----------------------------------------------------------------------------------------------------------------


def coverage(facts: Facts, rules: Sequence[Sourced]) -> Coverage:
    """Which of these rules allow which part of the call, and what no rule allows."""
    fitting = [
        sourced for sourced in rules if concerns(sourced.rule, facts) and _domain_fits(sourced.rule, facts) and _holds(sourced.rule, facts)
    ]
    for sourced in fitting:
        if sourced.rule.path is None and sourced.rule.command is None:
            return Coverage((sourced,), ())
    if facts.line is not None:
        return _cover_line(facts, facts.line, [sourced for sourced in fitting if sourced.rule.path is None])
    return _cover_paths(facts, [sourced for sourced in fitting if sourced.rule.command is None])


def _holds(rule: Rule, facts: Facts) -> bool:
    """Whether trust in a folder's own commands still holds: the same files, and a sandbox, or the person wanted none."""
    if rule.files is None:
        return True
    rests_on = facts.case.description.rests_on or {}
    same = dict(rests_on) == rule.files and "?" not in rule.files.values()
    in_turn = rule.turn_id is not None and rule.turn_id == facts.case.turn_id
    return same and (facts.case.description.confined or rule.unconfined or in_turn)


def _domain_fits(rule: Rule, facts: Facts) -> bool:
    if rule.domain is None:
        return True
    if facts.case.description.domain is None:
        return False
    pattern, domain = _plain_domain(rule.domain), _plain_domain(facts.case.description.domain)
    return domain.endswith(pattern[1:]) if pattern.startswith("*.") else domain == pattern


def _cover_line(facts: Facts, line: Line, rules: list[Sourced]) -> Coverage:
    if line.unparsed is not None:
        return Coverage((), (Uncovered(line.text[:200], line.unparsed),))
    if facts.start != clean(facts.case.workspace):
        return Coverage((), (Uncovered(line.text, "it starts in another folder than the workspace's own"),))
    blocked = tuple(Uncovered(part.text, part.obstacle) for part in line.parts if part.obstacle is not None)
    if blocked or not line.parts:
        return Coverage((), blocked or (Uncovered(line.text, "it holds no command"),))
    for sourced in rules:
        if sourced.rule.exact and (sourced.rule.command or "").strip() == line.text.strip():
            return Coverage((sourced,), ())
    return _gathered(
        (part.text, next((sourced for sourced in rules if _prefix_matches(sourced.rule, part)), None))
        for part in line.parts
        if not part.wrapper
    )


def _prefix_matches(rule: Rule, part: Part) -> bool:
    wanted = words_of(rule.command or "")
    given = [word.text for word in part.words[: len(wanted)] if word.literal]
    return not rule.exact and bool(wanted) and given == wanted


def _cover_paths(facts: Facts, rules: list[Sourced]) -> Coverage:
    if not facts.paths:
        return Coverage((), (Uncovered(facts.case.tool, "no rule names it"),))
    return _gathered((relative(path, facts.case.workspace), _naming(path, facts, rules)) for path in facts.paths)


def _naming(path: str, facts: Facts, rules: Iterable[Sourced]) -> Sourced | None:
    return next(
        (sourced for sourced in rules if sourced.rule.path and _path_matches(sourced.rule.path, path, facts, forgiving=False)), None
    )


def _gathered(found: Iterable[tuple[str, Sourced | None]]) -> Coverage:
    used: list[Sourced] = []
    missing: list[Uncovered] = []
    for text, sourced in found:
        if sourced is None:
            missing.append(Uncovered(text, "no rule names it"))
        elif sourced not in used:
            used.append(sourced)
    return Coverage(tuple(used), tuple(missing))


def is_named_outside(path: str, facts: Facts) -> bool:
    """Whether a rule or grant with a path names this one, outside of the workspace."""
    return _naming(path, facts, [sourced for sourced in facts.rules("allow") if concerns(sourced.rule, facts)]) is not None


def names_as_much(grant: Rule, rule: Rule) -> bool:
    """Whether a grant says at least what an ask rule says: only then was it given with that rule in mind."""
    command_fits = (
        rule.command is None or grant.exact or words_of(grant.command or "")[: len(words_of(rule.command))] == words_of(rule.command)
    )
    path_fits = rule.path is None or (grant.path is not None and (grant.path == rule.path or not has_wildcard(grant.path)))
    return command_fits and path_fits and (rule.domain is None or grant.domain is not None)


def named_paths(rules: Iterable[Rule], workspace: str, home: str | None = None) -> tuple[str, ...]:
    """Paths outside of the workspace that these rules let tools reach: those without a wildcard, and folders named with `/**`."""
    named: list[str] = []
    for rule in rules:
        if rule.decision != "allow" or rule.path is None:
            continue
        path = rule.path.removesuffix("/**")
        if path.startswith("~/") and home is not None:
            path = home + path[1:]
        if path.startswith("/") and not has_wildcard(path) and not is_inside(path, workspace):
            named.append(path)
    return tuple(named)


# --- from outside -------------------------------------------------------------------------------------------------------------


def check_rule(rule: Rule) -> Rule:
    """A rule that somebody sent, if it can mean anything. Raises `Invalid`."""
    for name in ("tool", "path", "command", "domain"):
        value = getattr(rule, name)
        if value is not None and (not value.strip() or "\0" in value or len(value) > _MAX_FIELD):
            raise Invalid(f"The rule's {name} is empty or longer than {_MAX_FIELD} characters. Name one, or leave it out.", path=name)
    if all(getattr(rule, name) is None for name in ("tool", "kind", "path", "command", "domain")):
        raise Invalid("The rule names nothing. Give it a tool, kind, path, command or domain.", path="tool")
    if rule.exact and rule.command is None:
        raise Invalid("An exact rule needs the command that it means. Give it a command.", path="exact")
    _check_path(rule)
    if rule.domain is not None and not _DOMAIN.fullmatch(rule.domain):
        raise Invalid(f"{rule.domain!r} is no domain. Write example.com or *.example.com, without scheme, port and path.", path="domain")
    if rule.command is not None:
        _check_command(rule, rule.command)
    return rule


def _check_path(rule: Rule) -> None:
    if rule.path is None:
        return
    if ".." in rule.path.split("/") or (rule.path.startswith("~") and rule.path != "~" and not rule.path.startswith("~/")):
        raise Invalid(f"{rule.path!r} cannot be matched. Write a path without '..', from the workspace, from / or from ~/.", path="path")
    if rule.command is not None and rule.decision == "allow":
        raise Invalid(
            "A rule that allows names a path or a command, not both: files behind a command are not known. Leave one out.", path="path"
        )


def _check_command(rule: Rule, command: str) -> None:
    line = parse(command.strip())
    if line.unparsed is not None or not line.parts:
        raise Invalid(
            f"The command cannot be taken apart: {line.unparsed or 'it is empty'}. Write plain words, as in: git status", path="command"
        )
    if not rule.exact and (len(line.parts) != 1 or not words_of(command)) and (rule.decision == "allow" or not words_of(command)):
        raise Invalid("A rule names one command by its first words. Write them plainly, as in: git status", path="command")
    obstacle = next((part.obstacle for part in line.parts if part.obstacle is not None), None)
    if rule.decision == "allow" and obstacle is not None:
        raise Invalid(f"No rule can allow this command: {obstacle}. Name a plainer one.", path="command")
