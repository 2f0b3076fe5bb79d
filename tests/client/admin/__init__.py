"""Tests of slackwater.client.admin."""
