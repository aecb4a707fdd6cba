"""Time, as the engine needs it. Handed in, so that a test can hold it still."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    def __init__(self) -> None:
        self._second = (0, "")
        """The last second that was written, and how: a busy daemon asks thousands of times in one."""

    def now(self) -> str:
        """RFC 3339, UTC, milliseconds. For people; never used for order."""
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        known, written = self._second
        if known != second:
            written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = (second, written)
        return f"{written}.{rest // 1_000_000:03d}Z"

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
