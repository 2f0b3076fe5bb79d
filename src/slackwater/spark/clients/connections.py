"""Connections of this process to Kafka clusters, reused by all tasks.

Invariants:
- One network thread and one set of connections per distinct settings, created on first use. A Python worker runs many
  tasks, and connecting for each would cost more than a small task itself.
- A forked process starts without connections: threads and sockets do not survive a fork.
- At most MAX_CONNECTIONS clusters stay connected; the least recently used one is closed.
"""

import os
from collections.abc import Mapping
from typing import Final

from slackwater.client.config import cluster_config
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.thread import NetworkThread
from slackwater.spark.clients.settings import parse_kafka

MAX_CONNECTIONS: Final = 8
DEFAULT_CLIENT_ID: Final = "slackwater-spark"


class ClusterConnection:
    """A cluster and the network thread of its connections."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        values = parse_kafka(kafka)
        client_id = str(values["client.id"]) or DEFAULT_CLIENT_ID
        self.network = NetworkThread(client_id)
        self.cluster = self.network.run(Cluster.create(cluster_config(values, client_id)))

    def close(self) -> None:
        """Close the connections and stop the thread."""
        self.network.run(self.cluster.close())
        self.network.close()


_connections: dict[tuple[int, tuple[tuple[str, str], ...]], ClusterConnection] = {}


def get_connection(kafka: Mapping[str, str]) -> ClusterConnection:
    """Return the connection for these settings."""
    key = (os.getpid(), tuple(sorted(kafka.items())))
    connection = _connections.pop(key, None) or ClusterConnection(kafka)
    _connections[key] = connection
    connection.network.call_soon(connection.cluster.close_idle)
    for oldest in list(_connections)[:-MAX_CONNECTIONS]:
        unused = _connections.pop(oldest)
        if oldest[0] == os.getpid():
            unused.close()
    return connection


def close_connections() -> None:
    """Close all connections of this process."""
    while _connections:
        key, connection = _connections.popitem()
        if key[0] == os.getpid():
            connection.close()
