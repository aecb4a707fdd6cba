"""What every test may use."""

from __future__ import annotations

import signal

import pytest

pytest_plugins = ["golden", "plugin_may_skip"]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # a shell that starts us in the background has them ignore Ctrl-C, and what we start would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files as they come out, instead of comparing")
