"""Tests of the handler files, one per API."""
