"""Time, as the engine needs it. Handed in, so that a test can hold it still."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    def now(self) -> str:
        """RFC 3339, UTC, milliseconds. For people; never used for order."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def at(self, seconds: float) -> str:
        """The same for a moment that many seconds from now."""
        moment = datetime.fromtimestamp(time.time() + seconds, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def until(self, moment: str) -> float:
        """Seconds from now; negative when it has passed."""
        return datetime.fromisoformat(moment).timestamp() - time.time()

    def ticks(self) -> float:
        """Seconds that only go forward."""
        return time.monotonic()


def milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))
