"""Turns settings into the configuration of the network layer."""

from collections.abc import Mapping

from slackwater.client.config.security import TOKEN_PROVIDER, connection_security
from slackwater.client.network.cluster import ClusterConfig, parse_bootstrap
from slackwater.settings import Value


def int_value(values: Mapping[str, Value], name: str) -> int:
    """Return an integer setting."""
    value = values[name]
    assert isinstance(value, int)
    return value


def cluster_config(
    values: Mapping[str, Value], client_id: str, given: Mapping[str, object] | None = None
) -> ClusterConfig:
    """Return the configuration of the network layer; `given` are the settings as the application gave them."""
    provider = (given or {}).get(TOKEN_PROVIDER)
    servers = values["bootstrap.servers"]
    assert isinstance(servers, tuple)
    return ClusterConfig(
        bootstrap_servers=parse_bootstrap(servers),
        client_id=client_id,
        request_timeout_ms=int_value(values, "request.timeout.ms"),
        default_api_timeout_ms=int_value(values, "default.api.timeout.ms"),
        socket_connection_setup_timeout_ms=int_value(values, "socket.connection.setup.timeout.ms"),
        reconnect_backoff_ms=int_value(values, "reconnect.backoff.ms"),
        reconnect_backoff_max_ms=int_value(values, "reconnect.backoff.max.ms"),
        retry_backoff_ms=int_value(values, "retry.backoff.ms"),
        retry_backoff_max_ms=int_value(values, "retry.backoff.max.ms"),
        metadata_max_age_ms=int_value(values, "metadata.max.age.ms"),
        connections_max_idle_ms=int_value(values, "connections.max.idle.ms"),
        security=connection_security(values, provider if callable(provider) else None),
    )
