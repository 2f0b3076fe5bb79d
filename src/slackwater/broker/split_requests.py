"""Splits a large request into parts, one per iteration of the event loop, so that other clients do not wait for it.

For requests with many elements that are independent of each other; the handler does not notice. Work that is long for
one element is done in slices of time by the handler (`slices`). A request may use both.

Invariants:
- A request is split only if its elements are independent of each other: the response of every part is that of the same
  elements in the whole request. The response of the request is the concatenation of the parts' responses.
- A part has at most `max_elements` elements, which take about 20 ms. An element with more than that many elements of
  its own (a topic with many partitions) is divided, and its response is put together again.
- A part starts when the one before it has its response. Requests that follow on the connection wait for the last part.
- The parts of a closed connection are not processed any more.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from slackwater.broker.request_context import RequestContext
from slackwater.wire import apis
from slackwater.wire.apis import Api
from slackwater.wire.errors import WireError
from slackwater.wire.messages.produce import ProduceRequest
from slackwater.wire.request_response import RequestHeader
from slackwater.wire.schema import Request, Response

MAX_ELEMENTS: Final = 2_000
MAX_NAMES_LENGTH: Final = 1_000_000  # a name has at most 249 characters


class Split:
    """Which array of a request is divided, which array of the response belongs to it, and the size of a part."""

    __slots__ = ("max_elements", "request", "response")

    def __init__(self, request: str, response: str, max_elements: int = MAX_ELEMENTS) -> None:
        self.request = request.split(".")
        self.response = response.split(".")
        self.max_elements = max_elements


# Resources that take long: they are described in detail, or every change is flushed to disk.
_FEW: Final = 50
_SPLITS: Final[dict[int, tuple[Split, ...]]] = {
    apis.LIST_OFFSETS.key: (Split("topics.partitions", "topics.partitions"),),
    apis.METADATA.key: (Split("topics", "topics", 500),),
    apis.OFFSET_COMMIT.key: (Split("topics.partitions", "topics.partitions", 1_000),),
    apis.OFFSET_FETCH.key: (
        Split("groups.topics.partition_indexes", "groups.topics.partitions"),
        Split("topics.partition_indexes", "topics.partitions"),
    ),
    apis.FIND_COORDINATOR.key: (Split("coordinator_keys", "coordinators"),),
    apis.LEAVE_GROUP.key: (Split("members", "members"),),
    apis.DESCRIBE_GROUPS.key: (Split("groups", "groups"),),
    apis.CREATE_TOPICS.key: (Split("topics", "topics", _FEW),),
    apis.DELETE_TOPICS.key: (Split("topics", "responses", _FEW), Split("topic_names", "responses", _FEW)),
    apis.DELETE_RECORDS.key: (Split("topics.partitions", "topics.partitions", _FEW),),
    apis.OFFSET_FOR_LEADER_EPOCH.key: (Split("topics.partitions", "topics.partitions"),),
    apis.WRITE_TXN_MARKERS.key: (Split("markers.topics.partition_indexes", "markers.topics.partitions"),),
    apis.CREATE_ACLS.key: (Split("creations", "results"),),
    apis.DELETE_ACLS.key: (Split("filters", "filter_results"),),
    apis.DESCRIBE_CONFIGS.key: (Split("resources", "results", _FEW),),
    apis.ALTER_CONFIGS.key: (Split("resources", "responses", _FEW),),
    apis.INCREMENTAL_ALTER_CONFIGS.key: (Split("resources", "responses", _FEW),),
    apis.CREATE_PARTITIONS.key: (Split("topics", "results", _FEW),),
    apis.DELETE_GROUPS.key: (Split("groups_names", "results"),),
    apis.ELECT_LEADERS.key: (Split("topic_partitions.partitions", "replica_election_results.partition_result"),),
    apis.ALTER_PARTITION_REASSIGNMENTS.key: (Split("topics.partitions", "responses.partitions"),),
    apis.LIST_PARTITION_REASSIGNMENTS.key: (Split("topics.partition_indexes", "topics.partitions"),),
    apis.OFFSET_DELETE.key: (Split("topics.partitions", "topics.partitions"),),
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS.key: (Split("users", "results"),),
    apis.DESCRIBE_PRODUCERS.key: (Split("topics.partition_indexes", "topics.partitions"),),
    apis.TXN_OFFSET_COMMIT.key: (Split("topics.partitions", "topics.partitions", 1_000),),
    apis.CONSUMER_GROUP_DESCRIBE.key: (Split("group_ids", "groups"),),
    apis.ALTER_CLIENT_QUOTAS.key: (Split("entries", "entries"),),
    apis.DESCRIBE_TRANSACTIONS.key: (Split("transactional_ids", "transaction_states", 100),),
}


_MIN_ELEMENT_BYTES: Final = 3  # of the requests below
# Requests that cannot be divided: their arrays, and the elements that they may have, which take about 100 ms.
_LIMITS: Final[dict[int, tuple[tuple[str, ...], int]]] = {
    apis.PRODUCE.key: (("topic_data.partition_data",), 10_000),
    apis.FETCH.key: (("topics.partitions",), 20_000),
    apis.DESCRIBE_LOG_DIRS.key: (("topics.partitions",), 20_000),
    apis.ALTER_REPLICA_LOG_DIRS.key: (("dirs.topics.partitions",), 20_000),
    apis.ADD_PARTITIONS_TO_TXN.key: (
        ("transactions.topics.partitions", "v3_and_below_topics.partitions"),
        10_000,
    ),
    apis.ALTER_USER_SCRAM_CREDENTIALS.key: (("deletions", "upsertions"), 5_000),
}
# Requests with arrays that take no longer with more elements, or whose elements `message.max.bytes` limits.
SHORT: Final = frozenset(
    {
        apis.JOIN_GROUP.key,
        apis.SYNC_GROUP.key,
        apis.LIST_GROUPS.key,
        apis.CREATE_DELEGATION_TOKEN.key,
        apis.DESCRIBE_DELEGATION_TOKEN.key,
        apis.DESCRIBE_CLIENT_QUOTAS.key,
        apis.LIST_TRANSACTIONS.key,
        apis.CONSUMER_GROUP_HEARTBEAT.key,
        apis.LIST_CONFIG_RESOURCES.key,
        apis.DESCRIBE_TOPIC_PARTITIONS.key,
    }
)


def is_bounded(api: Api) -> bool:
    """Whether a request of this API is divided or limited, or is short with any number of elements."""
    return api.key in _SPLITS or api.key in _LIMITS or api.key in SHORT


class Part(NamedTuple):
    """A part of a request; the first `continued` levels of its first element continue the part before it."""

    request: Request
    continued: int


def find_split(request: Request, size: int) -> Split | None:
    """Return how to divide a request of `size` bytes; None if it is small or cannot be divided.

    Raises `WireError` if it cannot be divided and is too large.
    """
    if limit := _LIMITS.get(request.API.key):
        arrays, max_elements = limit
        if size < max_elements * _MIN_ELEMENT_BYTES:
            return None
        paths = [array.split(".") for array in arrays]
        if (count := sum(_count(getattr(request, path[0]) or [], path[1:]) for path in paths)) > max_elements:
            raise WireError(f"{request.API.name} has {count} elements; {max_elements} are allowed.")
        if isinstance(request, ProduceRequest):
            _check_names(request)
        return None
    for split in _SPLITS.get(request.API.key, ()):
        elements = getattr(request, split.request[0])
        if size > split.max_elements and elements and _count(elements, split.request[1:]) > split.max_elements:
            return split
    return None


def _check_names(request: ProduceRequest) -> None:
    """Raise `WireError` if the topic names are too long; only a Produce request may have 100 MB."""
    length = sum([len(data.name) for data in request.topic_data])
    if length > MAX_NAMES_LENGTH:
        raise WireError(f"Produce has topic names of {length} characters; {MAX_NAMES_LENGTH} are allowed.")


class PartialHandling:
    """Handles one request in parts; `handle` processes a part, `call_soon` calls a function in the next iteration."""

    def __init__(
        self,
        context: RequestContext,
        request: Request,
        split: Split,
        *,
        handle: Callable[[RequestContext, Request], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._context = context
        self._parts = parts(request, split)
        self._split = split
        self._handle = handle
        self._call_soon = call_soon
        self._part: Part | None = None
        self._response: Response | None = None

    def start(self) -> None:
        """Process the first part."""
        self._next()

    def _next(self) -> None:
        if self._context.connection.is_closing:
            return
        self._part = next(self._parts, None)
        if self._part is not None:
            self._handle(_PartContext(self._context, self._on_response), self._part.request)
        elif self._response is not None:
            self._context.respond(self._response)

    def _on_response(self, response: Response) -> None:
        assert self._part is not None
        if self._response is None:
            self._response = response
        else:
            path = self._split.response
            merge(getattr(self._response, path[0]), getattr(response, path[0]), path[1:], self._part.continued)
        self._call_soon(self._next)


class _PartContext(RequestContext):
    """The context of a part: its response goes to the handling of the whole request."""

    __slots__ = ("_on_response",)

    def __init__(self, whole: RequestContext, on_response: Callable[[Response], None]) -> None:
        header = RequestHeader(whole.api_key, whole.version, whole.correlation_id, whole.client_id)
        super().__init__(whole.connection, header, whole.received_at)
        self._on_response = on_response

    def respond(self, response: Response) -> None:
        """Take the response of the part."""
        self.response = b""
        self._on_response(response)


def parts(request: Request, split: Split) -> Iterator[Part]:
    """Divide a request."""
    first, *rest = split.request
    for elements, continued in _divide(getattr(request, first), rest, split.max_elements):
        yield Part(replace(request, **{first: elements}), continued)  # type: ignore[type-var]  # every Request is a dataclass


def merge(rows: list[Any], more: list[Any], path: list[str], continued: int) -> None:
    """Append the rows of a part; the first row extends the last one if it continues it."""
    if continued and rows and more and _is_same(rows[-1], more[0]):
        merge(getattr(rows[-1], path[0]), getattr(more[0], path[0]), path[1:], continued - 1)
        more = more[1:]
    rows += more


def _divide(elements: list[Any], path: list[str], max_elements: int) -> Iterator[tuple[list[Any], int]]:
    part: list[Any] = []
    size = 0
    for element in elements:
        weight = 1 + _count(getattr(element, path[0]) or [], path[1:]) if path else 1
        if part and size + weight > max_elements:
            yield part, 0
            part, size = [], 0
        if weight <= max_elements:
            part.append(element)
            size += weight
            continue
        for number, (inner, continued) in enumerate(_divide(getattr(element, path[0]), path[1:], max_elements)):
            yield [replace(element, **{path[0]: inner})], continued + 1 if number else 0
    if part:
        yield part, 0


def _count(elements: list[Any], path: list[str]) -> int:
    """Return the number of elements, with those at `path` inside them."""
    if not path:
        return len(elements)
    return len(elements) + sum(_count(getattr(element, path[0]) or [], path[1:]) for element in elements)


def _is_same(row: Any, other: Any) -> bool:
    """Whether two rows have equal values in every field that is not a list."""
    values = [(getattr(row, field.name), getattr(other, field.name)) for field in fields(row)]
    return all(value == value_of_other for value, value_of_other in values if not isinstance(value, list))
