"""Tests of clients on secured clusters."""
