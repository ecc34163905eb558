"""`spade cluster template`."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Set
from spade.app.printing import say, show
from spade.errors import ConfigError

MACHINE_GPUS = 8


def template(
    scheduler: Annotated[str, typer.Argument(metavar="slurm|kubernetes", help="The scheduler of the cluster.")],
    config: Annotated[str, typer.Argument(help="A recipe or a TOML file.")],
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=f"GPUs of a machine of Slurm [default: {MACHINE_GPUS}].")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")] = None,
    set_: Set = None,
) -> None:
    """Print what starts or resumes a run on a cluster: a batch script for Slurm, a manifest for KubeRay.

    With the numbers of processes, GPUs and CPUs of the config; what else a cluster has of its own is for you to edit.
    """
    from spade.cluster import schedulers

    if scheduler == "slurm":
        text = schedulers.slurm(config, set_ or (), gpus or MACHINE_GPUS)
    elif scheduler == "kubernetes" and gpus is None:
        text = schedulers.kubernetes(config, set_ or ())
    elif scheduler == "kubernetes":
        raise ConfigError("--gpus: is for slurm; on kubernetes each container has the GPUs that its process needs")
    else:
        raise ConfigError(f"there is no template for {scheduler!r}; write slurm or kubernetes")
    if out is None:
        show(text.removesuffix("\n"))
    else:
        out.write_text(text, encoding="utf-8")
        say(f"{out}: written")
