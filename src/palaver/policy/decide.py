"""The one decision about a call: the first step that answers wins (DESIGN.md 5, "Policies").

floor → deny rule → mode plan → what is always asked → allow rule or grant → mode. Pure: no clock, no disk, nothing kept.
A shell line is judged by its words as well as a reader can; what a command that was let run can reach is the sandbox's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import msgspec

from palaver.policy import paths
from palaver.policy.programs import name_of, prefix
from palaver.policy.review import held_by_review
from palaver.policy.rules import Coverage, Facts, concerns, coverage, is_named_outside, matches_widely, names_as_much
from palaver.policy.values import Case, Verdict
from palaver.wire.values import Mode, Option, Rule

Subject = Literal["tool", "review", "plan"]
_CHANGING = frozenset(("write", "exec", "network", "delegate"))
_PLAN_OPTIONS = (
    Option("ask", "approve", "once", "Approve, and ask before each change", mode="ask"),
    Option("edit", "approve", "once", "Approve, and change files without asking", mode="edit"),
    Option("auto", "approve", "once", "Approve, and do everything without asking", mode="auto"),
    Option("deny", "deny", "once", "Keep planning"),
)
"""The first is what an answer means that names none."""
_MAX_EXACT = 2048
"""Characters of the longest line that is offered to be remembered."""


_TRUST = "It runs what this folder's files say, also after the agent changes them."


@dataclass(frozen=True)
class _Ask:
    by: str
    reason: str
    subject: Subject = "tool"


def judge(case: Case) -> Verdict:
    """Allow, ask or deny this call. An ask carries the options that a person may choose from."""
    facts = Facts(case)
    verdict = _decide(facts)
    if verdict.decision == "ask" and case.description.rests_on is not None and verdict.by == f"mode {case.mode}":
        return replace(verdict, subject="trust", reason=_TRUST, options=_trust_options(facts))
    return replace(verdict, options=_options(facts, verdict)) if verdict.decision == "ask" else verdict


def explain(case: Case) -> dict[str, Any]:
    """The decision and what made it; for an ask or a denial also each part of the call that no rule allows."""
    facts = Facts(case)
    verdict = _decide(facts)
    said: dict[str, Any] = {"decision": verdict.decision, "by": verdict.by}
    if verdict.decision != "allow":
        said["uncovered"] = [{"text": item.text, "why": item.why} for item in coverage(facts, facts.rules("allow")).missing]
    return said


def narrowed(mode: Mode, limit: Mode) -> Mode:
    """The narrower of two modes: plan, ask, edit, auto."""
    order: tuple[Mode, ...] = get_args(Mode)
    return min(mode, limit, key=order.index)


# --- the steps ----------------------------------------------------------------------------------------------------------------


def _decide(facts: Facts) -> Verdict:
    case = facts.case
    if (forbidden := _floor(facts)) is not None:
        return Verdict("deny", by="floor", reason=f"{forbidden} No rule, grant or mode allows this. Do it another way.")
    for sourced in facts.rules("deny"):
        if matches_widely(sourced.rule, facts):
            return Verdict("deny", by=str(sourced), reason=f"A rule of the person denies this ({sourced}). Do not try it in another form.")
    if case.mode == "plan" and case.kind in _CHANGING:
        return Verdict("deny", by="mode plan", reason="In mode plan nothing is changed or run. Read, and say what you would do.")
    if asks := list(_asks(facts)):
        subject: Subject = next((ask.subject for ask in asks if ask.subject != "tool"), "tool")
        return Verdict("ask", by=asks[0].by, subject=subject, reason=" ".join(ask.reason for ask in asks))
    covered = coverage(facts, facts.rules("allow"))
    if _covers(covered):
        return Verdict("allow", by="; ".join(str(sourced) for sourced in covered.used))
    return _by_mode(case)


def _by_mode(case: Case) -> Verdict:
    writes = case.description.writes
    writes_inside = case.kind == "write" and bool(writes) and all(paths.is_inside(path, case.workspace) for path in writes)
    if case.kind not in _CHANGING or case.mode == "auto" or (case.mode == "edit" and writes_inside):
        return Verdict("allow", by=f"mode {case.mode}")
    return Verdict("ask", by=f"mode {case.mode}")


def _floor(facts: Facts) -> str | None:
    """What no rule, grant or mode opens: Palaver's own files, the token, other sessions, and `.git` from the inside."""
    case = facts.case
    for path in case.description.writes:
        if paths.is_inside_any(path, case.protected):
            return f"{path} belongs to Palaver, which no tool changes."
        if paths.is_git_internal(path):
            return f"{paths.relative(path, case.workspace)} belongs to git, which no tool changes from the inside."
    for path in case.description.reads:
        if paths.is_inside_any(path, case.protected) and not paths.is_inside_any(path, case.shown):
            return f"{path} belongs to Palaver, which no tool reads."
    return None if facts.line is None else _floor_of_line(facts)


