"""Kafka's wire protocol and on-disk formats.

Invariants:
- This package imports neither the group core nor the broker nor the client.
- Decoding raises only `WireError`, whatever the bytes are.

`frames` splits the bytes of a connection, `request_response` decodes and encodes frames, `messages/` has one module per
API, `apis` is the table of APIs. A message is a dataclass in the notation of `schema`. `codec` provides the code that
`decoder_generator` and `encoder_generator` generate from it for each version. `decode_errors` explains why decoding or
encoding failed.
"""
