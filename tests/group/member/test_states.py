"""The member's table: whole, closed, and in keeping with what the states mean."""

from slackwater.group.member import TABLE, Action, Input, MemberState, Outcome

UNJOINED, PREPARING, COMPLETING, STABLE = MemberState


def test_every_state_answers_every_input() -> None:
    assert set(TABLE) == set(MemberState)
    for state, row in TABLE.items():
        assert set(row) == set(Input), state
        for outcome in row.values():
            assert isinstance(outcome, Outcome)
            assert isinstance(outcome.action, Action)
            assert outcome.next_state in MemberState


def test_every_action_and_every_state_is_reached() -> None:
    outcomes = {outcome for row in TABLE.values() for outcome in row.values()}
    assert {outcome.action for outcome in outcomes} == set(Action)
    assert {outcome.next_state for outcome in outcomes} == set(MemberState)


def test_inputs_and_actions_have_words_of_their_own() -> None:
    for words in (Input, Action):
        assert len({one.value for one in words}) == len(words.__members__)


def test_only_a_sync_answer_leads_into_stable_and_only_a_join_answer_into_completing() -> None:
    into = {
        state: {cause for was in MemberState for cause, to in TABLE[was].items() if to[1] is state and was is not state}
        for state in MemberState
    }
    assert into[STABLE] == {Input.SYNC_OK}
    assert into[COMPLETING] == {Input.JOIN_OK}
    assert into[PREPARING] == {Input.JOIN_DUE}


def test_whoever_forgets_its_generation_is_unjoined() -> None:
    forgetting = {
        Action.RESET_ID,
        Action.RESET_GENERATION,
        Action.FENCED,
        Action.LEAVE,
        Action.COMMIT_FAILED_RESET_ID,
        Action.COMMIT_FAILED_RESET_GENERATION,
    }
    for row in TABLE.values():
        for action, next_state in row.values():
            if action in forgetting:
                assert next_state is UNJOINED


def test_heartbeats_are_sent_with_a_generation_only() -> None:
    for state in MemberState:
        assert (TABLE[state][Input.BEAT_DUE].action is Action.SEND_BEAT) is state.beats
    assert [state for state in MemberState if state.beats] == [COMPLETING, STABLE]
    assert [state for state in MemberState if state.rebalancing] == [PREPARING, COMPLETING]
