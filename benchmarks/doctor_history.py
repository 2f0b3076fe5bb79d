"""A cluster's history, made up: logs of three brokers and of some clients, as large as one likes.

Rules kept here
- A fifth of the lines is about groups. There are 2,000 of them; one has a third of those lines: a member that is put
  out by its poll timer and comes back, again and again. In every round a member of each other group is replaced.
- The same seed gives the same bytes. A round of ten minutes is made line by line once; every further round is the same
  bytes with other times, generations and member ids, put in their places column by column.
- Lines are worded as Kafka 4 words them, those about other things too, and some name `__consumer_offsets` or a consumer
  and are about no group.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUPS: Final = 2_000
BROKERS: Final = 3
ROUND_MS: Final = 600_000
ROUNDS_PER_FILE: Final = 8
WITH_CLIENTS: Final = 3
"""Of every so many groups, one has its clients' logs."""
START: Final = np.datetime64("2026-05-01T00:00:00.000")
GENERATION: Final = b"\x02000000"
"""Where a generation stands: seven places, of which the first is marked."""
ROUND: Final = b"\x03000"
"""Where the round's number stands, in what must be new in every round: four places, of which the first is marked."""
_CLIENT_LOGGER: Final = b"(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
_OTHER: Final[dict[bytes, bytes]] = {
    b"[Partition %(t)s broker=%(b)d] ISR updated to 1,2,3 and version updated to %(n)d": b"kafka.cluster.Partition",
    (
        b"[ReplicaFetcher replicaId=%(b)d, leaderId=2, fetcherId=0] Truncating partition %(t)s with "
        b"TruncationState(offset=%(n)d, completed=true) due to local high watermark %(n)d"
    ): b"kafka.server.ReplicaFetcherThread",
    (
        b"[ProducerStateManager partition=%(t)s] Wrote producer snapshot at offset %(n)d with 0 producer ids in 1 ms."
    ): b"org.apache.kafka.storage.internals.log.ProducerStateManager",
    (
        b"[ProducerStateManager partition=__consumer_offsets-7] Wrote producer snapshot at offset %(n)d with "
        b"0 producer ids in 2 ms."
    ): b"org.apache.kafka.storage.internals.log.ProducerStateManager",
    (
        b"[LocalLog partition=%(t)s, dir=/var/lib/kafka/data] Rolled new log segment at offset %(n)d in 1 ms."
    ): b"org.apache.kafka.storage.internals.log.LocalLog",
    (
        b"[UnifiedLog partition=%(t)s, dir=/var/lib/kafka/data] Deleting segment LogSegment(baseOffset=%(n)d, "
        b"size=1073741797, lastModifiedTime=1777629600000, largestRecordTimestamp=1777629599000) due to log "
        b"retention time 604800000ms breach based on the largest record timestamp in the segment"
    ): b"org.apache.kafka.storage.internals.log.UnifiedLog",
    (
        b"[UnifiedLog partition=%(t)s, dir=/var/lib/kafka/data] Incremented log start offset to %(n)d due to "
        b"segment deletion"
    ): b"org.apache.kafka.storage.internals.log.UnifiedLog",
    (
        b"Deleted log /var/lib/kafka/data/%(t)s/%(n)020d.log.deleted."
    ): b"org.apache.kafka.storage.internals.log.LogSegment",
    (
        b"[SnapshotEmitter id=%(b)d] Successfully wrote snapshot 00000000000000%(n)06d-0000000003"
    ): b"org.apache.kafka.image.publisher.SnapshotEmitter",
    (
        b"[NodeToControllerChannelManager id=%(b)d name=heartbeat] Client requested disconnect from node %(n)d"
    ): b"org.apache.kafka.clients.NetworkClient",
    (
        b"[SocketServer listenerType=BROKER, nodeId=%(b)d] Unexpected error from /10.0.3.17 "
        b"(channelId=10.0.0.1:9092-10.0.3.17:%(n)d-1); closing connection"
    ): b"org.apache.kafka.common.network.Selector",
    (
        b"[AdminClient clientId=monitor-%(b)d] Node %(n)d disconnected. Consumers of %(t)s are not asked."
    ): b"com.example.monitoring.Probe",
}
"""What brokers say about other things, and their loggers."""


class Line(NamedTuple):
    """One line of a round: when, in which file, and by how much its generations grow from round to round."""

    at_ms: int
    file: int
    text: bytes
    step: int = 0


