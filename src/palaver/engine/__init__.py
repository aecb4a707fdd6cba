"""Makes the world match `due(state)`: the only place where a log grows and where work is started or ended."""
