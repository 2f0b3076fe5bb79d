"""Tests of the bytes."""
