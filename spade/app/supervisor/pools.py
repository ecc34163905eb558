"""Pools: the sources of their programs, and a small run that only makes programs.

A source is a kind and a name, such as `folder:DIR`. Every source is copied into a folder of programs. A run reads only
this folder.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import get_args

import trio

from actors.corpus import load_grounds
from replay.client import ReplayClient
from replay.inspect.pool import EVERY, Filters, PoolReader
from spade.app.rundir import RunDir
from spade.app.screen.observe import REFRESH_S, ask_status
from spade.app.supervisor import launches
from spade.app.supervisor.library_pools import pay_by_score, read_library_programs
from spade.app.supervisor.up import keep_up
from spade.config import Config, PoolLibrary, compute_digest, describe_author, list_recipes, make_short_name
from spade.config.checks import SEED_SOURCES
from spade.disk import discard, list_folder, refuse_unprintable, write_whole
from spade.errors import BusError, RunError
from spade.pools import MADE, POOL, PoolProgram, list_names, read_program, read_shipped_programs, write_program
from spade.progress import show
from spade.protocol import PROTOCOL_VERSION, Hello, StepMetrics
from spade.text import as_line, quote
from spade.transport import Client, connect


def find_made_path(config: str) -> Path:
    """Return the folder to which `spade pool make CONFIG` writes. Recipes look for their pool there.

    `config` is a recipe or a file.
    """
    return Path("pools") / make_short_name(config)


def _read_folder(name: str) -> Iterator[PoolProgram]:
    folder = Path(name)
    if not folder.exists():
        raise RunError(f"{folder}: No such file or directory; {_suggest_remedy(folder)}")
    return (read_program(folder, program) for program in list_names(folder))


def _read_run(name: str) -> Iterator[PoolProgram]:
    return read_run_programs(RunDir(Path(name)).require())


SOURCES: Mapping[str, Callable[[str], Iterator[PoolProgram]]] = {
    "folder": _read_folder,
    "run": _read_run,
    "shipped": read_shipped_programs,
    **{library: partial(read_library_programs, library) for library in get_args(PoolLibrary)},
}


def _suggest_remedy(folder: Path) -> str:
    """Suggest how to get the programs that are missing in `folder`."""
    for name in list_recipes():
        if folder.absolute() == find_made_path(name).absolute():
            return f"`spade pool make {name}` writes them; --count N sets their number"
    return "give a folder of programs (`spade pool make` writes one)"


def read_run_programs(run: RunDir, memory: bool = False, filters: Filters = EVERY) -> Iterator[PoolProgram]:
    """Return the environments of a run, or of its memory. Raises RunError if nothing passes the filters."""
    found = PoolReader(run.store, run.path.name, memory, filters).new()
    first = next(found, None)
    if first is None and filters != EVERY:
        raise RunError(
            f"{run.path}: no environment passes the filters; `spade env ls {quote(run.path)}` lists their figures"
        )
    if first is None:
        raise RunError(f"{run.path}: {'its memory' if memory else 'this run'} has no environment")
    return chain((first,), found)


def read_config_programs(config: Config) -> Iterator[PoolProgram]:
    """Yield the programs with which a run of this config starts: its pool, or its seeds.

    Raises RunError if a source is empty, or later, if a program cannot be read.
    """
    if config.design.source == "pool":
        programs = _read_source_programs("pool.source", config.pool.source)
        return map(pay_by_score, programs) if config.pool.reward == "score" else programs
    return _read_source_programs("design.seeds", config.design.seeds) if config.design.seeds else iter(())


def read_named_programs(source: str) -> Iterator[PoolProgram]:
    """Return the programs of a folder, a run or a pool that ships. Raises RunError if the source cannot be read."""
    kind, _, name = source.partition(":")
    if kind not in SEED_SOURCES or not name:
        raise RunError(f"{as_line(source, 80)!r}: write folder:DIR, run:RUN or shipped:POOL")
    return SOURCES[kind](name)


def _read_source_programs(field: str, source: str) -> Iterator[PoolProgram]:
    kind, _, name = source.partition(":")
    try:
        return SOURCES[kind](name)
    except RunError as error:
        raise RunError(f"{field}: {error}") from None


def write_pool(folder: Path, programs: Iterator[PoolProgram]) -> int:
    """Write a pool, whole or not at all. Return the number of its programs. Raises RunError if the folder exists."""
    with write_whole(folder) as part:
        return write_programs(part, programs)


def write_programs(folder: Path, programs: Iterator[PoolProgram]) -> int:
    """Write programs into a new folder. Return their number.

    Raises OSError, or RunError for a program that is too large. The folder keeps the programs written so far.
    """
    folder.mkdir(parents=True)
    count = 0
    for program in programs:
        write_program(folder, program)
        count += 1
    return count


def check_source(run: RunDir, config: Config) -> None:
    """Check that a new run can read its pool or its seeds: read the first program.

    Does nothing if the run exists. Raises ConfigError or RunError if the program cannot be read.
    """
    if not run.exists and (config.design.source == "pool" or config.design.seeds):
        next(iter(read_config_programs(config)), None)


def create(run: RunDir, config: Config, corpus: str = "") -> None:
    """Make or reopen a run (`RunDir.create`). Copy the pool or the seeds into a new run.

    The copy is made before the config, because a folder with a config is a run. So an unreadable source makes no run.
    """
    folder = run.path / POOL
    pooled = config.design.source == "pool" or bool(config.design.seeds)
    if pooled and not run.exists:
        if folder.is_dir():  # a killed command left this folder, perhaps with programs of another source
            discard(folder)
        write_pool(folder, read_config_programs(config))
    run.create(config, corpus)
    if pooled and not folder.exists():
        write_pool(folder, read_config_programs(config))


# ---------------------------------------------------------------- making programs


def make(out: Path, config: Config, count: int, say: Callable[[str], None]) -> int:
    """Have designers write programs into the pool `out` until it has `count`. Return its final number of programs.

    `config` comes from `make_writing_config`. A signal ends the work early. The run that writes the programs stays in
    `out`, so that a later call can make more. The run's weights are deleted at the end. Each call writes them again.
    Raises RunError if a program in the pool cannot be read, or if `out` is a run or has an unprintable path.
    """
    run = RunDir(out / MADE)
    refuse_unprintable(run.path, "choose another --out")
    if RunDir(out).exists:
        raise RunError(f"{out}: is a run, so it cannot be a pool; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    for name in _list_names(out):
        read_program(out, name)  # an unreadable program makes the pool invalid
    if run.exists:
        _Collector(run, out).collect(count)  # programs of a killed command
    if (size := len(_list_names(out))) >= count:
        return size
    corpus = load_grounds(config).digest
    weights = run.path / "weights"
    with run.lock("replay"):
        run.create(config, corpus)
        sampled = not config.endpoint.serves("designer")
        start = _start_weights(weights, config) if sampled else ("none", "")  # no engine loads the weights
        collector = _Collector(run, out)
        body = partial(_fill, run, config, collector, count, start, say)
        actor = partial(launches.make_actor_launch, run, config, run.replay_address, "")
        services = [launches.make_replay_launch(run, config, corpus)]
        with show("writing programs", count, lambda: collector.size):
            trio.run(partial(keep_up, run, config, launches=services, actor=actor, body=body))
        shutil.rmtree(weights, ignore_errors=True)
        collector.collect(count)
    return collector.size


def _start_weights(weights: Path, config: Config) -> tuple[str, str]:
    """Publish the initial policy, as a learner does before its first step. Return its digest and folder."""
    import torch

    from learner.weights import publish
    from spade.policy.model import load
    from spade.policy.model_folder import resolve

    folder = resolve(config.model.path)
    model = load(folder, dtype="float32", device=torch.device("cpu"))
    named, path = publish(model, config.model.dtype, folder, weights)
    return named, str(path)


async def _fill(
    run: RunDir,
    config: Config,
    collector: "_Collector",
    count: int,
    start: tuple[str, str],
    say: Callable[[str], None],
    client: Client,
) -> None:
    """Publish the policy `start` in place of a learner. Collect admitted programs until there are `count`."""
    hello = Hello(PROTOCOL_VERSION, compute_digest(config), "learner", "learner", os.getpid())
    async with connect(run.replay_address, hello, bus=config.bus) as learner:
        await ReplayClient(learner, config.bus.call_deadline_s).publish(0, *start, StepMetrics())
        admitted = -1
        while collector.size < count:
            await trio.sleep(REFRESH_S)
            try:
                counts = (await ask_status(client)).counts
            except BusError:  # a restarting replay service does not answer: ask again
                continue
            if counts.environments != admitted:
                admitted = counts.environments
                await trio.to_thread.run_sync(collector.collect, count)  # it waits for the disk
                say(f"{collector.size} of {count} programs, {counts.rejected_candidates} were rejected")


class _Collector:
    """Writes the programs of a run into the pool `out`."""

    def __init__(self, run: RunDir, out: Path) -> None:
        self._out, self._have = out, set(_list_names(out))
        self._journal = run.metrics_path
        self._reader = PoolReader(run.store, f"a run, written by {describe_author(run.config())}")

    @property
    def size(self) -> int:
        """Return the number of programs in the pool."""
        return len(self._have)

    def collect(self, count: int) -> None:
        """Write newly admitted programs that are not in the pool, until it has `count`."""
        if not self._journal.exists():  # the command was killed before the store's first commit
            return
        for program in self._reader.new():
            if self.size < count and program.name not in self._have:
                write_program(self._out, program)
                self._have.add(program.name)


def _list_names(out: Path) -> list[str]:
    return list_names(out) if any(name.endswith(".py") for name in list_folder(out)) else []
