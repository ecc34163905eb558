"""A new run that begins with another run's policy, and optionally its memory: `spade up CONFIG --from RUN`.

Until the new run has its config, a repeated command makes everything again. After that, it resumes the run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from spade.app.rundir import Origin, RunDir
from spade.app.supervisor.kept import KeptPolicy, check_policy, find_kept_best, list_kept_policies
from spade.app.supervisor.store_place import settle_store
from spade.config import Config
from spade.errors import ConfigError, RunError, WeightsError, format_reason

if TYPE_CHECKING:
    from replay.inspect.import_memory import ImportCounts

_SHAPE = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "tie_word_embeddings",
)  # fmt: skip
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")


class OldRun(NamedTuple):
    """The other run, and the parts to take from it."""

    run: RunDir
    """The other run."""

    step: int | str | None = None
    """The learner step of the policy, "best", or None for the newest policy."""

    memory: bool = False
    """True to take the environment memory too."""


def parse_step(text: str | None) -> int | str | None:
    """Parse a typed step. Raises ConfigError if it is neither a number nor "best"."""
    if text is None or text == "best":
        return text
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise ConfigError(f"--step {text!r}: write the number of a learner step, or best")
    return int(text)


def make_model_override(run: RunDir) -> tuple[str, ...]:
    """Return the setting that makes another run's policy the model. Empty if the run did not begin from another."""
    return () if run.origin is None else (_start_model(run),)


def _start_model(run: RunDir) -> str:
    """Return the override that sets model.path to the run's copy of the other run's policy."""
    return f"model.path={json.dumps(str(run.start), ensure_ascii=False)}"


def begin(run: RunDir, recipe: str, overrides: Sequence[str], source: OldRun) -> None:
    """Bring policy and memory into the new run. If the run exists, check that it began from the same run.

    The other run is only read. Raises RunError or ConfigError if the policy or the memory is missing or does not fit.
    """
    if run.exists:
        _check_resumed(run, source)
        return
    from replay.inspect.environments import run_id
    from spade.config import load

    given = load(recipe, tuple(overrides))
    old = source.run.require().config()
    chosen = _choose(source)
    base = source.run.origin.model if source.run.origin else old.model.path
    if given.model.path != base:
        _check_same_model(given.model.path, chosen.folder)
    with run.lock("replay"):
        digest = _copy(chosen, run.start)
        origin = Origin(str(source.run.path), run_id(source.run.store), chosen.step, digest, base)
        if source.memory:
            settings = load(recipe, (*overrides, _start_model(run)))
            origin = msgspec.structs.replace(origin, memory=_import(run, settings, source.run))
        run.set_origin(origin)


def check_begun(run: RunDir) -> None:
    """Raise RunError if a killed or refused `--from` left this run half made.

    Such a directory may hold another run's policy and memory.
    """
    if not run.exists and (run.start.is_dir() or run.origin_path.exists()):
        raise RunError(
            f"{run.path}: a command with --from did not finish here; give the same command, or choose another --run"
        )


def _check_resumed(run: RunDir, source: OldRun) -> None:
    origin = run.origin
    if origin is None or origin.path != str(source.run.path):
        began = "began anew" if origin is None else f"began from {origin.path}"
        raise RunError(f"{run.path}: this run {began}, not from {source.run.path}; choose another --run")
    if isinstance(source.step, int) and source.step != origin.step:
        raise RunError(f"{run.path}: this run began with step {origin.step}, not {source.step}; choose another --run")
    if source.memory and origin.memory is None:
        raise RunError(
            f"{run.path}: this run began without the memory of {origin.path}; "
            "`spade replay import` brings it, once the run is stopped"
        )


def _choose(source: OldRun) -> KeptPolicy:
    kept = list_kept_policies(source.run)
    if source.step is None:
        chosen = max(kept, key=lambda policy: policy.step, default=None)
    else:
        chosen = next((policy for policy in kept if policy.step == source.step), None)
        if chosen is None and (best := find_kept_best(source.run)):
            kept.append(best)
            chosen = best if source.step in {"best", best.step} else None
    if chosen is None:
        named: dict[int | str | None, str] = {None: "newest policy", "best": "best policy"}
        asked = named.get(source.step, f"policy of step {source.step}")
        there = ", ".join(f"step {policy.step} ({policy.place})" for policy in kept) or "none"
        raise RunError(f"{source.run.path}: the {asked} is not kept; there is {there}")
    return chosen


def _check_same_model(path: str, policy: Path) -> None:
    """Raise ConfigError if the policy's architecture or tokenizer differs from the model at `path`."""
    from spade.policy.model_folder import resolve
    from spade.tokens.foreign import read_json

    folder = resolve(path)
    ours, theirs = (read_json(each / "config.json", dict[str, Any]) for each in (folder, policy))
    for name in _SHAPE:
        if ours.get(name) != theirs.get(name):
            raise ConfigError(
                f"model.path: {path} has {name} {ours.get(name)}, the other run's policy {theirs.get(name)}; "
                "give a config of the same model"
            )
    for name in _TOKENIZER:
        one, other = ((each / name).read_bytes() if (each / name).is_file() else None for each in (folder, policy))
        if one != other:
            raise ConfigError(
                f"model.path: {path} has another {name} than the other run's policy; give a config of the same model"
            )


def check_start(run: RunDir) -> None:
    """Check every byte of the policy that a run began with, if the learner will load it.

    A learner with a checkpoint loads the checkpoint instead. Raises RunError if the policy is missing or damaged.
    """
    from learner.checkpoint import list_kept
    from spade.policy import manifest

    origin = run.origin
    if origin is None or list_kept(run.checkpoints):
        return
    try:
        manifest.verify_parameters(run.start, origin.digest)
    except OSError as error:
        raise RunError(f"{run.start}: {format_reason(error)}; restore it, or begin a new run") from None
    except WeightsError as error:
        raise RunError(f"{error}; restore it, or begin a new run") from None


def _copy(chosen: KeptPolicy, start: Path) -> str:
    """Copy the policy to `start` and check every byte. Return the digest of its weights."""
    from spade.disk import discard, hold, link_folder, write_whole
    from spade.policy import manifest

    policy = chosen.folder
    try:
        if start.is_dir():  # a killed command left this folder
            discard(start)
        with hold(policy / manifest.PARAMETERS), write_whole(start) as part:
            digest = check_policy(chosen)
            link_folder(policy, part)
    except FileNotFoundError:
        raise RunError(f"{policy}: was deleted meanwhile; give the same command again") from None
    except WeightsError as error:
        raise RunError(f"{error}; choose another --step") from None
    return digest


def _import(run: RunDir, settings: Config, old: RunDir) -> int:
    """Import the old run's memory. Return how many of its environments the new run has."""
    done = seed_memory(run, settings, old)
    return done.taken + done.known


def seed_memory(run: RunDir, settings: Config, old: RunDir) -> "ImportCounts":
    """Import the old run's memory into a run. The caller holds the run's lock.

    Raises RunError if the memory does not fit.
    """
    from replay.inspect.import_memory import check_fit, import_memory, read_memory
    from replay.service.journal import Journal
    from replay.store import open_store
    from replay.store.load import open_run

    check_fit(settings, old.config())
    memory = read_memory(old.store)
    settle_store(run, settings)
    with open_store(run.store, settings.replay.durability) as store:
        opened = open_run(store, settings)
        done = import_memory(store, opened.state, memory)
    Journal(run.path).event("import", opened.elapsed_s, opened.changed)
    return done