class Shape(NamedTuple):
    """A file's lines of one round, and the places in them that change."""

    bytes: NDArray[np.uint8]
    stamps: NDArray[np.int64]
    at_ms: NDArray[np.int64]
    generations: NDArray[np.int64]
    first: NDArray[np.int64]
    steps: NDArray[np.int64]
    rounds: NDArray[np.int64]


def write(directory: Path, size: int, seed: int = 7) -> int:
    """Write about so many bytes; how many lines they are."""
    once = _round(seed)
    shapes = [_shape([line for line in once if line.file == file]) for file in range(BROKERS + 1)]
    names = [*(f"broker-{broker + 1}/server.log" for broker in range(BROKERS)), "clients/consumers.log"]
    written = lines = number = 0
    while written < size:
        for shape, name in zip(shapes, names, strict=True):
            path = directory / f"{name}.{number // ROUNDS_PER_FILE:04d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(_rendered(shape, number))
            written += shape.bytes.size
            lines += shape.stamps.size
        number += 1
    return lines


# --- one round, line by line ------------------------------------------------------------------------------------------


def _round(seed: int) -> list[Line]:
    chance = random.Random(seed)
    about = [line for group in range(1, GROUPS) for line in _replaced(group, chance)]
    about += _stormy(len(about) // 2, chance)
    others = [_other(chance) for _ in range(4 * len(about))]
    return sorted([*about, *others], key=lambda line: line.at_ms)


def _other(chance: random.Random) -> Line:
    broker = chance.randrange(BROKERS)
    topic = b"%s.events.%d-%d" % (chance.choice((b"orders", b"clicks", b"stock")), chance.randrange(400), broker)
    words, logger = chance.choice(tuple(_OTHER.items()))
    said = words % {b"t": topic, b"b": broker + 1, b"n": chance.randrange(1_000, 1_000_000)}
    return Line(chance.randrange(ROUND_MS), broker, b"INFO %s (%s)" % (said, logger))


def _replaced(group: int, chance: random.Random) -> Iterator[Line]:
    """A member dies, its session ends, and another one comes in its place."""
    name, at = b"service-%04d" % group, chance.randrange(ROUND_MS - 60_000)
    client = b"%s-%d" % (name, chance.randrange(4))
    old, new = _member(client, chance), _member(client, chance)
    steps = [
        (0, b"Member %s in group %s has failed, removing it from the group." % (old, name)),
        *_rebalance(0, name, new, 3, 0, b"removing member %s on heartbeat expiration" % old),
        *_joining(5_000, name, new),
        *_rebalance(5_010, name, new, 4, 1, b"Adding new member %s with group instance id null" % new),
    ]
    for after, words in steps:
        yield _coordinator(at + after, group, words, 2)
    if group % WITH_CLIENTS == 0:
        for after, words in _client_joins(new):
            yield _consumer(at + after, client, name, words, 2)


def _stormy(lines: int, chance: random.Random) -> Iterator[Line]:
    """A member leaves for its poll timer and comes back, as often as there is room for."""
    name, client = b"payments", b"payments-7"
    other = _member(b"payments-1", chance)
    turns = lines // 10
    for turn in range(turns):
        at, member = turn * ROUND_MS // turns, _member(client, chance)
        left = (
            b"has left group through explicit `LeaveGroup` request; client reason: consumer poll timeout has expired."
        )
        steps = [
            *_joining(0, name, member),
            *_rebalance(5, name, other, 20, 2 * turn, b"Adding new member %s with group instance id null" % member),
            (100, b"[Group %s] Member %s %s" % (name, member, left)),
            *_rebalance(
                101, name, other, 19, 2 * turn + 1, b"explicit `LeaveGroup` request for (%s) members." % member
            ),
        ]
        for after, words in steps:
            yield _coordinator(at + after, 0, words, 2 * turns)
        overrun = (
            b"consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer"
        )
        yield _consumer(at + 100, client, name, overrun, 2 * turns)


def _joining(at: int, group: bytes, member: bytes) -> list[tuple[int, bytes]]:
    return [
        (
            at,
            b"Dynamic member with unknown member id joins group %s in Stable state. Created a new member id %s and "
            b"requesting the member to rejoin with this id." % (group, member),
        ),
        (
            at + 2,
            b"Pending dynamic member with id %s joins group %s in Stable state. Adding to the group now."
            % (member, group),
        ),
    ]


def _rebalance(
    at: int, group: bytes, leader: bytes, members: int, before: int, reason: bytes
) -> list[tuple[int, bytes]]:
    old, new = _generation(before), _generation(before + 1)
    return [
        (
            at + 1,
            b"Preparing to rebalance group %s in state PreparingRebalance with old generation %s (reason: %s)."
            % (group, old, reason),
        ),
        (at + 3, b"Stabilized group %s generation %s with %d members." % (group, new, members)),
        (
            at + 5,
            b"Assignment received from leader %s for group %s for generation %s. The group has %d members, 0 of which "
            b"are static." % (leader, group, new, members),
        ),
    ]


def _client_joins(member: bytes) -> list[tuple[int, bytes]]:
    held = b"Generation{generationId=%s, memberId='%s', protocol='range'}" % (_generation(2), member)
    return [
        (5_001, b"Request joining group due to: need to re-join with the given member-id: %s" % member),
        (5_002, b"(Re-)joining group"),
        (5_013, b"Successfully joined group with generation %s" % held),
        (5_016, b"Successfully synced group in generation %s" % held),
        (5_017, b"Adding newly assigned partitions: orders.events.1-0, orders.events.1-1"),
    ]


def _coordinator(at: int, group: int, words: bytes, step: int) -> Line:
    where = b"[GroupCoordinator id=%d topic=__consumer_offsets partition=%d]" % (group % BROKERS + 1, group % 50)
    text = b"INFO %s %s (org.apache.kafka.coordinator.group.GroupMetadataManager)" % (where, words)
    return Line(min(at, ROUND_MS - 1), group % BROKERS, text, step)


def _consumer(at: int, client: bytes, group: bytes, words: bytes, step: int) -> Line:
    text = b"INFO [Consumer clientId=%s, groupId=%s] %s %s" % (client, group, words, _CLIENT_LOGGER)
    return Line(min(at, ROUND_MS - 1), BROKERS, text, step)


def _member(client: bytes, chance: random.Random) -> bytes:
    rest = b"%012x" % chance.getrandbits(48)
    return b"%s-%08x-%s-4%03x-8%03x-%s" % (
        client,
        chance.getrandbits(32),
        ROUND,
        chance.getrandbits(12),
        chance.getrandbits(12),
        rest,
    )


def _generation(number: int) -> bytes:
    return GENERATION[:1] + b"%06d" % number


# --- all rounds, column by column -------------------------------------------------------------------------------------


def _shape(lines: list[Line]) -> Shape:
    whole = [b"[" + b"0" * 23 + b"] " + line.text + b"\n" for line in lines]
    data = np.frombuffer(b"".join(whole), np.uint8)
    begins = np.concatenate(([0], np.cumsum([len(one) for one in whole])[:-1])).astype(np.int64)
    generations = np.flatnonzero(data == GENERATION[0])
    digits = data[generations[:, None] + np.arange(1, 7)].astype(np.int64) - ord("0")
    steps = np.repeat([line.step for line in lines], [one.count(GENERATION[:1]) for one in whole])
    return Shape(
        data,
        begins + 1,
        np.array([line.at_ms for line in lines], np.int64),
        generations,
        digits @ 10 ** np.arange(5, -1, -1),
        steps,
        np.flatnonzero(data == ROUND[0]),
    )


def _rendered(shape: Shape, number: int) -> bytes:
    data = shape.bytes.copy()
    times = START + (shape.at_ms + number * ROUND_MS).astype("timedelta64[ms]")
    stamps = np.datetime_as_string(times, unit="ms").astype("S23").view(np.uint8).reshape(-1, 23).copy()
    stamps[:, 10], stamps[:, 19] = ord(" "), ord(",")
    data[shape.stamps[:, None] + np.arange(23)] = stamps
    _put(data, shape.generations, 1_000_000 + shape.first + number * shape.steps, 7)
    _put(data, shape.rounds, np.full(shape.rounds.size, number), 4)
    return data.tobytes()


def _put(data: NDArray[np.uint8], places: NDArray[np.int64], numbers: NDArray[np.int64], width: int) -> None:
    powers = 10 ** np.arange(width - 1, -1, -1)
    data[places[:, None] + np.arange(width)] = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
