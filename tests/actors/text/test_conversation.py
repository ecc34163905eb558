import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.text.conversation import Conversation, play_conversation
from spade.protocol import Faulted, Observed

FAULT = Faulted("timeout", "slow")
ENDS = (Observed("won", 1.0, terminated=True), Observed("late", 0.5, truncated=True), FAULT)
answers = st.lists(st.sampled_from([Observed("a", 0.1), Observed("b", 7.0), *ENDS]), min_size=1, max_size=8)


def play(first, replies, max_turns, actions):
    """A play against scripted answers by a player who leaves when its actions are used up."""
    asked = []

    async def step(turn, action):
        asked.append((turn, action))
        return replies[turn - 1]

    async def act(seen):
        asked.append(seen)
        return next(actions, None)

    return trio.run(play_conversation, first, max_turns, step, act), asked


@given(answers, st.integers(1, 7))
def test_player_and_program_take_turns_until_one_of_them_ends_it(script, max_turns):
    first, *replies = script
    played, asked = play(first, [*replies, FAULT], max_turns, map(str, range(9)))
    turns = len(played.actions)
    expected = []
    for turn in range(turns):
        expected += [played.answers[turn], (turn + 1, str(turn))]
    assert asked == expected
    assert played.answers == [first, *replies, FAULT][: turns + 1]
    assert played.pending is None
    assert not any(seen in ENDS for seen in played.answers[:-1])
    assert played.answers[-1] in ENDS or turns == max_turns


def test_a_player_who_leaves_truncates_the_play():
    played, _ = play(Observed("a"), [Observed("b", 1.0)], 5, iter(["x"]))
    assert (played.outcome, played.episode_return, played.actions) == ("truncated", 0.0, ["x"])
    assert played.pending == Observed("b", 1.0)


def test_the_last_reward_is_the_return_where_the_program_ended_the_play():
    played, _ = play(Observed("a"), [Observed("b", 0.2), Observed("c", 3.0, terminated=True)], 5, iter("xy"))
    assert (played.outcome, played.episode_return, played.rewards) == ("terminated", 1.0, [0.2, 3.0])


def test_a_fault_returns_nothing_and_keeps_the_rewards_before_it():
    played, _ = play(Observed("a"), [Observed("b", 0.2), FAULT], 5, iter("xy"))
    assert (played.outcome, played.episode_return, played.rewards) == ("fault", 0.0, [0.2])
    assert played.observed == [Observed("a"), Observed("b", 0.2)]


def test_the_turn_limit_truncates_a_program_that_never_ends():
    conversation = Conversation(Observed("a"), max_turns=1)
    conversation.actions.append("x")
    conversation.answers.append(Observed("b", 1.0))
    assert conversation.pending is None
    assert conversation.outcome == "truncated"
