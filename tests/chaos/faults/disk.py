"""Faults of the disk while the broker runs, starts or stops: full, failing operations, no descriptors left."""

import errno
import os
import random
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.chaos.episode import Episode
from tests.chaos.faults.network import connections
from tests.chaos.faults.registry import fault
from tests.chaos.shim import Operation, Shim

MAX_FAULT_S = 2.0


def _error(operations: Sequence[Operation], rng: random.Random) -> int:
    """Return an error that these operations can have."""
    return errno.EIO if Operation.READ in operations else rng.choice((errno.EIO, errno.ENOSPC))


def _shim(episode: Episode) -> Shim:
    assert episode.shim is not None
    return episode.shim


@contextmanager
def _healed(episode: Episode) -> Iterator[Shim]:
    shim = _shim(episode)
    try:
        yield shim
    finally:
        shim.heal()


@fault("disk.full", weight=3, needs_shim=True)
def full(episode: Episode, rng: random.Random) -> str:
    """Fill the disk while clients write; the last write before it is short."""
    free_bytes = rng.choice((0, 1, 100, 3_000, 50_000))
    with _healed(episode) as shim:
        shim.limit_space(free_bytes)
        time.sleep(rng.uniform(0.1, MAX_FAULT_S))
        ending = rng.choice(("", "", "kill", "terminate"))
        if ending == "kill":
            episode.kill()
        elif ending == "terminate":
            episode.stop(is_disk_failing=True)
    if ending:
        episode.start()
    return f"after {free_bytes} bytes{f', then {ending}' if ending else ''}"


@fault("disk.file_size")
def file_size(episode: Episode, rng: random.Random) -> str:
    """Limit the size of files, which acts like a full disk without the preloaded library."""
    size = rng.choice((0, 1_000, 20_011))
    episode.broker.limit_files(size)
    time.sleep(rng.uniform(0.1, MAX_FAULT_S))
    episode.broker.limit_files(None)
    return f"{size} bytes"


@fault("disk.errors", weight=4, needs_shim=True)
def errors(episode: Episode, rng: random.Random) -> str:
    """Let operations fail now and then; a log whose flush failed accepts nothing until a restart."""
    operations = rng.sample(list(Operation), rng.choice((1, 1, 2)))
    error = _error(operations, rng)
    per_mille = rng.choice((10, 200, 1000))
    with _healed(episode) as shim:
        for operation in operations:
            shim.fail(operation, error, per_mille)
        time.sleep(rng.uniform(0.1, MAX_FAULT_S))
    # A flush opens the directory of a log and its indexes.
    flushes = {Operation.FSYNC, Operation.OPEN} if episode.settings["flush"] == "always" else {Operation.FSYNC}
    needs_restart = not flushes.isdisjoint(operations)
    if needs_restart:
        episode.kill()
        episode.start()
    names = ", ".join(operation.name.lower() for operation in operations)
    return f"{errno.errorcode[error]} for {per_mille / 10:g} % of {names}"


@fault("disk.short_writes", needs_shim=True)
def short_writes(episode: Episode, rng: random.Random) -> str:
    """Let writes take half of their bytes; the broker must write the rest."""
    with _healed(episode) as shim:
        shim.shorten_writes(rng.choice((100, 900)))
        time.sleep(rng.uniform(0.1, MAX_FAULT_S))
        ending = rng.random() < 0.5
        if ending:
            episode.kill()
    if ending:
        episode.start()
    return "then kill" if ending else ""


@fault("disk.descriptors", weight=3)
def descriptors(episode: Episode, rng: random.Random) -> str:
    """Let the broker run out of file descriptors, often while clients connect."""
    pid = episode.broker.pid
    spare = rng.choice((0, 1, 2, 5))
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + spare, hard))
    try:
        with connections(episode, rng.choice((0, 10, 100))) as opened:
            time.sleep(rng.uniform(0.5, 2 * MAX_FAULT_S))
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
    return f"{spare} left, {len(opened)} connections"


@fault("disk.start_with_errors", needs_shim=True)
def start_with_errors(episode: Episode, rng: random.Random) -> str:
    """Start on a full or failing disk: the broker starts, or refuses and starts when the disk works again."""
    if rng.random() < 0.5:
        episode.kill()
    else:
        episode.stop()
    with _healed(episode) as shim:
        if rng.random() < 0.4:
            free_bytes = rng.choice((0, 100, 5_000))
            shim.limit_space(free_bytes)
            detail = f"{free_bytes} bytes free"
        else:
            operation, per_mille = rng.choice(list(Operation)), rng.choice((50, 300, 1000))
            error = _error([operation], rng)
            shim.fail(operation, error, per_mille)
            detail = f"{errno.errorcode[error]} for {per_mille / 10:g} % of {operation.name.lower()}"
        sentence = episode.start_or_refusal()
        if sentence is None:
            time.sleep(rng.uniform(0, 1))
            episode.kill()
    episode.start()
    return f"{detail}: {'started' if sentence is None else f'refused ({sentence})'}"


@fault("disk.start_with_few_descriptors", weight=1)
def start_with_few_descriptors(episode: Episode, rng: random.Random) -> str:
    """Start with so few descriptors that the segments do not fit."""
    episode.kill()
    limit = rng.randint(20, 80)
    sentence = episode.start_or_refusal(prefix=("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"))
    if sentence is None:
        time.sleep(rng.uniform(0, 1))
        episode.kill()
    episode.start()
    return f"{limit} descriptors: {'started' if sentence is None else f'refused ({sentence})'}"
