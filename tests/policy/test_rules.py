"""What a rule matches, and which rules make no sense."""

from __future__ import annotations

import pytest
from cases_of_policy import HOME, WORKSPACE, patch, read, shell
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import Invalid
from palaver.policy import Case, check_rule, judge, named_paths
from palaver.policy.paths import pattern_matches
from palaver.tools.base import Description
from palaver.wire.values import Rule

PATTERNS = [
    ("a.py", "a.py", True),
    ("a.py", "sub/a.py", False),
    ("src", "src/a.py", True),
    ("src", "srcx/a.py", False),
    ("src/", "src/deep/a.py", True),
    ("src/*", "src/a.py", True),
    ("src/*", "src/deep/a.py", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/a.txt", False),
    ("src/**", "src/deep/er/a.py", True),
    ("**", "any/thing", True),
    ("**/a.py", "a.py", True),
    ("**/a.py", "x/y/a.py", True),
    ("**/test/**", "x/test/y/z", True),
    ("src/**/a.py", "src/a.py", True),
    ("a?.py", "ab.py", True),
    ("a?.py", "a.py", False),
    ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
    ("app/[id]/page.tsx", "app/i/page.tsx", False),
    ("/tmp/x/**", "/tmp/x/a", True),
    ("/tmp/x/**", "/tmp/y/a", False),
    ("~/notes/**", f"{HOME}/notes/a", True),
    ("./a.py", "a.py", True),
    ("A.py", "a.py", False),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATTERNS)
def test_a_path_pattern_names_what_it_says(pattern: str, path: str, matches: bool) -> None:
    whole = path if path.startswith("/") else f"{WORKSPACE}/{path}"
    assert pattern_matches(pattern, whole, WORKSPACE, HOME, forgiving=False) is matches


def test_what_forbids_compares_without_case_and_invisible_characters() -> None:
    assert judge(patch("SECRETS/a", rules=(Rule("deny", path="secrets"),), mode="auto")).decision == "deny"
    assert judge(patch("sec\u200brets/a", rules=(Rule("deny", path="secrets"),), mode="auto")).decision == "deny"
    assert judge(patch("SECRETS/a", rules=(Rule("allow", path="secrets"),))).decision == "ask"


@given(st.text("ab*?/", max_size=30), st.text("ab/", max_size=30))
def test_a_pattern_never_raises_and_names_itself_when_it_has_no_wildcard(pattern: str, path: str) -> None:
    pattern_matches(pattern, f"/w/{path}", "/w", None, forgiving=True)
    plain = pattern.replace("*", "x").replace("?", "x").lstrip("/")
    assert pattern_matches(plain, f"/w/{plain}", "/w", None, forgiving=False)


def test_a_pattern_with_many_wildcards_is_matched_in_reasonable_work() -> None:
    assert not pattern_matches("**/" * 50 + "x" + "*a" * 50, "/w/" + "a/" * 500 + "b" * 500, "/w", None, forgiving=False)


def test_a_deny_rule_of_a_path_is_found_in_reads_writes_and_commands() -> None:
    rules = (Rule("deny", path="secrets/**"),)
    assert judge(patch("a.py", "secrets/b", rules=rules, mode="auto")).decision == "deny"
    assert judge(shell("cat secrets/b", rules=rules, mode="auto")).decision == "deny"
    assert judge(shell("cat < ./secrets/b", rules=rules, mode="auto")).decision == "deny"
    assert judge(shell("cd secrets; cat b", rules=rules, mode="auto")).decision == "deny"
    assert judge(patch("a.py", rules=rules, mode="auto")).decision == "allow"
    case = read("secrets/b", workspace_rules=rules)
    assert judge(case).decision == "deny"


def test_every_path_of_a_patch_needs_some_rule() -> None:
    grants = (Rule("allow", path="a.py"), Rule("allow", path="src/**"))
    assert judge(patch("a.py", "src/b.py", grants=grants)).decision == "allow"
    assert judge(patch("a.py", "b.py", grants=grants)).decision == "ask"


def test_every_field_of_a_rule_must_match() -> None:
    assert judge(patch("a.py", grants=(Rule("allow", tool="apply_patch", kind="write", path="a.py"),))).decision == "allow"
    assert judge(patch("a.py", grants=(Rule("allow", tool="other", path="a.py"),))).decision == "ask"
    assert judge(patch("a.py", grants=(Rule("allow", kind="exec", path="a.py"),))).decision == "ask"
    assert judge(patch("a.py", grants=(Rule("allow", path="a.py", domain="example.com"),))).decision == "ask"
    assert judge(patch("a.py", grants=(Rule("allow", path="a.py", command="ls"),))).decision == "ask"
    assert judge(shell("ls", grants=(Rule("allow", path="**"),))).decision == "ask"
    assert judge(shell("ls", rules=(Rule("deny", tool="apply_patch", command="ls"),), mode="auto")).decision == "allow"


def test_a_tool_may_be_named_by_a_pattern() -> None:
    case = Case("mcp__files__read", "exec", Description("x"), WORKSPACE, session_rules=(Rule("allow", tool="mcp__files__*"),))
    assert judge(case).decision == "allow"


DOMAINS = [
    ("example.com", "example.com", True, True),
    ("example.com", "EXAMPLE.com.", True, True),
    ("example.com", "api.example.com", False, True),
    ("*.example.com", "api.example.com", True, True),
    ("*.example.com", "example.com", False, True),
    ("example.com", "badexample.com", False, False),
    ("*.example.com", "badexample.com", False, False),
    ("example.com", "example.com.evil.org", False, False),
]


@pytest.mark.parametrize(("pattern", "domain", "allows", "denies"), DOMAINS)
def test_a_domain_is_allowed_exactly_and_denied_with_what_is_below_it(pattern: str, domain: str, allows: bool, denies: bool) -> None:
    description = Description("a page", domain=domain)
    allowing = Case("fetch", "network", description, WORKSPACE, session_rules=(Rule("allow", domain=pattern),))
    denying = Case("fetch", "network", description, WORKSPACE, "auto", session_rules=(Rule("deny", domain=pattern),))
    assert (judge(allowing).decision == "allow") is allows
    assert (judge(denying).decision == "deny") is denies


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("curl https://example.com/x", "deny"),
        ("curl -s HTTPS://API.Example.COM:8443", "deny"),
        ("git clone git@example.com:a/b.git", "deny"),
        ("ls && wget ex''ample.com", "deny"),
        ("bash -c 'nc example.com. 80'", "deny"),
        ("curl https://example.community/x", "allow"),
        ("curl https://notexample.com", "allow"),
        ("curl https://example.com.evil.org", "allow"),
        ("curl https://$HOST/x", "ask"),
    ],
)
def test_a_domain_that_is_denied_is_found_in_a_command_and_one_that_is_allowed_allows_none(line: str, decision: str) -> None:
    """SECURITY 17: rules on domains; what may hide one is asked."""
    for pattern in ("example.com", "*.example.com"):
        assert judge(shell(line, rules=(Rule("deny", domain=pattern),), mode="auto")).decision == decision
    assert judge(shell(line, rules=(Rule("allow", domain="example.com"),))).decision == "ask"


