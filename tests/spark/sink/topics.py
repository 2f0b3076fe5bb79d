"""Topics of one test, and what is in them."""

import time
import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame

from slackwater import Admin, Consumer

DEADLINE_S = 60.0
Written = tuple[str, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Topics:
    """Topics of one test on a cluster."""

    def __init__(self, servers: str, config: Mapping[str, str] | None = None) -> None:
        self.servers = servers
        self.config = {"bootstrap.servers": servers} | dict(config or {})
        self.suffix = uuid.uuid4().hex[:8]

    def create(self, name: str, partitions: int = 3, **configs: str) -> str:
        """Create a topic and return its name."""
        topic = f"{name}-{self.suffix}"
        settings = {key.replace("_", "."): text for key, text in configs.items()}
        with Admin(self.config) as admin:
            admin.create_topic(topic, partitions, configs=settings)
        return topic

    def read(self, topic: str, *, isolation: str = "read_committed") -> list[Written]:
        """Return all records of a topic, by partition and offset."""
        settings = self.config | {"auto.offset.reset": "earliest", "isolation.level": isolation}
        with Consumer(settings) as consumer:
            partitions = consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            records = []
            deadline = time.monotonic() + DEADLINE_S
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                assert time.monotonic() < deadline
                records += consumer.poll(timeout=0.1)  # aborted records move the position and return nothing
        records.sort(key=lambda record: (record.partition, record.offset))
        return [(record.topic, record.partition, record.key, record.value, tuple(record.headers)) for record in records]

    def write(self, frame: DataFrame, sink: str, **options: str) -> None:
        """Write a DataFrame."""
        settings = {"kafka.bootstrap.servers": self.servers} | {
            name.replace("_", "."): text for name, text in options.items()
        }
        frame.write.format(sink).options(**settings).mode("append").save()
