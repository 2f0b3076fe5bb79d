"""Scenarios of transactions in logs and groups; `SCENARIOS` has these and those of the other modules.

Invariants:
- Logs of a scenario are those of a topic with its name, which has no records of other scenarios.
- The topic keeps its records for ever, because their timestamps are old.
"""

from collections.abc import Sequence
from typing import Any, Final

from .records_in_transcripts import FIRST_MS, LARGE
from .scenarios import NO_DELAY, SCENARIOS, Script, scenario
from .transaction_scenarios import MARKERS_MS, STATE_PARTITIONS, TRANSACTIONS, Producer
from .transcripts import Fields

__all__ = ["SCENARIOS", "STATE_PARTITIONS"]

CREATED_MS: Final = 300
WAIT_MS: Final = 10_000
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
UNKNOWN: Final = 900_000_000_000
SEGMENT_BYTES: Final = 1 << 20


class Log:
    """The topic of a scenario, of which partition 0 is used if not said otherwise; every method adds a request."""

    def __init__(self, script: Script, *, partitions: int = 1, segment_bytes: int = 1 << 30) -> None:
        self.script = script
        self.name = script.group
        configs = {"retention.ms": "-1", "segment.ms": str(1 << 62), "segment.bytes": str(segment_bytes)}
        topic = {
            "name": self.name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        script.request("z", "CreateTopics", 4, topics=[topic], timeout_ms=5000)
        script.pause(CREATED_MS)

    def produce(
        self,
        producer: Producer | None,
        epoch: int,
        sequence: int,
        *values: str,
        v: int = 11,
        producer_id: object = None,
        transactional: bool = True,
        partition: int = 0,
    ) -> None:
        """Send one batch; without a producer it has no transactional id."""
        of = f"%{producer.on}" if producer is not None and producer_id is None else producer_id
        records = {
            "producer_id": -1 if of is None else of,
            "epoch": epoch,
            "sequence": sequence,
            "transactional": transactional,
            "values": list(values),
        }
        row = {"index": partition, "records": records}
        self.script.request(
            "z" if producer is None else producer.on,
            "Produce",
            v,
            transactional_id=producer.name if producer is not None and transactional else None,
            topic_data=[{"name": self.name, "partition_data": [row]}],
        )

    def fetch(self, offset: int, *, v: int = 12, committed: bool = True, on: str = "z", **more: Any) -> None:
        parks = more.get("max_wait_ms", 0) > 0
        self.script.request(
            on,
            "Fetch",
            v,
            parks=parks,
            isolation_level=int(committed),
            topics=[{"topic": self.name, "partitions": [{"partition": 0, "fetch_offset": offset}]}],
            **more,
        )

    def list_offsets(self, timestamp: int, *, v: int = 7, committed: bool = True) -> None:
        partitions: list[Fields] = [{"partition_index": 0, "timestamp": timestamp}]
        topics = [{"name": self.name, "partitions": partitions}]
        self.script.request("z", "ListOffsets", v, isolation_level=int(committed), topics=topics)

    def describe_producers(self, *partitions: int) -> None:
        topics = [{"name": self.name, "partition_indexes": list(partitions or (0,))}]
        self.script.request("z", "DescribeProducers", 0, topics=topics)

    def end(
        self,
        producer_id: object,
        epoch: int,
        *,
        commit: bool,
        v: int = 2,
        coordinator_epoch: int = 0,
        version: int = 1,
        partitions: Sequence[int] = (0,),
        topic: str | None = None,
    ) -> None:
        """Send a marker as a transaction coordinator does."""
        marker = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": commit,
            "topics": [{"name": self.name if topic is None else topic, "partition_indexes": list(partitions)}],
            "coordinator_epoch": coordinator_epoch,
        }
        if v >= 2:
            marker["transaction_version"] = version
        self.script.request("z", "WriteTxnMarkers", v, markers=[marker])
        self.script.pause(50)

    @property
    def of(self) -> tuple[str, list[int]]:
        """The partition for AddPartitionsToTxn."""
        return self.name, [0]