def _floor_of_line(facts: Facts) -> str | None:
    """The same for a shell line, as far as its words tell."""
    case, line = facts.case, facts.line
    assert line is not None
    for folder in case.protected:
        if paths.names_folder(line.text, folder, case.shown, case.home):
            return f"The command names {folder}, which belongs to Palaver."
    for path in facts.mentioned:
        if paths.is_inside_any(path, case.protected) and not paths.is_inside_any(path, case.shown):
            return f"The command names {path}, which belongs to Palaver."
    for path in paths.written(line, facts.start, case.home):
        if paths.is_inside_any(path, case.protected) or paths.is_git_internal(path):
            return f"The command changes {paths.relative(path, case.workspace)}, which no tool changes from the inside."
    for path in paths.removed(line, facts.start, case.home):
        if any(paths.is_inside_any(folder, (path,)) for folder in case.protected):
            return f"The command changes {path}, which holds Palaver's own files."
    for part in line.parts:
        if len(part.words) > 1 and name_of(part.words[0]) == "palaver" and part.words[1].text in ("token", "open"):
            return "The command would print a token of Palaver."
    return None


# --- what is always asked -----------------------------------------------------------------------------------------------------


def _asks(facts: Facts) -> Iterator[_Ask]:
    """Step 4: every reason to ask, in order."""
    case = facts.case
    if case.mode == "plan" and case.description.plan is not None:
        yield _Ask("mode plan", "The plan is handed in for review.", "plan")
    if facts.line is not None and (program := facts.line.escalation) is not None:
        yield _Ask(f"escalation: {program}", f"{program} runs a program with other rights. This is asked every time.")
    for path in case.description.writes:
        if not paths.is_inside(path, case.workspace) and not is_named_outside(path, facts):
            yield _Ask("write outside the workspace", f"{path} is outside the workspace.")
    if case.kind == "write" and (held := held_by_review(case)) is not None:
        yield _Ask(f"patch review: {case.review.mode}", held, "review")
    yield from _asks_about_words(facts)
    for sourced in facts.rules("ask"):
        if matches_widely(sourced.rule, facts) and not _granted(facts, sourced.rule):
            yield _Ask(str(sourced), f"A rule asks about this ({sourced}).")
    if case.mode != "auto":
        yield from _asks_about_guarded(facts)
    yield from _asks_of_policy(facts)


def _asks_about_words(facts: Facts) -> Iterator[_Ask]:
    """Where something is denied, a word that is not literal could become it."""
    line = facts.line
    if line is None or not any(concerns(sourced.rule, facts) for sourced in facts.rules("deny")):
        return
    if line.unparsed is not None:
        yield _Ask("unparsed command", f"The command cannot be taken apart ({line.unparsed}), and there are rules that deny.")
    elif (part := next((part for part in line.parts if not part.is_literal), None)) is not None:
        yield _Ask("word that is not literal", f"What `{part.text[:200]}` does is only known when it runs, and there are rules that deny.")


def _asks_about_guarded(facts: Facts) -> Iterator[_Ask]:
    case = facts.case
    written = list(case.description.writes)
    if facts.line is not None:
        written += paths.written(facts.line, facts.start, case.home)
    for path in dict.fromkeys(written):
        if paths.is_guarded(path, case.workspace, case.guarded):
            name = paths.relative(path, case.workspace)
            yield _Ask(f"guarded path: {name}", f"{name} tells agents and tools what to do, so changing it is asked every time.")


def _asks_of_policy(facts: Facts) -> Iterator[_Ask]:
    case = facts.case
    if case.kind in case.approval.require_for_kinds:
        by, reason = f"require_for_kinds: {case.kind}", f"The settings ask about every call of kind {case.kind}."
    elif case.tool in case.approval.require_for_tools:
        by, reason = f"require_for_tools: {case.tool}", f"The settings ask about every call of {case.tool}."
    elif case.requires_approval:
        by, reason = f"definition of {case.tool}", f"{case.tool} asks for approval by itself."
    else:
        return
    if not _granted(facts):
        yield _Ask(by, reason)


