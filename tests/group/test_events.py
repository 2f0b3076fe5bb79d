"""Group events and their JSON format."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.group.events import DETAIL_TYPES, EventDetail, EventKind, EventSource, GroupEvent, GroupState, Trigger
from slackwater.group.topic_partition import TopicPartition


def test_every_kind_has_its_detail() -> None:
    assert set(DETAIL_TYPES) == set(EventKind)


_partition = st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9))
_maybe_text = st.none() | st.text(max_size=8)


def _detail(kind: type[EventDetail]) -> st.SearchStrategy[EventDetail]:
    return st.builds(kind)


@st.composite
def _events(draw: st.DrawFn) -> GroupEvent:
    kind = draw(st.sampled_from(EventKind))
    st.register_type_strategy(TopicPartition, _partition)
    return GroupEvent(
        time_ms=draw(st.integers(0, 2**45)),
        cluster=draw(_maybe_text),
        group=draw(st.text(max_size=8)),
        kind=kind,
        trigger=draw(st.none() | st.sampled_from(Trigger)),
        generation=draw(st.none() | st.integers(-1, 2**31 - 1)),
        state_before=draw(st.none() | st.sampled_from(GroupState)),
        state_after=draw(st.none() | st.sampled_from(GroupState)),
        member=draw(_maybe_text),
        detail=draw(st.none() | _detail(DETAIL_TYPES[kind])),
        source=draw(st.sampled_from(EventSource)),
        evidence=draw(_maybe_text),
    )


@given(_events())
def test_json_round_trip(event: GroupEvent) -> None:
    line = event.to_json()

    assert "\n" not in line
    assert GroupEvent.from_json(line) == event


def test_json_columns_are_in_schema_order() -> None:
    event = GroupEvent(time_ms=1, group="g", kind=EventKind.GROUP_CREATED, source=EventSource.COORDINATOR)

    assert " ".join(json.loads(event.to_json())) == (
        "time_ms cluster group kind trigger generation state_before state_after member instance client host "
        "protocol_type assignor members detail source evidence"
    )


@pytest.mark.parametrize("state", GroupState)
def test_wire_names_of_states(state: GroupState) -> None:
    expected = "PreparingRebalance" if state is GroupState.INITIAL_REBALANCE else state.value
    assert state.wire_name == expected
