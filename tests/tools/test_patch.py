from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.errors import ToolFailed
from palaver.tools.patch import FilePatch, parse
from palaver.tools.patch_text import Text, counts, unified_diff


def _patched(patch: str, data: bytes) -> bytes:
    """The one file of a patch, applied."""
    (only,) = {part.path for part in parse(patch)}
    text = Text(data, only)
    for part in parse(patch):
        text.apply(part.hunks)
    return text.data()


def _update(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f.py", *lines, "*** End Patch"])


def _conflict(patch: str, data: bytes) -> str:
    with pytest.raises(ToolFailed) as caught:
        _patched(patch, data)
    assert caught.value.code == "tool_error"
    return caught.value.message


def _malformed(patch: str) -> str:
    with pytest.raises(ToolFailed) as caught:
        parse(patch)
    assert caught.value.code == "invalid_arguments"
    return caught.value.message


FILE = b"def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef three():\n    return 2\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (("-    return 1", "+    return 10"), FILE.replace(b"1", b"10")),
        (("@@", " def one():", "-    return 1", "+    return 10"), FILE.replace(b"1", b"10")),
        (("@@ def three():", "-    return 2", "+    return 3"), FILE[:-2] + b"3\n"),
        (("@@ def three():", " def three():", "-    return 2", "+    return 3"), FILE[:-2] + b"3\n"),
        (("@@ three", "-    return 2", "+    return 3"), FILE[:-2] + b"3\n"),
        (("-    return 2", "+    return 3", "*** End of File"), FILE[:-2] + b"3\n"),
        (("@@ -9,2 +9,2 @@ def three():", " def three():", "-    return 2", "+    return 3"), FILE[:-2] + b"3\n"),
        (
            (" def one():", "-    return 1", "+    return 10", "@@", " def two():", "-    return 2", "+    return 20"),
            FILE.replace(b"1", b"10").replace(b"2", b"20", 1),
        ),
        (("+# the end",), FILE + b"# the end\n"),
        (("@@ def one():", "+    # here"), FILE.replace(b"():\n", b"():\n    # here\n", 1)),
        ((" def one():", "     return 1", "", "", "-def two():", "+def TWO():"), FILE.replace(b"two", b"TWO")),
    ],
)
def test_sections_change_what_they_say(lines: tuple[str, ...], after: bytes) -> None:
    """S4-61."""
    assert _patched(_update(*lines), FILE) == after


def test_sections_add_delete_and_move() -> None:
    assert parse("*** Begin Patch\n*** Add File: a\n+x\n+\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n*** End Patch\n") == [
        FilePatch("a", "add", content=b"x\n\n"),
        FilePatch("b", "delete"),
        FilePatch("c", "update", move_to="d"),
    ]


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "hello",
        "Here is the patch:\n*** Begin Patch\n*** End Patch",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n-x\n+y",
        "*** Begin Patch\n*** Update File: a\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\nx\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
        "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
        "*** Begin Patch\nx\n*** End Patch",
        "--- a/x\n",
        "--- a/x\n+++ b/x\n",
        "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\n",
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+target\n",
        "diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\n",
        "<<<<<<< SEARCH a\nx\n=======\ny\n",
        "<<<<<<< SEARCH a\nx\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH a\nx\n=======\ny\n>>>>>>> REPLACE\nand more",
        "<<<<<<< SEARCH a\nTitle\n=======\nx\n=======\ny\n>>>>>>> REPLACE",
    ],
)
def test_a_patch_that_is_none_is_refused(patch: str) -> None:
    assert _malformed(patch)


# --- unified diffs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["@@ -5,2 +5,2 @@", "@@ -5,2 +5,2 @@ def two():", "@@ -1,2 +1,2 @@", "@@ -99 +99 @@", "@@ -5,9 +5,9 @@", "@@ -0,0 +0,0 @@", "@@"],
)
def test_a_unified_diff_is_applied_wherever_its_header_points(header: str) -> None:
    patch = f"--- a/f.py\n+++ b/f.py\n{header}\n def two():\n-    return 2\n+    return 20\n"
    assert _patched(patch, FILE) == FILE.replace(b"2", b"20", 1)


def test_the_line_number_decides_between_two_places() -> None:
    patch = "--- f\n+++ f\n@@ -{n},1 +{n},1 @@\n-    return 2\n+    return 3\n"
    assert _patched(patch.format(n=6), FILE) == FILE.replace(b"2", b"3", 1)
    assert _patched(patch.format(n=10), FILE) == FILE[:-2] + b"3\n"
    assert "fits at lines 6, 10" in _conflict(patch.format(n=7), FILE)


