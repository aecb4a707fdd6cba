"""Files by a few letters: `views/fuzzy.py`."""

from __future__ import annotations

import pytest

from palaver.views.fuzzy import best

FILES = ["README.md", "src/app/main.py", "src/app/models.py", "src/main_test.py", "docs/domain.md", "a/b/c/MAIN.py", "web/éclair 😀.ts"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("main", ["src/app/main.py", "a/b/c/MAIN.py", "src/main_test.py", "docs/domain.md"]),
        ("MAIN.PY", ["src/app/main.py", "a/b/c/MAIN.py"]),
        ("app", ["src/app", "src/app/main.py", "src/app/models.py"]),
        ("samp", ["src/app/main.py", "src/app/models.py"]),
        ("app/mod", ["src/app/models.py"]),
        ("é 😀", ["web/éclair 😀.ts"]),
        ("nothing", []),
        (".*", []),
        ("", ["README.md", "a", "docs", "src", "web"]),
    ],
)
def test_the_likeliest_path_comes_first(query: str, first: list[str]) -> None:
    assert [one.path for one in best(query, FILES, 5).files][: len(first)] == first


def test_a_folder_is_found_once_and_more_than_the_limit_is_said() -> None:
    found = best("app", FILES, 20)
    assert [one for one in found.files if one.kind == "folder"] == [("src/app", "folder")] and not found.truncated
    cut = best("m", FILES, 2)
    assert len(cut.files) == 2 and cut.truncated
