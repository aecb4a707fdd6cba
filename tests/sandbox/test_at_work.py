"""SECURITY 14: what a held command may do works as it does without a sandbox, for each variant."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import WHY, World, is_absent

from palaver.sandbox.variants import VARIANTS, Sandbox, Variant, git_folders, started

AT_WORK = {
    "files come, change, move and go": """
        echo one > a; echo two >> a; mkdir -p b/c/d; mv a b/c; cp b/c/a b/copy; ln b/copy b/hard; ln -s c/a b/soft; echo three >> b/soft
        rm b/copy; rmdir b/c/d; echo x > gone; rm gone; mv b moved; cat moved/soft; : > moved/empty""",
    "modes, masks and times are kept": """
        umask 027; echo a > a; mkdir b; umask 0; echo c > c; chmod 4755 c; chmod u+x a; touch -d '2001-02-03 04:05:06' a; touch -r a b
        cp -p a d; install -m 640 a e; mkdir -m 711 f; stat -c '%y' a d""",
    "an archive is packed and unpacked": """
        mkdir -p t/u; for i in 1 2 3 4 5 6 7 8; do echo $i > t/u/$i; done; chmod 600 t/u/3; ln -s u/1 t/l; tar cf t.tar t
        mkdir x; tar xpf t.tar -C x; cp -a t y; ls x/t/u; rm t.tar""",
    "a pipe waits for its reader": "mkfifo p; (echo through > p) & cat p; wait; rm p",
    "what must be new is new": "echo a > a; set -C; (echo b > a) 2>/dev/null || echo kept; cat a",
    "a file is emptied, shortened and lengthened": "printf 123456 > a; truncate -s 3 a; cat a; truncate -s 5 a; printf x >> a; : > b",
    "standard streams are reopened": "echo out > /dev/stdout; echo err > /dev/stderr; echo nothing > /dev/null; echo in | cat /dev/stdin",
    "a file is written by its descriptor's name": "exec 3> a; echo by-number > /dev/fd/3; exec 3>&-; cat a",
    "names of any kind are names": "mkdir './-x y'; echo a > './-x y/é\t*'; mv './-x y' .hidden; cat .hidden/*; mkdir -p z/../z/./w//v",
    "folders that change while they are walked": "mkdir a; cd a; echo 1 > ../up; mv ../a ../b; echo 2 > here; cd ..; cat b/here",
    "python writes a module and runs it": """
        python3 -c "import pathlib as p; p.Path('m.py').write_text('print(40 + 2)')"; python3 -B m.py; python3 -c "
        import os, shutil, tempfile
        os.makedirs('d/e'); open('d/e/f', 'x').write('y'); shutil.copytree('d', 'g'); shutil.rmtree('d'); os.replace('g/e/f', 'h')
        with tempfile.NamedTemporaryFile(dir='.') as t: print(os.access(t.name, os.W_OK), os.access('.', os.W_OK))
        with tempfile.TemporaryDirectory() as t: open(t + '/x', 'w').close()
        " """,
    "a database keeps its journal": """
        python3 -c "
        import sqlite3
        c = sqlite3.connect('x.db'); print(c.execute('pragma journal_mode=wal').fetchone())
        c.execute('create table t (a)'); c.executemany('insert into t values (?)', [(i,) for i in range(100)]); c.commit(); c.close()
        print(sqlite3.connect('x.db').execute('select count(*) from t').fetchone())
        "; rm -f x.db* """,
    "a build runs": r"""
        printf 'all: out\n\nout: in\n\tcp in out\n\techo built >> out\n' > build.mk; echo in > in
        make -s -f build.mk; cat out; touch -d 2001-01-01 out""",
    "git looks, and says what is new": "git status --porcelain | head -5; git log -1 --format=%s; git diff --stat",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    shutil.rmtree(world.work / ".git")
    commit = "git init -q . && git add -A && git -c user.name=n -c user.email=e commit -q -m first"
    subprocess.run(["/bin/sh", "-c", commit], cwd=world.work, check=True)
    yield world
    world.close()


