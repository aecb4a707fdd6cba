"""How much is measured: as much as a table takes, or as little as shows that the table is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    rounds: int = 7
    few_rounds: int = 3
    """Of what takes seconds."""
    deltas: int = 20_000
    turns_a_round: int = 20
    many_turns: int = 300
    settle_s: float = 3.0
    idle_s: float = 15.0
    fan_deltas: int = 2_000
    fan_readers: int = 100
    old_sessions: int = 10_000
    idle_sessions: int = 200
    memory_readers: int = 200
    messages: int = 4_000
    connections: int = 64
    appends: int = 20_000
    logs: int = 50
    reader_counts: tuple[int, ...] = (1, 10, 100, 1_000)
    deliveries: int = 20_000
    """Events times readers of one round of fan-out."""
    paced: int = 200
    """Deltas, at 50 a second."""
    answers: int = 300
    calls: int = 20
    """Of tools, in one turn."""
    history: int = 100_000
    page_messages: int = 5_000
    page_deltas: int = 2_000
    short_history: int = 100
    files: int = 10_000
    """Of a workspace."""
    patches: int = 50


TINY = Scale(
    rounds=1,
    few_rounds=1,
    deltas=50,
    turns_a_round=1,
    many_turns=15,
    settle_s=0.1,
    idle_s=0.2,
    fan_deltas=20,
    fan_readers=2,
    old_sessions=3,
    idle_sessions=2,
    memory_readers=2,
    messages=8,
    page_messages=8,
    page_deltas=40,
    connections=4,
    appends=128,
    logs=2,
    reader_counts=(1, 3),
    deliveries=30,
    paced=5,
    answers=5,
    calls=3,
    history=200,
    files=30,
    patches=3,
)
