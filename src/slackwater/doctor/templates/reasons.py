"""The trigger of a rebalance, from the reason in the coordinator's log.

Invariants:
- The templates match the reasons in `Preparing to rebalance group … (reason: …)` (docs/kafka-behaviours.md, section
  14).
- A client's own reason (KIP-800) decides, as in group/coordinator/triggers.py. `Updating metadata for member` without
  one has several possible causes: the trigger is `unknown`.
"""

from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource, Trigger

_CLIENT: Final = "[[; client reason: <client_reason>]]"


def _why(name: str, versions: str, key: str, wording: str, trigger: Trigger) -> Template:
    return Template(name, versions, key, wording + "[[.]]", EventKind.REBALANCE_STARTED, {"trigger": trigger})


REASONS: Final = Family(
    name="reason",
    source=EventSource.BROKER_LOG,
    markers=("",),
    prefix="^",
    prefix_slots=(),
    words=(),
    suffix="$",
    templates=(
        _why(
            "new member",
            "2.1+",
            "Adding new member ",
            f"Adding new member <culprit> with group instance[[ ]]id <instance>{_CLIENT}",
            Trigger.MEMBER_JOIN,
        ),
        _why(
            "leave request",
            "4.0+",
            "explicit `LeaveGroup` request for ",
            "explicit `LeaveGroup` request for (<member_ids>) members",
            Trigger.MEMBER_LEAVE,
        ),
        _why(
            "leave request",
            "2.1-3.9",
            "emoving member ",
            f"[[R]][[r]]emoving member <culprit> on LeaveGroup{_CLIENT}",
            Trigger.MEMBER_LEAVE,
        ),
        _why(
            "session expired",
            "2.1+",
            "emoving member ",
            "removing member <culprit> on heartbeat expiration",
            Trigger.SESSION_TIMEOUT,
        ),
        _why(
            "metadata updated",
            "2.1+",
            "Updating metadata for member ",
            f"Updating metadata for member <culprit>[[ during <*>]]{_CLIENT}",
            Trigger.UNKNOWN,
        ),
        _why(
            "leader rejoins",
            "2.1+",
            "eader ",
            f"[[L]][[l]]eader <culprit> re-joining group[[ during <*>]]{_CLIENT}",
            Trigger.LEADER_REJOIN,
        ),
        _why(
            "member rejoins",
            "3.0+",
            " joining group during ",
            f"Member <culprit>[[ is]] joining group during <*>{_CLIENT}",
            Trigger.UNKNOWN,
        ),
        _why(
            "static member changed",
            "2.4+",
            "static member ",
            f"Updating metadata for static member <culprit> with instance id <instance>{_CLIENT}",
            Trigger.STATIC_CHANGED,
        ),
        _why(
            "static member changed the protocol",
            "2.5+",
            "static member ",
            "Group's selectedProtocol will change because static member <culprit> with instance id <instance> joined "
            f"with change of protocol{_CLIENT}",
            Trigger.STATIC_CHANGED,
        ),
        _why(
            "sync missing",
            "3.1+",
            "on pending sync request expiration",
            "Removing <member_ids> on pending sync request expiration",
            Trigger.SYNC_TIMEOUT,
        ),
        _why(
            "over capacity",
            "2.2+",
            "over capacity",
            "Freshly-loaded group <*>is over capacity<*>",
            Trigger.OVER_CAPACITY,
        ),
        _why(
            "downgraded",
            "3.8+",
            "Downgrade group ",
            "Downgrade group <*> from consumer to classic<*>",
            Trigger.PROTOCOL_CHANGE,
        ),
    ),
)

CLIENT_REASONS: Final = (
    ("consumer poll timeout has expired", Trigger.POLL_TIMEOUT),
    ("rebalance enforced by user", Trigger.USER_ENFORCED),
    ("need to revoke partitions", Trigger.COOPERATIVE_FOLLOWUP),
    ("subscription has changed", Trigger.SUBSCRIPTION_CHANGE),
    ("member was removed by an admin", Trigger.ADMIN_REMOVAL),
    ("CoordinatorLoadInProgress", Trigger.COORDINATOR_FAILOVER),
    ("CoordinatorNotAvailable", Trigger.COORDINATOR_FAILOVER),
    ("NotCoordinator", Trigger.COORDINATOR_FAILOVER),
)
"""Parts of clients' reasons that say more than the coordinator's: the first that is contained decides."""