@scenario(TRANSACTIONS)
def transaction_log_one_producer(s: Script) -> None:
    """A committed and an aborted transaction, as both isolation levels read them (TX-60, TX-61, TX-68, TX-70)."""
    log, a = Log(s), Producer(s, "a")
    log.produce(None, -1, -1, "before", transactional=False)
    a.init()
    a.add(0, log.of)
    log.produce(a, 0, 0, "a0", "a1")
    log.produce(None, -1, -1, "between", transactional=False)
    for committed in (True, False):
        for offset in range(5):
            log.fetch(offset, committed=committed)
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, FIRST_MS, FIRST_MS + 1, FIRST_MS + 2):
            log.list_offsets(timestamp, committed=committed)
    log.describe_producers()
    a.end(0, commit=True)
    for committed in (True, False):
        for offset in (0, 2, 3, 4, 5, 6):
            log.fetch(offset, committed=committed)
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, FIRST_MS, FIRST_MS + 1):
            log.list_offsets(timestamp, committed=committed)
    log.describe_producers()
    a.add(0, log.of)
    log.produce(a, 0, 2, "a2")
    log.produce(a, 0, 3, "a3")
    log.fetch(5)
    log.describe_producers()
    a.end(0, commit=False)
    for committed in (True, False):
        for offset in (0, 4, 5, 6, 7, 8):
            log.fetch(offset, committed=committed)
    for version in (2, 3, 4, 5, 6, 7, 8, 9):
        log.list_offsets(LATEST, v=version)
    log.fetch(0, v=11)
    log.fetch(0, max_bytes=1)
    log.fetch(5, max_bytes=1)
    log.describe_producers()


@scenario(TRANSACTIONS)
def transaction_log_nested_producers(s: Script) -> None:
    """Overlapping transactions of three producers: last stable offset and aborted transactions (TX-60, TX-68)."""
    log = Log(s)
    a, b, c = (Producer(s, on, f"{s.group}/{on}") for on in "abc")
    for producer in (a, b, c):
        producer.init()
        producer.add(0, log.of)
    log.produce(a, 0, 0, "a0")
    log.produce(b, 0, 0, "b0")
    log.produce(c, 0, 0, "c0")
    log.fetch(0)
    log.describe_producers()
    b.end(0, commit=False)
    log.fetch(0)
    log.fetch(0, committed=False)
    log.describe_producers()
    log.produce(a, 0, 1, "a1")
    a.end(0, commit=False)
    log.fetch(0)
    log.fetch(1)
    log.list_offsets(LATEST)
    b.add(0, log.of)
    log.produce(b, 0, 1, "b1")
    c.end(0, commit=True)
    for offset in range(9):
        log.fetch(offset)
    log.list_offsets(LATEST)
    b.end(0, commit=False)
    for offset in range(9):
        log.fetch(offset)
    log.list_offsets(LATEST)
    log.describe_producers()


@scenario(TRANSACTIONS)
def transaction_log_version_2(s: Script) -> None:
    """Transactions of version 2: Produce adds the partition, each transaction has its own epoch (TX-71, TX-73)."""
    log, a = Log(s, partitions=2), Producer(s, "a")
    a.init()
    log.produce(a, 0, 0, "a0", v=12)
    log.describe_producers(0, 1)
    a.describe()
    a.end(0, commit=True, v=5)
    log.fetch(0)
    log.produce(a, 0, 1, "stale", v=12)
    log.produce(a, 0, 1, "stale", v=11)
    log.produce(a, 1, 0, "a1", v=12)
    log.produce(a, 1, 0, "repeated", v=12, partition=1)
    log.describe_producers(0, 1)
    a.end(1, commit=False, v=5)
    log.fetch(0)
    log.describe_producers(0, 1)
    log.produce(a, 2, 1, "gap", v=12)
    log.produce(a, 2, 0, "a2", v=12)
    log.produce(a, 2, 0, "a2", v=12)
    log.produce(a, 2, 5, "gap", v=12)
    a.end(2, commit=False, v=5)
    log.fetch(0)
    log.fetch(0, committed=False)


@scenario(TRANSACTIONS)
def transaction_log_refused_batches(s: Script) -> None:
    """Transactional batches that are not part of a transaction, or of another producer (TX-64, TX-73)."""
    log, a = Log(s), Producer(s, "a")
    a.init()
    for version in (9, 10, 11):
        log.produce(a, 0, 0, "not added", v=version)
    a.describe()
    for version in (11, 12):
        log.produce(a, 0, 0, "unknown producer", v=version, producer_id=UNKNOWN)
        log.produce(Producer(s, "a", f"{s.group}/unknown"), 0, 0, "unknown id", v=version)
        log.produce(a, 1, 0, "epoch of the future", v=version)
    log.produce(a, 0, 0, "added", v=12)
    log.produce(a, 0, 1, "not transactional", v=12, transactional=False)
    log.produce(a, 0, 7, "gap", v=12)
    a.describe()
    a.init()
    s.pause(MARKERS_MS)
    for version in (10, 11, 12):
        log.produce(a, 0, 1, "stale epoch", v=version)
    a.describe()
    log.fetch(0, committed=False)
    log.describe_producers()


