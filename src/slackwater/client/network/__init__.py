"""Connections to a cluster, its metadata, fetching, and the network thread."""
