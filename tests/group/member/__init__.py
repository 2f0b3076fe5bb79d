"""Tests of the member's side."""
