"""Generates the history of a cluster, of any size: logs of three brokers and of some clients.

Invariants:
- A fifth of the lines is about groups. Of the 2,000 groups, one has a third of these lines: a member that exceeds
  max.poll.interval.ms, leaves and rejoins, again and again. In each round, a member of every other group is replaced.
- The same seed gives the same bytes. A round of ten minutes is generated line by line once. All further rounds are the
  same bytes with other times, generations and member ids.
- Lines have the wording of Kafka 4. Some lines name `__consumer_offsets` or a consumer without being about a group.
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
"""Every third group has its clients' logs."""
START: Final = np.datetime64("2026-05-01T00:00:00.000")
GENERATION: Final = b"\x02000000"
"""The placeholder of a generation: seven characters, the first of them a marker."""
ROUND: Final = b"\x03000"
"""The placeholder of the round's number in a member id: four characters, the first of them a marker."""
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
"""Brokers' lines about anything but groups, with their loggers."""


class GeneratedLine(NamedTuple):
    """One line of a round: its time, its file, and how much its generations grow per round."""

    at_ms: int
    file: int
    text: bytes
    step: int = 0


class RoundTemplate(NamedTuple):
    """A file's lines of one round, and the offsets of the parts that change."""

    bytes: NDArray[np.uint8]
    timestamps: NDArray[np.int64]
    at_ms: NDArray[np.int64]
    generations: NDArray[np.int64]
    first: NDArray[np.int64]
    steps: NDArray[np.int64]
    rounds: NDArray[np.int64]


def write(directory: Path, size: int, seed: int = 7) -> int:
    """Write about `size` bytes; return the number of lines."""
    first_round = _round(seed)
    templates = [_round_template([line for line in first_round if line.file == file]) for file in range(BROKERS + 1)]
    names = [*(f"broker-{broker + 1}/server.log" for broker in range(BROKERS)), "clients/consumers.log"]
    written = lines = number = 0
    while written < size:
        for template, name in zip(templates, names, strict=True):
            path = directory / f"{name}.{number // ROUNDS_PER_FILE:04d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(_render(template, number))
            written += template.bytes.size
            lines += template.timestamps.size
        number += 1
    return lines


# --- one round, line by line ------------------------------------------------------------------------------------------


