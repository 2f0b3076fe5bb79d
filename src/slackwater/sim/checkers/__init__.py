"""The checks of a simulated run, one module each.

Invariants:
- A checker uses requests, responses, records, events and processed records. Of the internal state it reads only the
  `SimulationView`.
- A checker raises `Violation` as soon as its rule is broken.
"""

from slackwater.sim.checkers.bounded_phases import JoinPhasesAreBounded
from slackwater.sim.checkers.causes import RebalancesHaveCauses
from slackwater.sim.checkers.checker import Checker, SimulationView, Violation
from slackwater.sim.checkers.convergence import GroupConverges
from slackwater.sim.checkers.durability import ResponsesAreDurable
from slackwater.sim.checkers.expiry import OnlySilentMembersExpire
from slackwater.sim.checkers.fencing import OldGenerationsAreFenced
from slackwater.sim.checkers.handover import PartitionsAreRevokedFirst
from slackwater.sim.checkers.leader import LeaderHasJoined
from slackwater.sim.checkers.one_owner import OneOwnerPerGeneration
from slackwater.sim.checkers.processing import NoRecordLostOrRepeated
from slackwater.sim.checkers.reload import ReloadRestoresGroup
from slackwater.sim.checkers.responses import EveryRequestGetsOneResponse

ALL: tuple[type[Checker], ...] = (
    ReloadRestoresGroup,
    ResponsesAreDurable,
    PartitionsAreRevokedFirst,
    EveryRequestGetsOneResponse,
    JoinPhasesAreBounded,
    NoRecordLostOrRepeated,
    OldGenerationsAreFenced,
    OneOwnerPerGeneration,
    OnlySilentMembersExpire,
    RebalancesHaveCauses,
    GroupConverges,
    LeaderHasJoined,
)

__all__ = ["ALL", "Checker", "SimulationView", "Violation"]
