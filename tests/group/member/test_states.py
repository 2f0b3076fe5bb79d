"""The member's transition table is complete and consistent."""

from slackwater.group.member import MEMBER_TRANSITIONS, MemberAction, MemberInput, MemberState, MemberTransition

UNJOINED, PREPARING, COMPLETING, STABLE = MemberState


def test_table_has_every_state_and_input() -> None:
    assert set(MEMBER_TRANSITIONS) == set(MemberState)
    for state, row in MEMBER_TRANSITIONS.items():
        assert set(row) == set(MemberInput), state
        for outcome in row.values():
            assert isinstance(outcome, MemberTransition)
            assert isinstance(outcome.action, MemberAction)
            assert outcome.next_state in MemberState


def test_every_action_and_state_is_reachable() -> None:
    outcomes = {outcome for row in MEMBER_TRANSITIONS.values() for outcome in row.values()}
    assert {outcome.action for outcome in outcomes} == set(MemberAction)
    assert {outcome.next_state for outcome in outcomes} == set(MemberState)


def test_inputs_and_actions_have_unique_texts() -> None:
    for enum in (MemberInput, MemberAction):
        assert len({item.value for item in enum}) == len(enum.__members__)


def test_inputs_that_enter_stable_and_completing() -> None:
    into = {
        state: {
            cause
            for previous in MemberState
            for cause, transition in MEMBER_TRANSITIONS[previous].items()
            if transition[1] is state and previous is not state
        }
        for state in MemberState
    }
    assert into[STABLE] == {MemberInput.SYNC_OK}
    assert into[COMPLETING] == {MemberInput.JOIN_OK}
    assert into[PREPARING] == {MemberInput.JOIN_DUE}


def test_reset_leads_to_unjoined() -> None:
    resetting = {
        MemberAction.RESET_MEMBER_ID,
        MemberAction.RESET_GENERATION,
        MemberAction.FENCED,
        MemberAction.LEAVE,
        MemberAction.COMMIT_FAILED_RESET_MEMBER_ID,
        MemberAction.COMMIT_FAILED_RESET_GENERATION,
    }
    for row in MEMBER_TRANSITIONS.values():
        for action, next_state in row.values():
            if action in resetting:
                assert next_state is UNJOINED


def test_heartbeats_need_a_generation() -> None:
    for state in MemberState:
        assert (
            MEMBER_TRANSITIONS[state][MemberInput.HEARTBEAT_DUE].action is MemberAction.SEND_HEARTBEAT
        ) is state.sends_heartbeats
    assert [state for state in MemberState if state.sends_heartbeats] == [COMPLETING, STABLE]
    assert [state for state in MemberState if state.is_rebalancing] == [PREPARING, COMPLETING]
