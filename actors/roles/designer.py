"""The designer process: leases design jobs, asks the model for programs and hints, and hands in admitted programs.

An attempt that fails is rejected with its stage and reason, and kept. The last attempt closes the job as failed. A
failure of our own services does not count as an attempt. The job is given back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

from actors.corpus import Grounds, load_grounds
from actors.play.domains import load_profile
from actors.play.session import Session, attend
from actors.roles.jobs import JobWork
from actors.roles.judge import Reviewer
from actors.roles.screen import Screener
from actors.text.design_prompt import fit_prompt
from actors.text.leaks import find_leaked
from actors.text.profile import Document, Situation
from actors.text.trajectory import TrajectoryBuilder
from spade.codec import unpack_ids
from spade.config import Config
from spade.processes.entry import Launch, main
from spade.protocol import (
    MOST_HINT,
    DesignJob,
    Generated,
    RejectCandidate,
    SubmitEnvironment,
    Trajectory,
    Verdict,
)
from spade.seeds import derive
from spade.text import as_line, format_beside

LONGEST_VALUE = 100  # characters of a value that a reason quotes


@dataclass(frozen=True)
class Attempt:
    """One attempt as the model wrote it."""

    number: int
    document: str
    """The id of the document that the prompt showed; "" without a corpus."""
    completion: str
    trajectory: Trajectory
    cut: bool
    """True if the completion ended at design.max_tokens."""
    shown: tuple[str, ...]
    """The ids of the environments that the prompt showed as examples."""
    situation: Situation


@dataclass(frozen=True)
class FailedStage:
    """The stage at which an attempt failed, with the reason."""

    stage: str
    reason: str


class Designer(JobWork):
    """Works on design jobs by asking the model. Gauges: JobWork's, and `attempts` written."""

    def __init__(self, session: Session, grounds: Grounds) -> None:
        super().__init__(session)
        self._session = session
        self._documents = grounds.documents
        self._settings = grounds.settings
        self._screen = Screener(session)
        self._reviewer = Reviewer(session)
        self._gauges.update(attempts=0)

    async def _fulfil(self, job: DesignJob) -> SubmitEnvironment | RejectCandidate:
        """Make attempts, each with its own document, until one is admitted or the last has failed."""
        number = 0
        while True:
            number += 1
            attempt = await self._write(job, number)
            examined = await self._examine(job, attempt)
            if isinstance(examined, SubmitEnvironment):
                return examined
            rejected = _reject(job, attempt, examined, last=number == self._config.design.attempts)
            if rejected.last:
                return rejected
            await self._hand_in(rejected)

    def _choose_document(self, job: DesignJob, number: int) -> Document | None:
        """Return the document of an attempt, or None without documents."""
        return self._documents[(job.draw + number - 1) % len(self._documents)] if self._documents else None

    async def _write(self, job: DesignJob, number: int) -> Attempt:
        design, builder = self._config.design, TrajectoryBuilder(self._config.design.temperature)
        room = self._config.engine.context_tokens - design.max_tokens
        profile, document = self._session.profile, self._choose_document(job, number)
        situation = profile.situation(self._settings, job.draw)
        # Documents and programs of the memory may be long, so read them in a thread.
        fit = partial(fit_prompt, profile, self._session.tokenizer, job, document, room, situation)
        prompt = await trio.to_thread.run_sync(fit)
        builder.read(prompt.ids)
        seed = derive(b"", "design", job.sampler, number)
        generated = await self._session.generate(builder.ids, design.max_tokens, design.temperature, seed)
        builder.sampled(generated)
        self._gauges["attempts"] += 1
        cut = generated.finish == "length"
        grounds = "" if document is None else document.id
        return Attempt(
            number, grounds, self._decode_text(generated), builder.trajectory(), cut, prompt.shown, situation
        )

    async def _examine(self, job: DesignJob, attempt: Attempt) -> SubmitEnvironment | FailedStage:
        if attempt.cut:
            return FailedStage("length", f"not finished within design.max_tokens = {self._config.design.max_tokens}")
        written = self._session.profile.program(attempt.completion)
        if written is None:
            return FailedStage("extract", "there is no program in the completion")
        source = written.source
        verdict = await self._admission(source, derive(b"", "validate", job.sampler, attempt.number))
        if not verdict.passed:
            return FailedStage(verdict.stages[-1].name, verdict.stages[-1].reason)
        nearest, bound = await self._replay.similarity(source), self._config.design.novelty_bound
        if nearest.value is not None and nearest.value > bound:
            reason = f"its similarity to {nearest.environment} is {format_beside(nearest.value, bound)}, over {bound:g}"
            return FailedStage("novelty", reason)
        if refusal := await self._screen.refusal(source, verdict, derive(b"", "screen", job.sampler, attempt.number)):
            return FailedStage("screen", refusal)
        if refusal := await self._reviewer.refusal(source, verdict, derive(b"", "review", job.sampler, attempt.number)):
            return FailedStage("review", refusal)
        hint = await self._write_hint(source, verdict, job, attempt) if self._config.hinted else ""
        if isinstance(hint, FailedStage):
            return hint
        reveals = self._session.profile.reveals(verdict.name, verdict.first_observation)
        return SubmitEnvironment(
            job=job.id,
            lease=job.lease,
            attempt=attempt.number,
            document=attempt.document,
            name=verdict.name,
            source=source,
            hint=hint,
            seed_sensitive=verdict.seed_sensitive,
            first_observation=verdict.first_observation,
            trajectory=attempt.trajectory,
            shown=attempt.shown,
            reads=verdict.reads,
            repairs=written.repairs + verdict.repairs,
            measures=msgspec.structs.replace(verdict.measures, reveals=reveals, similarity=nearest.value),
            setting=attempt.situation.setting,
            variant=attempt.situation.variant,
            single_turn=verdict.single_turn,
        )

    async def _write_hint(self, source: str, verdict: Verdict, job: DesignJob, attempt: Attempt) -> str | FailedStage:
        """Ask for the hint of a program. Returns the hint, or the reason why the attempt failed.

        If the hint gives a value away, a second hint is asked for.
        """
        given_away = ""
        for again in ((), (2,)):
            hint = await self._ask_hint(source, derive(b"", "hint", job.sampler, attempt.number, *again))
            if isinstance(hint, FailedStage):
                return hint
            value = find_leaked(hint, verdict.values)
            if value is None:
                return hint
            given_away = as_line(value, LONGEST_VALUE)
        return FailedStage("hint", f"it gives away what a player has to find out: {given_away}")

    async def _ask_hint(self, source: str, seed: int) -> str | FailedStage:
        """Ask for one hint. It is not trained on, so it needs no trajectory."""
        design, profile = self._config.design, self._session.profile
        reply = await self._session.ask(profile.hint(source), design.hint_max_tokens, design.temperature, seed)
        if reply is None:
            return FailedStage("hint", "the program leaves no room for a hint")
        if reply.cut:
            return FailedStage("hint", f"it was not finished within design.hint_max_tokens = {design.hint_max_tokens}")
        hint = profile.hint_text(reply.text)
        if len(hint) > MOST_HINT:
            return FailedStage("hint", f"it is over {MOST_HINT} characters")
        return hint or FailedStage("hint", "no hint was written")

    def _decode_text(self, generated: Generated) -> str:
        return self._session.tokenizer.decode(unpack_ids(generated.ids).tolist())


def _reject(job: DesignJob, attempt: Attempt, failure: FailedStage, *, last: bool) -> RejectCandidate:
    return RejectCandidate(
        job=job.id,
        lease=job.lease,
        attempt=attempt.number,
        document=attempt.document,
        completion=attempt.completion,
        stage=failure.stage,
        reason=failure.reason,
        trajectory=attempt.trajectory,
        last=last,
        shown=attempt.shown,
        setting=attempt.situation.setting,
        variant=attempt.situation.variant,
    )


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Run a designer process until cancelled. Raises ConfigError if the domain lacks prompts for the model."""
    load_profile(config)
    grounds = load_grounds(config)

    async def work(session: Session) -> None:
        await Designer(session, grounds).work()

    await attend(launch, config, config.design.lease_s, ready, work, grounds.digest)


if __name__ == "__main__":
    main(run)
