"""Turns consumer settings into the configuration of the consumer's parts."""

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from slackwater.client.config import CONSUMER_SETTINGS, int_value
from slackwater.client.consumer.fetcher import FetcherConfig
from slackwater.client.network.fetch import FetchOptions
from slackwater.client.network.offsets import EARLIEST, LATEST
from slackwater.escaping import get_logger
from slackwater.group.assignors import Assignor, get_assignor
from slackwater.group.errors import UsageError
from slackwater.group.member import MemberConfig
from slackwater.settings import Value
from slackwater.variables import expand_variables

# The lines of a consumer have one logger, whichever module writes them.
log = get_logger("slackwater.client.consumer.consumer")
STRATEGY: Final = "partition.assignment.strategy"
_client_numbers = itertools.count(1)
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def default_client_id(group_id: str) -> str:
    """Return the client.id of a consumer without one, as in Java."""
    number = next(_client_numbers)
    return f"consumer-{group_id}-{number}" if group_id else f"consumer-{number}"


def parse_assignors(strategy: Any) -> tuple[Assignor, ...]:
    """Return the assignors of partition.assignment.strategy: names or `Assignor` objects."""
    if strategy is None:
        strategy = CONSUMER_SETTINGS[STRATEGY].default
    if isinstance(strategy, str):
        items: Any = expand_variables(STRATEGY, strategy).split(",")
    else:
        items = [strategy] if isinstance(strategy, Assignor) else strategy
    return tuple(get_assignor(item.strip() if isinstance(item, str) else item) for item in items)


def member_config(values: Mapping[str, Value], client_id: str, assignors: tuple[Assignor, ...]) -> MemberConfig:
    """Return the configuration of the group member."""
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


def fetcher_config(values: Mapping[str, Value], now_ms: Callable[[], int]) -> FetcherConfig:
    """Return the configuration of the fetcher; an invalid auto.offset.reset raises `UsageError`."""
    policy = str(values["auto.offset.reset"])
    reset_timestamp(policy, 0)
    options = FetchOptions(
        min_bytes=int_value(values, "fetch.min.bytes"),
        max_bytes=int_value(values, "fetch.max.bytes"),
        max_wait_ms=int_value(values, "fetch.max.wait.ms"),
        max_partition_bytes=int_value(values, "max.partition.fetch.bytes"),
        read_committed=values["isolation.level"] == "read_committed",
        client_rack=str(values["client.rack"]),
    )
    return FetcherConfig(
        options=options,
        create_topics=bool(values["allow.auto.create.topics"]),
        reset_timestamp=lambda: reset_timestamp(policy, now_ms()),
    )


def reset_timestamp(policy: str, now_ms: int) -> int | None:
    """Return the ListOffsets timestamp of an auto.offset.reset policy; None for `none`."""
    if policy in ("earliest", "latest", "none"):
        return {"earliest": EARLIEST, "latest": LATEST, "none": None}[policy]
    duration = _DURATION.fullmatch(policy.removeprefix("by_duration:"))
    if not policy.startswith("by_duration:") or duration is None or not any(duration.groups()):
        raise UsageError(
            f"auto.offset.reset = {policy} is unknown; use earliest, latest, none, or by_duration: with a duration "
            "such as PT1H."
        )
    days, hours, minutes, seconds = (float(part or 0) for part in duration.groups())
    return max(now_ms - int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000), 0)


def warn_about_settings(member: MemberConfig) -> None:
    """Log a warning for timeouts that are valid but risky."""
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
            "processing does not look like a crash; a slow member leaves before its session could expire.",
            member.max_poll_interval_ms,
            member.session_timeout_ms,
        )
