"""Scenarios of transactions; `SCENARIOS` has these and those of `scenarios.py`.

Invariants:
- Transactional ids are the name of the scenario, or `<name>/…`.
- Kafka writes markers after its response: `end` waits for them.
"""

from typing import Any, Final

from .scenarios import SCENARIOS, Script, scenario
from .transcripts import Fields

__all__ = ["SCENARIOS", "STATE_PARTITIONS"]

STATE_PARTITIONS: Final = "transaction.state.log.num.partitions"
CHECK_MS: Final = 100
TRANSACTIONS: Final = {
    STATE_PARTITIONS: 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": CHECK_MS,
}
MARKERS_MS: Final = 300
TIMEOUT_MS: Final = 30_000


class Producer:
    """One client with a transactional id; every method adds a request."""

    def __init__(self, script: Script, on: str, name: str | None = None) -> None:
        self.script = script
        self.on = on
        self.name = script.group if name is None else name

    def init(self, producer_id: object = -1, epoch: int = -1, *, v: int = 5, timeout_ms: int = TIMEOUT_MS) -> None:
        fields: Fields = {"transactional_id": self.name, "transaction_timeout_ms": timeout_ms}
        if v >= 3:
            fields |= {"producer_id": producer_id, "producer_epoch": epoch}
        self.script.request(self.on, "InitProducerId", v, **fields)

    def add(
        self, epoch: int, *topics: tuple[str, list[int]], v: int = 3, producer_id: object = None, verify: bool = False
    ) -> None:
        of = f"%{self.on}" if producer_id is None else producer_id
        rows = [{"name": name, "partitions": partitions} for name, partitions in topics]
        if v >= 4:
            transaction = {
                "transactional_id": self.name,
                "producer_id": of,
                "producer_epoch": epoch,
                "verify_only": verify,
                "topics": rows,
            }
            self.script.request(self.on, "AddPartitionsToTxn", v, transactions=[transaction])
            return
        self.script.request(
            self.on,
            "AddPartitionsToTxn",
            v,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=of,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=rows,
        )

    def add_offsets(self, epoch: int, group: str, *, v: int = 3) -> None:
        self._request("AddOffsetsToTxn", v, epoch, group_id=group)

    def end(self, epoch: int, *, commit: bool, v: int = 3, producer_id: object = None) -> None:
        self._request("EndTxn", v, epoch, producer_id, committed=commit)
        self.script.pause(MARKERS_MS)

    def describe(self) -> None:
        self.script.request(self.on, "DescribeTransactions", 0, transactional_ids=[self.name])

    def _request(self, api: str, v: int, epoch: int, producer_id: object = None, **fields: Any) -> None:
        of = f"%{self.on}" if producer_id is None else producer_id
        self.script.request(self.on, api, v, transactional_id=self.name, producer_id=of, producer_epoch=epoch, **fields)


T0: Final = ("t", [0])
T1: Final = ("t", [1])
U0: Final = ("u", [0])


@scenario(TRANSACTIONS)
def transaction_from_begin_to_end(s: Script) -> None:
    """Each state of a transaction, described (TX-20, TX-21, TX-30, TX-36, TX-44, TX-49)."""
    a = Producer(s, "a")
    a.describe()
    a.init()
    a.describe()
    a.add(0, ("t", [0, 2]), U0)
    a.describe()
    a.add(0, T0)
    a.end(0, commit=True)
    a.describe()
    a.add(0, T1)
    a.describe()
    a.end(0, commit=False)
    a.describe()
    a.init()
    a.describe()


@scenario(TRANSACTIONS)
def transaction_init_versions(s: Script) -> None:
    """InitProducerId in every version, and its checks (TX-21, TX-22, TX-28)."""
    a = Producer(s, "a")
    for version in range(6):
        a.init(v=version)
    for timeout_ms in (0, -1, 900_001):
        a.init(timeout_ms=timeout_ms)
    a.init(900_000_000_000, -1)
    a.init(-1, 4)
    Producer(s, "a", "").init()
    a.describe()


