"""A program with tools says the same in this process and in a sandbox."""

import random

from msgspec import structs

from actors.nano.players import begin, join_texts, take_turn
from actors.nano.tools.world import TOOLS
from actors.sandbox import open_sandbox
from actors.text.profile import Document
from spade.app.nano.simulation import ToolSimulation
from spade.config import load

NOTE = Document("c1", "code", "Parcel tracking", "")


async def test_a_program_with_tools_says_the_same_in_this_process_and_in_a_sandbox() -> None:
    rng = random.Random(5)
    async with open_sandbox(load("nano").sandbox) as sandbox:
        for family in TOOLS.families:
            drawn = TOOLS.draw(rng, NOTE, family.skills[0])
            chat_format, player = TOOLS.chat_format(), TOOLS.guesser(rng)
            simulation = ToolSimulation(drawn.source)
            conversation = begin(simulation, 3)
            answers = [await sandbox.open("e", drawn.source, 3, simulation.turns)]
            chat_format.open(conversation.observed[0], None)
            while (seen := conversation.pending) is not None:
                move = chat_format.act(player.act(join_texts(seen)))
                take_turn(simulation, conversation, move)
                answers.append(await sandbox.step("e", len(conversation.actions), move.action, move.calls))
            # The limit of turns is the host's, and here the conversation's.
            assert [structs.replace(each, truncated=False) for each in answers] == conversation.answers
