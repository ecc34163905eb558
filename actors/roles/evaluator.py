"""The evaluator process: measures the newest policy on a fixed set of programs, unhinted, again and again.

Programs, instance seeds and sampling seeds are the same each time, so that two evaluations differ by the policy and not
by the draw. Nothing of them is trained on, and nothing but their figures is kept.

The process also measures the diversity of the newest programs (`actors/roles/diversity.py`).
"""

import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import trio

from actors.corpus import load
from actors.nano.worlds import WORLDS
from actors.roles.diversity import DiversityMeter
from actors.roles.episode import Undone, play
from actors.roles.pool import MOST_ENDS
from actors.roles.session import Session, attend
from actors.text.measures.diversity import load_embedding
from spade.codec import program_digest
from spade.config import Config
from spade.disk import hold, read
from spade.errors import BusError, ConfigError, SuspectError, reason
from spade.estimates import mean_and_error
from spade.policy import best
from spade.policy.manifest import PARAMETERS
from spade.processes.entry import Launch, main
from spade.protocol import EndedPlay, Evaluation, Form, PlayLease, Validate
from spade.returns import won
from spade.seeds import INSTANCE_MASK, derive

log = logging.getLogger(__name__)


def read_programs(config: Config) -> list[str]:
    """The sources to play: nano's held-out programs, one a play, or the *.py of a folder in the order of their names.

    Raises ConfigError where there is none, or one cannot be read.
    """
    evaluation = config.evaluation
    if evaluation.programs == "builtin":
        domain = config.run.domain
        drawn = WORLDS[domain].unseen(config.run.seed or 0, load("builtin", domain), evaluation.plays)
        return [environment.source for environment in drawn]
    folder = Path(evaluation.programs)
    files = sorted(folder.glob("*.py"))
    if not files:
        raise ConfigError(
            f"evaluation.programs: {folder} has no environment program (*.py); give a folder or 'builtin'"
        )
    try:
        return [read(file).decode() for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"evaluation.programs: {folder} cannot be read ({reason(error)})") from None


def draw_plays(config: Config, sources: Sequence[str]) -> list[PlayLease]:
    """The plays of each evaluation, over the programs in turn; a play's `environment` is its program's number."""
    seed, name = config.run.seed or 0, f"evaluation-{os.getpid()}"
    digests = [program_digest(source) for source in sources]
    return [
        PlayLease(
            id=f"{name}-{index}",
            lease=0,
            environment=str(index % len(sources)),
            program=digests[index % len(sources)],
            hint=None,
            seed=derive(b"", "evaluation: instance", seed, index) & INSTANCE_MASK,
            sampler=derive(b"", "evaluation: play", seed, index),
        )
        for index in range(config.evaluation.plays)
    ]


def measure(config: Config, sources: Sequence[str]) -> str:
    """Digest of all that the plays of an evaluation are made of: with another one its figure means something else."""
    made_of = ([program_digest(each) for each in sources], config.evaluation.plays, config.run.seed, config.play)
    return hashlib.blake2b(msgspec.json.encode(made_of), digest_size=16).hexdigest()


def summary(ended: Sequence[EndedPlay], step: int, win_return: float, seconds: float) -> Evaluation | None:
    """The figures of an evaluation; None where no play counts."""
    counted = [(play, play.trajectory) for play in ended if play.trajectory is not None]
    if not counted:
        return None
    versions = [version for _, trajectory in counted for version, _ in trajectory.versions]
    rate, error = mean_and_error([won(play.episode_return, win_return) for play, _ in counted])
    return Evaluation(
        step=step,
        oldest=min(versions),
        newest=max(versions),
        plays=len(counted),
        voids=len(ended) - len(counted),
        win_rate=rate,
        error=error or 0.0,
        seconds=seconds,
    )