@scenario(TRANSACTIONS)
def transaction_log_markers(s: Script) -> None:
    """WriteTxnMarkers: valid, and with a wrong producer, epoch, coordinator epoch or partition (TX-63, TX-67)."""
    log, a = Log(s), Producer(s, "a")
    a.init()
    a.add(0, log.of)
    log.produce(a, 0, 0, "a0")
    log.end("%a", 0, commit=True, v=1)
    log.fetch(0)
    log.describe_producers()
    log.end("%a", 0, commit=False, v=1)
    log.end("%a", 1, commit=False)
    log.end("%a", 0, commit=False)
    log.describe_producers()
    for producer_id in (UNKNOWN, UNKNOWN + 1):
        log.end(producer_id, 3, commit=True, coordinator_epoch=5)
        log.end(producer_id, 3, commit=True, coordinator_epoch=4)
        log.end(producer_id, 3, commit=False, coordinator_epoch=5)
        log.end(producer_id, 2, commit=True, coordinator_epoch=5)
        log.end(producer_id, 3, commit=True, coordinator_epoch=5, version=2)
        log.end(producer_id, 4, commit=True, coordinator_epoch=6, version=2)
        log.end(producer_id, 4, commit=True, coordinator_epoch=6, version=2)
        log.end(producer_id, 2, commit=True, coordinator_epoch=3, version=2)
    log.end(UNKNOWN, 4, commit=True, coordinator_epoch=6, partitions=(0, 1, 9))
    log.end(UNKNOWN, 4, commit=True, coordinator_epoch=6, topic="absent")
    log.end(UNKNOWN, 4, commit=True, coordinator_epoch=-1)
    s.request("z", "WriteTxnMarkers", 1, markers=[])
    log.describe_producers(0, 5)
    log.fetch(0, committed=False)


@scenario(TRANSACTIONS)
def transaction_log_waiting_fetches(s: Script) -> None:
    """Which fetches with read_committed wait, in one segment (TX-69)."""
    log, a = Log(s), Producer(s, "a")
    a.init()
    a.add(0, log.of)
    log.produce(None, -1, -1, "before", transactional=False)
    log.produce(a, 0, 0, "a0")
    log.produce(a, 0, 1, "a1")
    for on, offset in (("b", 0), ("c", 1), ("d", 2), ("e", 3), ("f", 4)):
        log.fetch(offset, on=on, max_wait_ms=WAIT_MS)
    log.fetch(1, on="g", max_wait_ms=WAIT_MS, min_bytes=0)
    log.fetch(2, on="h", max_wait_ms=WAIT_MS, committed=False)
    log.fetch(3, on="i", max_wait_ms=WAIT_MS, committed=False)
    s.pause(200)
    log.produce(None, -1, -1, "after", transactional=False)
    s.pause(200)
    a.end(0, commit=True)
    s.pause(300)


@scenario(TRANSACTIONS)
def transaction_log_waiting_fetches_across_segments(s: Script) -> None:
    """Which fetches with read_committed wait if the last stable offset is in an older segment (TX-69)."""
    log, a = Log(s, segment_bytes=SEGMENT_BYTES), Producer(s, "a")
    a.init()
    a.add(0, log.of)
    log.produce(a, 0, 0, "a0")
    for _ in range(4):
        log.produce(None, -1, -1, LARGE, transactional=False)
    for on, offset in (("b", 0), ("c", 1), ("d", 3), ("e", 4), ("f", 5), ("g", 6)):
        log.fetch(offset, on=on, max_wait_ms=WAIT_MS, max_bytes=1000)
    s.pause(300)
    a.end(0, commit=False)
    s.pause(300)


GROUPS: Final = TRANSACTIONS | NO_DELAY


def commit_offsets(
    producer: Producer, epoch: int, offset: int, *, v: int = 3, topic: str = "t", metadata: str = "", **more: Any
) -> None:
    """Add a TxnOffsetCommit request for partition 0 of a topic and the group of the scenario."""
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}]
    fields: Fields = {
        "transactional_id": producer.name,
        "group_id": producer.script.group,
        "producer_id": f"%{producer.on}",
        "producer_epoch": epoch,
        "topics": [{"name": topic, "partitions": partitions}],
    }
    producer.script.request(producer.on, "TxnOffsetCommit", v, **(fields | more))


def fetch_offsets(s: Script) -> None:
    """Add OffsetFetch requests for stable and for all offsets."""
    for stable in (True, False):
        s.fetch("y", [("t", 0), ("u", 0)], require_stable=stable, v=7)
        s.fetch("y", None, s.group, require_stable=stable)


