"""The ledger: every request of designers, agents and the learner, as a change of the run's state. No I/O, no clock.

For each request the server calls `apply`, then `advance` once, commits the changes, and only then answers. `tick` tells
the ledger that time has passed. Deadlines are compared with the `now` that the caller gives.
"""

import math

from replay.ledger import audits, batches, designs, nonsense, provenance, windows
from replay.ledger.batches import RefusalError
from replay.ledger.keys import make_attempt_id, make_quarantine_key
from replay.ledger.pacing import Allowance, PacingFigures, compute_allowance, find_last_step, is_spent, note_first_step
from replay.ledger.records import Audit, BatchRecord, Job, PlayRecord
from replay.ledger.state import RunState
from spade.config import LONGEST_WAIT_S
from spade.pools import is_entry
from spade.protocol import (
    AnyRequest,
    Audited,
    Audits,
    Checkpointed,
    Designs,
    Done,
    EndedPlay,
    Evaluated,
    Evaluation,
    LeaseAudit,
    LeaseDesigns,
    LeasePlays,
    MeasuredDiversity,
    Plays,
    Publish,
    Published,
    RejectCandidate,
    ReleaseDesign,
    ReleasePlay,
    Response,
    SubmitEnvironment,
    SubmitPlays,
    TakeBatch,
)

NAMED = 3  # a refusal names at most this many plays


