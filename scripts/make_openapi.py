"""Writes `docs/openapi.json` from the route table; with `--check` it says instead whether the file is fresh."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

import palaver
from palaver.serve.http import ROUTES
from palaver.serve.openapi import document

PATH = Path(__file__).parent.parent / "docs" / "openapi.json"


def main() -> int:
    text = msgspec.json.format(msgspec.json.encode(document(ROUTES, palaver.__version__)), indent=1) + b"\n"
    if "--check" not in sys.argv[1:]:
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_bytes(text)
        return 0
    if not PATH.exists() or PATH.read_bytes() != text:
        print(f"{PATH.name} is not what the route table says: run `make wire`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
