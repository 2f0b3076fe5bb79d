"""Builds the control records that end a transaction. The product only reads them."""

import struct

from slackwater.wire.records.record import ControlType, Record


def end_transaction_marker(control_type: ControlType, coordinator_epoch: int, timestamp: int) -> Record:
    """Return the control record that ends a transaction."""
    key, value = struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, coordinator_epoch)
    return Record(key, value, timestamp=timestamp)
