"""Tests of the behaviour catalogue; `proves` markers name the facts that a test proves."""
