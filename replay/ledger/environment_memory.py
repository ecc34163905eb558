"""The environment memory: earlier environments that designers are shown, and with which new programs are compared."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from random import Random
from typing import NamedTuple

import msgspec

from replay.ledger.keys import make_seed_id
from replay.ledger.records import MemoryEntry
from spade.pools import PoolProgram
from spade.protocol import MemorySeed, Similarity

SEED_WIN_RATES = (0.15, 0.85)
SEED_SHARE = 0.2  # if the run has seeds, at least this share of jobs varies seeds
TOO_EASY = 0.9
TOO_HARD = 0.1
HIGHEST = 10
NOVELTY_WINDOW = 32  # a program is compared with this many of the newest programs in the memory
NEWEST_BYTES = 1 << 19  # limits of a comparison: bytes of all earlier programs, and characters of the new program
LENGTH = 5  # tokens of a shingle
_TOKEN = re.compile(r"\w+|[^\w\s]")

Shingles = frozenset[tuple[str, ...]]


class EarlierProgram(NamedTuple):
    """An earlier program, with which a new program is compared."""

    environment: str
    """The id of its environment."""
    source: str
    """Its source text."""


class EnvironmentMemory:
    """The run's memory: the newest `capacity` environments, and all seeds (`design.seeds`)."""

    def __init__(self, capacity: int, remembered: Iterable[MemoryEntry] = (), seed_share: float = SEED_SHARE) -> None:
        self._records = deque(remembered)
        self._capacity = capacity
        self._seed_share = seed_share
        self._seeds: Sequence[PoolProgram] = ()
        self._shingles: dict[str, Shingles] = {}  # the shingles of the last compared programs, by environment

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[MemoryEntry]:
        return iter(self._records)

    def add(self, record: MemoryEntry) -> list[MemoryEntry]:
        """Add an environment. Returns the environments that had to leave the memory."""
        self._records.append(record)
        return [self._records.popleft() for _ in range(len(self._records) - self._capacity)]

    def begin_with(self, seeds: Sequence[PoolProgram]) -> None:
        """Set the seeds of the run."""
        self._seeds = seeds

    @property
    def has_seeds(self) -> bool:
        """Return True if the run has seeds."""
        return bool(self._seeds)

    def newest(self) -> tuple[EarlierProgram, ...]:
        """Return the 32 newest programs, the newest first, then the seeds. Stops before their sizes exceed 512 KiB."""
        newest = islice(reversed(self._records), NOVELTY_WINDOW)
        records = (EarlierProgram(each.environment, each.source) for each in newest)
        seeds = (EarlierProgram(make_seed_id(each.name), each.source) for each in self._seeds)
        room, found = NEWEST_BYTES, list[EarlierProgram]()
        for program in chain(records, seeds):
            room -= len(program.source.encode())
            if room < 0:
                break
            found.append(program)
        return tuple(found)

    def similarity(self, source: str) -> Similarity:
        """Compare a program with the programs of `newest`."""
        known, earlier = self._shingles, self.newest()
        self._shingles = {
            each.environment: known.get(each.environment) or make_shingles(each.source) for each in earlier
        }
        nearest = find_most_similar(make_shingles(source[:NEWEST_BYTES]), self._shingles)
        return Similarity() if nearest is None else Similarity(*nearest)

    def seeds(
        self, skill: str, count: int, draw: int, by_regret: bool = True, hinted: bool = True
    ) -> tuple[MemorySeed, ...]:
        """Draw up to `count` environments of the skill to vary. `draw` is the random seed.

        An environment qualifies if its win rate is in [0.15, 0.85] and its regret over 0. Draws from the ten of highest
        regret. Without `by_regret`, the reward takes the place of the regret. Without `hinted` plays, the result names
        no regret. If the run has seeds, draws from the seeds instead, with probability `seed_share` or if no
        environment qualifies.
        """
        low, high = SEED_WIN_RATES

        def worth(record: MemoryEntry) -> float:
            return (record.regret if by_regret else record.reward) or 0.0

        fit = [r for r in self._list_environments(skill, hinted) if worth(r) > 0 and low <= r.win_rate <= high]
        best = sorted(fit, key=lambda r: (-worth(r), -r.number))[:HIGHEST]
        random = Random(draw)
        if self._seeds and (random.random() < self._seed_share or not best):
            programs = self._list_seeds(skill)
            return tuple(_make_first_seed(each) for each in random.sample(programs, min(count, len(programs))))
        chosen = random.sample(best, min(count, len(best)))
        return tuple(_make_seed(record, "") for record in chosen)

    def avoid(self, skill: str, high_regret: float, draw: int, hinted: bool = True) -> MemorySeed | None:
        """Draw one environment of the skill that designers should avoid: its win rate is over 0.9 or under 0.1.

        Environments with a regret of at least `high_regret` are left out: designers are paid for environments that are
        won only with the hint. Returns None if no environment is left.
        """
        extreme = [r for r in self._list_environments(skill, hinted) if not TOO_HARD <= r.win_rate <= TOO_EASY]
        fit = [r for r in extreme if r.regret is None or r.regret < high_regret]
        if not fit:
            return None
        record = Random(draw).choice(fit)
        return _make_seed(record, _describe_reason(record))

    def _list_seeds(self, skill: str) -> Sequence[PoolProgram]:
        """Return the seeds that name this skill or no skill. If no seed does, return all seeds."""
        return [each for each in self._seeds if each.skill in (skill, None)] or self._seeds

    def _list_environments(self, skill: str, hinted: bool) -> list[MemoryEntry]:
        """Return the environments of a skill. Without `hinted` plays, drop their regret and hinted win rate.

        Another run, or an earlier start of this run, may have measured these.
        """
        found = [record for record in self._records if record.skill == skill]
        return found if hinted else [msgspec.structs.replace(r, regret=None, win_rate_hinted=None) for r in found]


