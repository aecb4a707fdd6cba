"""Starts one command in a sandbox and supervises it until it ends: `launch ORDERS -- COMMAND`.

The process that is started here stays outside, as the supervisor; what it forks gives up everything and becomes the command. With
bubblewrap that is one step further: it becomes bubblewrap, which runs this again as `enter`, inside. It ends as the command ended.
"""

from __future__ import annotations

import _socket
import os
import select
import signal
import struct
import sys

from palaver.sandbox import kernel
from palaver.sandbox.filter import program
from palaver.sandbox.orders import Orders, read
from palaver.sandbox.supervise import Supervisor

_TRIES = 127
_QUIET = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Sent to the whole group: the command decides about them, and is supervised meanwhile."""


def main() -> None:
    role, *words = sys.argv[2:]
    orders, command = read(words)
    if role == "enter":
        _become(orders, command, _socket.socket(fileno=int(os.environ.pop("PALAVER_LISTENER"))))
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        ours.close()
        _start(orders, command, theirs)
    theirs.close()
    for number in _QUIET:
        signal.signal(number, signal.SIG_IGN)
    kernel.give_up_privileges()
    _end_as(_supervised(orders, child, ours))


def _start(orders: Orders, command: list[str], listener: _socket.socket) -> None:
    """In the fork: becomes the command, or bubblewrap. Never returns."""
    try:
        if orders.floor == "bubblewrap":
            os.set_inheritable(listener.fileno(), True)
            os.environ["PALAVER_LISTENER"] = str(listener.fileno())
            os.execv(command[0], command)
        from palaver.sandbox import landlock

        os.chdir(orders.folder)
        kernel.give_up_privileges()
        landlock.restrict(orders.hidden, orders.network)
        _become(orders, command, listener)
    except OSError as error:
        os.write(2, f"The sandbox could not be set up: {error}\n".encode())
    finally:
        os._exit(_TRIES)


def _become(orders: Orders, command: list[str], listener: _socket.socket) -> None:
    """Filtered from here on: hand out the listener and run the command."""
    if orders.floor == "bubblewrap":
        os.chdir(orders.folder)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them
    asked = kernel.install(program(orders.floor, orders.network))
    listener.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", asked))])
    os.close(asked)
    listener.close()
    os.execv(command[0], command)


def _supervised(orders: Orders, child: int, listener: _socket.socket) -> int:
    """Until it ends; how."""
    _, ancillary, _, _ = listener.recvmsg(1, _socket.CMSG_SPACE(4))
    listener.close()
    if not ancillary:  # it ended before it was the command, and has said why
        return os.waitpid(child, 0)[1]
    asked: int = struct.unpack("i", ancillary[0][2][:4])[0]
    supervisor = Supervisor(orders, asked)
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(asked, select.POLLIN)
    while True:
        for descriptor, event in poll.poll():
            if descriptor == asked and event & select.POLLIN:
                supervisor.serve_one()
            elif descriptor == asked:
                poll.unregister(asked)  # nobody is left who could ask
            elif not any(one == asked and seen & select.POLLIN for one, seen in poll.poll(0)):
                return os.waitpid(child, 0)[1]


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else _TRIES)