def test_an_exact_rule_means_the_whole_line() -> None:
    grants = (Rule("allow", command="make test", exact=True),)
    assert judge(shell(" make test ", grants=grants)).decision == "allow"
    for line in ("make test x", "make  test", "make", "make test; ls", "make test && make test"):
        assert judge(shell(line, grants=grants)).decision == "ask"
    assert judge(shell("ls; m'ake' test", rules=(Rule("deny", command="make test", exact=True),), mode="auto")).decision == "deny"
    assert judge(shell("make test x", rules=(Rule("deny", command="make test", exact=True),), mode="auto")).decision == "allow"


NONSENSE = [
    (Rule("allow"), "tool"),
    (Rule("allow", tool=" "), "tool"),
    (Rule("allow", tool="a\0b"), "tool"),
    (Rule("allow", tool="a", exact=True), "exact"),
    (Rule("allow", command=""), "command"),
    (Rule("allow", command="ls '"), "command"),
    (Rule("allow", command="ls; pwd"), "command"),
    (Rule("allow", command="ls $X"), "command"),
    (Rule("allow", command="ls *"), "command"),
    (Rule("allow", command="X=1 ls"), "command"),
    (Rule("allow", command="ls > f"), "command"),
    (Rule("allow", command="sudo"), "command"),
    (Rule("allow", command="sudo ls"), "command"),
    (Rule("allow", command="nice ls"), "command"),
    (Rule("allow", command="xargs ls", exact=True), "command"),
    (Rule("allow", command="git -c x=y status"), "command"),
    (Rule("allow", command="X=1 ls", exact=True), "command"),
    (Rule("allow", command="x" * 5000), "command"),
    (Rule("deny", command="$X"), "command"),
    (Rule("allow", path="../x"), "path"),
    (Rule("allow", path="~other/x"), "path"),
    (Rule("allow", path="x", command="ls"), "path"),
    (Rule("allow", domain="https://example.com"), "domain"),
    (Rule("allow", domain="example.com:443"), "domain"),
    (Rule("allow", domain="*"), "domain"),
]


@pytest.mark.parametrize(("rule", "field"), NONSENSE)
def test_a_rule_that_can_mean_nothing_is_refused_with_its_field(rule: Rule, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_rule(rule)
    assert refused.value.extra["errors"][0]["path"] == field


SENSE = [
    Rule("allow", tool="shell"),
    Rule("deny", kind="network"),
    Rule("allow", command="git status"),
    Rule("allow", command="make test"),
    Rule("allow", command="make test && make lint", exact=True),
    Rule("deny", command="sudo"),
    Rule("deny", command="rm -rf"),
    Rule("deny", command="xargs rm"),
    Rule("deny", command="git push --force"),
    Rule("ask", path="**/*.sql"),
    Rule("allow", path="~/notes/**"),
    Rule("allow", domain="*.example.com"),
    Rule("deny", path="secrets", command="cat"),
]


@pytest.mark.parametrize("rule", SENSE, ids=str)
def test_a_rule_that_can_mean_something_is_taken(rule: Rule) -> None:
    assert check_rule(rule) is rule


def test_only_plain_paths_of_allowing_rules_open_the_way_out_of_the_workspace() -> None:
    rules = (
        Rule("allow", path="/tmp/a"),
        Rule("allow", path="/tmp/b/**"),
        Rule("allow", path="/tmp/*/c"),
        Rule("allow", path="~/notes"),
        Rule("allow", path="src/**"),
        Rule("deny", path="/tmp/d"),
        Rule("allow", path=f"{WORKSPACE}/x"),
    )
    assert named_paths(rules, WORKSPACE, HOME) == ("/tmp/a", "/tmp/b", f"{HOME}/notes")
