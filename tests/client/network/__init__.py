"""Tests of slackwater.client.network."""
