"""Known bugs of brokers and clients that cause rebalances: a table of versions and of the causes that they look like.

Invariants:
- A version that is in the input decides: an affected one makes the bug the cause, another one excludes it. Of the
  programs whose version is not in the input, the affected versions are part of what to do.
- librdkafka writes its version with a `v` before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.doctor.causes.finding import SURE, Finding, evidence, shown
from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.timeline.group_history import GroupHistory

Version = tuple[int, ...]
LIBRDKAFKA: Final = "librdkafka"
_VERSION: Final = re.compile(r"v(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A bug, the versions that have it, and the causes that it looks like."""

    name: str
    program: str
    affected: tuple[tuple[str, str], ...]
    """First affected version and the version that fixes it, per release line."""
    causes: tuple[str, ...]
    what: str
    note: str = ""
    """The affected versions in words, if the version that fixes it is not known."""

    def has(self, version: Version) -> bool:
        """Return whether a version has the bug."""
        return any(_parsed(first) <= version < _parsed(fixed) for first, fixed in self.affected)

    def advice(self) -> str:
        """Return what to do about it, with all versions."""
        ranges = ", ".join(f"{first} and newer before {fixed}" for first, fixed in self.affected)
        program = self.program if self.program == LIBRDKAFKA else f"the {self.program}"
        return f"check the version of {program}: {self.what} ({self.name}); {self.note or f'affected: {ranges}'}"


KNOWN_BUGS: Final = (
    KnownBug(
        "KAFKA-9752",
        "broker",
        (("2.2.0", "2.5.0"),),  # the branches 2.2, 2.3 and 2.4 have the fix, but no release of Apache Kafka has it
        ("stuck_rebalance",),
        "a new member that times out leaves the rebalance open",
    ),
    KnownBug(
        "KAFKA-12890",
        "broker",
        (("2.6.1", "2.8.1"),),
        ("stuck_rebalance",),
        "a member that sends heartbeats but no SyncGroup keeps the group in CompletingRebalance",
    ),
    KnownBug(
        "KAFKA-8653",
        "broker",
        (("2.3.0", "2.3.1"),),
        ("session_expiry", "poll_delay", "unknown"),
        "a client that joins with version 0 of JoinGroup has a rebalance timeout of 0: every rebalance removes it",
    ),
    KnownBug(
        "KAFKA-12984",
        "Java client",
        (("2.4.0", "2.8.1"),),
        ("assignor_never_converges", "stuck_rebalance"),
        "the cooperative-sticky assignor uses outdated partitions of a member that missed a rebalance",
    ),
    KnownBug(
        "librdkafka issue 2261",
        LIBRDKAFKA,
        (("0.9.0", "1.0.1"),),
        ("subscription_change", "leader_rejoins"),
        "a client that subscribes to several topics and is assigned one of them rejoins at every metadata refresh; "
        "a subscription by pattern avoids it",
        "affected: at least 1.0.0 and older",
    ),
)


def bugs_like(cause: str, history: GroupHistory) -> tuple[KnownBug, ...]:
    """Return the bugs that look like a cause, without those that a known version excludes."""
    versions = _librdkafka_versions(history)
    return tuple(
        bug
        for bug in KNOWN_BUGS
        if cause in bug.causes and not (bug.program == LIBRDKAFKA and versions and not any(map(bug.has, versions)))
    )


def known_bug(history: GroupHistory, findings: Sequence[Finding]) -> Finding | None:
    """Find a bug whose symptom was found and whose version is in the input."""
    versions = _librdkafka_versions(history)
    for finding in findings:
        for bug in KNOWN_BUGS:
            affected = [version for version in versions if bug.has(version)]
            if finding.cause in bug.causes and bug.program == LIBRDKAFKA and affected:
                number = ".".join(map(str, affected[0]))
                started = next(row for row in history.rows_of(OtherEventKind.CLIENT_STARTED) if number in _version(row))
                return replace(
                    finding,
                    cause="known_bug",
                    confidence=SURE,
                    evidence=shown([evidence(started, f"the client is librdkafka {number}"), *finding.evidence]),
                    missing_input=(),
                    alternatives=(finding.cause,),
                    headline=f"librdkafka {number} has a known bug ({bug.name}): {bug.what}",
                )
    return None


def _librdkafka_versions(history: GroupHistory) -> list[Version]:
    return sorted(
        {
            _parsed(match[1])
            for row in history.rows_of(OtherEventKind.CLIENT_STARTED)
            if (match := _VERSION.fullmatch(_version(row)))
        }
    )


def _version(row: Row) -> str:
    return row.detail_text("version")


def _parsed(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
