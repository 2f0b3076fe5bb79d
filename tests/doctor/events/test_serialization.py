"""Plain data that travels arrives as it was."""

import pickle

from slackwater.doctor.causes.finding import EvidenceLine, Finding
from tests.doctor.scene import Scene


def test_a_verdict_arrives_with_all_that_it_carries() -> None:
    scene = Scene().start("a", "b")
    for at in (20, 60, 100):
        scene.leave("b", at, "consumer poll timeout has expired.")
        scene.form(at + 1)
        scene.join("b", at + 2)
        scene.form(at + 3)
    verdict = scene.verdict()
    assert verdict.prescriptions
    assert verdict.episodes
    assert verdict.evidence
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_what_several_have_in_common_travels_once() -> None:
    line = EvidenceLine(1, "broker_log", "a line", "server.log:7")
    one, other = pickle.loads(pickle.dumps([Finding("crash", ("a",), (1,), 0.9, (line,)) for _ in range(2)]))
    assert one == other == Finding("crash", ("a",), (1,), 0.9, (line,))
    assert one.evidence[0] is other.evidence[0]
