"""Admit or reject a game. It passes named stages one after the other, and each may reject it.

    parse        the program compiles, after repair of literal braces if needed (`actors/sandbox/inside/repair.py`)
    class        its module runs and has one environment class
    interface    `solution` and `close` are methods if they exist
    construct    the class can be constructed
    episode      it resets and steps under secret seeds, with answers of the right types
    solution     if `solution()` lists actions, they win, and they show which form of an action the program reads
    garbage      a nonsense action neither raises nor wins, and a damaged offered action does not raise
    random       random actions, drawn from the offered ones, seldom win
    constant     one repeated action seldom wins

`budget`, `repeatable` and `effect` follow (`actors/environments/stages.py`).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import chain, count

import trio
from msgspec import structs

from actors.environments.disclosures import REST_PLAYS, find_rest
from actors.environments.forms import FormProbing
from actors.environments.gifts import (
    PlayerView,
    contain,
    find_common_sequence,
    find_solving_words,
    find_tellings,
    find_unseen_words,
    find_words,
    keep_findable,
)
from actors.environments.offers import FORM, Offer, has_list, read_offer
from actors.environments.probes import NONSENSE, NUMBERS, Transcript
from actors.environments.slips import SlippingPlayer
from actors.environments.stages import Admission
from actors.environments.tools.evidence import VALUE_CHARACTERS
from actors.environments.trials import RejectedError
from actors.sandbox import Sandbox
from actors.text.actions import format_action, strip_action
from spade.config import Play, ToolUse
from spade.config import Sandbox as Limits
from spade.protocol import MOST_VALUES, Verdict

UNREADABLE = f"offers no actions that can be read; end each observation with a line that lists them, as {FORM}"
SLIP_PLAYS = 6
"""The largest number of plays of the stage `garbage` that are only for damaged actions. Most of these actions fit into
the plays with nonsense."""


class GameAdmission(Admission[str]):
    """The admission of one game."""

    loading = ("parse", "class", "interface", "construct")
    nothing = ""

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play, _: ToolUse) -> None:
        self.form = FormProbing(sandbox, source, seed, limits, play)
        super().__init__(self.form)
        self.values: tuple[str, ...] = ()
        self.unaided: Sequence[PlayerView[str]] = ()
        """The plays of unsolved instances without the words that only a solution tells."""

    async def begin(self) -> None:
        await self.form.probe(self.form.seed(0), self.form.anything)

    def order(self) -> Sequence[Callable[[], Awaitable[str]]]:
        few, many = (self.episode, self.solution, self.garbage), (self.random, self.constant)
        return (*few, *many, self.budget, self.repeatable, self.effect)

    def describe(self, action: str) -> str:
        return f"action {action[:40]!r}"

    async def verdict(self) -> Verdict:
        single_turn = {len(play.actions) for play in self.form.transcripts} == {1}
        first = await super().verdict()
        return structs.replace(first, reads=self.form.reads, single_turn=single_turn, values=self.values)

    # ------------------------------------------------------------ the stages

    async def episode(self) -> str:
        """Check that the first play has an action. The types of its answers were checked while it was played."""
        turns = len(self.form.transcripts[0].actions)
        if not turns:
            raise RejectedError("the episode is over before the first action")
        return f"{turns} turns"

    async def random(self) -> str:
        """Check that random actions seldom win."""
        if self.limits.readable_actions:
            self.check_lists()

        def play(seed: int) -> Awaitable[Transcript[str]]:
            return self.form.probe(seed, self.form.anything)

        first = self.form.transcripts[:1] if self.form.reads == "inside" else []
        result = await self.seldom_wins("random play", first, self.refused_share, play)
        return f"{result}{self.remark}"

    def check_lists(self) -> None:
        """Raise RejectedError if the first observation, or one on the way of a solution, lists nothing.

        On the way, a list that cannot be read is enough, such as a single action in quotes.
        """
        ways = [self.form.transcripts[0].answers[:1], *(answers[:-1] for _, answers in self.form.solving_plays)]
        turns = (
            turn
            for way in ways
            for turn, seen in enumerate(way)
            if read_offer(seen.observation).kind == "guessed" and not (turn and has_list(seen.observation))
        )
        if (turn := min(turns, default=-1)) >= 0:
            where = f"the observation before action {turn + 1} of the solution" if turn else "the first observation"
            raise RejectedError(f"{where} {UNREADABLE}")

    async def constant(self) -> str:
        """Check that one repeated action seldom wins.

        These plays and the solutions also show whether the seed matters.
        """
        always = self.form.anything(self.form.transcripts[0].answers[0].observation)
        plays: list[Transcript[str]] = []

        def play(seed: int) -> Awaitable[Transcript[str]]:
            return self.form.probe(seed, lambda _: always)

        result = await self.seldom_wins(f"always {always[:40]!r}", plays, self.refused_constant, play)
        self.seed_sensitive = len(self.form.solving_plays) > 1 or len({each.answers for each in plays}) > 1
        await self.find_secrets()
        return result

    async def solution(self) -> str:
        """Check that the actions of `solution()` win, if it lists any. They are played in another process."""
        missing = "" if await self.form.find_form() else "it lists no actions, so it was not replayed"
        return "; ".join(filter(None, (missing, "the program reads the box" if self.form.reads == "box" else "")))

    async def garbage(self) -> str:
        """Check that neither nonsense nor a damaged action raises, and that nonsense does not win."""
        nonsense, sent = [*NONSENSE, *NUMBERS], [""]
        first = self.form.transcripts[0].answers[0].observation
        path = self.form.solutions[0] if self.form.solutions else ()
        slipping, more = SlippingPlayer(self.form.anything, path, first), SLIP_PLAYS

        def act(observation: str) -> str:
            sent.append(nonsense.pop(0) if nonsense else slipping.act(observation))
            return sent[-1]

        while nonsense or (slipping.busy and more):
            left = len(nonsense)
            more -= not nonsense
            slipping.begin()
            try:
                play = await self.form.probe(self.form.seed(0), act)
            except RejectedError as error:
                raise RejectedError(f"{error}, after {self.describe(sent[-1])}") from None
            if len(play.actions) == left - len(nonsense) and play.won(self.form.win_return):
                self.check_win(sent[-1], play.answers[-2].observation)
        return ""

    def check_win(self, nonsense: str, observation: str) -> None:
        """Raise RejectedError for a nonsense action that won, unless it is a number or the observation offers it."""
        if nonsense not in NUMBERS and not read_offer(observation).has(strip_action(nonsense)):
            raise RejectedError(f"nonsense wins: {nonsense[:40]!r}")

    async def find_secrets(self) -> None:
        """Keep the words that a hint must not state: words of the solutions that no play of their instance shows.

        A hint may state words that all solutions share, if the solutions win without them. If one sequence solves every
        instance, a hint must not state its beginning either.
        """
        solutions = self.form.solutions
        if not solutions:
            return
        hidden = [await self.find_hidden(index) for index in range(len(solutions))]
        self.unaided = self.view_unaided(set(chain.from_iterable(hidden)))
        shared, others = find_solving_words(hidden)
        if shared and all([await self.wins_without(index, shared) for index in range(len(solutions))]):
            shared = []
        found = [*shared]
        for index, words in enumerate(others):
            found += await self.needed(index, words)
        sequence = find_common_sequence(solutions)
        found += [sequence] if sequence else []
        self.values = tuple(value[:VALUE_CHARACTERS] for value in found[:MOST_VALUES])

    async def find_hidden(self, index: int) -> Sequence[str]:
        """Return the words of a solution that no observation states in time to win.

        Observations of all plays of the instance count, but in a play only up to an action that no player can find
        (`keep_findable`). A word is stated in time if the solution still wins after the actions that led to the
        observation.
        """
        solution, seed = self.form.solutions[index], self.form.seed(index)
        own, others = list[PlayerView[str]](), list[PlayerView[str]]()
        # Of all solutions, since random play also sends actions of the first one.
        is_secret = find_words(chain.from_iterable(self.form.solutions)).__contains__
        for play, is_own in self.view_plays(index):
            # In a thread, since long observations take time.
            (own if is_own else others).append(await trio.to_thread.run_sync(keep_findable, play, is_secret))
        hidden = await trio.to_thread.run_sync(find_unseen_words, solution, own)
        tellings = await trio.to_thread.run_sync(find_tellings, hidden, others)
        for word, actions in tellings.items():
            if (await self.form.probe(seed, self.form.follow([*actions, *solution]))).won(self.form.win_return):
                hidden.remove(word)
        return hidden

    async def needed(self, index: int, words: Sequence[str]) -> Sequence[str]:
        """Return the words that a hint must not state: all of `words`, or only the words in the last action.

        The earlier actions may have been steps of a search: the solution also wins without the actions that contain
        other words. Then a hint may state these other words, for example the first two of the guesses 500, 250, 375.
        """
        last = find_unseen_words(self.form.solutions[index][-1:], ())
        early = [word for word in words if word not in last]
        wins = early and await self.wins_without(index, early)
        return [word for word in words if word in last] if wins else words

    async def wins_without(self, index: int, words: Sequence[str]) -> bool:
        """Return True if a solution always wins without the words, or with other words, and without what they tell."""
        solution, seed, others = self.form.solutions[index], self.form.seed(index), count(len(self.form.solutions))

        async def view(seed: int, actions: Sequence[str]) -> PlayerView[str]:
            played = _view(await self.form.probe(seed, self.form.follow(actions)))
            return played._replace(actions=actions[: len(played.actions)])

        def view_elsewhere(actions: Sequence[str]) -> Awaitable[PlayerView[str]]:
            return view(self.form.seed(next(others)), actions)

        own = next(play._replace(actions=solution) for play, is_own in self.view_plays(index) if is_own)

        async def win(ways: Sequence[Sequence[str]]) -> bool:
            for actions in ways:
                if not (await self.form.probe(seed, self.form.follow(actions))).won(self.form.win_return):
                    return False
            return bool(ways)

        rest = await find_rest(own, words, partial(view, seed), view_elsewhere, self.unaided, self.form.rng)
        return await win([rest.without] * REST_PLAYS) or await win(rest.replaced)

    def view_unaided(self, hidden: Collection[str]) -> list[PlayerView[str]]:
        """Return the plays of unsolved instances without the words. Random play also sends actions of a solution."""
        solved = set(map(self.form.seed, range(len(self.form.solutions))))
        plays = (_view(play) for play in self.form.transcripts if play.seed not in solved)
        return [play for play in plays if not contain(play.actions, hidden)]

    def view_plays(self, index: int) -> list[tuple[PlayerView[str], bool]]:
        """Return the plays of a solved instance, each with True if its actions are the actions of the solution."""
        sent = tuple(format_action(action, self.form.reads) for action in self.form.solutions[index])
        return [
            (_view(play), play.actions == sent) for play in self.form.transcripts if play.seed == self.form.seed(index)
        ]

    @cached_property
    def offer(self) -> Offer:
        """The actions that the first observation offers."""
        return read_offer(self.form.transcripts[0].answers[0].observation)

    @property
    def remark(self) -> str:
        """The reason why random play may not have tried actions that the program accepts.

        It is "" if the list of actions could be read and has all actions of the solution.
        """
        found, solution = self.offer, " and the solution" if self.form.known else ""
        if found.kind == "guessed":
            return f"; the observation lists no actions, so they were drawn from its words{solution}"
        if found.kind == "uncertain":
            shown = ", ".join(found.readings[0])[:80]
            drawn = f"so actions were drawn from readings such as [{shown}]{solution}"
            return f"; uncertain: its list is not in the prescribed form, {drawn}"
        if self.form.unoffered:
            return f"; no list that can be read has the solution's action {self.form.unoffered[0][:40]!r}"
        return ""


def _view(play: Transcript[str]) -> PlayerView[str]:
    return PlayerView(play.actions, [answer.observation for answer in play.answers])
