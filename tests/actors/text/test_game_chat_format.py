"""A play of a game speaks to the model and reads the model's answers."""

import hashlib
import random

import pytest

from actors.corpus import load
from actors.nano.games import GAMES, GameSimulation, Guesser
from actors.nano.players import begin, take_turn
from actors.text.conversation import GameChatFormat
from actors.text.profile import ChatMessage
from actors.text.prompts import FullProfile
from spade.codec import pack_ids
from spade.config import SKILLS, Design, Play
from spade.policy import model_folder
from spade.protocol import Observed
from spade.tokens import Tokenizer, make_dialogues

ROOM = 10**6


def played(tokenizer, chat_format, index):
    """The tokens of a guesser's play, as the model reads and says them."""
    rng, documents = random.Random(index), load("builtin")
    drawn = GAMES.draw(rng, documents[index % len(documents)], SKILLS[index % len(SKILLS)])
    simulation, player = GameSimulation(drawn.source), Guesser(rng)
    conversation, dialogue = begin(simulation, index), make_dialogues(tokenizer, "keep")()
    context, act = b"", None
    while (seen := conversation.pending) is not None:
        hint = drawn.hint if index % 2 else None
        messages = chat_format.open(seen, hint).messages if act is None else chat_format.turn(seen, act)
        said = player.act(seen.observation)
        sampled = [*tokenizer.encode(said), *tokenizer.end_ids]
        context += pack_ids([*dialogue.read(messages, context, ROOM).ids, *sampled])
        dialogue.said(sampled)
        act = chat_format.act(tokenizer.decode(sampled))
        take_turn(simulation, conversation, act)
    return context


@pytest.mark.parametrize(("profile", "digest"), [
    (GAMES.profile, "2f7683045794c1f05ef6238ca1f71ca5"),
    (FullProfile(Design(), Play()), "3f0915c8daf72bbbc9ef668a5e9e21b0"),
])  # fmt: skip
def test_the_tokens_of_plays_change_with_the_world_and_the_tokenizer_alone(profile, digest):
    tokenizer, chat_format = Tokenizer.load(model_folder.resolve("nano")), GameChatFormat(profile.play)
    tokens = b"".join(played(tokenizer, chat_format, index) for index in range(60))
    assert hashlib.blake2b(tokens, digest_size=16).hexdigest() == digest


@pytest.mark.parametrize(("reads", "said", "action"), [
    ("inside", "<think>\\boxed{2}</think> It is \\boxed{1}.", "1"),
    ("box", "It is \\boxed{1}.", "\\boxed{1}"),
    ("inside", "no box", ""),
    ("box", "no box", ""),
])  # fmt: skip
def test_an_act_is_the_last_box_in_the_form_that_the_program_reads(reads, said, action):
    assert GameChatFormat(GAMES.profile.play, reads).act(said).action == action


def test_a_turn_is_the_observation_as_it_is():
    chat_format = GameChatFormat(GAMES.profile.play)
    (turn,) = chat_format.turn(Observed(" No.\n"), chat_format.act("x"))
    assert (turn.role, turn.content) == ("user", " No.\n")


def test_examples_come_between_the_rules_and_the_first_observation_in_both_arms():
    def opening(observation, hint):
        return [ChatMessage("system", "Play."), ChatMessage("user", f"{observation} {hint}")]

    chat_format = GameChatFormat(opening, examples=(("2 + 3?", r"\boxed{5}"),))
    for hint in (None, "carry"):
        messages = chat_format.open(Observed("4 + 4?"), hint).messages
        assert [(each.role, each.content) for each in messages] == [
            ("system", "Play."), ("user", "2 + 3?"), ("assistant", r"\boxed{5}"), ("user", f"4 + 4? {hint}"),
        ]  # fmt: skip
