"""Say what is wrong with the pages that name tests; silent when nothing is.

- docs/requirements.md has each id once, as `met` with tests, `later`, or `decided otherwise` with the reason.
- docs/rules.md has the promises 1 to 9; with `--strict-rules` each names a test.
- docs/security.md has a row for each rule from 1 to 9, then for those of the others that are held, in order, and each names a test.
- Every test that any page under docs/ names exists. `tests/may_skip.txt` too names only tests that exist.

With `--claims` it prints the tests whose docstrings name an id that the page does not give them yet, to judge and copy.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

LAST = {"S0": 67, "S1": 71, "S2": 66, "S3": 54, "S4": 77, "T": 19}
"""Ids run from 01 to here in each document; T are the conformance tests."""
PROMISES = 9
GUARDED = 9
"""The rules of docs/security.md that the daemon's own doors and files have to hold."""

STATES = ("met", "later", "decided otherwise")
ROW = re.compile(r"^\| *(S[0-4]|T)-(\d\d) *\|(.*)\|\s*$")
GUARD = re.compile(r"^\| *(\d+) *\|[^|]+\|(.*)\|\s*$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[^`\s]+|web/[^`:]+\.test\.tsx?(?:::[^`]+)?)`")
"""A test by its path and its name; one of TypeScript by its path and the words that it is given."""
WORDED = re.compile(r"[(\[]\s*([\"'`])((?:(?!\1).)+)\1")


class Row(NamedTuple):
    id: str
    words: str
    state: str
    rest: str


def ids() -> list[str]:
    return [f"{document}-{number:02d}" for document, last in LAST.items() for number in range(1, last + 1)]


def rows(page: str) -> Iterator[Row | str]:
    """Each row of the tables, or a complaint about a line that looks like one and is none."""
    for line in page.splitlines():
        if match := ROW.match(line):
            cells = [cell.strip() for cell in match[3].split("|")]
            yield (
                Row(f"{match[1]}-{match[2]}", *cells)
                if len(cells) == 3
                else f"{match[1]}-{match[2]}: write `| id | words | state | tests or reason |`"
            )


def check_requirements(page: str) -> Iterator[str]:
    found = list(rows(page))
    yield from (row for row in found if isinstance(row, str))
    good = [row for row in found if isinstance(row, Row)]
    counts = Counter(row.id for row in good)
    yield from (f"{id}: missing" for id in ids() if not counts[id])
    yield from (f"{id}: stands there {count} times" for id, count in counts.items() if count > 1)
    yield from (f"{id}: there is no such requirement" for id in counts if id not in set(ids()))
    for row in good:
        yield from (f"{row.id}: {complaint}" for complaint in check_row(row))


def check_row(row: Row) -> Iterator[str]:
    if not row.words:
        yield "says nothing in the second column"
    if row.state not in STATES:
        yield f"the state {row.state!r} is none of {', '.join(STATES)}"
    if row.state == "met" and not NAMED.search(row.rest):
        yield "is met but names no test"
    if row.state == "decided otherwise" and not row.rest:
        yield "is decided otherwise but gives no reason"


def check_rules(page: str, *, strict: bool) -> Iterator[str]:
    sections = re.split(r"^## (\d+)\..*$", page, flags=re.MULTILINE)
    rules = list(zip(map(int, sections[1::2]), sections[2::2], strict=True))
    if [number for number, _ in rules] != list(range(1, PROMISES + 1)):
        yield f"has the rules {', '.join(str(number) for number, _ in rules) or 'none'}; it must have 1 to {PROMISES}, in order"
    for number, text in rules:
        if not re.search(r"^tests:", text, re.MULTILINE):
            yield f"rule {number} has no line that starts with `tests:`"
        elif strict and not NAMED.search(text):
            yield f"rule {number} names no test"


def check_security(page: str) -> Iterator[str]:
    guards = [(int(number), shown) for number, shown in GUARD.findall(page)]
    numbers = [number for number, _ in guards]
    if numbers[:GUARDED] != list(range(1, GUARDED + 1)) or numbers != sorted(set(numbers)):
        yield f"has rows for {', '.join(map(str, numbers)) or 'no rule'}; it must have 1 to {GUARDED}, in order"
    yield from (f"row {number} names no test" for number, shown in guards if not NAMED.search(shown))


def check_tests(names: Iterable[str], root: Path = ROOT) -> Iterator[str]:
    yield from (f"{name} does not exist" for name in sorted(set(names)) if not exists(name, root))


def exists(name: str, root: Path = ROOT) -> bool:
    """Whether `tests/path.py::test_name` (or `…::Class::test_name`, or the file alone) is there; parameters in `[…]` are not looked at.

    Of `web/path.test.ts::words` the words have to stand there as the first of a call's arguments or of a row.
    """
    if name.startswith("web/"):
        path, _, words = name.partition("::")
        return (root / path).is_file() and words in worded(root / path)
    file, *inner = name.split("[")[0].split("::")
    return (root / file).is_file() and "::".join(inner) in defined(root / file)


@cache
def defined(path: Path) -> frozenset[str]:
    """The names of all functions and classes of a file, with their classes before them, and the empty name for the file itself."""
    return frozenset({"", *names_in(ast.parse(path.read_bytes()))}) if path.suffix == ".py" else frozenset({""})


@cache
def worded(path: Path) -> frozenset[str]:
    """The first texts of calls and rows in a file of TypeScript, and the empty words for the file itself."""
    return frozenset({"", *(words for _, words in WORDED.findall(path.read_text(encoding="utf-8")))})


def names_in(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + child.name
        if isinstance(child, ast.Assign):  # a state machine's `TestThat = Machine.TestCase`
            yield from (target.id for target in child.targets if isinstance(target, ast.Name) and target.id.startswith("Test"))
        if isinstance(child, ast.ClassDef):
            yield from names_in(child, f"{prefix}{child.name}::")
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from names_in(child, prefix)


def complaints(*, strict: bool) -> Iterator[str]:
    docs = ROOT / "docs"
    yield from (f"docs/requirements.md: {said}" for said in check_requirements((docs / "requirements.md").read_text()))
    yield from (f"docs/rules.md: {said}" for said in check_rules((docs / "rules.md").read_text(), strict=strict))
    yield from (f"docs/security.md: {said}" for said in check_security((docs / "security.md").read_text()))
    for page in sorted(docs.glob("*.md")):
        yield from (f"docs/{page.name}: {said}" for said in check_tests(NAMED.findall(page.read_text())))
    lines = (ROOT / "tests" / "may_skip.txt").read_text().splitlines()
    skips = (line.split("|")[0].strip() for line in lines if line.strip() and not line.startswith("#"))
    yield from (f"tests/may_skip.txt: {said}" for said in check_tests(skips))


def claims(page: str) -> Iterator[str]:
    """`id test` for each id in a test's docstring whose row does not name that test."""
    given = {row.id: NAMED.findall(row.rest) for row in rows(page) if isinstance(row, Row)}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (words := ast.get_docstring(node)):
                name = f"{path.relative_to(ROOT)}::{node.name}"
                yield from (f"{id} `{name}`" for id in ids() if id in words and name not in given.get(id, []))


def main() -> int:
    if "--claims" in sys.argv:
        print(*sorted(claims((ROOT / "docs" / "requirements.md").read_text())), sep="\n")
        return 0
    found = list(complaints(strict="--strict-rules" in sys.argv))
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