@scenario(TRANSACTIONS)
def transaction_continuing_producer(s: Script) -> None:
    """InitProducerId with the producer's id and epoch (TX-23)."""
    a = Producer(s, "a")
    a.init()
    a.init("%a", 0)
    a.init("%a", 0)
    a.init("%a", 1)
    a.init("%a", 0)
    a.init("%a", 0, v=3)
    a.init(900_000_000_000, 2)
    a.add(2, T0)
    a.init("%a", 2)
    s.pause(MARKERS_MS)
    a.init("%a", 2)
    a.init("%a", 3)
    b = Producer(s, "b", f"{s.group}/new")
    b.init(900_000_000_000, 7)


@scenario(TRANSACTIONS)
def transaction_fenced_producer(s: Script) -> None:
    """A second producer fences the first one, in every version (TX-21, TX-27)."""
    a, b = Producer(s, "a"), Producer(s, "b")
    a.init()
    b.init()
    for version in (0, 1, 2, 3):
        a.add(0, T0, v=version)
        a.add_offsets(0, s.group, v=version)
        a.end(0, commit=True, v=version)
    for version in (4, 5):
        a.end(0, commit=True, v=version)
    a.add_offsets(0, s.group, v=4)
    a.init("%a", 0, v=3)
    a.init("%a", 0, v=4)
    b.add(1, T0)
    b.end(1, commit=True)
    b.describe()


@scenario(TRANSACTIONS)
def transaction_init_when_open(s: Script) -> None:
    """InitProducerId aborts an open transaction (TX-25)."""
    a, b = Producer(s, "a"), Producer(s, "b")
    a.init()
    a.add(0, T0, U0)
    b.init()
    s.pause(MARKERS_MS)
    b.describe()
    a.add(0, T0)
    a.end(0, commit=True)
    a.end(0, commit=False, v=5)
    b.init()
    b.describe()


@scenario(TRANSACTIONS)
def transaction_ends_of_version_1(s: Script) -> None:
    """EndTxn v3 in every state of rest, and its checks (TX-38, TX-39, TX-59)."""
    a = Producer(s, "a")
    Producer(s, "a", f"{s.group}/unknown").end(0, commit=True, producer_id=5)
    Producer(s, "a", "").end(0, commit=True, producer_id=5)
    a.init()
    for commit in (True, False):
        a.end(0, commit=commit)
        for again in (True, False):
            a.add(0, T0)
            a.end(0, commit=commit)
            a.end(0, commit=commit)
            a.end(0, commit=again)
            a.end(0, commit=not again)
    a.end(1, commit=True)
    a.end(0, commit=True, producer_id=900_000_000_000)
    a.end(1, commit=True, producer_id=900_000_000_000)


@scenario(TRANSACTIONS)
def transaction_ends_of_version_2(s: Script) -> None:
    """EndTxn v5: an epoch for each transaction, and requests that are repeated (TX-40, TX-41, TX-42)."""
    a = Producer(s, "a")
    Producer(s, "a", f"{s.group}/unknown").end(0, commit=True, v=5, producer_id=5)
    Producer(s, "a", "").end(0, commit=True, v=5, producer_id=5)
    a.init()
    a.end(0, commit=True, v=5)
    a.end(0, commit=False, v=5)
    a.describe()
    epoch = 1
    for commit in (True, False):
        a.add(epoch, T0, v=4)
        a.describe()
        a.end(epoch, commit=commit, v=5)
        a.describe()
        a.end(epoch, commit=commit, v=5)
        a.end(epoch, commit=not commit, v=5)
        a.end(epoch + 1, commit=True, v=5)
        a.end(epoch - 1, commit=commit, v=5)
        a.end(epoch + 2, commit=commit, v=5)
        a.end(epoch + 1, commit=False, v=5)
        a.describe()
        epoch += 2
    a.end(epoch, commit=True, v=5, producer_id=900_000_000_000)
    a.init()
    a.end(epoch, commit=False, v=5)
    a.add(epoch + 1, T0, v=4)
    a.end(epoch, commit=False, v=5)


