"""A consumer's settings made into what its parts take, and what is worth a warning about them."""

import itertools
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from slackwater.client.config import CONSUMER_SETTINGS, int_value
from slackwater.client.config.parsing import expand_variables
from slackwater.client.consumer.fetcher import FetchConfig
from slackwater.client.network.offsets import EARLIEST, LATEST
from slackwater.group.assignors import Assignor, assignor
from slackwater.group.errors import UsageError
from slackwater.group.member import MemberConfig
from slackwater.settings import Value

log = logging.getLogger("slackwater.client.consumer.consumer")
STRATEGY: Final = "partition.assignment.strategy"
_numbers = itertools.count(1)
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def default_client_id(group_id: str) -> str:
    """The name of a consumer that was given none, as in Java."""
    return f"consumer-{group_id}-{next(_numbers)}" if group_id else f"consumer-{next(_numbers)}"


def parse_assignors(wanted: Any) -> tuple[Assignor, ...]:
    """The assignors that a user named, or brought along."""
    if wanted is None:
        wanted = CONSUMER_SETTINGS[STRATEGY].default
    if isinstance(wanted, str):
        words: Any = expand_variables(STRATEGY, wanted).split(",")
    else:
        words = [wanted] if isinstance(wanted, Assignor) else wanted
    return tuple(assignor(word.strip() if isinstance(word, str) else word) for word in words)


def member_config(values: Mapping[str, Value], client_id: str, assignors: tuple[Assignor, ...]) -> MemberConfig:
    """What the group member takes."""
    rebalance_timeout_ms = int_value(values, "rebalance.timeout.ms")
    return MemberConfig(
        group_id=str(values["group.id"]),
        client_id=client_id,
        group_instance_id=str(values["group.instance.id"]) or None,
        session_timeout_ms=int_value(values, "session.timeout.ms"),
        heartbeat_interval_ms=int_value(values, "heartbeat.interval.ms"),
        max_poll_interval_ms=int_value(values, "max.poll.interval.ms"),
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else None,
        request_timeout_ms=int_value(values, "request.timeout.ms"),
        default_api_timeout_ms=int_value(values, "default.api.timeout.ms"),
        retry_backoff_ms=int_value(values, "retry.backoff.ms"),
        retry_backoff_max_ms=int_value(values, "retry.backoff.max.ms"),
        enable_auto_commit=bool(values["enable.auto.commit"]),
        auto_commit_interval_ms=int_value(values, "auto.commit.interval.ms"),
        assignors=assignors,
        client_rack=str(values["client.rack"]) or None,
        exclude_internal_topics=bool(values["exclude.internal.topics"]),
    )


def fetch_config(values: Mapping[str, Value], now_ms: Callable[[], int]) -> FetchConfig:
    """What the fetcher takes."""
    policy = str(values["auto.offset.reset"])
    reset_time(policy, 0)  # a wrong one is refused at once
    return FetchConfig(
        fetch_min_bytes=int_value(values, "fetch.min.bytes"),
        fetch_max_bytes=int_value(values, "fetch.max.bytes"),
        fetch_max_wait_ms=int_value(values, "fetch.max.wait.ms"),
        max_partition_fetch_bytes=int_value(values, "max.partition.fetch.bytes"),
        read_committed=values["isolation.level"] == "read_committed",
        client_rack=str(values["client.rack"]),
        create_topics=bool(values["allow.auto.create.topics"]),
        reset_to=lambda: reset_time(policy, now_ms()),
    )


def reset_time(policy: str, now_ms: int) -> int | None:
    """What auto.offset.reset means as a timestamp of ListOffsets; None is none."""
    if policy in ("earliest", "latest", "none"):
        return {"earliest": EARLIEST, "latest": LATEST, "none": None}[policy]
    found = _DURATION.fullmatch(policy.removeprefix("by_duration:"))
    if not policy.startswith("by_duration:") or found is None or not any(found.groups()):
        raise UsageError(
            f"auto.offset.reset = {policy} is unknown; use earliest, latest, none, or by_duration: with a duration "
            "such as PT1H."
        )
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return max(now_ms - int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000), 0)


def warn_about_settings(member: MemberConfig) -> None:
    """Settings that work, and will be regretted."""
    if member.heartbeat_interval_ms * 3 > member.session_timeout_ms:
        log.warning(
            "heartbeat.interval.ms = %d is more than a third of session.timeout.ms = %d: one lost heartbeat may cost "
            "the membership.",
            member.heartbeat_interval_ms,
            member.session_timeout_ms,
        )
    if member.max_poll_interval_ms < member.session_timeout_ms:
        log.warning(
            "max.poll.interval.ms = %d is below session.timeout.ms = %d: KIP-62 separates the two so that slow "
            "processing does not look like a crash; a member that stalls leaves before its session could end.",
            member.max_poll_interval_ms,
            member.session_timeout_ms,
        )
