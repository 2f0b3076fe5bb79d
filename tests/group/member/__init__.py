"""Tests of the group member."""
