"""What every test may use."""

from __future__ import annotations

import pytest

pytest_plugins = ["golden", "plugin_may_skip"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files as they come out, instead of comparing")
