"""The group coordinator inside the broker: requests, the offsets topic, events, log lines."""
