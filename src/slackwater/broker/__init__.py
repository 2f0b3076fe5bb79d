"""The broker: the shell that carries out what the group core decides, for any Kafka client.

Rules kept here
- What differs between versions of an API is settled in that API's file under `handlers/`; the core knows no versions.
- What the core stores as records, this package stores as Kafka's bytes.
"""
