"""Verdicts and findings can be pickled."""

import pickle

from slackwater.doctor.causes.finding import EvidenceLine, Finding
from tests.doctor.scenario import Scenario


def test_verdict_survives_pickling() -> None:
    scenario = Scenario().start("a", "b")
    for at in (20, 60, 100):
        scenario.leave("b", at, "consumer poll timeout has expired.")
        scenario.form(at + 1)
        scenario.join("b", at + 2)
        scenario.form(at + 3)
    verdict = scenario.verdict()
    assert verdict.prescriptions
    assert verdict.episodes
    assert verdict.evidence
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_shared_evidence_stays_shared_after_pickling() -> None:
    line = EvidenceLine(1, "broker_log", "a line", "server.log:7")
    first, second = pickle.loads(pickle.dumps([Finding("crash", ("a",), (1,), 0.9, (line,)) for _ in range(2)]))
    assert first == second == Finding("crash", ("a",), (1,), 0.9, (line,))
    assert first.evidence[0] is second.evidence[0]
