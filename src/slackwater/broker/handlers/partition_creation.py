"""Creation of many partitions in steps, for CreateTopics and CreatePartitions.

Every partition has a directory and files, so thousands of them take seconds. A topic with more than `STEP` partitions
is created with the first ones, and the others are added in slices; other clients can see the topic grow.
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.slices import Sliced
from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import BrokerError, Error

STEP: Final = 20


def grow(broker: Broker, topic: Topic, partitions: int) -> Sliced[None]:
    """Add partitions up to this number; raises `BrokerError` if the topic is deleted in the meantime."""
    while len(topic.partitions) < partitions:
        broker.topics.add_partitions(topic, min(len(topic.partitions) + STEP, partitions))
        yield None
        if broker.topics.get(topic.name) is not topic:
            raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic.name}' was deleted.")
