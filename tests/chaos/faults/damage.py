"""Damage to the files of a stopped broker: flipped bits, cut, zeroed, emptied and missing files, foreign directories.

Invariants:
- The load is paused before the broker ends, so that the ledgers are complete.
- A copy of the directory is made first. If the broker refuses to start, the copy is put back, and then nothing may be
  missing.
- Only damage to a log file may cost records or commits (`oracles.records`, `oracles.commits`). The log of the
  bystanders' partition of `__consumer_offsets` is left alone, and those of the topic with transactions.
- A log whose last file was cut exactly between two batches after a kill looks like a log that never had the rest. No
  broker can notice that, so it is left out.
"""

import hashlib
import random
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from slackwater.group.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.wire.records.batch import HEADER, LENGTH_ENDS_AT
from tests.chaos.episode import Episode
from tests.chaos.faults.registry import fault
from tests.chaos.load import BYSTANDER_PARTITION, PARTITIONS
from tests.chaos.oracles import Violation
from tests.chaos.oracles.records import Loss
from tests.chaos.transactions import TOPIC as TRANSACTIONAL

BLOCK_BYTES: Final = 512
MIN_RECORDS: Final = 2_000
MAX_FILL_S: Final = 10.0
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
LENGTHS: Final = (-12, -1, 0, 1, 48, 2**31 - 1, -(2**31))


