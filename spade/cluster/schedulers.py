"""Files that hand a run to a scheduler: a batch script for Slurm, a manifest for Kubernetes. Pure.

Both start a Ray cluster, and on it `spade up`, which begins or resumes the run. The files set `place.*` for this
command: the cluster chooses the GPUs, and some machines are reserved for the learner, others for the engines. Without
the reservation, engines could take the GPUs that the learner needs.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import tomli_w
from msgspec.structs import replace

from spade import extras
from spade.cluster.needs import PLACED, MachineShare, check, compute_needs
from spade.config import Config, PlacedRole, format_inline, list_differences, load, make_short_name
from spade.errors import ConfigError

TEMPLATES = Path(__file__).parent / "templates"
_MARGIN_S = 120  # Slurm warns of the end of a job this long before a drain must begin
_LONGEST_WARN_S = 65_535  # Slurm accepts no longer warning time
_CPUS_A_GPU = 8  # CPUs of a container for each GPU, unless `place.cpus` is set
_ACTOR_CPUS = 8  # CPUs of a container of actors
_ACTORS: tuple[PlacedRole, ...] = ("env-runner", "agent", "designer")
_PLENTY = 1000  # amount of the custom resource of a container for actors. Only its CPUs limit the actors
_ODD = re.compile(r"^\.+|[^\w.-]", re.ASCII)
_GIB = 2**30


class WorkerGroup(NamedTuple):
    """Containers of one kind."""

    name: str
    """Name of the group, and of its custom resource."""

    replicas: int
    """Number of containers at the start."""

    least: int
    """Least number of containers."""

    most: int
    """Greatest number of containers."""

    share: MachineShare
    """Resources of a container."""

    slots: int
    """Amount of the custom resource in each container."""


class RankPlan(NamedTuple):
    """The plan of the learner's processes."""

    processes: int
    """Number of processes."""

    gpus: int
    """GPUs of each process."""

    each: int
    """Number of processes on one machine."""

    @property
    def machines(self) -> int:
        """Return the number of machines that hold the processes."""
        return math.ceil(self.processes / self.each)


def write_slurm(name: str, overrides: Sequence[str], gpus: int) -> str:
    """Return the batch script for a run of the config `name` on machines with `gpus` GPUs. Raises ConfigError."""
    if not name.isprintable():  # `load` refuses unprintable settings, but not an unprintable file name
        raise ConfigError(f"{name!a}: the script would contain characters that cannot be printed; rename the file")
    overrides, config = _count_by_gpus(name, overrides, gpus)
    ranks, engine = _plan_ranks(config, gpus), compute_needs(config, "engine").gpus
    asked: dict[PlacedRole, int] = {"learner": ranks.gpus, "engine": engine}
    roles = [role for role, count in asked.items() if count]
    if roles:
        overrides += _make_pins(config, roles)
    return _render_template(
        "spade.sbatch",
        config=shlex.quote(str(Path(name).absolute()) if Path(name).is_file() else name),
        run=shlex.quote(f"runs/{make_short_name(name)}"),
        settings=[shlex.quote(override) for override in overrides],
        machines=_count_machines(ranks, engine, config.actors.engines_bounds[0], gpus),
        gpus=gpus if roles else 0,
        ranks=ranks,
        engine=engine,
        warn_s=min(math.ceil(config.supervise.drain_s) + _MARGIN_S, _LONGEST_WARN_S),
    )


def write_kubernetes(name: str, overrides: Sequence[str], gpus: int) -> str:
    """Return the manifest for a run of the config `name`: volumes, the config, and a job of KubeRay.

    A container has at most `gpus` GPUs. Raises ConfigError.
    """
    overrides, config = _count_by_gpus(name, overrides, gpus)
    overrides += [_set("place.cpus", _count_cpus(config), config.place.cpus), *_make_pins(config, PLACED)]
    run = _ODD.sub("-", make_short_name(name))  # the name stands in a command that two shells parse
    config = load(name, (*overrides, f"replay.store=/store/{run}"))
    return _render_template(
        "rayjob.yaml",
        run=run,
        config=_format_toml(config),
        version=metadata.version("spade-rl"),
        ray=extras.get_requirement("ray").partition("==")[2],
        drain_s=math.ceil(config.supervise.drain_s),
        groups=_make_groups(config, gpus),
    )


