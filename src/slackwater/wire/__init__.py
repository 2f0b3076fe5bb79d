"""Bytes: what Kafka puts on the wire and on disk, as small values and back.

Rules kept here
- Nothing in here knows the group core, the broker or the client.
- Reading raises `WireError` and nothing else, whatever the bytes are.

Requests and answers: `frames` cuts a connection's bytes, `envelope` reads and writes what is in a frame, `messages/`
has one file per API, `apis` the table of them. A message is a dataclass in the notation of `schema`; `codec` has code
generated from it for each version, by `reading` and `writing`, and `faults` says why something could not be read or
written.
"""