class StoredBatch(NamedTuple):
    """Position and offsets of a batch in a log file."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class Damage(NamedTuple):
    """The content of a file after the damage (None: no file), the changed bytes of the original, and a description."""

    content: bytes | None
    changed: list[range]
    detail: str


def stored_batches(content: bytes) -> Iterator[StoredBatch]:
    """Iterate over the batches of an undamaged log file."""
    position = 0
    while position + HEADER.size <= len(content):
        base_offset, length, _, _, _, _, last_delta, *_ = HEADER.unpack_from(content, position)
        size = length + LENGTH_ENDS_AT
        if length <= 0 or position + size > len(content):
            return  # a torn tail, which was never acknowledged
        yield StoredBatch(position, size, base_offset, base_offset + last_delta)
        position += size


def possible_loss(content: bytes, changed: list[range]) -> Loss | None:
    """Return what a change of these bytes of a log file may cost; None if there is nothing to lose."""
    touched = [
        range(batch.base_offset, batch.last_offset + 1)
        for batch in stored_batches(content)
        if any(batch.position < part.stop and part.start < batch.position + batch.size for part in changed)
    ]
    if touched:
        return Loss(touched, touched[0].start)
    last_offset = max((batch.last_offset for batch in stored_batches(content)), default=None)
    return None if last_offset is None else Loss([], last_offset + 1)


# --- kinds of damage --------------------------------------------------------------------------------------------------


def flip_bits(content: bytes, rng: random.Random) -> Damage:
    """Flip one to three bits."""
    damaged = bytearray(content)
    positions = [rng.randrange(len(content)) for _ in range(rng.randint(1, 3))]
    for position in positions:
        damaged[position] ^= 1 << rng.randrange(8)
    return Damage(bytes(damaged), [range(at, at + 1) for at in positions], f"bits flipped at {sorted(positions)}")


def cut(content: bytes, rng: random.Random) -> Damage:
    """Cut the file."""
    size = rng.randrange(len(content))
    return Damage(content[:size], [range(size, len(content))], f"cut from {len(content)} to {size} bytes")


def zero_block(content: bytes, rng: random.Random) -> Damage:
    """Fill a block with zeros, as a lost write does."""
    start = rng.randrange(0, len(content), BLOCK_BYTES)
    end = min(start + BLOCK_BYTES, len(content))
    damaged = content[:start] + bytes(end - start) + content[end:]
    return Damage(damaged, [range(start, end)], f"zeros from {start} to {end}")


def randomize(content: bytes, rng: random.Random) -> Damage:
    """Replace the content with random bytes."""
    return Damage(rng.randbytes(len(content)), [range(len(content))], f"{len(content)} random bytes")


def empty(content: bytes, rng: random.Random) -> Damage:
    """Leave an empty file."""
    return Damage(b"", [range(len(content))], "empty")


def remove(content: bytes, rng: random.Random) -> Damage:
    """Remove the file."""
    return Damage(None, [range(len(content))], "removed")


def append_garbage(content: bytes, rng: random.Random) -> Damage:
    """Add random bytes at the end, as an interrupted write does."""
    size = rng.choice((1, 11, 60, 61, 500, 5_000))
    return Damage(content + rng.randbytes(size), [], f"{size} random bytes added")


def change_length(content: bytes, rng: random.Random) -> Damage:
    """Give a batch an impossible length."""
    batches = list(stored_batches(content))
    if not batches:
        return flip_bits(content, rng)
    at, length = rng.choice(batches).position + _LENGTH_AT, rng.choice(LENGTHS)
    damaged = bytearray(content)
    _LENGTH.pack_into(damaged, at, length)
    return Damage(bytes(damaged), [range(at, at + 4)], f"batch length {length} at {at}")


SMALL_FILE: Final = (flip_bits, flip_bits, cut, zero_block, randomize, empty, remove)
LOG_FILE: Final = (
    flip_bits,
    flip_bits,
    flip_bits,
    cut,
    zero_block,
    append_garbage,
    change_length,
    change_length,
    empty,
)
Change = Callable[[bytes, random.Random], Damage]


# --- faults -----------------------------------------------------------------------------------------------------------


def _stop(episode: Episode, rng: random.Random) -> str:
    """End the broker with the load paused, and copy its directory; a new directory gets some data first."""
    deadline = time.monotonic() + MAX_FILL_S
    while episode.load.records < MIN_RECORDS and time.monotonic() < deadline:
        time.sleep(0.05)
    episode.pause()
    clean = rng.random() < 0.5
    if clean:
        episode.stop()
    else:
        episode.kill()
    episode.save()
    return "stop" if clean else "kill"


def _damage(path: Path, rng: random.Random, changes: tuple[Change, ...]) -> Damage:
    """Damage a file."""
    content = path.read_bytes()
    damage = rng.choice(changes if content else (append_garbage, remove))(content, rng)
    if damage.content is None:
        path.unlink()
    else:
        path.write_bytes(damage.content)
    return damage


def _damage_log_file(path: Path, rng: random.Random, ending: str) -> tuple[Loss | None, Damage]:
    content = path.read_bytes()
    damage = _damage(path, rng, LOG_FILE)
    is_last = path == max(path.parent.glob("*.log"))
    while ending == "kill" and is_last and looks_complete(content, damage):
        path.write_bytes(content)
        damage = _damage(path, rng, LOG_FILE)
    return possible_loss(content, damage.changed), damage


def looks_complete(content: bytes, damage: Damage) -> bool:
    """Whether the damaged log file is a shorter file of whole batches."""
    size = len(damage.content or b"")
    return content[:size] == damage.content and size in {0, *(batch.position for batch in stored_batches(content))}


def _partition_files(episode: Episode, suffixes: tuple[str, ...], topics: tuple[str, ...]) -> list[Path]:
    directories = [path for path in episode.data.iterdir() if path.is_dir() and path.name.rsplit("-", 1)[0] in topics]
    return sorted(file for path in directories for file in path.iterdir() if file.name.endswith(suffixes))


def _result(episode: Episode, ending: str, path: Path, damage: Damage) -> str:
    outcome = episode.start_with_damage()
    return f"{path.parent.name}/{path.name} {damage.detail} after {ending}: {outcome}"


@fault("damage.log", weight=6)
def damage_log(episode: Episode, rng: random.Random) -> str:
    """Damage a log file, closed or active."""
    ending = _stop(episode, rng)
    path = rng.choice([path for path in _partition_files(episode, (".log",), tuple(PARTITIONS)) if path.stat().st_size])
    loss, damage = _damage_log_file(path, rng, ending)
    if loss is not None:
        episode.losses[path.parent.name] = (path, loss)
        episode.is_spent = True
    return _result(episode, ending, path, damage)


@fault("damage.offsets", weight=4)
def damage_offsets(episode: Episode, rng: random.Random) -> str:
    """Damage a log file of `__consumer_offsets`."""
    ending = _stop(episode, rng)
    files = _partition_files(episode, (".log",), (OFFSETS_TOPIC,))
    spared = f"{OFFSETS_TOPIC}-{BYSTANDER_PARTITION}"
    path = rng.choice([file for file in files if file.parent.name != spared and file.stat().st_size])
    loss, damage = _damage_log_file(path, rng, ending)
    if loss is not None:
        episode.damaged_offsets[int(path.parent.name.rsplit("-", 1)[1])] = path
        episode.is_spent = True
    return _result(episode, ending, path, damage)


@fault("damage.transactions", weight=2)
def damage_transactions(episode: Episode, rng: random.Random) -> str:
    """Damage a log file of `__transaction_state`: an id may get an older state, but no transaction is lost or hangs."""
    ending = _stop(episode, rng)
    files = [file for file in _partition_files(episode, (".log",), (TRANSACTIONS_TOPIC,)) if file.stat().st_size]
    if not files:
        episode.start()
        return "no transaction yet"
    path = rng.choice(files)
    damage = _damage(path, rng, LOG_FILE)
    return _result(episode, ending, path, damage)


@fault("damage.index", weight=3)
def damage_index(episode: Episode, rng: random.Random) -> str:
    """Damage an index or the snapshot of the producers, which can be rebuilt from the log."""
    ending = _stop(episode, rng)
    topics = (*PARTITIONS, TRANSACTIONAL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    files = _partition_files(episode, (".index", ".timeindex", ".snapshot"), topics)
    if not files:
        episode.start()
        return "no segment was closed yet"
    path = rng.choice(files)
    damage = _damage(path, rng, SMALL_FILE)
    return _result(episode, ending, path, damage)


@fault("damage.checkpoint", weight=2)
def damage_checkpoint(episode: Episode, rng: random.Random) -> str:
    """Damage a file of a partition that is neither log nor index."""
    ending = _stop(episode, rng)
    names = ("offset-checkpoint", "partition.metadata")
    topics = (*PARTITIONS, TRANSACTIONAL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    path = rng.choice(_partition_files(episode, names, topics))
    damage = _damage(path, rng, SMALL_FILE)
    return _result(episode, ending, path, damage)


@fault("damage.directory", weight=3)
def damage_directory(episode: Episode, rng: random.Random) -> str:
    """Damage a file of the data directory itself, for example topics.json."""
    ending = _stop(episode, rng)
    path = rng.choice(sorted(file for file in episode.data.iterdir() if file.is_file()))
    damage = _damage(path, rng, SMALL_FILE)
    return _result(episode, ending, path, damage)


@fault("damage.foreign", weight=2)
def foreign_directory(episode: Episode, rng: random.Random) -> str:
    """Put directories of somebody else into the data directory, which the broker must not change."""
    ending = _stop(episode, rng)
    name = rng.choice(("photos-2024", "thesis-1", "backup-delete", "notes", "protected-plain-7", ".git", "a.b-0"))
    path = episode.data / name
    path.mkdir()
    (path / "content").write_bytes(rng.randbytes(1000))
    before = _fingerprint(path)
    sentence = episode.start_or_refusal()
    if not path.exists() or _fingerprint(path) != before:
        raise Violation(f"the start changed the directory {name}, which is not its own")
    if sentence is None:
        shutil.rmtree(path)
        return f"{name} after {ending}: started"
    episode.restore()
    episode.start()
    return f"{name} after {ending}: refused ({sentence})"


def _fingerprint(path: Path) -> list[tuple[str, str]]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [(str(file.relative_to(path)), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
