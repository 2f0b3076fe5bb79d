"""Tests of slackwater.client.producer."""
