"""Tests of slackwater.client.consumer."""