class Ledger:
    """One run's state and its transitions."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def apply(self, request: AnyRequest, holder: str, now: float, number: int = 0) -> Response | BatchRecord | None:
        """Apply a request to the state. Returns None if the request has to wait, because no lease or batch is ready.

        `holder` names the sender, who will hold the leases. `number` is the sender's number of the request. If an
        answer was lost and its request is sent again with the same number, it gets the same leases. Number 0 means that
        the request is never sent again. Raises RefusalError if the request can never be served.
        """
        state = self.state
        if isinstance(request, LeasePlays | LeaseDesigns | LeaseAudit | TakeBatch):
            _check_wait(request)
        if isinstance(request, TakeBatch):
            note_first_step(state, request.step)
        match request:
            case LeasePlays() | LeaseDesigns() | LeaseAudit() if is_spent(state, now):
                return None
            case TakeBatch(step=step) if step > state.counters.taken_step and is_spent(state, now):
                return None
            case TakeBatch(step=step) if step > find_last_step(state):  # its batch was recorded under a higher limit
                return None
            case LeasePlays(count=count):
                plays = windows.lease(state, count, self.allowance().chunks, holder, number, now)
                return Plays(plays) if plays else None
            case LeaseDesigns(pool=digest) if why := self._explain_another_pool(digest):
                raise RefusalError(why)
            case LeaseDesigns(count=count):
                jobs = designs.lease(state, count, holder, number, now)
                return Designs(jobs) if jobs else None
            case LeaseAudit():
                job = audits.lease(state, holder, number, now)
                return None if job is None else Audits((job,))
            case TakeBatch(step=step):
                return batches.take(state, step, now)
            case SubmitPlays(plays=ended):
                self._end(ended, holder, now)
            case SubmitEnvironment(job=id, lease=lease) | RejectCandidate(job=id, lease=lease) if _is_anothers(
                state.jobs.get(id), lease, holder
            ):
                raise RefusalError(f"job {id}: its lease {lease} is not held by {holder}")
            case SubmitEnvironment(job=id) | RejectCandidate(job=id) if why := nonsense.check_design(
                request, state.jobs.get(id), state.config
            ):
                raise RefusalError(f"job {id}: {why}")
            case SubmitEnvironment(job=id) if why := self._explain_other_program(request):
                raise RefusalError(f"job {id}: {why}")
            case SubmitEnvironment():
                if self._try_quarantine(request, holder, now):
                    self._release_design(request.job, request.lease, holder)
                    return Done()
                environment = designs.admit(state, request, now)
                if environment is not None:
                    windows.open_chunk(state, environment, now)
            case RejectCandidate():
                if not self._try_quarantine(request, holder, now):
                    designs.reject(state, request, now)
                elif request.last:
                    self._release_design(request.job, request.lease, holder)
            case ReleasePlay(id=id, lease=lease, suspect=suspect):
                self._release_play(id, lease, holder, now, suspect=suspect)
            case ReleaseDesign(job=id, lease=lease):
                self._release_design(id, lease, holder)
            case Audited(environment=id, lease=lease) if _is_anothers(state.audits.get(id), lease, holder):
                raise RefusalError(f"the audit of {id}: its lease {lease} is not held by {holder}")
            case Audited():
                if why := nonsense.check_audit(request):
                    raise RefusalError(f"the audit of {request.environment}: {why}")
                windows.audited(state, request, now)
            case Publish():
                return Published(batches.publish(state, request))
            case Evaluated(evaluation=evaluation):
                if why := self._describe_impossible(evaluation):
                    raise RefusalError(f"the evaluation of step {evaluation.step}: {why}")
                if state.history.add_evaluation(evaluation):
                    state.touch("meta", "history", state.history)
            case MeasuredDiversity(diversity=diversity):
                if why := nonsense.check_diversity(diversity, state.published_step):
                    raise RefusalError(f"the diversity of step {diversity.step}: {why}")
                if state.history.diversity != diversity:
                    state.history.diversity = diversity
                    state.touch("meta", "history", state.history)
            case Checkpointed(step=step):
                batches.retire_batches(state, step)
            case _:
                raise RefusalError(f"the replay service does not serve {type(request).__name__}")
        return Done()

    def advance(self, now: float) -> None:
        """Open due chunks of active windows, and open design jobs for free slots.

        Opens nothing after the run's end.
        """
        if is_spent(self.state, now):
            return
        windows.open_chunks(self.state, now, self._is_starving())
        designs.open_jobs(self.state, self.allowance().designs, now)

    def tick(self, now: float, live: frozenset[str] | None) -> None:
        """Let time pass. `live` names the connected holders, None if they are not known yet."""
        windows.expire(self.state, now, live)
        designs.expire(self.state, now, live)
        batches.drop_stale(self.state, now)
        self.advance(now)

    def allowance(self) -> Allowance:
        """Return the amount of work that may start now."""
        return compute_allowance(self.load(), self.state.config)

    def load(self) -> PacingFigures:
        """Return the figures from which pacing computes the allowance."""
        state = self.state
        newest, trained = state.published_step, state.counters.taken_step + 1
        sequences, oldest = 0, 0
        for known, count in state.flight.sequences.items():
            lag = state.lag(trained, newest if known is None else known)
            # A chunk over the lag bound will not be trained, so it does not count.
            if lag <= state.config.learner.agent_lag:
                sequences += count
                oldest = max(oldest, lag)
        return PacingFigures(
            newest=state.lag(trained, newest) if state.version else None,
            outstanding=batches.count_waiting(state) + sequences,
            oldest=oldest,
            active=len(state.environments),
            designing=len(state.jobs),
        )

    def _is_starving(self) -> bool:
        """Return True if nothing in flight can lead to newer weights.

        No batch is being trained or can be taken, no chunk waits for plays, and no audit or design job is open.
        """
        state = self.state
        training_now = state.version_at(state.counters.taken_step + 1) > state.version
        enough = batches.count_waiting(state) >= state.config.learner.batch_sequences
        return not (training_now or enough or state.flight.unscored or state.audits or state.jobs)

    def _end(self, plays: tuple[EndedPlay, ...], holder: str, now: float) -> None:
        """Accept the plays that make sense. Raises RefusalError about the other plays."""
        wrong = []
        for play, why in zip(plays, nonsense.check_plays(plays, self.state.config.play), strict=True):
            record = self.state.plays.get(play.id)
            if why:
                wrong.append(f"play {play.id}: {why}")
            elif _is_anothers(record, play.lease, holder):
                wrong.append(f"play {play.id}: its lease {play.lease} is not held by {holder}")
            elif self._try_quarantine(play, holder, now):
                self._release_play(play.id, play.lease, holder, now)
            elif record is not None and not 1 <= play.lease <= record.lease:
                wrong.append(f"play {play.id}: its lease {play.lease} was never given")
            elif not windows.finish(self.state, play, holder, now):
                self.state.counters.late_plays += 1
                self.state.touch("meta", "counters", self.state.counters)
        if wrong:
            taken = f"; the other {len(plays) - len(wrong)} of {len(plays)} plays are kept" if len(plays) > 1 else ""
            raise RefusalError("; ".join(wrong[:NAMED]) + taken)

    def _try_quarantine(
        self, request: EndedPlay | SubmitEnvironment | RejectCandidate, holder: str, now: float
    ) -> bool:
        """Quarantine a submission if unpublished weights sampled it. Returns True if they did."""
        if request.trajectory is None:
            return False
        if not (why := provenance.describe_flaw(self.state.published, request.trajectory)):
            return False
        work: PlayRecord | Job | None
        if isinstance(request, EndedPlay):
            work, name = self.state.plays.get(request.id), request.id
        else:
            work, name = self.state.jobs.get(request.job), make_attempt_id(request.job, request.attempt)
        # An unknown submission is not from this run, so it is not kept.
        known = work is not None and 1 <= request.lease <= work.lease
        key = make_quarantine_key(name, request.lease) if known else None
        if key is not None:
            provenance.quarantine(self.state, key, request.trajectory, why, holder, now)
        return True

    def _explain_another_pool(self, digest: str) -> str:
        """Explain why a designer or curator with another pool may not lease; "" if it may."""
        own = "" if self.state.pool is None else self.state.pool.digest
        if digest == own:
            return ""
        if not digest:
            return "this run plays a pool: start curators, with the design.source and the pool.source of the run"
        if not own:
            return "this run has designers, and no pool: start designers, with design.source = 'model'"
        return f"your pool is {digest[:12]}, the run's is {own[:12]}; use the folder `pool` of the run's directory"

    def _explain_other_program(self, request: SubmitEnvironment) -> str:
        """Explain that a program is not the one that its job asks for; "" if it is."""
        job, pool = self.state.jobs.get(request.job), self.state.pool
        if job is None or pool is None or is_entry(request.source, pool[job.program], job.level):
            return ""
        return f"this is not the program {job.program} of the pool, at level {job.level}"

    def _describe_impossible(self, evaluation: Evaluation) -> str:
        """Describe the first contradiction in an evaluation's figures. Returns "" if they agree."""
        if evaluation.step > self.state.published_step:
            return "nothing was published after that step"
        if not 1 <= evaluation.oldest <= evaluation.newest <= self.state.version:
            return f"versions {evaluation.oldest} to {evaluation.newest} were never published"
        return "" if math.isfinite(evaluation.seconds) else "its seconds must be finite"

    def _release_play(self, id: str, lease: int, holder: str, now: float, *, suspect: bool = False) -> None:
        """Open a play again for another process. `suspect`: a service crashed while it served the play."""
        play = self.state.plays.get(id)
        if play is not None and play.state == "leased" and play.lease == lease and play.holder == holder:
            self.state.counters.released_leases += 1
            if suspect:
                windows.suspect(self.state, play, holder, now)
            else:
                windows.release(self.state, play)

    def _release_design(self, id: str, lease: int, holder: str) -> None:
        job = self.state.jobs.get(id)
        if job is not None and job.state == "leased" and job.lease == lease and job.holder == holder:
            self.state.counters.released_leases += 1
            designs.release(self.state, job)


def _is_anothers(work: PlayRecord | Job | Audit | None, lease: int, holder: str) -> bool:
    """Return True if another process holds the present lease. Holders of earlier leases are not kept."""
    return work is not None and work.state == "leased" and work.lease == lease and work.holder != holder


def _check_wait(request: LeasePlays | LeaseDesigns | LeaseAudit | TakeBatch) -> None:
    if not 0 <= request.wait_s <= LONGEST_WAIT_S:
        raise RefusalError(f"wait_s must be 0 to {LONGEST_WAIT_S:g} s, is {request.wait_s}")
    if isinstance(request, LeasePlays | LeaseDesigns) and request.count < 1:
        raise RefusalError(f"count must be at least 1, is {request.count}")
