"""What one sandboxed command may touch, as the daemon tells its launcher: words on a command line, so that `ps` shows what holds.

Imported by both sides, so it imports nothing that takes time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Orders:
    """All paths are absolute and without links."""

    def __init__(
        self,
        floor: str,
        work: str,
        temp: str,
        folder: str,
        hidden: Iterable[str] = (),
        names: Iterable[str] = (),
        guarded: Iterable[str] = (),
        git: Iterable[str] = (),
        network: bool = False,
    ) -> None:
        self.floor = floor
        """`landlock` or `bubblewrap`: what makes everything read-only that is not named here."""
        self.work = work
        """The workspace: writable but for what is guarded."""
        self.temp = temp
        """A folder of its own, writable as a whole."""
        self.folder = folder
        """Where the command starts."""
        self.hidden = tuple(hidden)
        """Neither read nor listed."""
        self.names = tuple(names)
        """Guarded wherever they stand in the workspace; `a/b` is a `b` right below an `a`. Lower case."""
        self.guarded = tuple(guarded)
        """More guarded paths."""
        self.git = tuple(git)
        """Git folders that may be written but for their settings and hooks; none: `.git` is closed."""
        self.network = network

    def words(self) -> list[str]:
        """For a command line."""
        many = [("hidden", self.hidden), ("names", self.names), ("guarded", self.guarded), ("git", self.git)]
        one = [self.floor, self.work, self.temp, self.folder, "net" if self.network else "no-net"]
        return [*one, *(f"{key}={value}" for key, values in many for value in values), "--"]


def read(words: list[str]) -> tuple[Orders, list[str]]:
    """The orders and the command behind them."""
    end = words.index("--")
    floor, work, temp, folder, network = words[:5]

    def of(key: str) -> Iterator[str]:
        return (word[len(key) + 1 :] for word in words[5:end] if word.startswith(f"{key}="))

    orders = Orders(floor, work, temp, folder, of("hidden"), of("names"), of("guarded"), of("git"), network == "net")
    return orders, words[end + 1 :]
