"""Fetch sessions and waiting fetches."""
