"""What programs do with their words: which options run a program or write a file, which names say too little.

`obstacle`: does a command hold something that no allow rule may cover, such as `sort -o file`? `writes`: which words are files that it
changes? `prefix`: what of it may be remembered? A table errs on the side of asking: an option that merely looks like a dangerous one
counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Word:
    """One word of a command, with its quotes resolved."""

    text: str
    """The word itself; of one that is not literal, what stands before the first thing that is unknown."""
    literal: bool = True
    bounded: bool = False
    """Not literal, but it only becomes paths, and no option: `src/*.py`, `~/x`."""


ESCALATION = frozenset(("sudo", "sudoedit", "su", "doas", "pkexec", "run0", "runuser"))
_ESCALATION_IN_TEXT = re.compile(r"(?<![\w.-])(?:sudo|sudoedit|su|doas|pkexec|run0|runuser)(?![\w.-])")
_ASSIGNING = frozenset("declare export getopts let local mapfile read readarray readonly typeset unset".split())
_INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|lua|luajit|php|node|nodejs|tclsh|wish|julia|Rscript|osascript|fish|pwsh|irb|ts-node|tsx|deno|bun)[\d.]*"
)
_ASKS_ONLY = frozenset(("--version", "--help", "-V", "-v", "-h"))


_OTHER_NAMES = {
    "batcat": "bat",
    "bsdtar": "tar",
    "fdfind": "fd",
    "gfind": "find",
    "gmake": "make",
    "gsed": "sed",
    "gsort": "sort",
    "gtar": "tar",
    "gtimeout": "timeout",
    "gxargs": "xargs",
    "pip3": "pip",
    "vi": "vim",
}


def name_of(word: Word) -> str:
    """`/usr/bin/git` is `git`, `gmake` is `make`; nothing for a word that is not literal."""
    name = word.text.rpartition("/")[2] if word.literal else ""
    return _OTHER_NAMES.get(name, name)


def named_escalation(text: str) -> str | None:
    """The first word of a text that would name a program of other rights, for lines in which the programs are hidden."""
    found = _ESCALATION_IN_TEXT.search(text)
    return found[0] if found else None


# --- what no allow rule covers ------------------------------------------------------------------------------------------------

_ALWAYS_OF_GIT = """--config --config-env --exec --exec-path --ext-diff --extcmd --filters --git-dir --open-files-in-pager --output
    --output-directory --receive-pack --run --super-prefix --template --textconv --tool --upload-pack --work-tree"""
_RISKY_OPTIONS = {
    "bat": "--pager --diff",
    "cargo": "--config --manifest-path --out-dir --target-dir -C -Z",
    "curl": """--alt-svc --config --cookie-jar --create-dirs --dump-header --etag-save --hsts --libcurl --output --output-dir
        --remote-header-name --remote-name --remote-name-all --stderr --trace --trace-ascii --trace-config --write-out -D -J
        -K -O -c -o -w""",
    "date": "--set -s",
    "fd": "--exec --exec-batch -X -x",
    "file": "--compile -C -m",
    "find": "-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir",
    "git": _ALWAYS_OF_GIT,
    "git archive": "-o",
    "git clone": "-c -u",
    "git difftool": "-t -x -y",
    "git format-patch": "-o",
    "git grep": "-O",
    "git rebase": "-x",
    "go": """-C -asmflags -blockprofile -coverprofile -cpuprofile -exec -gccgoflags -ldflags -memprofile -modfile -mutexprofile -o
        -outputdir -overlay -pkgdir -toolexec -trace -vettool""",
    "hostname": "-F -b --file",
    "jq": "-L --library-path",
    "less": "--LOG-FILE --log-file -O -o -k --lesskey-file",
    "make": "--directory --eval --file --include-dir --makefile -C -E -I -f",
    "man": "--html --pager --preprocessor -H -P -p",
    "mypy": """--any-exprs-report --cache-dir --config-file --html-report --install-types --junit-xml --python-executable --txt-report
        --xml-report""",
    "npm": "--globalconfig --node-options --prefix --script-shell --userconfig -C",
    "pip": "--cache-dir --config-settings --global-option --log --log-file --prefix --python --report --root --target -t",
    "pnpm": "--config --dir --prefix --script-shell -C",
    "pytest": """--basetemp --confcutdir --cov-report --debug --junit-xml --junitxml --log-file --override-ini --pastebin --pdbcls
        --result-log --rootdir -c -o -p""",
    "rg": "--hostname-bin --pre --pre-glob",
    "rsync": """--backup-dir --log-file --only-write-batch --partial-dir --rsh --rsync-path --temp-dir --write-batch -T -e""",
    "ruff": "--cache-dir --config --output-file -o",
    "scp": "-D -F -S -o",
    "sftp": "-D -F -S -b -o",
    "shuf": "--output -o",
    "sort": "--compress-program --output --temporary-directory -T -o",
    "ssh": "-E -F -O -S -o -w",
    "tar": """--checkpoint-action --index-file --info-script --new-volume-script --rmt-command --rsh-command --to-command
        --use-compress-program -F -I""",
    "tree": "-o",
    "uv": "--config-file --directory --env-file --project --python",
    "wget": """--append-output --config --directory-prefix --execute --output-document --output-file --save-cookies --use-askpass
        --warc-file -O -P -a -e -o""",
    "yarn": "--cwd --script-shell --use-yarnrc",
    "yq": "--inplace -i",
    "zip": "--unzip-command -TT",
}


class _Options(NamedTuple):
    letters: frozenset[str]
    words: frozenset[str]
    """With one dash: `-exec`."""
    long: tuple[str, ...]


def _options(text: str) -> _Options:
    names = text.split()
    return _Options(
        frozenset(name[1] for name in names if len(name) == 2),
        frozenset(name for name in names if len(name) > 2 and name[1] != "-"),
        tuple(name for name in names if name.startswith("--")),
    )


_RISKY = {name: _options(text) for name, text in _RISKY_OPTIONS.items()}
_GIT_BEFORE = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "--version", "--help"))
_GIT_RUNS = frozenset("daemon difftool filter-branch gui hook instaweb mergetool send-email shell upload-pack receive-pack".split())
_GIT_KNOWN = frozenset(
    """add am apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean clone commit
        config count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc grep help
        init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff rebase reflog remote reset
        restore rev-list rev-parse revert rm shortlog show show-ref sparse-checkout stash status submodule switch symbolic-ref
        tag update-index var verify-commit version whatchanged worktree write-tree""".split()
)
_GIT_CONFIG_READS = frozenset(("--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"))
_SED_SCRIPT = re.compile(
    r"(?:(?:\d+|\$)(?:,(?:\d+|\$))?)?[pdq=]|s([/|#,])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpI0-9]*"
)
_AWK_ACTS = re.compile(r"system|getline|[|>@`]|include")


def obstacle(words: Sequence[Word]) -> str | None:
    """Why no allow rule may cover this command, whatever its prefix says."""
    for word in words:
        if not word.literal and not word.bounded:
            return "a word of it is only known when it runs"
    name = name_of(words[0])
    if not words[0].literal:
        return "its program is only known when it runs"
    if name in ESCALATION:
        return f"{name} runs with other rights"
    texts = [word.text for word in words]
    if name in _ASSIGNING or (name == "printf" and any(text.startswith("-v") for text in texts)):
        return f"{name} sets a variable"
    return _special(name, texts) or _risky_option(name, texts)


def _risky_option(name: str, texts: list[str]) -> str | None:
    for key in (name, f"{name} {texts[1]}" if len(texts) > 1 else ""):
        if options := _RISKY.get(key):
            for text in texts[1:]:
                if _is_risky(text, options):
                    return f"the option {text} of {name} runs a program or writes a file"
    return None


def _is_risky(text: str, options: _Options) -> bool:
    """Long options may be shortened, and letters may be joined: both count."""
    if not text.startswith("-") or len(text) < 2:
        return False
    name = text.partition("=")[0]
    if name.startswith("--"):
        return len(name) > 2 and (any(long.startswith(name) for long in options.long) or name[1:] in options.words)
    return name in options.words or not options.letters.isdisjoint(text[1:])


def _special(name: str, texts: list[str]) -> str | None:
    """What no list of options can say."""
    match name:
        case "git":
            return _git(texts)
        case "sed":
            return _sed(texts)
        case "awk" | "gawk" | "mawk" | "nawk":
            plain = len(texts) > 1 and not texts[1].startswith("-") and not _AWK_ACTS.search(texts[1])
            return None if plain else "this awk may run programs or write files"
        case "uniq" | "xxd" if len([text for text in texts[1:] if not text.startswith("-")]) > 1:
            return f"{name} writes its second file"
        case "make" if any("=" in text for text in texts[1:]):
            return "make gets a variable"
        case "tar" if len(texts) > 1 and not texts[1].startswith("-") and set("IF") & set(texts[1]):
            return "an option of tar runs a program"
        case "less" | "more" | "vim" | "nvim" | "ex" | "ed" if any(text.startswith("+") for text in texts[1:]):
            return f"{name} starts with a command"
        case "ssh" | "scp" | "rsync" if any("proxycommand" in text.lower() for text in texts):
            return f"{name} runs a proxy command"
        case "test" | "[" if any("$(" in text or "`" in text for text in texts):
            return "a subscript in it runs a program"
        case "palaver":
            return "palaver can answer for you"
        case _ if _INTERPRETER.fullmatch(name) and _reads_its_program(texts):
            return f"{name} reads its program from its input"
    return None


def _reads_its_program(texts: list[str]) -> bool:
    rest = texts[1:]
    if rest and all(text in _ASKS_ONLY for text in rest):
        return False
    return not any(not text.startswith("-") for text in rest) or rest[0] == "-"


def _git(texts: list[str]) -> str | None:
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        if texts[at] not in _GIT_BEFORE:
            return f"git {texts[at]} changes what git does"
        at += 1
    if at >= len(texts):
        return None
    command, rest = texts[at], texts[at + 1 :]
    if command not in _GIT_KNOWN or command in _GIT_RUNS:
        return f"git {command} may run another program"
    if (command, *rest[:1]) in (("bisect", "run"), ("submodule", "foreach")):
        return f"git {command} {rest[0]} runs a program"
    if command == "config" and not _GIT_CONFIG_READS.intersection(rest):
        return "git config changes what git runs"
    return _risky_option("git", ["git", command, *rest])


def _sed(texts: list[str]) -> str | None:
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        if not re.fullmatch(r"-[nErsuz]+|--quiet|--silent|--regexp-extended", texts[at]):
            return f"the option {texts[at]} of sed may write a file"
        at += 1
    if at < len(texts) and not _SED_SCRIPT.fullmatch(texts[at]):
        return "this sed script may run a program or write a file"
    # GNU sed takes options after its operands too.
    return next((f"the option {text} of sed may write a file" for text in texts[at + 1 :] if text.startswith("-")), None)


# --- files that a command changes ---------------------------------------------------------------------------------------------

_WRITERS = frozenset("chmod chown dd ed ex mkdir mv patch rm rmdir sed shred tee touch truncate unlink".split())
_COPIERS = frozenset("cp install ln rsync scp".split())
_UNPACKERS = frozenset("cpio tar unzip".split())


def writes(words: Sequence[Word]) -> list[str]:
    """Words that may name a file which this command changes, for the programs that are known to change files."""
    if not words:
        return []
    name, texts = name_of(words[0]), [word.text for word in words[1:]]
    if name == "sed" and not any(re.match(r"-[a-zA-Z]*i|--i", text) for text in texts):
        return []
    if name in _WRITERS:
        return [text.partition("=")[2] or text for text in texts]
    if name in _COPIERS:
        return [*texts[-1:], *_values("-t", "--target-directory", texts)]
    return _values("-C" if name == "tar" else "-d", "--directory", texts) if name in _UNPACKERS else []


def removes(words: Sequence[Word]) -> list[str]:
    """Words that may name a folder which this command changes with everything in it."""
    if not words:
        return []
    name, texts = name_of(words[0]), [word.text for word in words[1:]]
    match name:
        case "rm" | "rmdir" | "shred":
            return texts
        case "mv":
            return texts[:-1]
        case "chmod" | "chown" if any(re.match(r"-[a-zA-Z]*R|--rec", text) for text in texts):
            return texts
        case _:
            return []


def _values(letter: str, name: str, texts: list[str]) -> list[str]:
    """What an option was given, attached or as the next word."""
    found = []
    for text, following in zip(texts, [*texts[1:], ""], strict=False):
        if text.startswith(letter):
            found.append(text.removeprefix(letter) or following)
        elif text.startswith(name):
            found.append(text.partition("=")[2] or following)
    return found


# --- what is offered to be remembered -----------------------------------------------------------------------------------------

_PLAIN = frozenset(
    """[ basename cat cmp column comm cut date df diff dirname du echo egrep false fgrep file grep head id jq ls md5sum mkdir
        nl od pgrep printf ps pwd readlink realpath rg seq sha1sum sha256sum shasum sleep sort stat strings tail test touch tr
        tree true type uname uniq wc which whoami""".split()
)
_GIT_PLAIN = frozenset(
    """add blame cat-file check-ignore cherry commit count-objects describe diff fetch for-each-ref grep log ls-files ls-tree
        merge-base name-rev range-diff rev-list rev-parse shortlog show show-ref status""".split()
)


def prefix(words: Sequence[Word]) -> str | None:
    """The prefix that may be remembered for this command: its program, and git's subcommand.

    None where only the exact line may be: interpreters, wrappers, make, package runners, scripts, what deletes, and every program
    that this table does not know.
    """
    name = words[0].text if words else ""
    if name == "git":
        return f"git {words[1].text}" if len(words) > 1 and words[1].literal and words[1].text in _GIT_PLAIN else None
    return name if name in _PLAIN else None
