"""Who answers a turn: our own model loop, or a program that is an agent itself. Each translates its words into ours."""
