"""Bytes: what Kafka puts on the wire and on disk, as small values and back.

Rules kept here
- Nothing in here knows the group core, the broker or the client.
- Reading raises `WireError` and nothing else, whatever the bytes are.
"""