@scenario(TRANSACTIONS)
def transaction_add_partitions(s: Script) -> None:
    """AddPartitionsToTxn: its checks, and those for brokers (TX-31, TX-33, TX-34, TX-59)."""
    a = Producer(s, "a")
    Producer(s, "a", f"{s.group}/unknown").add(0, T0, producer_id=5)
    Producer(s, "a", "").add(0, T0, producer_id=5)
    a.init()
    a.add(1, T0)
    a.add(0, T0, producer_id=900_000_000_000)
    a.add(1, T0, producer_id=900_000_000_000)
    a.add(0, T0, ("t", [9]), ("absent", [0]))
    a.add(0, T0, ("__consumer_offsets", [0]))
    a.add(0)
    a.describe()
    for version in (4, 5):
        a.add(0, T0, v=version, verify=True)
        a.add(0, T0, v=version)
        a.add(0, T0, T1, v=version, verify=True)
        a.add(1, T0, v=version, verify=True)
        a.add(0, T0, v=version, verify=True, producer_id=900_000_000_000)
        a.add(0, T0, ("absent", [0]), v=version, verify=True)
        a.add(0, T0, ("absent", [0]), v=version)
        a.add(1, U0, v=version)
        Producer(s, "a", "").add(0, T0, v=version, verify=True, producer_id=5)
    a.describe()


@scenario(TRANSACTIONS)
def transaction_add_offsets(s: Script) -> None:
    """AddOffsetsToTxn adds the group's partition (TX-35)."""
    a = Producer(s, "a")
    a.init()
    Producer(s, "a", f"{s.group}/unknown").add_offsets(0, s.group)
    a.add_offsets(1, s.group)
    a.add_offsets(0, s.group)
    a.describe()
    a.end(0, commit=True)
    a.describe()


@scenario(TRANSACTIONS)
def transaction_timeout(s: Script) -> None:
    """A transaction that is open for too long is aborted, and its producer fenced (TX-45)."""
    a = Producer(s, "a")
    a.init(timeout_ms=1_000)
    a.add(0, T0)
    a.describe()
    s.pause(500)
    a.describe()
    s.pause(1_000)
    a.describe()
    a.add(0, T0)
    a.end(0, commit=True)
    a.end(0, commit=True, v=5)
    a.end(0, commit=False, v=5)
    a.init("%a", 0)
    a.init()
    s.pause(2_000)
    a.describe()


@scenario(TRANSACTIONS)
def transaction_list(s: Script) -> None:
    """ListTransactions and its filters (TX-50)."""
    for on, name in (("a", "one"), ("b", "two"), ("c", "three")):
        Producer(s, on, f"{s.group}/{name}").init()
    Producer(s, "b", f"{s.group}/two").add(0, T0)
    Producer(s, "c", f"{s.group}/three").add(0, T0)
    Producer(s, "c", f"{s.group}/three").end(0, commit=True)
    for version in (0, 1, 2):
        s.request("a", "ListTransactions", version)
    s.request("a", "ListTransactions", 0, state_filters=["Ongoing", "Empty"])
    s.request("a", "ListTransactions", 0, state_filters=["Ongoing", "Nonsense", "ongoing"])
    s.request("a", "ListTransactions", 0, state_filters=["Nonsense"])
    s.request("a", "ListTransactions", 0, state_filters=["Dead", "PrepareEpochFence"])
    s.request("a", "ListTransactions", 0, producer_id_filters=["%b", 900_000_000_000])
    s.request("a", "ListTransactions", 0, producer_id_filters=["%b"], state_filters=["Empty"])
    s.request("a", "ListTransactions", 1, duration_filter=20_000)
    s.request("a", "ListTransactions", 1, duration_filter=20_000, state_filters=["Ongoing"])
    s.request("a", "ListTransactions", 1, duration_filter=0, state_filters=["Ongoing"])
    for pattern in (f"{s.group}/t.*", f"{s.group}/two", "two", "", "(", ".*/(one|three)"):
        s.request("a", "ListTransactions", 2, transactional_id_pattern=pattern)
    s.request(
        "a", "DescribeTransactions", 0, transactional_ids=[f"{s.group}/two", f"{s.group}/absent", "", f"{s.group}/one"]
    )
