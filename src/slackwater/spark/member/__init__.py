"""A streaming query as a member of a consumer group, in the driver."""
