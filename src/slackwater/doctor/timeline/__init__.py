"""A group's history: membership intervals, rebalances, episodes, lag."""