def _make_seed(record: MemoryEntry, reason: str) -> MemorySeed:
    return MemorySeed(record.environment, record.source, record.regret, record.win_rate, reason)


def _make_first_seed(program: PoolProgram) -> MemorySeed:
    return MemorySeed(make_seed_id(program.name), program.source, None, None)


def _describe_reason(record: MemoryEntry) -> str:
    hinted = record.win_rate_hinted
    won = f"{record.win_rate:.0%} of the plays{'' if hinted is None else ' without a hint'} won"
    if record.win_rate > TOO_EASY:
        return f"too easy: {won}"
    if hinted is None:
        return f"too hard: {won}"
    if hinted >= SEED_WIN_RATES[0]:
        return f"too hard without its hint: {won}, {hinted:.0%} with it"
    return f"too hard: {won}, and the hint did not help"


def make_shingles(source: str) -> Shingles:
    """Return all runs of five tokens. A shorter source is one run.

    A token is a word, a number or one sign, in code, comments and strings alike. So white space and line breaks do not
    make programs differ. A source that is not valid Python also has tokens.
    """
    tokens = _TOKEN.findall(source)
    return frozenset(tuple(tokens[start : start + LENGTH]) for start in range(max(1, len(tokens) - LENGTH + 1)))


def find_most_similar(own: Shingles, earlier: Mapping[str, Shingles]) -> tuple[float, str] | None:
    """Find the earlier program that is most similar to a program. Returns the similarity, in [0, 1], and its id.

    Returns None without earlier programs, and the first of equally similar ones. The similarity is Jaccard's: shingles
    in both / shingles in either (Broder 1997).
    """
    nearest: tuple[float, str] | None = None
    for environment, other in earlier.items():
        both = len(own & other)
        similarity = both / (len(own) + len(other) - both)
        if nearest is None or similarity > nearest[0]:
            nearest = similarity, environment
    return nearest
