"""Connections to a cluster, its metadata, and the network thread."""
