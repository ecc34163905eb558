"""The GPUs of a process: from the lists of the config, passed by CUDA_VISIBLE_DEVICES before it starts.

Indices count within the GPUs that its parent process sees: the list of a scheduler's own CUDA_VISIBLE_DEVICES is shared
out, and no other GPU is used.
"""

from collections.abc import Mapping

from spade.config import Config
from spade.protocol import Role

VISIBLE = "CUDA_VISIBLE_DEVICES"


def share(config: Config, role: Role, index: int = 0) -> tuple[int, ...] | None:
    """The GPUs of process `index` of a role: () if its list has none left; None: all, without a list or ranks."""
    engine, learner = config.engine, config.learner
    if role == "engine" and engine.gpus:
        first = index * engine.tensor_parallel
        return engine.gpus[first : first + engine.tensor_parallel]
    if role == "learner" and learner.gpus:
        return learner.gpus[index : index + 1]
    if role == "learner" and learner.processes > 1:
        return (index,)
    return None


def environment(gpus: tuple[int, ...] | None, outer: Mapping[str, str]) -> dict[str, str]:
    """The environment `outer` showing these GPUs alone, or unchanged for None; indices beyond its GPUs are left out."""
    if gpus is None:
        return dict(outer)
    if VISIBLE in outer:
        names = [name.strip() for name in outer[VISIBLE].split(",")]
        shown = [names[gpu] for gpu in gpus if gpu < len(names)]
    else:
        shown = [str(gpu) for gpu in gpus]
    return {**outer, VISIBLE: ",".join(shown)}


def placement(config: Config) -> str:
    """The GPUs of each process, in a line; "" if none is chosen."""
    shares = [(f"engine-{index}", share(config, "engine", index)) for index in range(config.actors.engines_bounds[1])]
    ranks = config.learner.processes if config.learner.gpus else 0
    shares += [("learner" if not rank else f"learner-{rank}", share(config, "learner", rank)) for rank in range(ranks)]
    return "; ".join(f"{name} {', '.join(map(str, gpus))}" for name, gpus in shares if gpus)
