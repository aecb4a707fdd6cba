"""SECURITY 14, from inside: what a held command tries in vain, and what it can do all the same, for each variant of the sandbox.

A variant that is not there is asserted to be told as absent, with its reason: nothing is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import SECRET, World, is_absent

from palaver.sandbox.variants import VARIANTS, Variant


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


IN_VAIN = {
    "reads the token": "print(open(get('HIDDEN') + '/token').read())",
    "lists a hidden folder": "print(SECRET if os.listdir(get('HIDDEN')) else '')",
    "writes outside": "open(get('OUT') + '/new', 'w').write('x')",
    "changes a file outside": "open(get('OUT') + '/file', 'r+').write('x')",
    "cuts a file outside": "os.truncate(get('OUT') + '/file', 0)",
    "removes a file outside": "os.unlink(get('OUT') + '/file')",
    "makes a folder outside": "os.mkdir(get('OUT') + '/new')",
    "changes a mode outside": "os.chmod(get('OUT') + '/file', 0o777)",
    "changes a mode outside by a descriptor": "os.fchmod(os.open(get('OUT') + '/file', os.O_RDONLY), 0o777)",
    "changes a time outside": "os.utime(get('OUT') + '/file', (1, 1))",
    "changes a time outside by a descriptor": "os.utime(os.open(get('OUT') + '/file', os.O_RDONLY), (1, 1))",
    "sets an attribute outside": "os.setxattr(get('OUT') + '/file', 'user.mine', b'x')",
    "links a file from outside and writes it": "os.link(get('OUT') + '/file', 'mine'); open('mine', 'w').write('x')",
    "moves a file out": "os.rename('file', get('OUT') + '/file')",
    "goes out through a link": "os.symlink(get('OUT'), 'way'); open('way/file', 'w').write('x')",
    "goes out through dots": "open(os.path.relpath(get('OUT')) + '/file', 'w').write('x')",
    "writes a hook": "open('.git/hooks/post-commit', 'w').write('x')",
    "writes git's settings": "open('.git/config', 'a').write('x')",
    "writes git's settings through a link": "os.symlink('.git', 'way'); open('way/config', 'a').write('x')",
    "writes git's settings through a hard link": "os.link('.git/config', 'mine'); open('mine', 'a').write('x')",
    "moves git away": "os.rename('.git', 'mine'); open('mine/config', 'a').write('x')",
    "makes git's settings runnable": "os.chmod('.git/config', 0o777)",
    "removes git's settings": "os.unlink('.git/config')",
    "changes a guarded file": "open('Makefile', 'a').write('x')",
    "replaces a guarded file": "open('mine', 'w').write('x'); os.replace('mine', 'Makefile')",
    "makes a guarded folder that was not there": "os.mkdir('.vscode'); print(SECRET)",
    "makes a guarded file below": "os.mkdir('below'); open('below/AGENTS.md', 'w'); print(SECRET)",
    "writes a workflow": "open('.github/workflows/new.yml', 'w').write('x')",
    "moves workflows away to change them": "os.rename('.github', 'x'); open('x/workflows/new.yml', 'w'); os.rename('x', '.github')",
    "sends over UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', int(get('UDP'))))",
    "connects over TCP": "socket.create_connection(('127.0.0.1', int(get('TCP'))))",
    "connects to a Unix socket by its path": "socket.socket(socket.AF_UNIX).connect(get('OUT') + '/stream')",
    "sends to a Unix socket by its path": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', get('OUT') + '/datagrams')",
    "sends to one from a pair": "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', get('OUT') + '/datagrams')",
    "connects one of a pair": "socket.socketpair()[0].connect(get('OUT') + '/stream')",
    "connects to an abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0' + get('ABSTRACT'))",
    "kills another process": "os.kill(int(get('OTHER')), 9)",
    "kills its group": "os.killpg(os.getpgid(int(get('OTHER'))), 9)",
    "reads another's environment": "print(open('/proc/' + get('OTHER') + '/environ').read())",
    "reads another's memory": "open('/proc/' + get('OTHER') + '/mem', 'rb'); print(SECRET)",
    "limits another process": "import resource; resource.prlimit(int(get('OTHER')), resource.RLIMIT_CPU, (0, 0))",
    "traces another process": "import ctypes; print(SECRET if ctypes.CDLL(None).ptrace(16, int(get('OTHER')), 0, 0) == 0 else '')",
    "makes a namespace": "import ctypes; print(SECRET if ctypes.CDLL(None).unshare(0x10020000) == 0 else '')",
    "mounts over it": "import ctypes; print(SECRET if ctypes.CDLL(None).mount(b'/tmp', b'/tmp', None, 4096, None) == 0 else '')",
    "goes around by a ring": "import ctypes as c; print(SECRET if c.CDLL(None).syscall(425, 8, c.create_string_buffer(120)) >= 0 else '')",
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("attempt", IN_VAIN)
def test_a_held_command_tries_in_vain(world: World, variant: Variant, attempt: str) -> None:
    if is_absent(variant):
        return
    before = world.look()
    said = world.python(world.orders(variant, network=False), f"SECRET = {SECRET!r}\n{IN_VAIN[attempt]}")
    assert SECRET not in said.stdout
    assert world.look() == before
    assert world.heard() == []
    assert world.other.poll() is None


UNTRIED = frozenset(
    (
        *("connects one of a pair", "sends to one from a pair", "makes a namespace", "mounts over it"),
        *("sets an attribute outside", "reads another's memory", "traces another process", "goes around by a ring"),
    )
)
"""What fails without a sandbox as well, on some machines, or is not to be tried on one that is used."""


@pytest.mark.parametrize("attempt", [name for name in IN_VAIN if name not in UNTRIED])
def test_without_a_sandbox_the_attempt_gets_through(world: World, attempt: str) -> None:
    """So that an attempt that fails by a mistake of its own does not count as held."""
    before = world.look()
    script = f"import os, socket, sys\nget = os.environ.get\nSECRET = {SECRET!r}\n{IN_VAIN[attempt]}"
    command, env = [sys.executable, "-I", "-c", script], {"PATH": os.environ["PATH"], **world.names}
    said = subprocess.run(command, cwd=world.work, env=env, capture_output=True, text=True, timeout=30, check=False)
    effects = (SECRET in said.stdout, world.look() != before, world.heard() != [])
    assert any(effects) or said.returncode == 0, said.stderr


NONSENSE = """
import ctypes, random
numbers = [NUMBERS]
random.seed(SEED)
libc = ctypes.CDLL(None)
words = (b"", b"x", b".", b"..", b"/", b"a/../..", b"x" * 4095, b"\\xff/\\xfe", b"/proc/self/fd/1")
texts = [ctypes.create_string_buffer(word) for word in words]
odd = [0, 1, -1, -100, 2**31, 2**32 - 1, 2**63 - 1, 4096, 0o100644, 0x4000, 0x1000, 7]
for _ in range(1500):
    given = [random.choice([random.choice(odd), ctypes.addressof(random.choice(texts)), random.getrandbits(64)]) for _ in range(5)]
    libc.syscall(ctypes.c_long(random.choice(numbers)), *[ctypes.c_ulong(one & (2**64 - 1)) for one in given])
