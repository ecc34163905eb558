"""`spade cluster template`: print a file for a cluster's scheduler."""

import os
from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Set
from spade.app.printing import say, show
from spade.disk import replace
from spade.errors import ConfigError, RunError


def template(
    scheduler: Annotated[str, typer.Argument(metavar="slurm|kubernetes", help="The scheduler of the cluster.")],
    config: Annotated[str, typer.Argument(help="A recipe or a TOML file.")],
    gpus: Annotated[
        int, typer.Option(min=1, metavar="N", help="GPUs of a machine; on kubernetes, the most GPUs of a container.")
    ] = 8,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")] = None,
    set_: Set = None,
) -> None:
    """Print a file that starts a run. It is a batch script for Slurm or a manifest for KubeRay.

    The file has the numbers of processes, GPUs and CPUs of the config. Edit the settings that only your cluster has.
    """
    from spade.cluster import schedulers

    if scheduler == "slurm":
        text = schedulers.write_slurm(config, set_ or (), gpus)
    elif scheduler == "kubernetes":
        text = schedulers.write_kubernetes(config, set_ or (), gpus)
    else:
        raise ConfigError(f"no template for {scheduler!r}; write slurm or kubernetes")
    if out is None:
        show(text.removesuffix("\n"))
    elif os.path.lexists(out):
        raise RunError(f"{out}: exists already, perhaps with your edits; give another name")
    else:
        replace(out, text.encode())
        say(f"{out}: written")
