"""A streaming query as a member of a consumer group, on the driver."""