open(get("TMPDIR") + "/alive", "w").write("yes")  # its own folder may be closed to it by now
"""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_calls_that_mean_nothing_harm_neither_the_supervisor_nor_anybody_else(world: World, variant: Variant, seed: int) -> None:
    if is_absent(variant):
        return
    from palaver.sandbox.filter import ASKED  # of Linux alone
    from palaver.sandbox.kernel import NUMBERS

    before = world.look()
    numbers = ", ".join(str(NUMBERS[name]) for name in (*ASKED, "openat") if name in NUMBERS)
    said = world.python(world.orders(variant), NONSENSE.replace("NUMBERS", numbers).replace("SEED", str(seed)))
    assert said.returncode == 0 and (world.temp / "alive").read_text() == "yes", said.stderr
    assert world.look() == before


RACE = """
import threading
os.mkdir("way"); os.symlink(get("OUT"), "link"); os.mkdir("in"); os.symlink(get("OUT") + "/file", "in/other")
open("in/file", "w").close()
over = threading.Event()
def swap():
    while not over.is_set():
        for one, other in (("way", "link"), ("in/file", "in/other")):
            os.rename(one, "spare"); os.rename(other, one); os.rename("spare", other)
swapping = threading.Thread(target=swap); swapping.start()
writes = (lambda name: open(name, "w").write("x"), lambda name: os.chmod(name, 0o777), lambda name: os.truncate(name, 0), os.utime)
for _ in range(100):
    for name in ("way/file", "in/file", "link/file"):
        for change in writes:
            try: change(name)
            except OSError: pass
over.set(); swapping.join()
"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_link_that_is_swapped_in_while_the_supervisor_looks_leads_nothing_out(world: World, variant: Variant) -> None:
    if is_absent(variant):
        return
    before = world.look()
    said = world.python(world.orders(variant), RACE)
    assert said.returncode == 0, said.stderr
    assert world.look() == before