def _count_by_gpus(name: str, overrides: Sequence[str], most: int) -> tuple[list[str], Config]:
    """Replace each list of GPUs by their number, and return the new overrides and config.

    `most` is the number of GPUs of the largest machine. Raises ConfigError, also if a process asks for more GPUs.
    """
    config = load(name, tuple(overrides))
    # A role with a list of GPUs runs on GPUs, so ask for the number that it needs on "cuda".
    there = replace(
        config, engine=replace(config.engine, device="cuda"), learner=replace(config.learner, device="cuda")
    )
    listed: dict[PlacedRole, bool] = {"engine": bool(config.engine.gpus), "learner": bool(config.learner.gpus)}
    gpus = {role: compute_needs(there, role).gpus for role, named in listed.items() if named}
    chosen = ["engine.gpus=[]", "learner.gpus=[]", _set("place.gpus", gpus, config.place.gpus)] if gpus else []
    config = load(name, (*overrides, *chosen))
    check(config, PLACED)
    for role in listed:
        if (asked := compute_needs(config, role).gpus) > most:
            raise ConfigError(
                f"{role}: asks for {asked} GPUs of one machine, and --gpus says {most}; a model is not split over "
                "machines"
            )
    return [*overrides, *chosen], config


def _plan_ranks(config: Config, most: int) -> RankPlan:
    processes, gpus = config.learner.processes, compute_needs(config, "learner").gpus
    return RankPlan(processes, gpus, min(processes, most // gpus) if gpus else processes)


def _count_machines(ranks: RankPlan, engine: int, engines: int, gpus: int) -> int:
    """Return the smallest number of machines for the learner and the engines. Each engine has `engine` GPUs."""
    machines = ranks.machines
    while engine and sum(_count_engines_beside(at, ranks, engine, gpus) for at in range(machines)) < engines:
        machines += 1
    return machines


def _count_engines_beside(at: int, ranks: RankPlan, engine: int, gpus: int) -> int:
    """Return the number of engines that fit on machine `at` in addition to the learner's processes.

    The batch script contains the same formula.
    """
    learners = min(max(ranks.processes - at * ranks.each, 0), ranks.each)
    return (gpus - learners * ranks.gpus) // engine


def _count_cpus(config: Config) -> dict[PlacedRole, int]:
    """Return the CPUs of each role with GPUs. A process takes all CPUs of its container, so it is alone there."""
    roles: tuple[PlacedRole, ...] = ("learner", "engine")
    return {role: _CPUS_A_GPU * compute_needs(config, role).gpus for role in roles if compute_needs(config, role).gpus}


def _make_pins(config: Config, roles: Sequence[PlacedRole]) -> list[str]:
    """Return the setting that places the roles' processes only on machines with the custom resource of their group."""
    given = config.place.resources
    pinned = {role: {**given.get(role, {}), _group(role): 1} for role in roles}
    return [_set("place.resources", given, pinned)]


def _group(role: PlacedRole) -> str:
    return "actor" if role in _ACTORS else role


def _make_groups(config: Config, gpus: int) -> list[WorkerGroup]:
    actors, ranks = config.actors, _plan_ranks(config, gpus)
    agents, engines = _find_bounds(actors.agents_bounds), _find_bounds(actors.engines_bounds)
    cpus = {role: compute_needs(config, role).cpus for role in _ACTORS}
    others = actors.runners * cpus["env-runner"] + actors.designers * cpus["designer"]
    size = max(_ACTOR_CPUS, *map(math.ceil, cpus.values()))
    now, most = (max(1, math.ceil((others + count * cpus["agent"]) / size)) for count in agents)
    memory = size * max(compute_needs(config, role).memory for role in _ACTORS)
    rank = compute_needs(config, "learner")
    learner = MachineShare(rank.cpus * ranks.each, rank.gpus * ranks.each, rank.memory * ranks.each, {})
    return [
        WorkerGroup("learner", ranks.machines, ranks.machines, ranks.machines, learner, ranks.each),
        WorkerGroup("engine", engines[0], 0, engines[1], compute_needs(config, "engine"), 1),
        WorkerGroup("actor", now, 0, most, MachineShare(size, 0, memory, {}), _PLENTY),
    ]


def _find_bounds(bounds: tuple[int, int]) -> tuple[int, int]:
    """Return the number of processes at the start, and the largest number for which containers may be requested.

    If the config has a fixed number, the largest number is twice as high.
    """
    low, high = bounds
    return low, 2 * high if high == low else high


def _format_toml(config: Config) -> str:
    """Return the settings that differ from the defaults, as TOML."""
    tables: dict[str, dict[str, Any]] = {}
    for path, (value, _) in list_differences(config, Config()).items():
        section, _, setting = path.partition(".")
        if value is not None:
            tables.setdefault(section, {})[setting] = value
    return tomli_w.dumps(tables)


def _set(setting: str, table: Mapping[Any, Any], over: Mapping[Any, Any]) -> str:
    return f"{setting}={format_inline({**table, **over})}"


def _render_template(template: str, **values: Any) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"count": "{:g}".format, "gib": lambda memory: f"{math.ceil(memory / _GIB)}Gi"}
    return environment.get_template(template).render(values)
