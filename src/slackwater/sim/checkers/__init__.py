"""What must never happen, one file each.

Rules kept here
- A checker watches what crosses the edges of the machines: requests, answers, records, events, records processed. It
  does not look into them, but for the group's generation and state at the moment of a request.
- It raises `Violation` at the moment the promise is broken; `finish` looks at the whole once faults have stopped.
"""

from slackwater.sim.checkers.answered import EveryRequestIsAnswered
from slackwater.sim.checkers.bounded_phases import JoinPhasesAreBounded
from slackwater.sim.checkers.causes import RebalancesHaveACause
from slackwater.sim.checkers.checker import Checker, View, Violation
from slackwater.sim.checkers.convergence import TheGroupConverges
from slackwater.sim.checkers.durability import AnswersAreDurable
from slackwater.sim.checkers.expiry import OnlyTheSilentExpire
from slackwater.sim.checkers.fencing import OldGenerationsAreFenced
from slackwater.sim.checkers.handover import CooperativeRoundsWaitForTheOwner
from slackwater.sim.checkers.leader import TheLeaderIsPresent
from slackwater.sim.checkers.one_owner import OneOwnerPerGeneration
from slackwater.sim.checkers.processing import NothingIsLostOrRepeated
from slackwater.sim.checkers.reload import AReloadChangesNothing

ALL: tuple[type[Checker], ...] = (
    AReloadChangesNothing,
    AnswersAreDurable,
    CooperativeRoundsWaitForTheOwner,
    EveryRequestIsAnswered,
    JoinPhasesAreBounded,
    NothingIsLostOrRepeated,
    OldGenerationsAreFenced,
    OneOwnerPerGeneration,
    OnlyTheSilentExpire,
    RebalancesHaveACause,
    TheGroupConverges,
    TheLeaderIsPresent,
)

__all__ = ["ALL", "Checker", "View", "Violation"]
