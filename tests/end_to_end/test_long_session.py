"""A session of 100 000 events: served, replayed and paged for what is shown, not for what has happened."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import CountingDisk
from palaver.log.folders import DataFolder
from palaver.wire.codec import encode_event
from palaver_daemon import Json, fold, page_of, palaver
from story import Story

pytestmark = pytest.mark.anyio
EVENTS = 100_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def long_story() -> Story:
    story = Story()
    story.created()
    while len(story.recorded) < EVENTS:
        ...
    return story
