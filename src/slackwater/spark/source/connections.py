"""The connections of this process to its clusters, kept from task to task.

Rules kept here
- One network thread and one set of connections for the same settings, made when they are first asked for. A Python
  worker of Spark serves many tasks, and a connection made anew for each costs more than a small task itself.
- A forked process begins with none: threads do not come along with a fork, and sockets must not.
- Only a few clusters are kept; the one that was not used for longest is let go.
"""

import os
from collections.abc import Mapping
from typing import Final

from slackwater.client.config import CONSUMER_SETTINGS, cluster_config, parse_settings
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.thread import NetworkThread

MAX_CONNECTIONS: Final = 8
CLIENT_ID: Final = "slackwater-spark"


class ClusterConnection:
    """A cluster, and the thread its connections live on."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        values = parse_settings(kafka, CONSUMER_SETTINGS, ignored=lambda _name: None)
        client_id = str(values["client.id"]) or CLIENT_ID
        self.network = NetworkThread(client_id)
        self.cluster = self.network.run(Cluster.create(cluster_config(values, client_id)))

    def close(self) -> None:
        """Let go of everything."""
        self.network.run(self.cluster.close())
        self.network.close()


_links: dict[tuple[int, tuple[tuple[str, str], ...]], ClusterConnection] = {}


def get_connection(kafka: Mapping[str, str]) -> ClusterConnection:
    """The connections for these settings."""
    key = (os.getpid(), tuple(sorted(kafka.items())))
    found = _links.pop(key, None) or ClusterConnection(kafka)
    _links[key] = found
    found.network.call_soon(found.cluster.close_idle)
    for old in list(_links)[:-MAX_CONNECTIONS]:
        gone = _links.pop(old)
        if old[0] == os.getpid():
            gone.close()
    return found


def close_connections() -> None:
    """Let go of all clusters."""
    while _links:
        key, gone = _links.popitem()
        if key[0] == os.getpid():
            gone.close()
