"""Log lines of Kafka Connect's workers and of Kafka Streams, besides those of the consumers that they contain.

Invariants:
- A worker's coordinator logs a Java consumer's wording with the prefix `[Worker clientId=…, groupId=…]`. Before 2.0 it
  has no prefix.
- A stream thread names its consumer's client id without the suffix `-consumer`.
"""

from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

WORKER_EVENTS: Final = (
    Template("rebalance started", "2.3+", "Rebalance started", "Rebalance started", EventKind.PARTITIONS_REVOKED),
    Template(
        "worker assigned",
        "0.9+",
        " and got assignment: Assignment{",
        "Joined group[[ at generation <generation>]][[ with protocol version <*>]] and got assignment: Assignment{"
        "error=<*>, leader='<leader>', <*>}[[ with rebalance delay: <*>]]",
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "configuration offset differs",
        "0.9+",
        " does not match group assignment ",
        "Current config state offset <*> does not match group assignment <*>. Forcing rebalance.",
        EventKind.JOIN_REQUESTED,
        {"reason": "configuration offset does not match the assignment", "trigger": "unknown"},
    ),
    Template(
        "configuration behind",
        "0.9+",
        " is behind group assignment ",
        "Current config state offset <*> is behind group assignment <*>, reading to end of config log",
        None,
    ),
    Template(
        "configuration not read",
        "0.9+",
        "reach end of config log quickly enough",
        "<*>reach end of config log quickly enough, <*>",
        EventKind.JOIN_REQUESTED,
        {"reason": "the end of the configuration topic was not reached in time", "trigger": "unknown"},
    ),
    Template(
        "assignment failed",
        "0.9+",
        "Join group completed, but assignment failed",
        "Join group completed, but assignment failed <why>",
        EventKind.REBALANCE_FAILED,
        {"operation": "sync-group", "error": "configuration offset mismatch"},
    ),
    Template(
        "coordinator unreachable",
        "2.3+",
        "Broker coordinator was unreachable for ",
        "Broker coordinator was unreachable for <duration_ms>ms. Revoking previous assignment <*>",
        EventKind.COORDINATOR_LOST,
        {"why": "unreachable"},
    ),
    Template(
        "worker poll overrun",
        "2.7+",
        "worker poll timeout has expired.",
        "worker poll timeout has expired. <*>",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout"},
    ),
    Template(
        "worker started",
        "2.0+",
        "Herder start",
        "Herder start[[ing]][[ed]]",
        OtherEventKind.CLIENT_STARTED,
    ),
    Template(
        "worker stopped",
        "2.0+",
        "Herder stopped",
        "Herder stopped",
        OtherEventKind.CLIENT_CLOSED,
    ),
)

WORKER_MARKERS: Final = tuple(template.key for template in WORKER_EVENTS)

CONNECT: Final = Family(
    name="Connect without a prefix",
    source=EventSource.CLIENT_LOG,
    markers=(*WORKER_MARKERS, "WorkerSinkTask{id="),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        *WORKER_EVENTS,
        Template(
            "sink's commit refused",
            "0.10+",
            "Commit of offsets threw an unexpected exception",
            "WorkerSinkTask{id=<client>} Commit of offsets threw an unexpected exception<*>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "sink's commit refused",
            "0.10+",
            "Offset commit failed",
            "WorkerSinkTask{id=<client>} Offset commit failed<*>",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "sink's commit late",
            "0.10+",
            "Commit of offsets timed out",
            "WorkerSinkTask{id=<client>} Commit of offsets timed out",
            EventKind.COMMIT_REFUSED,
            {"error": "timed out"},
        ),
        Template(
            "task failed",
            "0.10+",
            "Task threw an uncaught and unrecoverable exception",
            "WorkerSinkTask{id=<client>} Task threw an uncaught and unrecoverable exception<*>",
            OtherEventKind.CLIENT_FAILED,
        ),
    ),
)

STREAMS: Final = Family(
    name="Kafka Streams",
    source=EventSource.CLIENT_LOG,
    markers=("stream-thread [", "stream-client ["),
    prefix=r"^(.*?)stream-(?:thread|client) \[([^\]]*)\] ",
    prefix_slots=("head", "client"),
    words=("ebalanc", "igrated"),
    tries_later_families=True,
    templates=(
        Template(
            "fenced",
            "2.5+",
            "missed a rebalance and dropped out of the consumer group",
            "Detected that the thread is being fenced. This implies that this thread missed a rebalance and dropped "
            "out of the consumer group. <*>",
            EventKind.SESSION_LOST,
            {"error": "the thread missed a rebalance and dropped out of the group"},
        ),
        Template(
            "task migrated",
            "1.0-2.4",
            "missed a rebalance and dropped out of the consumer group",
            "Detected <*>task<*> that got migrated to another thread. This implies that this thread missed a rebalance "
            "and dropped out of the consumer group. <*>",
            EventKind.SESSION_LOST,
            {"error": "the thread missed a rebalance and dropped out of the group"},
        ),
        Template(
            "follow-up",
            "2.4+",
            "ollowup rebalance",
            "<*>ollowup rebalance<*>",
            None,
        ),
        Template(
            "stopping",
            "1.0+",
            "PENDING_SHUTDOWN",
            "State transition from <*> to PENDING_SHUTDOWN",
            OtherEventKind.CLIENT_CLOSED,
        ),
        Template(
            "ended with an error",
            "1.0+",
            " to ERROR",
            "State transition from <*> to [[PENDING_]]ERROR",
            OtherEventKind.CLIENT_FAILED,
            {"error": "the streams client is in state ERROR"},
        ),
        Template("state changed", "1.0+", "State transition from ", "State transition from <*>", None),
        Template(
            "failed",
            "1.0+",
            "Encountered the following ",
            "Encountered the following [[unexpected Kafka ]]<*> during processing[[ <*>]]",
            OtherEventKind.CLIENT_FAILED,
        ),
        Template(
            "thread ended with an error",
            "0.10+",
            " due to the following error",
            "<*> due to the following error<*>",
            OtherEventKind.CLIENT_FAILED,
        ),
        Template(
            "thread ended with an error",
            "2.0+",
            "the thread is going to shut down",
            "Encountered <*> and the thread is going to shut down<*>",
            OtherEventKind.CLIENT_FAILED,
        ),
    ),
)
