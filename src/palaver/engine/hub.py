"""What clients can ask of the daemon, one method each. A method checks, makes ids and times, sends a command and shows the result.

Nothing is decided here: what a command makes happen stands in `core`, who may send it in `serve`. The verbs stand in `talking.py`,
`asking.py`, `changing.py`, `reading.py`,
`folders.py` and `job_control.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from palaver.engine.asking import Asking
from palaver.engine.changing import Changing
from palaver.engine.feed import Feed
from palaver.engine.folders import Folders
from palaver.engine.job_control import JobControl
from palaver.engine.reading import Reading
from palaver.engine.talking import Talking


@dataclass
class Hub(Talking, Asking, Reading, Folders, Changing, JobControl):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.sessions.feed = Feed(self._hello_all)