class Evaluator:
    """Gauges: `episodes` going on, `turns` played, `plays_again` that our own services failed, `evaluations` made."""

    def __init__(self, session: Session, sources: Sequence[str], run: Path) -> None:
        self._session = session
        self._run = run
        self._config = session.config
        self._replay = session.replay
        self._sources = sources
        # Those that the package ships read the inside of the box.
        builtin = session.config.evaluation.programs == "builtin"
        self._forms: dict[int, Form] = dict.fromkeys(range(len(sources)), "inside") if builtin else {}
        self._finding = [trio.Lock() for _ in sources]
        self._plays = draw_plays(session.config, sources)
        self._measure = measure(session.config, sources)
        self._episodes = 0
        self._gauges = session.gauges
        self._gauges.update(episodes=0, turns=0, plays_again=0, evaluations=0)

    async def work(self) -> None:
        """One evaluation after the other until cancelled; weights published meanwhile are skipped."""
        due = 0
        while True:
            weights = await self._replay.weights_after(due)
            folder = self._run / "weights" / weights.digest
            async with _held(folder / PARAMETERS) as here:
                evaluation = await self._evaluate(weights.step)
                if evaluation is not None and here:
                    await self._keep_best(evaluation, weights.digest, folder)
            if evaluation is None:
                log.warning("each of the %d plays was void; what evaluation.programs names faults", len(self._plays))
            else:
                await self._session.hand_in(partial(self._replay.evaluated, evaluation))
                self._gauges["evaluations"] += 1
            due = weights.step + self._config.evaluation.every_steps

    async def _keep_best(self, made: Evaluation, digest: str, folder: Path) -> None:
        """Keep the policy if its evaluation is the best so far: before it is handed in, so that no kill loses it."""
        new = best.Best(made.step, digest, self._measure, made.win_rate, made.error, made.plays)
        if await trio.to_thread.run_sync(best.keep, self._run / best.FOLDER, folder, new):
            log.info("the best so far: %s", new)

    async def _form(self, number: int) -> Form:
        """The form of an action that a program reads: admission finds it once, before the program's first play.

        Raises BusError where no env-runner tells.
        """
        async with self._finding[number]:
            if number not in self._forms:
                seed = derive(b"", "evaluation: form", self._config.run.seed or 0, number)
                asked = Validate(self._sources[number], seed)
                verdict = await self._session.runners.call(asked, self._config.play.lease_s)
                self._forms[number] = verdict.reads
            return self._forms[number]

    async def _play_once(self, lease: PlayLease) -> EndedPlay | Undone:
        number = int(lease.environment)
        try:
            reads = await self._form(number)
        except BusError as error:
            return Undone(str(error), suspect=isinstance(error, SuspectError))
        played = await play(self._session, msgspec.structs.replace(lease, reads=reads), self._sources[number])
        return played if isinstance(played, Undone) else played.ended

    async def _evaluate(self, step: int) -> Evaluation | None:
        limiter, ended = trio.CapacityLimiter(self._config.evaluation.in_flight), []
        began = trio.current_time()

        async def limited(lease: PlayLease) -> None:
            async with limiter:
                ended.append(await self._play(lease))

        async with trio.open_nursery() as nursery:
            for lease in self._plays:
                nursery.start_soon(limited, lease)
        return summary(ended, step, self._config.play.win_return, trio.current_time() - began)

    async def _play(self, lease: PlayLease) -> EndedPlay:
        """Play until it is over: a play that our own services failed proves nothing and is played again.

        A play over which two services ended is void.
        """
        suspected = 0
        self._gauges["episodes"] += 1
        try:
            while True:
                await self._session.services()
                # An env-runner knows an episode by its name; no two are the same one.
                self._episodes += 1
                ended = await self._play_once(msgspec.structs.replace(lease, lease=self._episodes))
                if isinstance(ended, EndedPlay):
                    return ended
                suspected += ended.suspect
                if suspected == MOST_ENDS:
                    log.warning("%s is void: %s", lease.id, ended.why)
                    return EndedPlay(lease.id, lease.lease, "fault", 0.0, (), 0.0, fault=ended.why)
                log.info("%s is played again: %s", lease.id, ended.why)
                self._gauges["plays_again"] += 1
                # As the agent's: services in trouble are not hammered with the same play.
                await trio.sleep(self._config.bus.heartbeat_s)
        finally:
            self._gauges["episodes"] -= 1


@asynccontextmanager
async def _held(file: Path) -> AsyncIterator[bool]:
    """Keep published weights from being pruned during the block; yields False where they are not on this machine."""
    try:
        held = await trio.to_thread.run_sync(hold, file)
    except FileNotFoundError:
        log.warning("%s is not here, so the policy of this evaluation cannot be kept", file)
        yield False
        return
    with held:
        yield True


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """An evaluator process, until cancelled.

    Raises ConfigError where the programs it is to play, or the embedding it is to use, cannot be had.
    """
    settings = config.evaluation
    sources = read_programs(config) if settings.programs else []
    embedding = load_embedding(settings.embedding) if settings.diversity_programs else None

    async def work(session: Session) -> None:
        async with trio.open_nursery() as nursery:
            if sources:
                nursery.start_soon(Evaluator(session, sources, Path(launch.run)).work)
            if embedding is not None:
                nursery.start_soon(DiversityMeter(session, embedding).work)

    await attend(launch, config, config.play.lease_s, ready, work)


if __name__ == "__main__":
    main(run)
