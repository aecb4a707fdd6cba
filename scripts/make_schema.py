"""Write docs/schema/events.json, the JSON Schema of every event, from the structs; `--check` only says whether it is fresh."""

from __future__ import annotations

import json
import sys

from generated import settle
from palaver.wire.schema import events_document

if __name__ == "__main__":
    document = json.dumps(events_document(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"
    sys.exit(settle({"docs/schema/events.json": document}, check="--check" in sys.argv, refresh="make wire"))
