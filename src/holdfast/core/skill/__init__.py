"""Skills: where they come from, what an agent is told of them, and the copies of those behind URLs."""
