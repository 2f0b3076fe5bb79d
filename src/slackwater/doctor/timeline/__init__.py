"""The history of one group: membership intervals, client timelines, rebalances, lag."""
