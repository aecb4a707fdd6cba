"""Palaver: one process owns every conversation with every coding agent, and any client may join it."""

__version__ = "0.1.0"
