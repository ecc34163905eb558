"""Admit or reject a candidate program. It passes named stages one after the other, and each may reject it.

The stages depend on the domain: `actors/environments/games.py`, `actors/environments/tools/stages.py`.
"""

from actors.environments.domains import DOMAINS
from actors.environments.trials import RejectedError, Trials
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS
from actors.sandbox.wire import LoadProgram, LoadReply, Step
from spade.codec import compute_program_digest
from spade.config import PATIENCE, DomainName, Play, ToolUse
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Stage, Verdict
from spade.seeds import derive


def derive_check_seed(source: str) -> int:
    """Return the seed with which commands admit a program, so that one file always gets one verdict.

    A run uses secret seeds, which programs cannot foresee.
    """
    return derive(b"", "env check", compute_program_digest(source))


async def validate(
    sandbox: Sandbox,
    source: str,
    seed: int,
    limits: Limits,
    play: Play | None = None,
    domain: DomainName = "games",
    tools: ToolUse | None = None,
) -> Verdict:
    """Take a program through the stages of its domain and return the verdict. `seed` keys the secret instance seeds.

    `play` bounds a play and sets the return that wins. `tools` are the rules of programs with tools. A program of
    another domain is rejected at stage `class`. Raises RunError if the sandbox itself fails.

    All calls together may take load_s + 4 step_s of processor time, and step_s / 5 more for each play of the stages
    `random` and `constant`. By the clock, the admission may take PATIENCE times as long.
    """
    admission = DOMAINS[domain].admission(sandbox, source, seed, limits, play or Play(), tools or ToolUse())
    with admission.deadline as scope:
        try:
            await admission.run()
        except RejectedError as rejection:
            admission.close(str(rejection), passed=False)
    if scope.cancelled_caught:
        patience_s = PATIENCE * admission.trials.patience_s
        admission.close(f"all stages together take more than {patience_s:g} s", passed=False)
    return await admission.verdict()


async def admit_opened(sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> Verdict:
    """Admit a program of a library if it resets under this seed. Plays no action.

    Raises RunError if the sandbox itself fails.
    """
    trials = Trials(sandbox, source, limits, play.max_turns, Step, "games")
    try:
        async with trials.opened(seed, PLAYS) as (_, first):
            observation = first.observation
    except RejectedError as rejection:
        return Verdict(False, (Stage("open", False, str(rejection)),), trials.name)
    return Verdict(True, (Stage("open", True),), trials.name, True, observation, "inside", trials.repairs)


async def find_domain(sandbox: Sandbox, source: str, limits: Limits) -> DomainName | None:
    """Return the domain to which a program's class belongs, or None if the program does not load.

    Raises RunError if the sandbox itself fails.
    """
    process = await sandbox.child(source)
    if isinstance(process, Faulted):
        raise RunError(f"the sandbox failed: {process.detail}")
    try:
        loaded = await process.request(LoadProgram(source, 1), limits.load_s)
    finally:
        process.kill()
    if isinstance(loaded, Faulted) and not loaded.environment_fault:
        raise RunError(f"the sandbox failed: {loaded.detail}")
    return loaded.domain if isinstance(loaded, LoadReply) else None
