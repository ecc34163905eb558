"""The form of an action that a program reads: the inside of the model's box, or the box itself, which it looks for.

Some programs search `\\boxed{…}` in what `step` is given. Sent the inside, they answer every turn that a box is missing
and can never be won. So each is tried in both forms, by plays.
"""

import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from actors.environments.offers import STRAY, choose, offered
from actors.environments.probes import NOTHING, Transcript, heeded
from actors.environments.trials import Policy, RejectedError, Trials
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS
from actors.sandbox.wire import Solve, Solved
from actors.text.actions import boxed, sent
from spade.config import Play
from spade.config import Sandbox as Limits
from spade.protocol import Form
from spade.seeds import INSTANCE_MASK, derive

FORMS: tuple[Form, ...] = ("inside", "box")
SOLVED_PLAYS = 2
MOST_HEARD = 64 << 20
"""Bytes of memory that the observations of all plays may take; a test of luck has hundreds of plays, all kept."""


async def form_of(sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> Form:
    """The form as admission finds it, without the rest of admission; "inside" where the program fails before.

    Takes at most load_s + 4 step_s. Raises RunError where the sandbox fails, not the program.
    """
    probing = Probing(sandbox, source, seed, limits, play)
    with trio.move_on_after(probing.patience_s) as scope:
        try:
            await probing.probe(probing.seed(0), probing.anything)
            await probing.find_form()
        except RejectedError:
            return "inside"
    return "inside" if scope.cancelled_caught else probing.reads


class Probing:
    """Plays of one program under secret seeds, and what they showed: `transcripts`, in the form that it `reads`.

    `known` are the actions that its solution lists, out of their boxes; `unoffered` those of them that its observations
    do not offer as they are read.
    """

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> None:
        self.trials = Trials(sandbox, source, limits, play.max_turns)
        self.patience_s = limits.load_s + 4 * limits.step_s
        self.win_return = play.win_return
        self.key = (seed % 2**64).to_bytes(8, "little")  # whatever integer the wire carries
        self.rng = random.Random(derive(self.key, "probe"))
        self.transcripts: list[Transcript] = []
        self.known: Sequence[str] = ()
        self.unoffered: Sequence[str] = ()
        self.reads: Form = "inside"
        self.heard = 0

    def seed(self, index: int) -> int:
        """A secret instance seed."""
        return derive(self.key, "instance", index) & INSTANCE_MASK

    def anything(self, observation: str) -> str:
        """An action at random. Where the solution takes what is not offered, lists are misread: one of those, too."""
        if self.unoffered and self.rng.random() < STRAY:
            return self.rng.choice(self.unoffered)
        return choose(observation, self.rng, self.known)

    async def probe(self, seed: int, policy: Policy) -> Transcript:
        """A play in the form that the program reads, kept for the later stages with what was really sent.

        Raises RejectedError where all that was kept is too much.
        """
        transcript = await self.trials.play(seed, lambda seen: sent(policy(seen), self.reads), PLAYS)
        self.heard += sum(sys.getsizeof(answer.observation) for answer in transcript.answers)
        if self.heard > MOST_HEARD:
            raise RejectedError(f"the observations of all plays take more than {MOST_HEARD >> 20} MiB")
        self.transcripts.append(transcript)
        return transcript

    async def find_form(self) -> bool:
        """Find the form by the actions that `solution()` lists; where it lists none, by what has an effect.

        True where it lists actions and they win. Raises RejectedError where they do not, in either form.
        """
        forms = FORMS
        for seed in map(self.seed, range(SOLVED_PLAYS)):
            actions = await self.solved(seed)
            if actions is None:
                await self.first_of(self.heeds, forms)
                return False
            found = await self.first_of(partial(self.wins, seed, actions), forms)
            if found is None:
                listed = ", ".join(actions)[:200]
                raise RejectedError(f"the solution does not win; its {len(actions)} actions are [{listed}]")
            if not self.known:
                self.known, self.unoffered = actions, await unoffered(self.transcripts[-1])
            forms = (found,)
        return True

    async def solved(self, seed: int) -> list[str] | None:
        """The actions that `solution()` lists, out of their boxes; None where it describes them or is left out."""
        async with self.trials.opened(seed, PLAYS) as (process, _):
            solved = await self.trials.ask(process, Solve())
        if not isinstance(solved, Solved) or solved.actions is None:
            return None
        return [boxed(action) or action for action in solved.actions]

    async def first_of(self, holds: Callable[[], Awaitable[bool]], forms: Sequence[Form]) -> Form | None:
        """The first form in which it holds, taken as the program's; None where it holds in none.

        The plays of a form that the program does not read say nothing of it and are forgotten.
        """
        before = self.reads, self.transcripts
        for form in forms:
            if form != self.reads:
                self.reads, self.transcripts = form, []
            if await holds():
                return form
        self.reads, self.transcripts = before
        return None

    async def wins(self, seed: int, actions: Sequence[str]) -> bool:
        """A play of all these actions, or the first of them, is won."""
        play = await self.probe(seed, consuming(list(actions)))
        return play.won(self.win_return) and len(play.actions) <= len(actions)

    async def heeds(self) -> bool:
        """True if actions in this form make a difference in a play of one seed."""
        for policy in (self.anything, self.anything, lambda _: NOTHING):
            play = await self.probe(self.seed(0), policy)
            if any(heeded(play, other) for other in self.transcripts[:-1]):
                return True
        return False


async def unoffered(play: Transcript) -> tuple[str, ...]:
    """The actions of a play, out of their boxes, that the observations before them do not offer."""
    found = []
    for action, answer in zip(play.actions, play.answers, strict=False):
        await trio.lowlevel.checkpoint()  # others may go on between two texts, which take their time to read
        said = boxed(action) or action
        if said.strip() not in offered(answer.observation).actions:
            found.append(said)
    return tuple(found)


def consuming(actions: list[str]) -> Policy:
    """Takes one after the other from the list, then the empty action."""
    return lambda _: actions.pop(0) if actions else ""
