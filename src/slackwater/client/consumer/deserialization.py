"""Applies key.deserializer and value.deserializer to records.

Invariants:
- A deserializer gets bytes; a key or value of None stays None.
- An error names the record. The record itself keeps its bytes, so that it can become a dead letter.
"""

from collections.abc import Callable

from slackwater.client.config.functions import DeserializeFunction
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import SlackwaterError

Deserialize = Callable[[ConsumerRecord], ConsumerRecord]


class DeserializationError(SlackwaterError):
    """A deserializer failed; `record` has the bytes of key and value, `__cause__` is the error."""

    def __init__(self, record: ConsumerRecord, field: str, error: Exception) -> None:
        self.record = record
        super().__init__(
            f"The {field} of {record.topic_partition}, offset {record.offset}, cannot be deserialized: {error!r}. To "
            f"skip the record, seek to offset {record.offset + 1}, or pass a dead_letter_topic to run()."
        )


def make_deserialize(key: DeserializeFunction | None, value: DeserializeFunction | None) -> Deserialize | None:
    """Return a function that deserializes a record; None if there is nothing to do."""
    if key is None and value is None:
        return None

    def deserialize(record: ConsumerRecord) -> ConsumerRecord:
        return record._replace(
            key=_apply(key, record.key, record, "key"), value=_apply(value, record.value, record, "value")
        )

    return deserialize


def _apply(function: DeserializeFunction | None, data: bytes | None, record: ConsumerRecord, field: str) -> object:
    if function is None or data is None:
        return data
    try:
        return function(data)
    except Exception as error:
        raise DeserializationError(record, field, error) from error
