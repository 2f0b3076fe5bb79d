"""A consumer's metrics, under the names that the Java client's have.

Rules kept here
- A metric is named by its name, its group and the tag `client-id`, as in Java.
- What the group member measures comes from the core; what concerns fetching is measured here.
- For Prometheus the names are those that the JMX exporter makes of Java's when it is given no rules:
  `kafka_consumer_<group>_<name>{client_id="..."}`, with underscores for whatever Prometheus does not allow. Release 0
  of the exporter keeps the `_total` at the end of a name, release 1 cuts it off: `cut_total` does the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

from slackwater.group.member.metrics import SampledStat

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import CollectorRegistry

FETCH_GROUP: Final = "consumer-fetch-manager-metrics"
DOMAIN: Final = "kafka.consumer"
TOTAL: Final = "_total"
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]+")


class MetricName(NamedTuple):
    """What a metric is called."""

    name: str
    group: str
    client_id: str

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that Java's has."""
        return {"client-id": self.client_id}

    @property
    def prometheus(self) -> str:
        """The name that the JMX exporter, release 0, makes of it."""
        return _NOT_ALLOWED.sub("_", f"{DOMAIN}_{self.group}_{self.name}")


class FetchMetrics:
    """What was fetched and given out; everything is called under the consumer's lock."""

    def __init__(self) -> None:
        self.latency = SampledStat()
        self.size = SampledStat()
        self.records = SampledStat()
        self.bytes_total = 0

    def fetched(self, took_ms: int, size: int, now_ms: int) -> None:
        """A fetch was answered."""
        self.latency.record(took_ms, now_ms)
        self.size.record(size, now_ms)
        self.bytes_total += size

    def given_out(self, records: int, now_ms: int) -> None:
        """The application has got these."""
        self.records.record(records, now_ms)

    def read(self, now_ms: int, lags: Iterable[int]) -> dict[str, float]:
        """Every metric by its name."""
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


Read = Callable[[], Mapping[MetricName, float]]


class PrometheusCollector:
    """Shows one or more consumers to prometheus_client; register it, or use `export`."""

    def __init__(self, *consumers: Read, cut_total: bool = False) -> None:
        self._consumers = consumers
        self._cut = TOTAL if cut_total else ""

    def describe(self) -> Iterator["Metric"]:
        """Nothing: names are not asked for before there is a consumer to ask."""
        return iter(())

    def collect(self) -> Iterator["Metric"]:
        """Every metric, one sample for each consumer."""
        from prometheus_client.metrics_core import Metric

        families: dict[str, Metric] = {}
        for read in self._consumers:
            for name, value in read().items():
                text = name.prometheus.removesuffix(self._cut)
                family = families.get(text)
                if family is None:
                    family = families[text] = Metric(text, f"{name.name} ({name.group})", "unknown")
                family.add_sample(text, {"client_id": name.client_id}, value)
        yield from families.values()


def export(
    *consumers: Read, registry: "CollectorRegistry | None" = None, cut_total: bool = False
) -> PrometheusCollector:
    """Register consumers' `metrics` with prometheus_client: `export(consumer.metrics)`.

    With `cut_total` the names are those of the JMX exporter's release 1, which have no `_total` at the end.
    """
    from prometheus_client import REGISTRY

    collector = PrometheusCollector(*consumers, cut_total=cut_total)
    (registry if registry is not None else REGISTRY).register(collector)
    return collector