def test_gits_headers_are_understood() -> None:
    patch = """diff --git a/new.sh b/new.sh
new file mode 100755
index 0000000..e69de29
--- /dev/null
+++ b/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+-- x
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/run b/run
old mode 100644
new mode 100755
diff --git a/empty b/empty
new file mode 100644
diff --git "a/caf\\303\\251" "b/caf\\303\\251"
--- "a/caf\\303\\251"
+++ "b/caf\\303\\251"
@@ -1 +1 @@
-a
+b
--\x20
2.43.0
"""
    new, gone, renamed, run, empty, quoted = parse(patch)
    assert (new.path, new.kind, new.content, new.executable) == ("new.sh", "add", b"#!/bin/sh\n-- x", True)
    assert (gone.path, gone.kind) == ("gone", "delete")
    assert (renamed.path, renamed.kind, renamed.move_to) == ("old name", "update", "new name")
    assert (run.path, run.kind, run.executable, run.hunks) == ("run", "update", True, ())
    assert (empty.path, empty.kind, empty.content) == ("empty", "add", b"")
    assert (quoted.path, len(quoted.hunks[0].lines)) == ("café", 2)


def test_lines_that_look_like_headers_are_lines_where_the_header_counts_them() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n keep\n--- old comment\n+++ new comment\n end\n"
    assert _patched(patch, b"keep\n-- old comment\nend\n") == b"keep\n++ new comment\nend\n"


@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        (b"a\nb", " a\n-b\n\\ No newline at end of file\n+c", b"a\nc\n"),
        (b"a\nb\n", " a\n-b\n+c\n\\ No newline at end of file", b"a\nc"),
        (b"a\nb", " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file", b"a\nc"),
        (b"a\nb", " a\n-b\n+c", b"a\nc"),
        (b"a\nb", "-a\n+A\n b\n\\ No newline at end of file", b"A\nb"),
    ],
)
def test_the_last_newline_is_as_the_diff_says_else_as_it_was(before: bytes, hunk: str, after: bytes) -> None:
    assert _patched(f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n{hunk}\n", before) == after


# --- search and replace -------------------------------------------------------------------------------------------------------


def _block(old: str, new: str, width: int = 7) -> str:
    parts = ["<" * width + " SEARCH f.py", *([old] if old else []), "=" * width, *([new] if new else []), ">" * width + " REPLACE"]
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("def one():\n    return 1", "def one():\n    return 10", FILE.replace(b"1", b"10")),
        ("def one():", "", FILE.replace(b"def one():\n", b"")),
        ("return 1", "return 10", FILE.replace(b"1", b"10")),
        ("two", "TWO", FILE.replace(b"two", b"TWO")),
        ("one():\n    ret", "uno():\n    ERT", FILE.replace(b"one():\n    ret", b"uno():\n    ERT")),
        ("def one():   ", "def uno():", FILE.replace(b"one", b"uno")),
    ],
)
def test_blocks_replace_whole_lines_or_a_part_of_one(old: str, new: str, after: bytes) -> None:
    assert _patched(_block(old, new), FILE) == after


def test_blocks_on_one_file_see_what_the_ones_before_did() -> None:
    assert _patched(_block("def two():", "def zwei():") + "\n\n" + _block("zwei", "drei"), FILE) == FILE.replace(b"two", b"drei")


def test_a_block_whose_text_is_there_twice_is_refused() -> None:
    assert "fits at lines 6, 10" in _conflict(_block("    return 2", "x"), FILE)
    assert "there 3 times" in _conflict(_block("def", "x"), FILE)


def test_longer_marks_hold_text_that_has_marks_itself() -> None:
    data = b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    assert _patched(_block(data.decode().rstrip(), "a", width=9), data) == b"a\n"


def test_an_empty_search_makes_a_new_file() -> None:
    assert parse(_block("", "x\ny")) == [FilePatch("f.py", "add", content=b"x\ny\n")]


# --- what stays ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nc\r\n"),
        (b"a\r\nb\r\nc", b"a\r\nX\r\nc"),
        (b"\xef\xbb\xbfa\nb\nc\n", b"\xef\xbb\xbfa\nX\nc\n"),
        (b"a\nb\r\nc\n", b"a\nX\r\nc\n"),
        (b"a\nb  \nc\n", b"a\nX\nc\n"),
        (b"a \t\nb\nc\n", b"a \t\nX\nc\n"),
        (b"a\nb\nc\n\xff\xfe\n", b"a\nX\nc\n\xff\xfe\n"),
    ],
)
def test_line_ends_marks_and_kept_lines_stay_byte_by_byte(before: bytes, after: bytes) -> None:
    assert _patched(_update(" a", "-b", "+X", " c"), before) == after
    assert _patched(_update(" a\r", "-b\r", "+X\r", " c\r"), before) == after


