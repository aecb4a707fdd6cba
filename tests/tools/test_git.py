from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from palaver.errors import ToolFailed
from palaver.tools.git import Dirty, find_repository, git_files, git_log, git_status, git_tracked_though_ignored

PATH = os.environ.get("PATH", os.defpath)
ENV = {"PATH": PATH}
T = TypeVar("T")


def do(work: Awaitable[T]) -> T:
    async def whole() -> T:
        return await work

    return asyncio.run(whole())


def git(folder: Path, *arguments: str) -> str:
    """As a person runs it, with a config of its own: the tests' machine may have one."""
    env = {
        "PATH": PATH,
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def everything(folder: Path) -> None:
    """Each way in which the daemon asks git."""
    do(git_status(folder, ENV))
    do(git_files(folder, ENV))
    do(git_tracked_though_ignored(folder, ENV))
    do(git_log(folder, ENV))


def test_status_names_the_branch_the_commit_and_what_differs(repo: Path) -> None:
    (repo / "a.txt").write_text("other\n")
    (repo / "new file").write_text("n\n")
    git(repo, "rm", "-q", "--cached", "sub/b.txt")
    status = do(git_status(repo, ENV))
    assert status is not None
    assert (status.branch, status.head) == ("main", git(repo, "rev-parse", "HEAD").strip())
    assert set(status.dirty) == {
        Dirty("a.txt", " ", "M"),
        Dirty("sub/b.txt", "D", " "),
        Dirty("sub/b.txt", "?", "?"),
        Dirty("new file", "?", "?"),
    }


def test_status_says_what_git_itself_says_of_renames_modes_links_and_odd_names(repo: Path) -> None:
    git(repo, "mv", "a.txt", "moved ü.txt")
    (repo / "sub" / "b.txt").chmod(0o755)
    (repo / "link").symlink_to("nowhere")
    (repo / 'quo"te\n').write_text("")
    status = do(git_status(repo, ENV))
    assert status is not None
    ours = {(one.staged + one.unstaged, one.path, one.origin) for one in status.dirty}
    assert ours == {
        ("R ", "moved ü.txt", "a.txt"),
        (" M", "sub/b.txt", None),
        ("??", "link", None),
        ("??", 'quo"te\n', None),
    }


def test_a_file_changed_in_the_second_of_its_commit_is_seen(repo: Path) -> None:
    """The copy of the index keeps its time: git looks again at what is as young as the index."""
    for round in range(20):
        (repo / "a.txt").write_text(f"{round:04}\n")
        git(repo, "commit", "-q", "-a", "-m", "again")
        (repo / "a.txt").write_text(f"{round + 5000:04}\n")
        status = do(git_status(repo, ENV))
        assert status is not None
        assert status.dirty == (Dirty("a.txt", " ", "M"),)


def test_a_folder_below_the_root_sees_its_own_files_only(repo: Path) -> None:
    (repo / "a.txt").write_text("other\n")
    (repo / "sub" / "c.txt").write_text("c\n")
    status, files = do(git_status(repo / "sub", ENV)), do(git_files(repo / "sub", ENV))
    assert status is not None and status.dirty == (Dirty("c.txt", "?", "?"),)
    assert files is not None and (files.tracked, files.untracked) == (("b.txt",), ("c.txt",))


def test_files_are_tracked_untracked_or_ignored(repo: Path) -> None:
    (repo / ".gitignore").write_text("*.log\nb.txt\n")
    (repo / ".git" / "info" / "exclude").write_text("mine\n")
    for name in ("x.log", "mine", "other"):
        (repo / name).write_text("")
    files = do(git_files(repo, ENV))
    assert files is not None
    assert files.tracked == ("a.txt", "sub/b.txt")
    assert files.untracked == (".gitignore", "other")
    assert do(git_tracked_though_ignored(repo, ENV)) == ("sub/b.txt",)


def test_before_the_first_commit_and_off_every_branch(tmp_path: Path, repo: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q", "-b", "trunk")
    (fresh / "x").write_text("")
    git(fresh, "add", "x")
    status = do(git_status(fresh, ENV))
    assert status is not None and (status.branch, status.head, status.dirty) == ("trunk", None, (Dirty("x", "A", " "),))
    git(repo, "checkout", "-q", "--detach")
    status = do(git_status(repo, ENV))
    assert status is not None and (status.branch, status.dirty) == (None, ())
    assert do(git_status(tmp_path, ENV)) is None
    assert (do(git_files(tmp_path, ENV)), do(git_log(tmp_path, ENV)), do(git_log(fresh, ENV))) == (None, (), ())


def test_packed_references_sha256_split_indexes_and_further_work_trees_are_read(tmp_path: Path, repo: Path) -> None:
    git(repo, "pack-refs", "--all")
    git(repo, "update-index", "--split-index")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a.txt").write_text("side\n")
    main, side = do(git_status(repo, ENV)), do(git_status(tmp_path / "side", ENV))
    assert main is not None and (main.branch, main.dirty) == ("main", ())
    assert side is not None and (side.branch, side.head, side.dirty) == ("side", main.head, (Dirty("a.txt", " ", "M"),))
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q", "--object-format=sha256")
    (new / "x").write_text("")
    git(new, "add", "x")
    git(new, "commit", "-q", "-m", "x")
    status = do(git_status(new, ENV))
    assert status is not None and status.head is not None and len(status.head) == 64 and status.dirty == ()


def test_line_ends_are_compared_as_the_repository_says(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "config", "core.fileMode", "false")
    (repo / "a.txt").write_bytes(b"a\r\n")
    git(repo, "add", "a.txt")
    os.utime(repo / "a.txt", ns=(1, 1))  # it has to be compared by content
    (repo / "sub" / "b.txt").chmod(0o755)
    status = do(git_status(repo, ENV))
    assert status is not None and status.dirty == ()


def test_the_log_has_the_latest_commits(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second: with | and ü\n\nbody")
    commits = do(git_log(repo, ENV))
    assert [(commit.subject, commit.author) for commit in commits] == [("second: with | and ü", "A"), ("first", "A")]
    assert [commit.hash for commit in do(git_log(repo, ENV, 1))] == [git(repo, "rev-parse", "HEAD").strip()]


# --- nothing of theirs runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A program that leaves a trace when it is run, whatever it is run for."""
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/sung\ncat\n')
    program.chmod(0o755)
    yield program


def sung(canary: Path) -> str:
    trace = canary.parent / "sung"
    return trace.read_text() if trace.exists() else ""


def with_monitor(repo: Path, canary: Path) -> None:
    git(repo, "config", "core.fsmonitor", str(canary))


def with_filter(repo: Path, canary: Path) -> None:
    (repo / ".gitattributes").write_text("* filter=evil\n")
    for name in ("clean", "smudge", "process"):
        git(repo, "config", f"filter.evil.{name}", str(canary))
    (repo / "a.txt").write_text("x\n")


def with_included_filter(repo: Path, canary: Path) -> None:
    (repo / ".gitattributes").write_text("* filter=evil\n")
    (repo / "more").write_text(f'[filter "evil"]\n\tclean = {canary}\n[core]\n\tfsmonitor = {canary}\n')
    git(repo, "config", "include.path", "../more")
    (repo / "a.txt").write_text("x\n")


def with_hooks(repo: Path, canary: Path) -> None:
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "query-watchman", "pre-auto-gc"):
        (repo / ".git" / "hooks").mkdir(exist_ok=True)
        (repo / ".git" / "hooks" / name).symlink_to(canary)
    git(repo, "config", "core.fsmonitor", ".git/hooks/query-watchman")
    os.utime(repo / "a.txt")


def with_submodule(repo: Path, canary: Path) -> None:
    module = repository(repo.parent / "module")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "mod")
    git(repo, "commit", "-q", "-m", "module")
    git(repo / "mod", "config", "core.fsmonitor", str(canary))
    (repo / "mod" / "a.txt").write_text("changed\n")


MADE = [with_monitor, with_filter, with_included_filter, with_hooks, with_submodule]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_what_a_repository_would_have_git_run_is_not_run(repo: Path, canary: Path, make: object) -> None:
    """SECURITY 12: fsmonitor, filter, hooks, a submodule with its own config."""
    assert callable(make)
    make(repo, canary)
    subprocess.run(["git", "status"], cwd=repo, check=False, capture_output=True, timeout=30)
    assert sung(canary) != "", "plain git would not have run it: the test shows nothing"
    (canary.parent / "sung").unlink()
    everything(repo)
    assert sung(canary) == ""


def test_no_text_conversion_external_diff_pager_signature_or_alias_of_theirs_runs(repo: Path, canary: Path) -> None:
    """SECURITY 12: textconv, external diff."""
    (repo / ".gitattributes").write_text("* diff=evil\n")
    for name in (
        "diff.evil.textconv",
        "diff.evil.command",
        "diff.external",
        "core.pager",
        "pager.status",
        "gpg.program",
        "core.sshCommand",
        "core.askPass",
        "credential.helper",
        "core.editor",
        "trailer.x.command",
    ):
        git(repo, "config", name, str(canary))
    git(repo, "config", "log.showSignature", "true")
    git(repo, "config", "alias.status", f"!{canary}")
    (repo / "a.txt").write_text("x\n")
    subprocess.run(["git", "diff"], cwd=repo, check=False, capture_output=True, timeout=30)
    assert sung(canary) != ""
    (canary.parent / "sung").unlink()
    everything(repo)
    assert sung(canary) == ""


def test_a_missing_object_is_not_fetched(repo: Path, canary: Path) -> None:
    """SECURITY 12: a repository that promises its objects elsewhere starts no transport."""
    git(repo, "config", "core.repositoryformatversion", "1")
    git(repo, "config", "extensions.partialClone", "origin")
    git(repo, "config", "remote.origin.url", f"ext::{canary}")
    git(repo, "config", "protocol.ext.allow", "always")
    tree = git(repo, "rev-parse", "HEAD^{tree}").strip()
    lost = repo / ".git" / "objects" / tree[:2] / tree[2:]
    lost.chmod(0o644)
    lost.unlink()
    with pytest.raises(ToolFailed, match="git status failed"):
        do(git_status(repo, ENV))
    assert sung(canary) == ""


def test_a_folder_shaped_like_a_bare_repository_is_no_repository(repo: Path, canary: Path) -> None:
    """SECURITY 12: neither by itself nor inside of one."""
    bare = repo / "docs"
    bare.mkdir()
    git(bare, "init", "-q", "--bare")
    git(bare, "config", "core.fsmonitor", str(canary))
    git(bare, "config", "core.bare", "false")
    git(bare, "config", "core.worktree", str(repo))
    subprocess.run(["git", "status"], cwd=bare, check=False, capture_output=True, timeout=30)
    assert sung(canary) != ""
    (canary.parent / "sung").unlink()
    found = find_repository(bare)
    assert found is not None and found.git_dir == repo / ".git"
    everything(bare)
    (repo / ".git").rename(repo / "was")
    assert find_repository(bare) is None
    assert sung(canary) == ""


def test_a_git_file_shows_no_other_repository(tmp_path: Path, repo: Path) -> None:
    """A `.git` that names somebody else's git directory is believed only if that one names the folder."""
    spy = tmp_path / "spy"
    spy.mkdir()
    (spy / ".git").write_text(f"gitdir: {repo / '.git'}\n")
    assert find_repository(spy) is None
    (spy / ".git").unlink()
    (spy / ".git").symlink_to(repo / ".git")
    assert find_repository(spy) is None


def test_nothing_of_the_repository_is_written(repo: Path) -> None:
    """SECURITY 12; never touches the user's git state."""
    (repo / "a.txt").write_text("x\n")
    os.utime(repo / "sub" / "b.txt", ns=(1, 1))

    def look() -> dict[str, tuple[int, bytes]]:
        files = (path for path in (repo / ".git").rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = look()
    everything(repo)
    assert look() == before


def test_pipes_and_huge_files_in_the_git_directory_block_nothing(repo: Path) -> None:
    for name in ("config", "info/exclude", "shallow"):
        (repo / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repo / ".git" / name)
    status = do(git_status(repo, ENV))
    assert status is not None and status.branch == "main"
    (repo / ".git" / "HEAD").unlink()
    os.mkfifo(repo / ".git" / "HEAD")
    found = find_repository(repo)
    assert found is not None and found.head is None


def test_git_planted_in_the_folder_is_not_run(repo: Path, canary: Path) -> None:
    """SECURITY 11: `git` planted in the folder."""
    (repo / "bin").mkdir()
    for place in (repo, repo / "bin"):
        (place / "git").symlink_to(canary)
    env = {"PATH": os.pathsep.join(["", ".", str(repo), str(repo / "bin"), PATH])}
    assert do(git_status(repo, env)) is not None
    assert sung(canary) == ""


def test_our_git_folder_is_gone_afterwards(repo: Path, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    do(git_status(repo, {"PATH": PATH, "TMPDIR": str(place)}))
    assert list(place.iterdir()) == []
