"""Settings of the work scheduler.

Invariants:
- Invalid settings raise UsageError when the config is created.
- Every low-water mark is below its high-water mark, so that pause and resume do not alternate.
"""

from dataclasses import dataclass
from enum import StrEnum

from slackwater.group.errors import UsageError


class ProcessingOrder(StrEnum):
    """Which records are processed in order."""

    PARTITION = "partition"
    KEY = "key"  # a record without a key is processed as under NONE
    NONE = "none"


class ExhaustedAction(StrEnum):
    """The handling of a record whose last attempt failed."""

    DEAD_LETTER = "dead_letter"
    FAIL = "fail"


class RevokeMode(StrEnum):
    """The handling of records that workers are processing when their partition is revoked."""

    DRAIN = "drain"
    ABANDON = "abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkConfig:
    """Settings of `consumer.run`.

    A partition is paused at `high_water_records` in flight and resumed at `low_water_records`; all partitions are
    paused at `total_high_water_records` or `total_high_water_bytes`. With a total of at least the number of partitions
    times their own mark, a record that waits for its retry delays only its own partition.

    `max_uncommitted_records` limits, per partition, the records between the committed offset and the last one received.
    Those are processed again after a crash; one slow record keeps all records finished after it among them.
    """

    workers: int = 1
    order: ProcessingOrder = ProcessingOrder.PARTITION
    high_water_records: int = 1_000
    low_water_records: int = 500
    total_high_water_records: int = 50_000
    total_low_water_records: int = 25_000
    total_high_water_bytes: int = 64 * 1024 * 1024
    total_low_water_bytes: int = 32 * 1024 * 1024
    max_uncommitted_records: int = 10_000
    max_attempts: int | None = 5  # None: no limit while the partition is owned
    after_last_attempt: ExhaustedAction = ExhaustedAction.DEAD_LETTER
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    retry_backoff_jitter: float = 0.2
    auto_commit_interval_ms: int | None = 5_000  # None: only `commit()` commits

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers = {self.workers}: at least 1 is needed.")
        for name in ("", "total_"):
            self._check_marks(f"{name}low_water_records", f"{name}high_water_records")
        self._check_marks("total_low_water_bytes", "total_high_water_bytes")
        if self.max_uncommitted_records < self.high_water_records:
            raise UsageError(
                f"max_uncommitted_records = {self.max_uncommitted_records} is below high_water_records = "
                f"{self.high_water_records}, which could never be reached. Raise the first or lower the second."
            )
        if self.max_attempts is not None and self.max_attempts < 1:
            raise UsageError(f"max_attempts = {self.max_attempts}: use 1 or more, or None for no limit.")
        if not 0 <= self.retry_backoff_ms <= self.retry_backoff_max_ms:
            raise UsageError(
                f"retry_backoff_ms = {self.retry_backoff_ms} must lie between 0 and retry_backoff_max_ms = "
                f"{self.retry_backoff_max_ms}."
            )
        if not 0 <= self.retry_backoff_jitter < 1:
            raise UsageError(f"retry_backoff_jitter = {self.retry_backoff_jitter}: use 0 or more, and less than 1.")
        if self.auto_commit_interval_ms is not None and self.auto_commit_interval_ms < 1:
            raise UsageError(
                f"auto_commit_interval_ms = {self.auto_commit_interval_ms}: use 1 or more, or None to commit by hand."
            )

    def backoff_ms(self, failures: int, random: float) -> int:
        """The delay after the `failures`-th failure, as in Kafka's clients: doubled each time, with jitter.

        The shell draws `random` from [0, 1); 0.5 means no jitter.
        """
        doubled_ms = self.retry_backoff_ms << min(failures - 1, 32)  # 32 doublings exceed any maximum
        spread = 1 + self.retry_backoff_jitter * (2 * random - 1)
        return round(min(doubled_ms, self.retry_backoff_max_ms) * spread)

    def _check_marks(self, low_name: str, high_name: str) -> None:
        low, high = getattr(self, low_name), getattr(self, high_name)
        if not 0 <= low < high:
            raise UsageError(f"{low_name} = {low} must be 0 or more and below {high_name} = {high}.")