@scenario(GROUPS)
def transaction_offsets_without_members(s: Script) -> None:
    """Offsets of a transaction: pending, aborted and committed (TX-74)."""
    a = Producer(s, "a")
    a.init()
    for version in (2, 3, 4):
        commit_offsets(a, 0, 5, v=version)
    fetch_offsets(s)
    s.commit("y", {("t", 0): 1})
    a.add_offsets(0, s.group)
    for version in (2, 3, 4):
        commit_offsets(a, 0, 5 + version, v=version)
    fetch_offsets(s)
    s.fetch("y", [("t", 0)], require_stable=True, v=8)
    a.end(0, commit=False)
    fetch_offsets(s)
    a.add_offsets(0, s.group)
    commit_offsets(a, 0, 20)
    commit_offsets(a, 0, 21, topic="u", metadata="12345678")
    commit_offsets(a, 0, 22, topic="u", metadata="123456789")
    commit_offsets(a, 0, 23, topic="absent")
    s.commit("y", {("t", 0): 2})
    fetch_offsets(s)
    a.end(0, commit=True)
    fetch_offsets(s)
    commit_offsets(a, 0, 30, v=5)
    fetch_offsets(s)
    a.describe()
    a.end(0, commit=True, v=5)
    fetch_offsets(s)
    for version in (4, 5):
        commit_offsets(a, 0, 31, v=version)
        commit_offsets(a, 9, 31, v=version)
        commit_offsets(a, 1, 31, v=version, producer_id=UNKNOWN)
        commit_offsets(a, 1, 31, v=version, transactional_id=f"{s.group}/unknown")
        commit_offsets(a, 1, 31, v=version, group_id="")
    fetch_offsets(s)


@scenario(GROUPS)
def transaction_offsets_of_members(s: Script) -> None:
    """Offsets of a transaction with a member and a generation, valid and fenced (TX-74)."""
    a = Producer(s, "a")
    a.init()
    a.add_offsets(0, s.group)
    for version in (2, 3, 4, 5):
        commit_offsets(a, 0, 1, v=version)
    for generation, member in ((1, ""), (1, "m"), (-1, "m")):
        for version in (3, 4, 5):
            commit_offsets(a, 0, 2, v=version, generation_id=generation, member_id=member)
    a.end(0, commit=False)
    s.join_dynamic("m")
    s.sync("m", 1, {"m": "M"})
    a.add_offsets(0, s.group)
    for version in (3, 4, 5):
        for generation, member in ((1, "$m"), (2, "$m"), (0, "$m"), (-1, "$m"), (1, "x"), (1, ""), (-1, "")):
            commit_offsets(a, 0, 3 + version, v=version, generation_id=generation, member_id=member)
        commit_offsets(a, 0, 9, v=version, generation_id=1, member_id="$m", group_instance_id="i")
        commit_offsets(a, 0, 9, v=version, generation_id=-1, group_instance_id="i")
    commit_offsets(a, 0, 10, v=2)
    fetch_offsets(s)
    a.end(0, commit=True)
    fetch_offsets(s)


@scenario(GROUPS)
def transaction_offsets_while_rebalancing(s: Script) -> None:
    """Offsets of a transaction in the states of a rebalance."""
    a = Producer(s, "a")
    a.init()
    a.add_offsets(0, s.group)
    s.join_dynamic("m")
    commit_offsets(a, 0, 1, generation_id=1, member_id="$m")
    commit_offsets(a, 0, 1, v=5, generation_id=1, member_id="$m")
    s.sync("m", 1, {"m": "M"})
    s.join_dynamic("n", parks=True)
    commit_offsets(a, 0, 2, generation_id=1, member_id="$m")
    commit_offsets(a, 0, 3, v=5, generation_id=1, member_id="$m")
    a.end(0, commit=True)
    fetch_offsets(s)


@scenario(GROUPS)
def transaction_offsets_and_deletion(s: Script) -> None:
    """DeleteGroups and OffsetDelete while offsets are pending."""
    a = Producer(s, "a")
    a.init()
    s.commit("y", {("t", 0): 1, ("u", 0): 1})
    a.add_offsets(0, s.group)
    commit_offsets(a, 0, 5)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u")]
    s.request("y", "OffsetDelete", 0, group_id=s.group, topics=topics)
    fetch_offsets(s)
    s.request("y", "DeleteGroups", 2, groups_names=[s.group])
    fetch_offsets(s)
    s.describe()
    a.end(0, commit=True)
    fetch_offsets(s)
    s.describe()
    s.list_groups()
