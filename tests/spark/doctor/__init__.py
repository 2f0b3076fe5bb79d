"""Tests of the readers of a history."""
