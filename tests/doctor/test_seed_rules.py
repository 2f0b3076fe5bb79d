"""Every row of the source texts has a rule, and every citation a row."""

from slackwater.doctor.alerts.rules import ALERTS
from slackwater.doctor.causes.rules import CAUSES
from slackwater.doctor.prescriptions.remedies import REMEDIES
from slackwater.doctor.seed_rules import SEED_ROWS

CITED = {cite for remedies in REMEDIES.values() for remedy in remedies for cite in remedy.cites}


def test_each_row_is_a_cause_with_remedies_or_an_alert() -> None:
    alerts = {alert.name for alert in ALERTS}
    for row in SEED_ROWS:
        assert row.causes or row.alerts
        assert set(row.alerts) <= alerts
        for cause in row.causes:
            assert REMEDIES[cause], row.cite
            assert cause in CAUSES or cause == "eager_stop_the_world"


def test_the_rows_of_the_texts_are_all_there() -> None:
    cites = {row.cite for row in SEED_ROWS}
    assert {f"003 §4 row {number}" for number in range(1, 5)} <= cites
    assert {f"003 §7 row {number}" for number in range(1, 6)} <= cites
    assert {f"004 Frequent Rebalances row {number}" for number in range(1, 5)} <= cites
    assert {"004 Stuck Rebalance", "004 Rebalance Storm"} <= cites
    assert {f"004 Alerting row {number}" for number in range(1, 4)} <= cites


def test_rows_that_name_a_remedy_are_cited_by_it() -> None:
    for cite in ("003 §4 row 1", "003 §4 row 2", "003 §4 row 3", "003 §4 row 4", "003 §7 row 5", "004 Stuck Rebalance"):
        assert cite in CITED or any(part.startswith(cite) for part in CITED)
