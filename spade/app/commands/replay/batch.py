"""`spade replay batch`: repeat a learner step, and compare the metrics with the record."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json, RunArgument
from spade.app.printing import print_json, say

if TYPE_CHECKING:
    from spade.app.commands.replay.remake import RepeatedStep


def batch(
    run: RunArgument,
    step: Annotated[int, typer.Argument(metavar="STEP", min=1, max=2**31 - 1, help="A learner step.")],
    out: Annotated[Path | None, typer.Option(help="Write the step's tensors into this safetensors file.")] = None,
    json: Json = False,
) -> None:
    """Repeat a learner step, and compare its metrics.

    Exit code 1 if a metric is not bit-identical to the recorded one. Needs the initial policy, or a checkpoint that is
    at most learner.checkpoint_every steps older.
    """
    from replay.store import open_reader
    from replay.store.past_batches import read_taken
    from spade.app.rundir import RunDir

    with open_reader(RunDir(run).require().store) as store:
        read_taken(store, step)
    # Import it only after the step was found, because it imports torch, which takes seconds.
    from spade.app.commands.replay.remake import remake

    made = remake(run, step, out)
    if json:
        print_json(made)
    else:
        _tell(made)
    if made.differs:
        raise typer.Exit(1)


def _tell(made: "RepeatedStep") -> None:
    step = made.step
    sequences = sum(len(trajectories) for _, _, trajectories in made.groups)
    say(f"step {step} at version {made.version}: {sequences} sequences in {len(made.groups)} groups")
    for id, role, trajectories in made.groups:
        say(f"  {id:<30} {role:<8}  {' '.join(trajectories)}")
    origin = f"checkpoint step-{made.checkpoint}" if made.checkpoint else "the initial policy"
    through = f", through steps {made.checkpoint + 1} to {step - 1}" if step - made.checkpoint > 1 else ""
    say(f"{made.micro_batches} micro-batches, {made.trained_tokens} trained tokens, tensors {made.tensors}")
    say(f"from {origin}{through}: loss {made.loss!r}")
    if made.recorded is None:
        say("no loss was recorded: this step was not published yet, or learner.publish_every skips it")
    elif made.differs:
        say(
            f"recorded loss {made.recorded!r}: {', '.join(made.differs)} differ; only the same settings, device, "
            "number of threads and version of torch give the same bits"
        )
    else:
        say("bit-identical to what was recorded")
