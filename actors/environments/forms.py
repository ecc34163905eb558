"""Find the form of an action that a program reads: the inside of the model's box, or the box itself.

Some programs search for `\\boxed{…}` in the action of `step`. If such a program gets only the inside, it answers in
every turn that a box is missing, and nobody can win. So admission tries both forms.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from actors.environments.offers import LIST_CHARACTERS, choose, has_long_list, read_offer
from actors.environments.probes import NOTHING, Transcript, has_heeded
from actors.environments.trials import SOLVED_PLAYS, Probing, RejectedError, Trials, make_policy
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS
from actors.sandbox.wire import SolutionReply, Solve, Step
from actors.text.actions import find_boxed, format_action, strip_action
from spade.config import PATIENCE, Play
from spade.config import Sandbox as Limits
from spade.protocol import Form, Observed

GamePolicy = Callable[[str], str]
"""Return the action after an observation."""
FORMS: tuple[Form, ...] = ("inside", "box")
TRIED_PLAYS = 4
"""Number of random plays that show whether a program without a listed solution reads a form. A single play may change
nothing even in the right form."""


async def find_form(sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> Form:
    """Find the form as admission does, without its other stages. Returns "inside" if no form is found.

    The program's calls take at most load_s + 4 step_s. Raises RunError if the sandbox itself fails.
    """
    probing = FormProbing(sandbox, source, seed, limits, play)
    with trio.move_on_after(PATIENCE * probing.trials.patience_s) as scope:
        try:
            await probing.probe(probing.seed(0), probing.anything)
            await probing.find_form()
        except RejectedError:
            return "inside"
    return "inside" if scope.cancelled_caught else probing.reads


class FormProbing(Probing[str]):
    """Plays of one game under secret seeds, and what they show about its solutions and the form of its actions."""

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> None:
        super().__init__(Trials(sandbox, source, limits, play.max_turns, Step, "games"), seed, play)
        self.known: Sequence[str] = ()
        """The actions that the solution lists for the first instance, out of their boxes."""
        self.unoffered: Sequence[str] = ()
        """The `known` actions that the observation before them did not offer."""
        self.solutions: list[Sequence[str]] = []
        """For each solved instance, its listed actions up to the winning one, in the order of the seeds."""
        self.reads: Form = "inside"
        """The form that the program reads."""
        self.solving_plays: set[tuple[tuple[str, ...], tuple[Observed, ...]]] = set()
        """The distinct plays of the listed solutions, each with its actions and answers."""

    def anything(self, observation: str) -> str:
        """Draw a random action that the observation offers, or sometimes an unoffered action of the solution."""
        return choose(observation, self.rng, self.known, self.unoffered)

    def follow(self, actions: Sequence[str]) -> GamePolicy:
        """Return a policy that takes these actions, then random actions that the observation offers.

        A player that did nothing afterwards could be recognised, and a program could let it win.
        """
        left = list(actions)
        return lambda observation: left.pop(0) if left else choose(observation, self.rng)

    async def probe(self, seed: int, policy: GamePolicy) -> Transcript[str]:
        """Play in the form that the program reads. Keep the transcript, with the actions as sent.

        Raises RejectedError if the kept observations take too much memory, or if one has a list that is too long.
        """
        transcript = await self.trials.play(
            seed, lambda seen: format_action(policy(seen.observation), self.reads), PLAYS
        )
        if any(has_long_list(answer.observation) for answer in transcript.answers):
            raise RejectedError(f"an observation lists actions in more than {LIST_CHARACTERS} characters; list fewer")
        self.keep(transcript)
        return transcript

    async def find_form(self) -> bool:
        """Find the form in which the actions of `solution()` win, or else in which random actions have an effect.

        Returns True if `solution()` lists actions that win. Raises RejectedError if its actions win in neither form.
        """
        forms = FORMS
        for seed in map(self.seed, range(SOLVED_PLAYS)):
            actions = await self.solved(seed)
            if actions is None:
                await self.first_of(self.heeds, forms)
                return False
            found = await self.first_of(partial(self.wins, seed, actions), forms)
            if found is None:
                listed, turns = ", ".join(actions)[:200], self.trials.max_turns
                late = f" within {turns} turns" if len(actions) > turns else ""
                raise RejectedError(f"the solution does not win{late}; its {len(actions)} actions are [{listed}]")
            if not self.known:
                self.known, self.unoffered = actions, await list_unoffered(self.transcripts[-1])
            self.solutions.append(actions[: len(self.transcripts[-1].actions)])
            self.solving_plays.add((self.transcripts[-1].actions, self.transcripts[-1].answers))
            forms = (found,)
        return True

    async def solved(self, seed: int) -> list[str] | None:
        """Return the actions that `solution()` lists, out of their boxes.

        Returns None if `solution` is missing or only describes the actions.
        """
        async with self.trials.opened(seed, PLAYS) as (process, _):
            solved = await self.trials.ask(process, Solve())
        if not isinstance(solved, SolutionReply) or solved.actions is None:
            return None
        return [strip_action(action) for action in solved.actions]

    async def first_of(self, holds: Callable[[], Awaitable[bool]], forms: Sequence[Form]) -> Form | None:
        """Find the first form for which `holds` is True and set it as the form that the program reads.

        Plays in a wrong form say nothing about the program, so their transcripts are dropped. Returns None if `holds`
        is True for no form.
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
        """Return True if these actions win a play. The play may end before the last of them."""
        play = await self.probe(seed, make_policy(list(actions), ""))
        return play.won(self.win_return) and len(play.actions) <= len(actions)

    async def heeds(self) -> bool:
        """Return True if, in this form, different actions under one seed lead to different plays."""
        for policy in (*[self.anything] * TRIED_PLAYS, lambda _: NOTHING):
            play = await self.probe(self.seed(0), policy)
            if any(has_heeded(play, other) for other in self.transcripts[:-1]):
                return True
        return False


async def list_unoffered(play: Transcript[str]) -> tuple[str, ...]:
    """Return the actions of a play, out of their boxes, that the observation before them does not offer."""
    found = []
    for action, answer in zip(play.actions, play.answers, strict=False):
        await trio.lowlevel.checkpoint()  # reading a text takes time: let other tasks run in between
        plain = find_boxed(action) or action
        if not read_offer(answer.observation).has(plain.strip()):
            found.append(plain)
    return tuple(found)
