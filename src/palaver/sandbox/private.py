"""What no sandboxed command reads, beside Palaver's own folders: keys, sign-ins and what browsers keep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

_AT_HOME = """.ssh .gnupg .aws .kube .docker .netrc .git-credentials .config/git/credentials .config/gh .config/gcloud .azure
    .password-store .local/share/keyrings .mozilla .thunderbird .config/google-chrome .config/chromium
    .config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .var/app snap/firefox snap/chromium"""
_AT_HOME_ON_A_MAC = (
    *("Keychains", "Cookies", "Safari", "Mail", "Messages"),
    *(f"Application Support/{name}" for name in ("Google/Chrome", "Firefox", "Chromium", "BraveSoftware", "Microsoft Edge", "Arc")),
)
_ELSEWHERE = ("/run/user",)


def hidden_paths(own: Iterable[Path], home: str, workspace: str) -> tuple[str, ...]:
    """Those that are there, without links. What is Palaver's own is hidden in any case, the rest not where the person works in it."""
    names = [*_AT_HOME.split(), *(f"Library/{name}" for name in _AT_HOME_ON_A_MAC if sys.platform == "darwin")]
    private = {os.path.realpath(path) for path in (*(os.path.join(home, name) for name in names), *_ELSEWHERE) if os.path.exists(path)}
    kept = {path for path in private if not f"{workspace}/".startswith(f"{path}/")}
    return tuple(sorted(kept | {os.path.realpath(path) for path in own}))


__all__ = ["hidden_paths"]
