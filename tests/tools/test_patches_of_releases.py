"""Real changes of files, in all three forms: what comes out is what git makes of them, or a clean refusal."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from releases import FileChange, blocks, changes, diff, git_apply, sections, unified, unpacked
from tool_bench import Bench

from palaver.errors import ToolFailed

FORMS = {"unified": unified, "sections": sections, "blocks": blocks}
LEAST = {"unified": 1.0, "sections": 0.98, "blocks": 0.95}
"""How many of the changes that a form can say are applied; the rest is refused because it fits more than one place."""

Tree = dict[str, bytes]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    return unpacked(tmp_path_factory.mktemp("releases"))


def look(folder: Path) -> Tree:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(folder: Path, files: Tree) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def tried(change: FileChange, patch: str, folder: Path) -> str:
    """What became of it. Raises `AssertionError` unless all of it was done, or nothing."""
    bench = Bench(fill(folder, change.before))
    try:
        bench.run("apply_patch", patch=patch)
    except ToolFailed as refused:
        assert look(folder) == change.before, f"{change.name} was half applied"
        assert refused.message, change.name
        return "refused"
    assert look(folder) == change.after, f"{change.name} has other bytes than git makes of it"
    return "applied"


@pytest.mark.timeout(600)
def test_500_real_changes_give_what_git_apply_gives_or_a_clean_refusal(
    pairs: list[tuple[Path, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files that differ between consecutive releases of public packages, in all three forms; none half applied."""
    tally, count = Counter[tuple[str, str]](), 0
    for old, new in pairs:
        for change in changes(old, new):
            count += 1
            judge = fill(tmp_path / "judge", change.before)
            assert git_apply(judge, change.diff) and look(judge) == change.after, "git itself takes the patch"
            for name, write in FORMS.items():
                patch = write(change)
                tally[name, "not sayable" if patch is None else tried(change, patch, tmp_path / "ours")] += 1
    with capsys.disabled():
        print(f"\n{count} changes: {', '.join(f'{form} {said} {times}' for (form, said), times in sorted(tally.items()))}")
    assert count >= 500
    for name, least in LEAST.items():
        assert tally[name, "applied"] >= least * (tally[name, "applied"] + tally[name, "refused"])
        assert tally[name, "not sayable"] <= 10


@pytest.mark.timeout(600)
def test_a_whole_release_is_one_patch_and_with_one_wrong_line_it_is_none(pairs: list[tuple[Path, Path]], tmp_path: Path) -> None:
    """All files or none."""
    for old, new in pairs[1:]:
        ours, patch = tmp_path / old.name, diff(old, new)
        shutil.copytree(old, ours)
        bench = Bench(ours)
        lines = patch.split("\n")
        last = max(number for number, line in enumerate(lines) if line.startswith("-") and not line.startswith("---"))
        broken = "\n".join([*lines[:last], "-this line stands nowhere", *lines[last + 1 :]])
        before = look(ours)
        assert "does not fit" in bench.fails("apply_patch", patch=broken)
        assert look(ours) == before
        bench.run("apply_patch", patch=patch)
        assert look(ours) == look(new)
