"""Find what the hint of a program gives away, and count the lost instances that its solution wins."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import trio

from actors.environments.audit.plays import AuditPlays, RepeatedPlay, get_least_return, read_moves
from actors.environments.disclosures import REST_PLAYS, find_rest
from actors.environments.gifts import (
    PlayerView,
    find_stated_words,
    find_unseen_words,
    heard,
    select_own,
)
from actors.environments.tries import UndecidedError, try_until_decided
from actors.text.conversation import Move
from actors.text.leaks import SearchableText
from spade.protocol import Observed
from spade.returns import is_won
from spade.seeds import INSTANCE_MASK

_EXAMPLE = re.compile(r"-?(?:[^\W\d_]{0,2}\d[\d:./ T-]*)+", re.IGNORECASE)
"""A number, a time or a date, perhaps joined with short words (`at1430`). A hint may name one as an example."""

SEARCHES = 8
"""Number of random plays that search an instance for words that the hint states. If no play finds them, the hint gives
them away."""

MOST_NAMED, NAMED_CHARACTERS = 4, 40
"""A finding names at most MOST_NAMED words, each by its first NAMED_CHARACTERS characters."""


class Given(NamedTuple):
    """Words of moves that only the hint states."""

    words: Sequence[str]
    rest: Sequence[Move]
    """The moves that are left without the words, and without what these words bring to light."""


class _CheckedPlay(NamedTuple):
    """A play that may need words which only the hint states."""

    seed: int
    moves: Sequence[Move]
    least: float
    """The return that the play must have."""


class HintChecks:
    """The checks of a hint and of solutions in one audit, and their results so far."""

    def __init__(self, plays: AuditPlays) -> None:
        self.tried = self.solved = self.undecided = 0
        self._plays, self._job = plays, plays.job
        self._hint = SearchableText(plays.job.hint)

    async def check_hinted_plays(self) -> None:
        """Look for a hinted play that needs words which the hint states and no observation states.

        A play needs words if it returns less without the moves that have them. The play need not be won, since the
        regret pays for any higher return. The same must hold on another instance: a hinted play there needs the words
        too, or the same moves need them and return more than every play without the hint. Otherwise the words were a
        guess or part of a method. All words count together: a player may find one that leads nowhere without another.
        """
        first = dict[str, _CheckedPlay]()
        for replay in self._job.replays:
            if not replay.hinted or replay.play not in self._plays.repeated:
                continue
            moves, reached = list(read_moves(replay.recording)), self._plays.repeated[replay.play].episode_return
            here = _CheckedPlay(replay.seed, moves, reached)
            try:
                given = await self._find_given(here)
                again = [word for word in given.words if first.setdefault(word, here).seed != here.seed]
                gift: Sequence[str] = ()
                if again and all([await self._is_hidden(play, again) for play in (first[again[0]], here)]):
                    gift = again
                elif given.words and await self._is_gift(here, given):
                    gift = given.words
                if gift:
                    does = "wins" if is_won(reached, self._job.win_return) else f"returns {reached:.2g}"
                    self._plays.findings.append(f"hinted play {replay.play} {does} by {_describe_gift(*gift)}")
            except UndecidedError:
                self.undecided += 1

    async def check_solutions(self) -> None:
        """Play the solution on instances that nobody won. If these are few, add instances that only hinted plays won.

        If the solution lists actions for some instances, every instance without a list counts as tried and not solved.
        If it never lists actions, it proves nothing about the instances.

        It is a finding if the solution needs a word that only the hint states. If the word is a number, a time or
        a date, it is a finding only on the second such instance, since a hint may name one as an example.
        """
        job = self._job
        listed, tried, solved, examples, gift = False, 0, 0, 0, ""
        aided = [each.seed for each in job.unaided if each.seed not in job.lost] if job.seeds else []
        for seed in (*job.lost, *aided)[: max(len(job.lost), len(job.unaided))]:
            try:
                moves, won = await self._try_solution(seed)
                play = _CheckedPlay(seed, moves or (), job.win_return)
                given = (await self._find_given(play)).words if won else ()
                findable = given and await self._can_find(play, given)
            except UndecidedError:
                self.undecided += 1
                continue
            listed = listed or moves is not None
            if seed in job.lost:
                tried, solved = tried + 1, solved + won
            if not findable:
                examples += any(map(_EXAMPLE.fullmatch, given))
                gift = gift or next((word for word in given if examples > 1 or not _EXAMPLE.fullmatch(word)), "")
        if listed or await self._check_lists_elsewhere():
            self.tried, self.solved = tried, solved
        if gift:
            self._plays.findings.append(f"its solution wins a lost instance by {_describe_gift(gift)}")

    async def _check_lists_elsewhere(self) -> bool:
        """Return True if the solution lists actions on an instance that was won."""
        if not (seeds := self._job.seeds):
            return False
        try:
            return await try_until_decided(partial(self._plays.ask_solution, seeds[0])) is not None
        except UndecidedError:
            self.undecided += 1
            return False

    async def _try_solution(self, seed: int) -> tuple[list[Move] | None, bool]:
        """Return the moves of the solution of an instance, and True if they win. Moves that time out have lost."""
        try:
            moves = await try_until_decided(partial(self._plays.ask_solution, seed))
            return moves, moves is not None and await try_until_decided(
                partial(self._plays.check_solution, seed, moves)
            )
        except UndecidedError as undecided:
            if undecided.ours:
                raise
            return [], False

    async def _is_gift(self, play: _CheckedPlay, given: Given) -> bool:
        for other in self._job.unaided:
            if other.seed == play.seed:
                continue
            better = await try_until_decided(partial(self._plays.find_return, other.seed, play.moves))
            if is_won(other.best, better) or await self._reaches(other.seed, [given.rest] * REST_PLAYS, better):
                continue
            return await self._is_hidden(play, given.words)
        return False

    async def _is_hidden(self, play: _CheckedPlay, words: Sequence[str]) -> bool:
        """Return True if no player without the hint finds the words on this instance.

        A player finds them if a random search does. A player also finds them if both of these hold:
        * An unhinted play of any instance found them, used them and returned at least `least`. This alone is not
          enough, since a program may tell the words on other instances only.
        * The solution's play shows them in time on this instance. This alone is not enough either, since a solution
          may know a way to them that nobody finds.
        """
        if await self._can_find(play, words):
            return False
        if not any([await self._finds_and_uses(replay, play.least, words) for replay in self._plays.repeated.values()]):
            return True
        await self._try_solution(play.seed)
        return not set(words).isdisjoint((await self._find_given(play)).words)

    async def _finds_and_uses(self, replay: RepeatedPlay, least: float, words: Sequence[str]) -> bool:
        """Return True if an unhinted play returned at least `least` and sent the words after it was told them."""
        recorded = replay.recorded
        if recorded.hinted or not is_won(replay.episode_return, least):
            return False
        moves = list(read_moves(recorded.recording))
        views = tuple(self._plays.views[recorded.seed])
        untold, _ = await trio.to_thread.run_sync(find_stated_words, self._hint, moves, views)
        return set(words) <= set(find_unseen_words(moves, ())) - set(untold)

    async def _find_given(self, play: _CheckedPlay) -> Given:
        """Return the words of a play's moves that only the hint states, if it returns `least` only with these words.

        A word is not among them if an observation states it in time:
        * in a play of these moves, before an action that nobody can find (`keep_findable`)
        * in another play, if the moves still return `least` after the actions that led to the observation

        Returns no words if the other moves return `least`. Raises UndecidedError if no try decides this.
        """
        seed, moves, least = play
        # In a thread, since long observations take time. If the program has a hint, `keep` kept the observations.
        views = tuple(self._plays.views[seed])
        words, tellings = await trio.to_thread.run_sync(find_stated_words, self._hint, moves, views)
        for word, told_by in tellings.items():
            if is_won(await try_until_decided(partial(self._plays.find_return, seed, [*told_by, *moves])), least):
                words.remove(word)
        if not words:
            return Given((), moves)
        own = max(select_own(views, moves), key=lambda view: len(view.actions))
        here = partial(self._view, seed)
        rest = await find_rest(own, words, here, self._view_elsewhere, self._list_unaided(), self._plays.rng)
        needless = await self._reaches(seed, [rest.without] * REST_PLAYS, least)
        if needless or (rest.replaced and await self._reaches(seed, rest.replaced, least)):
            return Given((), moves)
        return Given(words, rest.without)

    async def _reaches(self, seed: int, ways: Sequence[Sequence[Move]], least: float) -> bool:
        """Play each of these moves, then random moves. Returns True if every play returns at least `least`."""
        for moves in ways:
            if not is_won(await try_until_decided(partial(self._plays.find_return_of_rest, seed, moves)), least):
                return False
        return True

    def _list_unaided(self) -> Iterator[PlayerView[Move]]:
        """Yield the repeated plays without the hint, as their player saw them."""
        for replay in self._plays.repeated.values():
            if not replay.recorded.hinted:
                moves = list(read_moves(replay.recorded.recording))
                yield from select_own(self._plays.views[replay.recorded.seed], moves)

    async def _view(self, seed: int, moves: Iterable[Move]) -> PlayerView[Move]:
        return await try_until_decided(partial(self._plays.view_play, seed, moves))

    async def _view_elsewhere(self, moves: Iterable[Move]) -> PlayerView[Move]:
        return await self._view(self._plays.rng.randrange(INSTANCE_MASK), moves)

    async def _can_find(self, play: _CheckedPlay, words: Sequence[str]) -> bool:
        """Return True if random play finds the words on this instance, and the moves then return at least `least`.

        Raises UndecidedError if no search finds them and one of them failed by our own fault.
        """
        ours = False
        for _ in range(SEARCHES):
            try:
                if await try_until_decided(partial(self._succeeds_after_search, play, words)):
                    return True
            except UndecidedError as undecided:
                ours = ours or undecided.ours
        if ours:
            raise UndecidedError(ours)
        return False

    async def _succeeds_after_search(self, play: _CheckedPlay, words: Sequence[str]) -> bool:
        """Act at random until the observations state all of the words. Then make the moves.

        Returns True if the play returns at least `least`. The search fails if an observation states a word only after
        the play is lost. It sends no moves of agents: a program could tell the words to whoever knows the hint, or a
        name of another instance.
        """
        seed, moves, least = play
        policy = self._plays.make_guesser(())
        said, observations, rest = list[Move](), list[str](), iter(moves)

        async def act(seen: Observed) -> Move | None:
            observations.append(heard(seen))
            heard_so_far = [PlayerView([*said, Move("")], observations)]
            if set(words) & set(await trio.to_thread.run_sync(find_unseen_words, moves, heard_so_far)):
                said.append(policy(seen))
                return said[-1]
            return next(rest, None)

        played = await self._plays.play(seed, act)
        return len(played.actions) > len(said) and is_won(get_least_return(played), least)


def _describe_gift(*words: str) -> str:
    named = ", ".join(repr(word[:NAMED_CHARACTERS]) for word in words[:MOST_NAMED])
    return f"{named}, which only its hint states"
