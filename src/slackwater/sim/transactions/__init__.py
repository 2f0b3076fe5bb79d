"""Simulated transactions: the transaction coordinator with producers, partitions, a network and crashes."""
