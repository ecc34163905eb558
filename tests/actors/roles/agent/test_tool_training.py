"""Plays of tool use from the agent to the loss: all that was sampled is trained, lost or won, malformed or not."""

import msgspec
import numpy as np
import pytest
import torch

from learner.batch import prepare
from learner.loss import Tokens, compute_token_losses
from spade.codec import unpack_ids, unpack_mask
from spade.config import Loss
from spade.protocol import Group, SubmitPlays, TakeBatch
from spade.tokens import Tokenizer
from tests.actors.roles.agent.higher import leases, playing
from tests.actors.roles.agent.test_tool_plays import DESK, called, saying
from tests.actors.small_services import SmallReplay, actor_settings
from tests.replay.ledger.windows.one_window import arm, begin, lease
from tests.spade.token_shapes import TOOL_SHAPES

DONE = "<answer>done</answer>"
CHOSEN = (
    "run.domain=tools", "evaluation.suite=", "play.context_tokens=4000", "engine.context_tokens=4096",
    "play.max_turn_tokens=1000", "play.max_turns=4",
)  # fmt: skip


@pytest.fixture
async def plays(tmp_path):
    """A play that is won, and three that are cut by the turn limit: with nothing but malformed calls, or refused ones,
    or half of the work done."""
    shape = TOOL_SHAPES[0]
    shape.build(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    settings, tokenizer = actor_settings(tmp_path, *CHOSEN), Tokenizer.load(tmp_path)
    find, close, gone = (
        called(shape, name, **arguments)
        for name, arguments in (("find", {"status": "new"}), ("close", {"ticket": "T-7"}), ("gone", {}))
    )
    ended = []
    for words in ((find, close, DONE), ("<tool_call>{", f"{DONE}<tool_call>"), (gone, DONE), (find, "I see.")):
        small = SmallReplay(leases(1, source=DESK), programs=[DESK])
        async with playing(small, settings, tokenizer, saying(*words)):
            await small.until_done(1)
        ended += small.done
    assert [play.outcome for play in ended] == ["terminated", *["truncated"] * 3]
    assert [play.done for play in ended] == [2, 0, 0, 1]
    assert ended[1].malformed == 4
    return ended


def group(ended):
    """The group that a ledger makes of them."""
    ledger = begin(*CHOSEN)
    taken = {}
    for play, given in zip(arm(lease(ledger), hinted=False), ended, strict=True):
        tokens = sum(count for _, count in given.trajectory.versions)
        taken[play.id] = msgspec.structs.replace(given.trajectory, versions=((1, tokens),))
        handed_in = msgspec.structs.replace(given, id=play.id, lease=play.lease, trajectory=taken[play.id])
        ledger.apply(SubmitPlays((handed_in,)), "agent/1", 1.0)
    ledger.advance(1.0)
    (record,) = ledger.apply(TakeBatch(1, 0.0), "learner/1", 1.0).groups
    rewards = tuple(member.reward for member in record.members)
    return Group(record.id, record.role, rewards, tuple(taken[member.trajectory] for member in record.members))


async def test_every_token_that_was_sampled_in_any_play_is_trained_by_its_return(plays):
    whole = group(plays)
    assert whole.rewards == (1.0, 0.0, 0.0, 0.0)
    (micro,) = prepare([whole], 10**6, 32.0).micro
    sampled = [unpack_ids(each.ids)[unpack_mask(each) == 1] for each in whole.trajectories]
    assert micro.at.shape == (sum(map(len, sampled)),)
    assert sorted(micro.target.tolist()) == sorted(np.concatenate(sampled).tolist())

    current = micro.behaviour.clone().requires_grad_()
    tokens = Tokens(current, micro.behaviour, micro.behaviour, micro.advantage, micro.sequence, micro.weight)
    compute_token_losses(tokens, Loss()).loss.sum().backward()
    won = torch.isin(micro.sequence, micro.sequence[micro.advantage > 0])
    assert int(won.sum()) == len(sampled[0])
    assert (current.grad[won] < 0).all()  # these become more likely
    assert (current.grad[~won] > 0).all()
