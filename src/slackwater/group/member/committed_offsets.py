"""Fetches the group's committed offsets.

Invariants:
- Requests require stable offsets; an offset of an open transaction is requested again (CL-39).
- Retriable errors are retried until default.api.timeout.ms; no membership is needed (OF-02).
- COORDINATOR_NOT_AVAILABLE leads to a new look-up as NOT_COORDINATOR does; the Java client gives up there.
"""

from collections.abc import Iterable

from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.member.context import MemberContext, PendingRequest
from slackwater.group.member.effects import OffsetsFetched
from slackwater.group.member.errors import OperationTimedOut
from slackwater.group.messages import FetchedGroup, GroupToFetch, OffsetFetch, OffsetFetchResponse
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

CommittedByPartition = dict[TopicPartition, OffsetAndMetadata | None]


class _PendingFetch:
    __slots__ = ("attempts", "deadline_ms", "fetch_id", "partitions", "request_id", "retry_due_ms", "started_ms")

    def __init__(self, fetch_id: int, partitions: tuple[TopicPartition, ...], now_ms: int, deadline_ms: int) -> None:
        self.fetch_id = fetch_id
        self.partitions = partitions
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.retry_due_ms = now_ms
        self.attempts = 0
        self.request_id: int | None = None


class CommittedOffsetFetcher:
    """The pending fetches of a member."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._open: list[_PendingFetch] = []

    def fetch(self, partitions: Iterable[TopicPartition], now_ms: int, *, fetch_id: int) -> None:
        """Fetch the committed offsets; `OffsetsFetched(fetch_id)` returns them."""
        deadline_ms = now_ms + self._context.config.default_api_timeout_ms
        fetch = _PendingFetch(fetch_id, tuple(sorted(set(partitions))), now_ms, deadline_ms)
        self._open.append(fetch)
        if fetch.partitions:
            self._try(fetch, now_ms)
        else:
            self._finish(fetch, {}, None, now_ms)

    def tick(self, now_ms: int) -> None:
        """Retry fetches that are due, fail fetches that are too late."""
        for fetch in list(self._open):
            if now_ms >= fetch.deadline_ms:
                seconds = (fetch.deadline_ms - fetch.started_ms) / 1_000
                message = f"the committed offsets were not fetched within {seconds:g} s."
                self._finish(fetch, {}, OperationTimedOut(message), now_ms)
            elif fetch.request_id is None and now_ms >= fetch.retry_due_ms:
                self._try(fetch, now_ms)

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        dues = [fetch.deadline_ms for fetch in self._open]
        for fetch in self._open:
            if fetch.request_id is None:
                lookup_ms = self._context.lookup_due_ms
                if self._context.coordinator is not None:
                    dues.append(fetch.retry_due_ms)
                elif lookup_ms is not None:
                    dues.append(max(lookup_ms, fetch.retry_due_ms))
        return min(dues, default=None)

    def abandon(self, now_ms: int) -> None:
        """Fail every fetch because the member is closed."""
        for fetch in list(self._open):
            self._finish(
                fetch, {}, OperationTimedOut("the consumer was closed before the offsets were fetched."), now_ms
            )

    def on_response(self, pending: PendingRequest, response: OffsetFetchResponse, now_ms: int) -> None:
        """Handle an OffsetFetch response."""
        fetch = self._find(pending)
        group = next(
            (
                fetched_group
                for fetched_group in response.groups
                if fetched_group.group_id == self._context.config.group_id
            ),
            None,
        )
        if fetch is None or group is None:
            return self._retry(fetch, now_ms)
        match group.error:
            case Error.NONE:
                return self._read(fetch, group, now_ms)
            case Error.COORDINATOR_LOAD_IN_PROGRESS:
                return self._retry(fetch, now_ms)
            case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
                self._retry(fetch, now_ms)
                return self._context.lose_coordinator(f"error response {group.error.name}", now_ms)
            case Error.GROUP_AUTHORIZATION_FAILED:
                message = f"Not authorized to access group: {self._context.config.group_id}"
            case _:
                message = f"Unexpected error in fetch offset response: {group.error.name}"
        return self._finish(fetch, {}, BrokerError(group.error, message), now_ms)

    def on_no_response(self, pending: PendingRequest, now_ms: int) -> None:
        """Handle an OffsetFetch without a response: the connection is lost."""
        self._retry(self._find(pending), now_ms)
        self._context.lose_coordinator("null", now_ms, disconnected=True)

    def _find(self, pending: PendingRequest) -> _PendingFetch | None:
        return next((fetch for fetch in self._open if fetch.request_id == pending.request_id), None)

    def _try(self, fetch: _PendingFetch, now_ms: int) -> None:
        if self._context.find_coordinator(now_ms):
            group = GroupToFetch(self._context.config.group_id, fetch.partitions)
            fetch.request_id = self._context.send(OffsetFetch((group,), require_stable=True), now_ms)

    def _read(self, fetch: _PendingFetch, group: FetchedGroup, now_ms: int) -> None:
        committed: CommittedByPartition = dict.fromkeys(fetch.partitions)
        unauthorized: set[str] = set()
        unstable = False
        for entry in group.offsets:
            match entry.error:
                case Error.NONE:
                    if entry.offset >= 0:
                        position = OffsetAndMetadata(entry.offset, entry.leader_epoch, entry.metadata or "")
                        committed[TopicPartition(entry.topic, entry.partition)] = position
                case Error.UNSTABLE_OFFSET_COMMIT:
                    unstable = True
                case Error.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(entry.topic)
                case Error.UNKNOWN_TOPIC_OR_PARTITION:
                    message = f"Topic or Partition {entry.topic}-{entry.partition} does not exist"
                    return self._finish(fetch, {}, BrokerError(entry.error, message), now_ms)
                case _:
                    message = (
                        f"Unexpected error in fetch offset response for {entry.topic}-{entry.partition}: "
                        f"{entry.error.name}"
                    )
                    return self._finish(fetch, {}, BrokerError(entry.error, message), now_ms)
        if unauthorized:
            message = f"Not authorized to access topics: [{', '.join(sorted(unauthorized))}]"
            return self._finish(fetch, {}, BrokerError(Error.TOPIC_AUTHORIZATION_FAILED, message), now_ms)
        if unstable:
            return self._retry(fetch, now_ms)
        return self._finish(fetch, committed, None, now_ms)

    def _retry(self, fetch: _PendingFetch | None, now_ms: int) -> None:
        if fetch is not None:
            fetch.request_id = None
            fetch.retry_due_ms = now_ms + self._context.backoff_ms(fetch.attempts)
            fetch.attempts += 1

    def _finish(
        self, fetch: _PendingFetch, committed: CommittedByPartition, error: SlackwaterError | None, now_ms: int
    ) -> None:
        self._open.remove(fetch)
        self._context.metrics.committed_ms += now_ms - fetch.started_ms
        self._context.effects.append(OffsetsFetched(fetch.fetch_id, committed, error))