def listing(folder: Path) -> list[tuple[str, str, bytes]]:
    """Names, modes and contents, of links where they lead."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] != ".git":
            mode = stat.filemode(path.lstat().st_mode)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found.append((str(name), mode.replace("s", "x"), content))
    return found


def dedented(script: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in script.split("\n"))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("work", AT_WORK)
def test_work_in_the_workspace_is_the_same_inside_as_outside(world: World, variant: Variant, work: str) -> None:
    if is_absent(variant):
        return
    script = f"export GIT_OPTIONAL_LOCKS=0\n{dedented(AT_WORK[work])}"
    bare = world.folder / "bare"
    shutil.copytree(world.work, bare, symlinks=True)
    outside = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=bare,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    inside = world.sh(world.orders(variant), script)
    assert (inside.stdout, inside.stderr, inside.returncode) == (outside.stdout, outside.stderr, outside.returncode)
    assert listing(world.work) == listing(bare)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143), ("no-such-program", 127)]
)
def test_a_command_ends_as_it_ends(world: World, variant: Variant, script: str, status: int) -> None:
    """A signal shows as itself, or as shells tell it."""
    if is_absent(variant):
        return
    assert world.sh(world.orders(variant), script).returncode in (status, 128 - status)


@pytest.mark.parametrize("variant", VARIANTS)
def test_git_itself_may_write_its_folder_but_not_its_settings_and_hooks(world: World, variant: Variant) -> None:
    """SECURITY 14: `.git` too when every part of the command is plain git."""
    if is_absent(variant):
        return
    orders = world.orders(variant, git=True)
    commit = "git add -A && git -c user.name=n -c user.email=e commit -q -m second && git log --format=%s && git branch next && git gc -q"
    said = world.sh(orders, f"echo new > new; {commit}")
    assert said.stdout.split() == ["second", "first"], said.stderr
    before = [path.read_bytes() for path in settings_of(world)]
    for script in TRIES_OF_GIT:
        assert world.sh(orders, script).returncode != 0, script
    assert [path.read_bytes() for path in settings_of(world)] == before


TRIES_OF_GIT = (
    *("git config core.hooksPath x", "echo x > .git/hooks/post-commit", "echo x >> .git/config"),
    *("mv .git/hooks .git/h", "rm -r .git/hooks", "mv .git g", "ln -s /tmp .git/modules && echo x > .git/modules/config"),
)


def settings_of(world: World) -> list[Path]:
    git = world.work / ".git"
    return [git / "config", *sorted((git / "hooks").iterdir())]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_the_hooks_path_names_is_not_written(world: World, variant: Variant) -> None:
    """SECURITY 15."""
    if is_absent(variant):
        return
    orders = world.orders(variant, guarded=(str(world.work / "tools" / "hooks"),))
    assert world.sh(orders, "mkdir tools && echo x > tools/other").returncode == 0
    assert world.sh(orders, "mkdir tools/hooks").returncode != 0
    assert world.sh(orders, "mkdir -p x/hooks && echo x > x/hooks/commit && mv tools y && mv x tools").returncode != 0
    assert not (world.work / "tools" / "hooks").exists()


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_network_the_internet_is_open_and_unix_sockets_stay_shut(world: World, variant: Variant) -> None:
    if is_absent(variant):
        return
    orders = world.orders(variant, network=True)
    said = world.python(orders, "socket.create_connection(('127.0.0.1', int(get('TCP')))).sendall(b'x'); print('through')")
    assert said.stdout == "through\n", said.stderr
    assert world.python(orders, "socket.socket(socket.AF_UNIX).connect(get('OUT') + '/stream')").returncode != 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_many_at_once_get_their_own_answers(world: World, variant: Variant) -> None:
    if is_absent(variant):
        return
    script = "for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5 6 7 8 9; do echo $i$j > n$i$j; done) & done; wait; cat n* | sort -u | wc -l"
    assert world.sh(world.orders(variant), script).stdout.strip() == "72"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_launcher_runs_nothing_of_the_folder_or_the_environment(world: World, variant: Variant) -> None:
    """SECURITY 11: our own Python is not led astray by what lies where the command runs."""
    if is_absent(variant):
        return
    for name in ("palaver.py", "struct.py", "ctypes.py", "sitecustomize.py", "usercustomize.py"):
        (world.work / name).write_text("import os; os._exit(99)")
    command = started(world.orders(variant), ["/bin/sh", "-c", "echo fine"])
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(world.work),
        "PYTHONSTARTUP": str(world.work / "struct.py"),
        "HOME": str(world.work),
    }
    said = subprocess.run(command, cwd=world.work, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert said.stdout == "fine\n", said.stderr


def test_of_a_linked_work_tree_git_writes_what_it_shares(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    commit = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x"
    setup = f"git init -q {main} && cd {main} && {commit} && git worktree add -q {linked}"
    subprocess.run(["/bin/sh", "-c", setup], check=True, capture_output=True)
    (main / "below").mkdir()
    assert git_folders(str(linked)) == (str(main / ".git"),)
    assert git_folders(str(main / "below")) == (str(main / ".git"),)
    assert git_folders(str(tmp_path)) == ()


def test_the_first_variant_that_holds_is_the_one_and_the_others_are_told() -> None:
    found = Sandbox(variants=["seatbelt", *VARIANTS]).look()
    assert found.variant == next((variant for variant in VARIANTS if WHY[variant] is None), None)
    assert "not there" in found.absent["seatbelt"]


def test_where_none_holds_a_person_is_told_what_a_command_can_do() -> None:
    found = Sandbox(mode="off").look()
    assert found.variant is None
    assert found.caution is not None and "do all that you can, and answer approvals too" in found.caution


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_private_folder_that_nobody_has_made_yet_holds_up_no_command(world: World, variant: Variant) -> None:
    """As on a machine where nobody has written settings."""
    if is_absent(variant):
        return
    orders = world.orders(variant)
    orders.hidden = (*orders.hidden, str(world.folder / "nobody" / "made" / "this"))
    ended = world.sh(orders, "echo works > new; cat new; cat $HIDDEN/token")
    assert ended.stdout == "works\n" and ended.returncode != 0, ended.stderr