def test_typographic_look_alikes_are_let_be_and_indentation_is_not() -> None:
    assert _patched(_update("-say 'it' - \"now\"", "+x"), "say ‘it’\u00a0– “now”\n".encode()) == b"x\n"
    assert "does not fit" in _conflict(_update("-return 1", "+return 10"), FILE)


def test_a_last_line_without_newline_can_be_changed_added_to_and_removed() -> None:
    assert _patched(_update("-b", "+c"), b"a\nb") == b"a\nc"
    assert _patched(_update(" b", "+c"), b"a\nb") == b"a\nb\nc"
    assert _patched(_update("-b"), b"a\nb") == b"a"
    assert _patched(_update("-b"), b"b") == b""


# --- conflicts ----------------------------------------------------------------------------------------------------------------


def test_a_conflict_shows_what_was_looked_for_and_the_nearest_lines() -> None:
    message = _conflict(_update(" def two():", "-    return 3", "+    return 4"), FILE)
    assert message == (
        "f.py: the hunk does not fit. These lines are not there as they stand:\n    | def two():\n    |     return 3\n"
        "The nearest lines of the file are:\n     4| \n     5| def two():\n     6|     return 2\n     7| \n"
        "Send the patch with the lines as they are there, indentation too."
    )


def test_a_conflict_says_which_hunk() -> None:
    message = _conflict(_update("-    return 1", "+x", "@@", "-    return 9", "+y"), FILE)
    assert message.startswith("f.py: hunk 2 of 2 does not fit.")


def test_hunks_out_of_order_are_told() -> None:
    message = _conflict(_update("-def three():", "+x", "@@", "-    return 1", "+y"), FILE)
    assert message == "f.py: hunk 2 of 2 stands at line 2, above the hunk before it. Put the hunks in file order."


def test_an_anchor_that_is_not_there_is_told() -> None:
    assert "no line has that" in _conflict(_update("@@ class Missing:", "-    return 2", "+x"), FILE)


def test_a_misspelt_line_is_found_as_the_nearest() -> None:
    assert "     9| def three():" in _conflict(_update("-def thre():", "+x"), FILE)
    assert "Nothing in the file looks like them" in _conflict(_update("-zzzzzzzzzzzzzz", "+x"), FILE)


def test_a_patch_that_would_take_for_ever_is_refused() -> None:
    hunk = ["@@", "-nothing", "+x"]
    assert "too much at once" in _conflict(_update(*hunk * 300), b"x\n" * 900_000)
    assert "more than the 1000000" in _conflict(_update(*hunk), b"\n" * 1_000_001)


# --- properties ---------------------------------------------------------------------------------------------------------------

_line = st.sampled_from(["", "a", "b", "  c", "d ", "-- e", "++ f", "@@ g", "\\ h", "é"])
_file = st.lists(_line, max_size=25).map(lambda lines: "".join(line + "\n" for line in lines))
_open = st.booleans()


@settings(max_examples=60, deadline=None)
@given(before=_file, after=_file, open_before=_open, open_after=_open)
def test_what_git_says_changed_is_what_a_patch_does(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str, open_before: bool, open_after: bool
) -> None:
    """Any two texts: git's diff of them, applied here, gives the second; and our diff, applied by git, gives it too."""
    old = (before[:-1] if open_before else before).encode()
    new = (after[:-1] if open_after else after).encode()
    if old == new or not old or not new:
        return
    folder = tmp_path_factory.mktemp("pair")
    (folder / "old").write_bytes(old)
    (folder / "new").write_bytes(new)
    told = _git(folder, "diff", "--no-index", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "old", "new").stdout
    (patch,) = parse(told.decode().replace("b/new", "b/old"))
    text = Text(old, "old")
    text.apply(patch.hunks)
    assert text.data() == new
    (folder / "ours.diff").write_text(unified_diff("old", "old", text.diff_ops(old)))
    applied = _git(folder, "apply", "-p1", "--unidiff-zero", "ours.diff")
    assert applied.returncode == 0, applied
    assert (folder / "old").read_bytes() == new


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    env = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
    }
    return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, check=False)


@settings(max_examples=200, deadline=None)
@given(patch=st.text(alphabet=st.sampled_from(list("*@-+ \\<=>\nab")), max_size=120), form=st.integers(0, 3))
def test_no_text_is_a_bug(patch: str, form: int) -> None:
    """Whatever a model sends is applied or refused, nothing else."""
    begin = ["", "*** Begin Patch\n*** Update File: a\n", "--- a/a\n+++ b/a\n", "<<<<<<< SEARCH a\n"][form]
    try:
        for part in parse(begin + patch + ("\n*** End Patch" if form == 1 else "")):
            text = Text(b"a\nb\n\na b\n", "a")
            text.apply(part.hunks)
            counts(text.diff_ops(b"a\nb\n\na b\n"))
    except ToolFailed:
        return