def _granted(facts: Facts, rule: Rule | None = None) -> bool:
    """Whether grants alone cover the call; for an ask rule only those that say at least what it says."""
    grants = [sourced for sourced in facts.rules("allow") if sourced.is_grant and (rule is None or names_as_much(sourced.rule, rule))]
    return _covers(coverage(facts, grants))


def _covers(found: Coverage) -> bool:
    return bool(found.used) and not found.missing


# --- what a person may answer -------------------------------------------------------------------------------------------------


def _options(facts: Facts, verdict: Verdict) -> tuple[Option, ...]:
    """Once and deny always; wider only with a rule that, once stored, lets this very call pass."""
    if verdict.subject == "plan":
        return _PLAN_OPTIONS
    once = Option("once", "approve", "once", "Approve this change" if verdict.subject == "review" else "Approve once")
    deny = Option("deny", "deny", "once", "Deny")
    rule = _remembered(facts)
    if rule is None or not _settles(facts.case, rule):
        return (once, deny)
    what = _label(rule)
    return (
        once,
        Option("session", "approve", "session", f"Approve {what} in this session", rule),
        Option("workspace", "approve", "workspace", f"Approve {what} in this workspace, from now on", rule),
        deny,
    )


def _trust_options(facts: Facts) -> tuple[Option, ...]:
    """Of commands that the folder itself names: remembered with the files that say what they run."""
    case, description = facts.case, facts.case.description
    once, deny = Option("once", "approve", "once", "Run them this once"), Option("deny", "deny", "once", "Do not run them")
    command = (description.command or "").strip()
    rule = Rule("allow", tool=case.tool, command=command, exact=True, files=dict(description.rests_on or {}))
    if not description.confined:
        rule = msgspec.structs.replace(rule, turn_id=case.turn_id)
    if len(command) > _MAX_EXACT or not _settles(case, rule):
        return (once, deny)
    if description.confined:
        return (once, Option("workspace", "approve", "workspace", "Trust them here, until they or their files change", rule), deny)
    always = msgspec.structs.replace(rule, unconfined=True, turn_id=None)
    return (
        once,
        Option("workspace", "approve", "workspace", "Trust them here; ask again in each turn that changed files", rule),
        Option("always", "approve", "workspace", "Always, also without a sandbox, until they or their files change", always),
        deny,
    )


def _settles(case: Case, rule: Rule) -> bool:
    return _decide(Facts(replace(case, session_rules=(*case.session_rules, rule)))).decision == "allow"


def _remembered(facts: Facts) -> Rule | None:
    """The rule that a wider answer would store.

    A command: its prefix where that says enough, else the exact line. Files: one file by its path, several by the folder that holds
    them all, unless that is the whole workspace. Anything else: the tool, and the domain if there is one.
    """
    case = facts.case
    if facts.line is not None:
        return _remembered_command(facts)
    if facts.paths:
        pattern = _common_path(facts.paths, case.workspace)
        return None if pattern is None else Rule("allow", tool=case.tool, path=pattern)
    return Rule("allow", tool=case.tool, domain=case.description.domain)


def _remembered_command(facts: Facts) -> Rule | None:
    line = facts.line
    assert line is not None
    if line.unparsed is not None or not line.parts:
        return None
    if len(line.parts) == 1 and (start := prefix(line.parts[0].words)) is not None:
        return Rule("allow", tool=facts.case.tool, command=start)
    text = line.text.strip()
    return Rule("allow", tool=facts.case.tool, command=text, exact=True) if len(text) <= _MAX_EXACT else None


def _common_path(written: Sequence[str], workspace: str) -> str | None:
    names = [paths.relative(path, workspace) for path in written]
    if any(paths.has_wildcard(name) for name in names) or len({name.startswith("/") for name in names}) > 1:
        return None
    if len(set(names)) == 1:
        return names[0]
    folders = [name.split("/")[:-1] for name in names]
    shared = folders[0][: _agreeing(folders)]
    return "/".join((*shared, "**")) if any(shared) else None


def _agreeing(folders: Sequence[Sequence[str]]) -> int:
    count = 0
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        count += 1
    return count


def _label(rule: Rule) -> str:
    if rule.command is not None and rule.exact:
        return f"exactly `{rule.command}`" if len(rule.command) <= 80 and "\n" not in rule.command else "exactly this command"
    if rule.command is not None:
        return f"every `{rule.command} …`"
    if rule.path is not None:
        return (
            f"{rule.tool} on every file below {rule.path.removesuffix('**')}" if rule.path.endswith("**") else f"{rule.tool} on {rule.path}"
        )
    return f"{rule.tool} for {rule.domain}" if rule.domain is not None else f"every {rule.tool}"
