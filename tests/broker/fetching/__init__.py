"""Tests of fetch sessions and waiting fetches."""
