"""Choose the GPUs of a process from the config's lists, and pass them in CUDA_VISIBLE_DEVICES before it starts.

Indices count within the GPUs that the parent process sees. If a scheduler has set CUDA_VISIBLE_DEVICES, the processes
of the run share its list and use no other GPU.
"""

from collections.abc import Mapping

from spade.config import Config
from spade.protocol import Role

VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_gpus(config: Config, role: Role, index: int = 0) -> tuple[int, ...] | None:
    """Return the GPUs of process `index` of a role.

    () means that no GPU of the list is left. None means all GPUs: the config has neither a list nor several ranks.
    """
    engine, learner = config.engine, config.learner
    if role == "engine" and engine.gpus:
        first = index * engine.tensor_parallel
        return engine.gpus[first : first + engine.tensor_parallel]
    if role == "learner" and learner.gpus:
        return learner.gpus[index : index + 1]
    if role == "learner" and learner.processes > 1:
        return (index,)
    return None


def make_environment(gpus: tuple[int, ...] | None, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment `outer`, changed to show only these GPUs. None changes nothing.

    Indices beyond the GPUs of `outer` are left out.
    """
    if gpus is None:
        return dict(outer)
    if VISIBLE in outer:
        names = [name.strip() for name in outer[VISIBLE].split(",")]
        shown = [names[gpu] for gpu in gpus if gpu < len(names)]
    else:
        shown = [str(gpu) for gpu in gpus]
    return {**outer, VISIBLE: ",".join(shown)}


def describe_placement(config: Config) -> str:
    """Describe the GPUs of each process in a line. Returns "" if the config chooses no GPUs."""
    shares = [
        (f"engine-{index}", choose_gpus(config, "engine", index)) for index in range(config.actors.engines_bounds[1])
    ]
    ranks = config.learner.processes if config.learner.gpus else 0
    shares += [
        ("learner" if not rank else f"learner-{rank}", choose_gpus(config, "learner", rank)) for rank in range(ranks)
    ]
    return "; ".join(f"{name} {', '.join(map(str, gpus))}" for name, gpus in shares if gpus)
