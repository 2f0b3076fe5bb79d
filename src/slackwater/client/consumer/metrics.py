"""The consumer's metrics, under the Java client's names.

Invariants:
- A metric is identified by its name, its group and the tag `client-id`, as in Java.
- The group member measures itself (group.member); fetch metrics are measured here.
- Prometheus names are those of the JMX exporter without rules: `kafka_consumer_<group>_<name>{client_id="..."}`.
  Characters that Prometheus does not allow become underscores. Release 0 of the exporter keeps the suffix `_total`,
  release 1 drops it: `cut_total` does the same. Control characters of a client id are escaped.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

from slackwater.escaping import escape
from slackwater.group.member.metrics import SampledStat

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import CollectorRegistry

FETCH_GROUP: Final = "consumer-fetch-manager-metrics"
DOMAIN: Final = "kafka.consumer"
TOTAL: Final = "_total"
_DISALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]+")


class MetricName(NamedTuple):
    """The identity of a metric."""

    name: str
    group: str
    client_id: str

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of the Java metric."""
        return {"client-id": self.client_id}

    @property
    def prometheus(self) -> str:
        """The name in the JMX exporter, release 0."""
        return _DISALLOWED.sub("_", f"{DOMAIN}_{self.group}_{self.name}")


class FetchMetrics:
    """Fetch metrics. All methods are called with the consumer's lock held."""

    def __init__(self) -> None:
        self.latency = SampledStat()
        self.size = SampledStat()
        self.records = SampledStat()
        self.bytes_total = 0

    def on_fetch(self, latency_ms: int, size: int, now_ms: int) -> None:
        """Record a fetch response."""
        self.latency.record(latency_ms, now_ms)
        self.size.record(size, now_ms)
        self.bytes_total += size

    def on_records(self, count: int, now_ms: int) -> None:
        """Record records returned to the application."""
        self.records.record(count, now_ms)

    def read(self, now_ms: int, lags: Iterable[int]) -> dict[str, float]:
        """Return every metric by name."""
        return {
            "fetch-latency-avg": self.latency.avg(now_ms),
            "fetch-latency-max": self.latency.max(now_ms),
            "fetch-rate": self.latency.rate(now_ms),
            "fetch-total": self.latency.count,
            "fetch-size-avg": self.size.avg(now_ms),
            "fetch-size-max": self.size.max(now_ms),
            "bytes-consumed-total": self.bytes_total,
            "records-consumed-total": self.records.total,
            "records-lag-max": float(max(lags, default=nan)),
        }


ReadMetrics = Callable[[], Mapping[MetricName, float]]


class PrometheusCollector:
    """Exposes the metrics of consumers to prometheus_client; register it, or use `export`."""

    def __init__(self, *consumers: ReadMetrics, cut_total: bool = False) -> None:
        self._consumers = consumers
        self._suffix = TOTAL if cut_total else ""

    def describe(self) -> Iterator["Metric"]:
        """Describe no metrics: the names are known only when the metrics are read."""
        return iter(())

    def collect(self) -> Iterator["Metric"]:
        """Yield every metric with one sample per consumer."""
        from prometheus_client.metrics_core import Metric

        families: dict[str, Metric] = {}
        for read in self._consumers:
            for name, value in read().items():
                text = name.prometheus.removesuffix(self._suffix)
                family = families.get(text)
                if family is None:
                    family = families[text] = Metric(text, f"{name.name} ({name.group})", "unknown")
                family.add_sample(text, {"client_id": escape(name.client_id)}, value)
        yield from families.values()


def export(
    *consumers: ReadMetrics, registry: "CollectorRegistry | None" = None, cut_total: bool = False
) -> PrometheusCollector:
    """Register consumers' `metrics` with prometheus_client: `export(consumer.metrics)`.

    With `cut_total` the names are those of the JMX exporter's release 1, without the suffix `_total`.
    """
    from prometheus_client import REGISTRY

    collector = PrometheusCollector(*consumers, cut_total=cut_total)
    (registry if registry is not None else REGISTRY).register(collector)
    return collector
