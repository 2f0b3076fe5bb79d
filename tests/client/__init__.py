"""Tests of the clients."""
