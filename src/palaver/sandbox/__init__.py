"""What holds a command that was let run: the variants of a sandbox, and the small program that starts a command in one.

`variants` is the daemon's side. `launch` and what it imports run in a process of their own before the command, know nothing of the daemon
and import the standard library's cheapest modules only: they are in the way of every command.
"""
