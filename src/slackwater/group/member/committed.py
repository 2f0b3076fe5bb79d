"""Looking up the group's committed offsets.

Rules kept here
- Always asks for stable offsets: one that waits for its transaction to end is asked for again (CL-39).
- Passing faults are tried again until default.api.timeout.ms; no membership is needed (OF-02).
- COORDINATOR_NOT_AVAILABLE leads to a new look-up as NOT_COORDINATOR does; the Java client gives up there.
"""

from collections.abc import Iterable

from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.member.core import MemberContext, PendingRequest
from slackwater.group.member.effects import OffsetsFetched
from slackwater.group.member.errors import OperationTimedOut
from slackwater.group.messages import FetchedGroup, GroupToFetch, OffsetFetch, OffsetFetchResponse
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

Found = dict[TopicPartition, OffsetAndMetadata | None]


class _Fetch:
    __slots__ = ("deadline_ms", "fetch_id", "partitions", "request_id", "retry_due_ms", "started_ms", "tries")

    def __init__(self, fetch_id: int, partitions: tuple[TopicPartition, ...], now_ms: int, deadline_ms: int) -> None:
        self.fetch_id = fetch_id
        self.partitions = partitions
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.retry_due_ms = now_ms
        self.tries = 0
        self.request_id: int | None = None


class CommittedOffsetFetcher:
    """All look-ups of a member that are not done."""

    def __init__(self, core: MemberContext) -> None:
        self._core = core
        self._open: list[_Fetch] = []

    def fetch(self, partitions: Iterable[TopicPartition], now_ms: int, *, fetch_id: int) -> None:
        """Look these up and tell `OffsetsFetched(fetch_id)`."""
        deadline_ms = now_ms + self._core.config.default_api_timeout_ms
        fetch = _Fetch(fetch_id, tuple(sorted(set(partitions))), now_ms, deadline_ms)
        self._open.append(fetch)
        if fetch.partitions:
            self._try(fetch, now_ms)
        else:
            self._finish(fetch, {}, None, now_ms)

    def tick(self, now_ms: int) -> None:
        """Send again what is due, give up what is late."""
        for fetch in list(self._open):
            if now_ms >= fetch.deadline_ms:
                seconds = (fetch.deadline_ms - fetch.started_ms) / 1_000
                message = f"committed offsets could not be had within {seconds:g} s."
                self._finish(fetch, {}, OperationTimedOut(message), now_ms)
            elif fetch.request_id is None and now_ms >= fetch.retry_due_ms:
                self._try(fetch, now_ms)

    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        dues = [fetch.deadline_ms for fetch in self._open]
        for fetch in self._open:
            if fetch.request_id is None:
                lookup_ms = self._core.lookup_due_ms
                if self._core.coordinator is not None:
                    dues.append(fetch.retry_due_ms)
                elif lookup_ms is not None:
                    dues.append(max(lookup_ms, fetch.retry_due_ms))
        return min(dues, default=None)

    def abandon(self, now_ms: int) -> None:
        """The member is closed: nothing waits any longer."""
        for fetch in list(self._open):
            self._finish(fetch, {}, OperationTimedOut("the consumer was closed before the offsets came."), now_ms)

    def answered(self, pending: PendingRequest, response: OffsetFetchResponse, now_ms: int) -> None:
        """OffsetFetch was answered."""
        fetch = self._of(pending)
        group = next((one for one in response.groups if one.group_id == self._core.config.group_id), None)
        if fetch is None or group is None:
            return self._again(fetch, now_ms)
        match group.error:
            case Error.NONE:
                return self._read(fetch, group, now_ms)
            case Error.COORDINATOR_LOAD_IN_PROGRESS:
                return self._again(fetch, now_ms)
            case Error.NOT_COORDINATOR | Error.COORDINATOR_NOT_AVAILABLE:
                self._again(fetch, now_ms)
                return self._core.lose_coordinator(f"error response {group.error.name}", now_ms)
            case Error.GROUP_AUTHORIZATION_FAILED:
                message = f"Not authorized to access group: {self._core.config.group_id}"
            case _:
                message = f"Unexpected error in fetch offset response: {group.error.name}"
        return self._finish(fetch, {}, BrokerError(group.error, message), now_ms)

    def unanswered(self, pending: PendingRequest, now_ms: int) -> None:
        """OffsetFetch got no answer: the connection is gone."""
        self._again(self._of(pending), now_ms)
        self._core.lose_coordinator("null", now_ms, disconnected=True)

    def _of(self, pending: PendingRequest) -> _Fetch | None:
        return next((fetch for fetch in self._open if fetch.request_id == pending.request_id), None)

    def _try(self, fetch: _Fetch, now_ms: int) -> None:
        if self._core.find_coordinator(now_ms):
            group = GroupToFetch(self._core.config.group_id, fetch.partitions)
            fetch.request_id = self._core.send(OffsetFetch((group,), require_stable=True), now_ms)

    def _read(self, fetch: _Fetch, group: FetchedGroup, now_ms: int) -> None:
        found: Found = dict.fromkeys(fetch.partitions)
        unauthorized: set[str] = set()
        unstable = False
        for at in group.offsets:
            match at.error:
                case Error.NONE:
                    if at.offset >= 0:
                        position = OffsetAndMetadata(at.offset, at.leader_epoch, at.metadata or "")
                        found[TopicPartition(at.topic, at.partition)] = position
                case Error.UNSTABLE_OFFSET_COMMIT:
                    unstable = True
                case Error.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(at.topic)
                case Error.UNKNOWN_TOPIC_OR_PARTITION:
                    message = f"Topic or Partition {at.topic}-{at.partition} does not exist"
                    return self._finish(fetch, {}, BrokerError(at.error, message), now_ms)
                case _:
                    message = (
                        f"Unexpected error in fetch offset response for {at.topic}-{at.partition}: {at.error.name}"
                    )
                    return self._finish(fetch, {}, BrokerError(at.error, message), now_ms)
        if unauthorized:
            message = f"Not authorized to access topics: [{', '.join(sorted(unauthorized))}]"
            return self._finish(fetch, {}, BrokerError(Error.TOPIC_AUTHORIZATION_FAILED, message), now_ms)
        if unstable:
            return self._again(fetch, now_ms)
        return self._finish(fetch, found, None, now_ms)

    def _again(self, fetch: _Fetch | None, now_ms: int) -> None:
        if fetch is not None:
            fetch.request_id = None
            fetch.retry_due_ms = now_ms + self._core.backoff_ms(fetch.tries)
            fetch.tries += 1

    def _finish(self, fetch: _Fetch, found: Found, error: SlackwaterError | None, now_ms: int) -> None:
        self._open.remove(fetch)
        self._core.metrics.committed_ms += now_ms - fetch.started_ms
        self._core.effects.append(OffsetsFetched(fetch.fetch_id, found, error))
