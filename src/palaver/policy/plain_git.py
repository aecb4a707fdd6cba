"""Whether a shell line does nothing but run git, in ways that run nothing else and change no settings of the repository.

For such a line alone the sandbox lets `.git` be written.
"""

from __future__ import annotations

from palaver.policy.command import Part, parse

_COMMANDS = frozenset(
    """add am apply branch checkout cherry-pick clean commit describe diff fetch gc log ls-files ls-tree maintenance merge merge-base mv
    notes pack-refs prune pull push range-diff rebase reflog reset restore rev-list rev-parse revert rm shortlog show show-ref stash
    status switch symbolic-ref tag update-index update-ref write-tree""".split()
)
"""Git's own: an alias cannot take their names. None that runs a program (`bisect`, `submodule`, `difftool`) or writes settings (`config`,
`remote`, `init`, `clone`)."""


def is_plain_git(line: str) -> bool:
    parsed = parse(line)
    return parsed.unparsed is None and bool(parsed.parts) and all(map(_is_git, parsed.parts))


def _is_git(part: Part) -> bool:
    words = part.words
    named = len(words) > 1 and words[0].text == "git" and words[0].literal and words[1].literal and words[1].text in _COMMANDS
    return named and not part.wrapper and part.obstacle is None


__all__ = ["is_plain_git"]