def _round(seed: int) -> list[GeneratedLine]:
    seeded = random.Random(seed)
    about = [line for group in range(1, GROUPS) for line in _replaced_member(group, seeded)]
    about += _rejoining_member(len(about) // 2, seeded)
    others = [_other(seeded) for _ in range(4 * len(about))]
    return sorted([*about, *others], key=lambda line: line.at_ms)


def _other(seeded: random.Random) -> GeneratedLine:
    broker = seeded.randrange(BROKERS)
    topic = b"%s.events.%d-%d" % (seeded.choice((b"orders", b"clicks", b"stock")), seeded.randrange(400), broker)
    words, logger = seeded.choice(tuple(_OTHER.items()))
    message = words % {b"t": topic, b"b": broker + 1, b"n": seeded.randrange(1_000, 1_000_000)}
    return GeneratedLine(seeded.randrange(ROUND_MS), broker, b"INFO %s (%s)" % (message, logger))


def _replaced_member(group: int, seeded: random.Random) -> Iterator[GeneratedLine]:
    """Yield lines of a member that crashes, whose session expires, and that is replaced."""
    name, at = b"service-%04d" % group, seeded.randrange(ROUND_MS - 60_000)
    client = b"%s-%d" % (name, seeded.randrange(4))
    old, new = _member(client, seeded), _member(client, seeded)
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


def _rejoining_member(lines: int, seeded: random.Random) -> Iterator[GeneratedLine]:
    """Yield lines of a member that exceeds max.poll.interval.ms, leaves and rejoins, again and again."""
    name, client = b"payments", b"payments-7"
    other = _member(b"payments-1", seeded)
    rejoins = lines // 10
    for rejoin in range(rejoins):
        at, member = rejoin * ROUND_MS // rejoins, _member(client, seeded)
        left = (
            b"has left group through explicit `LeaveGroup` request; client reason: consumer poll timeout has expired."
        )
        steps = [
            *_joining(0, name, member),
            *_rebalance(5, name, other, 20, 2 * rejoin, b"Adding new member %s with group instance id null" % member),
            (100, b"[Group %s] Member %s %s" % (name, member, left)),
            *_rebalance(
                101, name, other, 19, 2 * rejoin + 1, b"explicit `LeaveGroup` request for (%s) members." % member
            ),
        ]
        for after, words in steps:
            yield _coordinator(at + after, 0, words, 2 * rejoins)
        overrun = (
            b"consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer"
        )
        yield _consumer(at + 100, client, name, overrun, 2 * rejoins)


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


def _coordinator(at: int, group: int, words: bytes, step: int) -> GeneratedLine:
    where = b"[GroupCoordinator id=%d topic=__consumer_offsets partition=%d]" % (group % BROKERS + 1, group % 50)
    text = b"INFO %s %s (org.apache.kafka.coordinator.group.GroupMetadataManager)" % (where, words)
    return GeneratedLine(min(at, ROUND_MS - 1), group % BROKERS, text, step)


def _consumer(at: int, client: bytes, group: bytes, words: bytes, step: int) -> GeneratedLine:
    text = b"INFO [Consumer clientId=%s, groupId=%s] %s %s" % (client, group, words, _CLIENT_LOGGER)
    return GeneratedLine(min(at, ROUND_MS - 1), BROKERS, text, step)


def _member(client: bytes, seeded: random.Random) -> bytes:
    rest = b"%012x" % seeded.getrandbits(48)
    return b"%s-%08x-%s-4%03x-8%03x-%s" % (
        client,
        seeded.getrandbits(32),
        ROUND,
        seeded.getrandbits(12),
        seeded.getrandbits(12),
        rest,
    )


def _generation(number: int) -> bytes:
    return GENERATION[:1] + b"%06d" % number


# --- all rounds, column by column -------------------------------------------------------------------------------------


def _round_template(lines: list[GeneratedLine]) -> RoundTemplate:
    whole = [b"[" + b"0" * 23 + b"] " + line.text + b"\n" for line in lines]
    data = np.frombuffer(b"".join(whole), np.uint8)
    begins = np.concatenate(([0], np.cumsum([len(line) for line in whole])[:-1])).astype(np.int64)
    generations = np.flatnonzero(data == GENERATION[0])
    digits = data[generations[:, None] + np.arange(1, 7)].astype(np.int64) - ord("0")
    steps = np.repeat([line.step for line in lines], [line.count(GENERATION[:1]) for line in whole])
    return RoundTemplate(
        data,
        begins + 1,
        np.array([line.at_ms for line in lines], np.int64),
        generations,
        digits @ 10 ** np.arange(5, -1, -1),
        steps,
        np.flatnonzero(data == ROUND[0]),
    )


def _render(template: RoundTemplate, number: int) -> bytes:
    data = template.bytes.copy()
    times = START + (template.at_ms + number * ROUND_MS).astype("timedelta64[ms]")
    stamps = np.datetime_as_string(times, unit="ms").astype("S23").view(np.uint8).reshape(-1, 23).copy()
    stamps[:, 10], stamps[:, 19] = ord(" "), ord(",")
    data[template.timestamps[:, None] + np.arange(23)] = stamps
    _put(data, template.generations, 1_000_000 + template.first + number * template.steps, 7)
    _put(data, template.rounds, np.full(template.rounds.size, number), 4)
    return data.tobytes()


def _put(data: NDArray[np.uint8], places: NDArray[np.int64], numbers: NDArray[np.int64], width: int) -> None:
    powers = 10 ** np.arange(width - 1, -1, -1)
    data[places[:, None] + np.arange(width)] = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
