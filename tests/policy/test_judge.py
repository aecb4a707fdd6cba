"""The order of the steps, modes and kinds, what a person may answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from cases_of_policy import CONFIG, DATA, WORKSPACE, allow, ask, deny, patch, read, shell
from hypothesis import given
from hypothesis import strategies as st

from palaver.policy import ApprovalPolicy, Case, PatchReviewPolicy, Verdict, VerifyPolicy, explain, judge, narrowed
from palaver.tools.base import Description, ToolKind
from palaver.wire.values import CallKind, Mode, Rule


def test_the_defaults_are_those_of_the_spec() -> None:
    """S4-65 S4-66 S4-67 S4-68."""
    assert VerifyPolicy() == VerifyPolicy(auto_verify=True, commands=("make test",), require_clean=False)
    assert ApprovalPolicy() == ApprovalPolicy(require_for_kinds=(), require_for_tools=(), rules=())
    assert PatchReviewPolicy().mode == "off"


MODES_AND_KINDS = {
    "plan": {"read": "allow", "ask": "allow", "write": "deny", "exec": "deny", "network": "deny", "delegate": "deny"},
    "ask": {"read": "allow", "ask": "allow", "write": "ask", "exec": "ask", "network": "ask", "delegate": "ask"},
    "edit": {"read": "allow", "ask": "allow", "write": "allow", "exec": "ask", "network": "ask", "delegate": "ask"},
    "auto": {"read": "allow", "ask": "allow", "write": "allow", "exec": "allow", "network": "allow", "delegate": "allow"},
}


@pytest.mark.parametrize("kind", list(ToolKind))
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_mode_answers_for_each_kind(mode: Mode, kind: ToolKind) -> None:
    writes = (f"{WORKSPACE}/a.py",) if kind is ToolKind.WRITE else ()
    verdict = judge(Case("tool", kind, Description("a call", writes=writes), WORKSPACE, mode))
    assert verdict.decision == MODES_AND_KINDS[mode][kind]
    assert verdict.by == f"mode {mode}"


def test_a_write_that_names_no_path_is_not_known_to_be_inside_the_workspace() -> None:
    assert judge(Case("tool", "write", Description("a call"), WORKSPACE, "edit")).decision == "ask"


FLOOR = [f"{DATA}/token", f"{DATA}/sessions/sess_2/events.ndjson", f"{CONFIG}/config.toml", DATA]


@pytest.mark.parametrize("path", [*FLOOR, ".git/config", ".git", "sub/.git/hooks/pre-commit", ".GIT/config", ".g\u200cit/config"])
def test_no_rule_grant_or_mode_opens_a_write_below_the_floor(path: str) -> None:
    """T-12: the deny floor wins over everything."""
    open_wide = (Rule("allow", tool="apply_patch"), Rule("allow", path="/**"), Rule("allow", path=path))
    verdict = judge(patch(path, rules=open_wide, grants=open_wide, mode="auto"))
    assert (verdict.decision, verdict.by) == ("deny", "floor")


@pytest.mark.parametrize("path", FLOOR)
def test_no_mode_opens_a_read_of_palavers_own_files(path: str) -> None:
    """T-12."""
    assert judge(read(path, mode="auto", session_rules=(Rule("allow", path="/**"),))).by == "floor"


def test_artifacts_of_the_session_may_be_read_and_never_written() -> None:
    shown = (f"{DATA}/sessions/sess_1/artifacts",)
    path = f"{shown[0]}/turn_1/output.txt"
    assert judge(read(path, shown=shown)).decision == "allow"
    assert judge(patch(path, shown=shown, mode="auto")).by == "floor"


def test_git_internals_may_be_read() -> None:
    assert judge(read(".git/HEAD")).decision == "allow"


def test_each_step_answers_before_the_next() -> None:
    """DESIGN.md 5: floor, deny rule, mode plan, what is always asked, allow rule, mode. Each is taken away in turn."""
    case = shell(
        f"sudo cat {DATA}/token",
        rules=(deny("sudo"), ask("sudo"), Rule("allow", tool="shell")),
        mode="plan",
    )
    assert judge(case).by == "floor"
    case = replace(case, description=Description("a command", command="sudo ls"))
    assert judge(case).by == "deny rule of the settings: command sudo"
    case = replace(case, approval=ApprovalPolicy(("exec",), (), case.approval.rules[1:]))  # type: ignore[arg-type] # as TOML has it
    assert judge(case).by == "mode plan"
    case = replace(case, mode="auto")
    assert judge(case).by == "escalation: sudo"
    case = replace(case, description=Description("a command", command="ls"))
    assert judge(case).by == "require_for_kinds: exec"
    case = replace(case, approval=replace(case.approval, require_for_kinds=()))
    assert judge(case).by == "allow rule of the settings: tool shell"
    case = replace(case, approval=ApprovalPolicy())
    assert judge(case).by == "mode auto"


def test_a_deny_rule_beats_an_allow_rule_and_a_grant() -> None:
    assert judge(shell("ls", rules=(allow("ls"), deny("ls")), grants=(allow("ls"),))).decision == "deny"


def test_a_deny_rule_of_the_workspace_counts_too() -> None:
    verdict = judge(shell("ls", workspace_rules=(deny("ls"),), mode="auto"))
    assert verdict.by == "deny rule of this workspace: command ls"


def test_a_denial_tells_the_model_why() -> None:
    assert "rm" in (judge(shell("rm x", rules=(deny("rm"),))).reason or "")


# --- writes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
def test_a_write_outside_the_workspace_is_asked_until_a_rule_names_it(mode: Mode) -> None:
    assert judge(patch("/tmp/x/a.py", mode=mode)).decision == "ask"
    assert judge(patch("/tmp/x/a.py", mode=mode, rules=(Rule("allow", tool="apply_patch"),))).decision == "ask"
    assert judge(patch("/tmp/x/a.py", mode=mode, rules=(Rule("allow", path="/tmp/x/**"),))).decision == "allow"
    assert judge(patch("/tmp/x/a.py", mode=mode, grants=(Rule("allow", path="/tmp/x/a.py"),))).decision == "allow"
    assert judge(patch("/tmp/x/a.py", mode=mode, rules=(Rule("allow", path="/tmp/y/**"),))).decision == "ask"


def test_one_file_outside_the_workspace_makes_the_whole_patch_asked() -> None:
    assert judge(patch("a.py", "/tmp/a.py", mode="edit")).decision == "ask"


def test_a_folder_beside_the_workspace_with_a_longer_name_is_outside() -> None:
    assert judge(patch(f"{WORKSPACE}-other/a.py", mode="edit")).decision == "ask"


GUARDED = """AGENTS.md CLAUDE.md .mcp.json opencode.json .envrc Makefile .palaver/agents/a.toml .claude/settings.json .codex/config.toml
    .pi/x .gemini/x .qwen/x .opencode/x .vscode/tasks.json .idea/x .husky/pre-commit .github/workflows/ci.yml hooks/pre-commit sub/AGENTS.md
    agents.md MAKEFILE GNUmakefile sub/.vscode/tasks.json""".split()


@pytest.mark.parametrize("path", GUARDED)
def test_a_guarded_path_is_asked_in_mode_edit_and_named(path: str) -> None:
    """SECURITY 15."""
    case = patch(path, mode="edit", guarded=(f"{WORKSPACE}/hooks",), grants=(Rule("allow", path="**"), Rule("allow", tool="apply_patch")))
    verdict = judge(case)
    assert verdict.decision == "ask"
    assert path in (verdict.reason or "")
    assert [option.id for option in verdict.options] == ["once", "deny"]
    assert judge(replace(case, mode="ask")).decision == "ask"
    assert judge(replace(case, mode="auto")).decision == "allow"


@pytest.mark.parametrize("path", ["a.py", "AGENTS.md.txt", "docs/agents", ".github/CODEOWNERS", "Makefile.in", "vscode/x"])
def test_other_paths_are_not_guarded(path: str) -> None:
    assert judge(patch(path, mode="edit")).decision == "allow"


@pytest.mark.parametrize(
    "line", ["echo x > Makefile", "tee AGENTS.md", "cp x .vscode/tasks.json", "mv x .envrc", "sed -i s/a/b/ CLAUDE.md"]
)
def test_a_granted_command_that_changes_a_guarded_path_is_asked(line: str) -> None:
    """SECURITY 15."""
    assert judge(shell(line, grants=(Rule("allow", tool="shell"),))).by.startswith("guarded path: ")


# --- asking by policy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks",
    [
        {"approval": ApprovalPolicy(require_for_kinds=(ToolKind.EXEC,))},
        {"approval": ApprovalPolicy(require_for_tools=("shell",))},
        {"requires_approval": True},
    ],
)
def test_what_policy_requires_is_asked_in_mode_auto_until_a_grant_settles_it(asks: dict[str, Any]) -> None:
    """S4-66 S4-72."""
    assert judge(shell("ls", mode="auto", **asks)).decision == "ask"
    assert judge(shell("ls", mode="auto", grants=(allow("ls"),), **asks)).decision == "allow"
    assert judge(shell("pwd", mode="auto", grants=(allow("ls"),), **asks)).decision == "ask"


def test_an_allow_rule_of_the_settings_does_not_settle_what_the_settings_require() -> None:
    approval = ApprovalPolicy(require_for_kinds=(ToolKind.EXEC,), rules=(allow("ls"),))
    assert judge(shell("ls", approval=approval)).decision == "ask"


def test_a_required_kind_may_be_read() -> None:
    verdict = judge(read("a.py", approval=ApprovalPolicy(require_for_kinds=(ToolKind.READ,))))
    assert verdict.decision == "ask"
    assert verdict.options[1].rule == Rule("allow", tool="read_file", path="a.py")


def test_an_ask_rule_is_settled_only_by_a_grant_that_says_as_much() -> None:
    rules = (ask("git push"),)
    assert judge(shell("git push", rules=rules, mode="auto")).by == "ask rule of the settings: command git push"
    assert judge(shell("git push", rules=rules, mode="auto", grants=(allow("git"),))).decision == "ask"
    assert judge(shell("git push", rules=(*rules, allow("git push")), mode="auto")).decision == "ask"
    assert judge(shell("git push", rules=rules, mode="auto", grants=(allow("git push"),))).decision == "allow"
    assert judge(shell("git push", rules=rules, mode="auto", grants=(allow("git push", exact=True),))).decision == "allow"
    everything = Rule("ask", tool="shell")
    assert judge(shell("ls", rules=(everything,), grants=(allow("ls"),))).decision == "allow"
    one_file, below = Rule("ask", path="src/a.py"), Rule("allow", path="src/**")
    assert judge(patch("src/a.py", rules=(one_file,), grants=(below,))).decision == "ask"
    assert judge(patch("src/a.py", rules=(one_file,), grants=(Rule("allow", path="src/a.py"),))).decision == "allow"


# --- options ------------------------------------------------------------------------------------------------------------------


def offered(verdict: Verdict) -> Rule | None:
    return next((option.rule for option in verdict.options if option.scope == "session"), None)


OFFERED = [
    ("git status -s", allow("git status")),
    ("ls -la src", allow("ls")),
    ("echo hello", allow("echo")),
    ("  git log  ", allow("git log")),
    ("make test", allow("make test", exact=True)),
    ("python x.py", allow("python x.py", exact=True)),
    ("bash x.sh", allow("bash x.sh", exact=True)),
    ("npm test", allow("npm test", exact=True)),
    ("npx tsc", allow("npx tsc", exact=True)),
    ("uv run x", allow("uv run x", exact=True)),
    ("nice ls", allow("nice ls", exact=True)),
    ("timeout 5 git status", allow("timeout 5 git status", exact=True)),
    ("./run.sh", allow("./run.sh", exact=True)),
    ("rm -rf build", allow("rm -rf build", exact=True)),
    ("git push", allow("git push", exact=True)),
    ("git status && ls", allow("git status && ls", exact=True)),
    ("X=1 ls", None),
    ("ls > f", None),
    ("ls $X", None),
    ("find . -delete", None),
    ("xargs ls", None),
    ("parallel ls", None),
    ("cat <<EOF", None),
    ("sudo ls", None),
    ("echo x > Makefile", None),
    ("python x.py " + "x" * 3000, None),
]


@pytest.mark.parametrize(("line", "rule"), OFFERED)
def test_an_ask_offers_to_remember_what_says_enough(line: str, rule: Rule | None) -> None:
    """SECURITY 17."""
    verdict = judge(shell(line))
    assert offered(verdict) == rule
    assert [option.id for option in verdict.options] == (["once", "deny"] if rule is None else ["once", "session", "workspace", "deny"])


def test_a_wider_option_shows_what_it_remembers() -> None:
    labels = [option.label for option in judge(shell("git status -s")).options]
    assert labels == [
        "Approve once",
        "Approve every `git status …` in this session",
        "Approve every `git status …` in this workspace, from now on",
        "Deny",
    ]
    assert judge(shell("make test")).options[1].label == "Approve exactly `make test` in this session"


PATCHES = [
    (("a.py",), "a.py"),
    (("src/a.py",), "src/a.py"),
    (("src/a.py", "src/b.py"), "src/**"),
    (("src/a/x.py", "src/b/y.py"), "src/**"),
    (("src/a/x.py", "src/a/y.py"), "src/a/**"),
    (("a.py", "src/b.py"), None),
    (("a.py", "b.py"), None),
    (("/tmp/x/a.py",), "/tmp/x/a.py"),
    (("/tmp/x/a.py", "/tmp/x/b.py"), "/tmp/x/**"),
    (("/tmp/a.py", "/var/b.py"), None),
    (("a.py", "/tmp/a.py"), None),
    (("what*.py",), None),
    (("app/[id]/page.tsx",), "app/[id]/page.tsx"),
]


@pytest.mark.parametrize(("paths", "pattern"), PATCHES)
def test_a_patch_offers_its_file_or_the_folder_that_holds_all_of_them(paths: tuple[str, ...], pattern: str | None) -> None:
    rule = offered(judge(patch(*paths)))
    assert rule == (None if pattern is None else Rule("allow", tool="apply_patch", path=pattern))


def test_a_call_without_command_and_paths_offers_its_tool_and_domain() -> None:
    fetch = Case("fetch", "network", Description("a page", domain="example.com"), WORKSPACE)
    assert offered(judge(fetch)) == Rule("allow", tool="fetch", domain="example.com")
    assert offered(judge(Case("verify", "exec", Description("verify"), WORKSPACE))) == Rule("allow", tool="verify")


LINES = [line for line, _ in OFFERED]


@given(
    st.sampled_from(LINES),
    st.sampled_from(get_args(Mode)),
    st.lists(st.sampled_from([deny("rm"), ask("git"), ask("ls"), Rule("ask", tool="shell"), allow("git status")]), max_size=3),
    st.booleans(),
)
def test_every_rule_that_is_offered_settles_the_ask(line: str, mode: Mode, rules: list[Rule], required: bool) -> None:
    """T-11: a scope settles this call and its siblings."""
    case = shell(line, mode=mode, rules=rules, requires_approval=required)
    verdict = judge(case)
    if verdict.decision != "ask":
        return
    for option in verdict.options:
        if option.rule is not None:
            assert judge(replace(case, session_rules=(option.rule,))).decision == "allow"
            assert judge(replace(case, workspace_rules=(option.rule,))).decision == "allow"


# --- explaining, narrowing ----------------------------------------------------------------------------------------------------


def test_explain_names_the_part_that_no_rule_allows() -> None:
    case = shell("git status && rm x", grants=(allow("git status"),))
    assert explain(case) == {"decision": "ask", "by": "mode ask", "uncovered": [{"text": "rm x", "why": "no rule names it"}]}
    assert explain(shell("X=1 ls", grants=(allow("ls"),)))["uncovered"] == [{"text": "X=1 ls", "why": "it sets a variable"}]
    assert explain(shell("git status", grants=(allow("git status"),))) == {
        "decision": "allow",
        "by": "grant of this session: tool shell, command git status",
    }


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("limit", get_args(Mode))
def test_a_narrowed_mode_is_never_wider_than_either(mode: Mode, limit: Mode) -> None:
    """SECURITY 3."""
    order = ["plan", "ask", "edit", "auto"]
    assert order.index(narrowed(mode, limit)) == min(order.index(mode), order.index(limit))


@given(st.sampled_from(get_args(CallKind)), st.sampled_from(LINES))
def test_a_wider_mode_never_denies_or_asks_what_a_narrower_one_allows(kind: CallKind, line: str) -> None:
    rank = {"deny": 0, "ask": 1, "allow": 2}
    case = replace(shell(line), kind=kind)
    got = [rank[judge(replace(case, mode=mode)).decision] for mode in ("plan", "ask", "edit", "auto")]
    assert got == sorted(got)


def test_a_command_that_starts_in_another_folder_matches_no_grant() -> None:
    grants = (allow("make test", exact=True), allow("ls"))
    for same in (WORKSPACE, ".", f"{WORKSPACE}/", "vendor/.."):
        assert judge(shell("make test", grants=grants, cwd=same)).decision == "allow"
    assert judge(shell("make test", grants=grants, cwd="vendor")).decision == "ask"
    assert judge(shell("touch config", cwd=".git", mode="auto")).by == "floor"
    assert judge(shell("make test", grants=grants, cwd=f"{WORKSPACE}/vendor")).decision == "ask"
    assert judge(shell("ls", grants=grants, cwd=f"{WORKSPACE}/vendor")).decision == "ask"
