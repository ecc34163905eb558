"""The policies that a run has, and one of them, or a model, pinned to be measured."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from spade.app.rundir import RunDir, did_you_mean
from spade.errors import ConfigError, RunError
from spade.text import line

WEIGHTS = "weights"
_FEWEST_DIGITS = 8  # of a digest that is cut
_EVERY = re.compile(r"every:(?P<steps>[1-9][0-9]{0,8})")
_ASKED = re.compile(r"newest|start|step:(?P<step>[0-9]{1,9})|(?P<digest>[0-9a-f]{8,32})")


class KeptPolicy(NamedTuple):
    """A policy that a run has: the learner step after which it was made, its place, and its folder.

    `digests` are those that its weights may have by the run's records. Empty: the records say nothing.
    """

    step: int
    place: str
    folder: Path
    digests: tuple[str, ...] = ()


class PinnedPolicy(NamedTuple):
    """A policy to measure: the digest of its weights, a folder with them, and what a person calls it.

    `folder` is None where the weights are gone, so that only what was measured before can be told. `step` is the
    learner step after which it was made, None of a policy that was asked for in another way.
    """

    digest: str
    folder: Path | None
    name: str
    step: int | None = None


def kept_policies(run: RunDir) -> list[KeptPolicy]:
    """List every policy that is on the disk: published, in checkpoints, kept for good, the best.

    Of a step that was published twice the newer policy comes first.
    """
    from learner import checkpoint
    from replay.inspect.environments import published
    from spade.policy import best, kept

    recorded = published(run.store)
    there = [KeptPolicy(one.step, "published", run.weights / one.digest, (one.digest,)) for one in reversed(recorded)]
    checkpoints = reversed(checkpoint.kept(run.checkpoints))
    there += [KeptPolicy(step, "checkpoint", folder / "model") for step, folder in checkpoints]
    for step, folder in reversed(kept.by_step(run.path / kept.FOLDER)):
        there.append(KeptPolicy(step, "kept", folder, tuple(one.digest for one in recorded if one.step == step)))
    if found := best.find(run.path / best.FOLDER):
        there.append(KeptPolicy(found[1].step, "best", found[0]))
    return [policy for policy in there if policy.folder.is_dir()]


def sound_digest(policy: KeptPolicy) -> str:
    """Return the digest of a policy's weights, every byte read.

    Raises WeightsError if the weights were changed, or if the run published others after that step. OSError.
    """
    from spade.policy import manifest

    digest = manifest.sound(policy.folder)
    if policy.digests and digest not in policy.digests:
        raise manifest.changed(policy.folder, policy.digests[-1])
    return digest


def check_asked(asked: str) -> None:
    """Raises ConfigError where this names no policy."""
    if not _ASKED.fullmatch(asked):
        raise ConfigError(
            f"policy {line(asked, 60)!r}: write newest, start, step:N, or {_FEWEST_DIGITS} to 32 digits of a digest"
            f"; {did_you_mean(asked)}".rstrip("; ")
        )


def policies_named(run: RunDir | None, asked: str) -> list[str]:
    """Name the policies that are asked for, each as `pin` takes it: of "every:N" all of the run at multiples of N.

    Raises ConfigError if `asked` cannot be read, RunError if the run lacks such policies.
    """
    if not asked.startswith("every:"):
        check_asked(asked)
        return [asked]
    every = _EVERY.fullmatch(asked)
    if not every:
        raise ConfigError(f"policy {line(asked, 60)!r}: write every:N, a number of learner steps from 1")
    if run is None:
        raise ConfigError(f"policy {asked!r}: only a run has steps; of a model there is newest alone")
    there = kept_policies(run)
    steps = {one.step for one in there if one.place != "best" and one.step and one.step % int(every["steps"]) == 0}
    if not steps:
        setting = f"learner.keep_policy_every = {run.config().learner.keep_policy_every}"
        raise RunError(f"{run.path}: no policy of {asked!r} is kept ({setting}); there is {_listed(there)}")
    return [f"step:{step}" for step in sorted(steps)]


@contextmanager
def pinned(run: RunDir | None, model: str, dtype: str, asked: str, place: Path) -> Iterator[PinnedPolicy]:
    """The policy that is asked for, of a run or, where there is none, of a model; its weights stay during the block.

    Weights that a run may retire are linked into `place`, and stay there while an evaluation of them has not ended, or
    another command measures them. Raises ConfigError or RunError where it is not kept.
    """
    from spade.disk import hold
    from spade.policy.manifest import PARAMETERS

    policy = pin(run, model, dtype, asked, place)
    try:
        with nullcontext() if policy.folder is None else hold(policy.folder / PARAMETERS):
            yield policy
    finally:
        release(policy, place)


def pin(run: RunDir | None, model: str, dtype: str, asked: str, place: Path) -> PinnedPolicy:
    """The policy that is asked for; see `pinned`. Its weights stay until `release`."""
    check_asked(asked)
    if asked == "start" or (run is None and asked == "newest"):
        return _start(model, dtype, place, "start" if run else line(model, 60))
    if found := _ASKED.fullmatch(asked)["digest"]:  # type: ignore[index]
        return _of_digest(run, found, place)
    if run is None:
        raise ConfigError(f"policy {asked!r}: only a run has steps; of a model there is newest alone")
    kept = [policy for policy in kept_policies(run) if policy.place != "best"]
    if asked != "newest":
        kept = [policy for policy in kept if policy.step == int(asked.removeprefix("step:"))]
    if not kept:
        raise RunError(f"{run.path}: the policy {asked!r} is not kept; there is {_listed(kept_policies(run))}")
    newest = max(kept, key=lambda policy: policy.step)
    return _linked(newest, place)


def release(policy: PinnedPolicy, place: Path) -> None:
    """Give up what `pin` made for this policy, unless an evaluation in `place` still needs it."""
    from spade.disk import discard_unless_held
    from spade.policy.manifest import PARAMETERS

    folder = place / WEIGHTS / policy.digest
    if folder.is_dir() and not _needed(policy.digest, place):
        discard_unless_held(folder, PARAMETERS)
        with suppress(OSError):  # it is not empty: another policy is being measured
            folder.parent.rmdir()


def _needed(digest: str, place: Path) -> bool:
    """True where an evaluation of this policy has samples to play."""
    from spade.evaluations import found

    try:
        kept = [each.summary for each in found(place.parent) if each.rules.policy == digest]
    except RunError:
        return True  # the one that cannot be read may be of this policy
    return any(summary is None or summary.played < summary.scheduled for summary in kept)


def _start(model: str, dtype: str, place: Path, name: str) -> PinnedPolicy:
    """Pin the checkpoint `model` where it lies. Its digest is of one file, so one of several files is made one.

    Raises RunError if its files do not fit together.
    """
    from spade.policy import manifest
    from spade.policy.checkpoint_files import check_files
    from spade.policy.model_folder import resolve

    folder = resolve(model)
    check_files(folder)
    if not (folder / manifest.PARAMETERS).is_file():
        import torch

        from learner.weights import publish
        from spade.policy.model import load

        loaded = load(folder, dtype=dtype, device=torch.device("cpu"))
        digest, folder = publish(loaded, dtype, folder, place / WEIGHTS)
        return PinnedPolicy(digest, folder, name)
    return PinnedPolicy(manifest.sound(folder), folder, name)


def _of_digest(run: RunDir | None, digits: str, place: Path) -> PinnedPolicy:
    """A policy by the beginning of its digest: kept by the run, or pinned or measured before."""
    from spade.policy import manifest

    policies = kept_policies(run) if run is not None else []
    named = {policy.folder.name: policy for policy in reversed(policies) if policy.place == "published"}
    pinned = {path.name: path for path in (place / WEIGHTS).glob("*") if not path.name.startswith(".")}
    found = sorted(name for name in {*named, *pinned, *_measured(place)} if name.startswith(digits))
    if len(found) > 1:
        raise ConfigError(f"policy {digits}: several digests begin so: {', '.join(found[:3])}")
    if not found:
        raise RunError(f"{place.parent}: no policy {digits} is kept or was measured; there is {_listed(policies)}")
    digest = found[0]
    if digest in named:
        return _linked(named[digest], place)
    if digest in pinned:
        manifest.sound(pinned[digest], digest)
    return PinnedPolicy(digest, pinned.get(digest), digest[:_FEWEST_DIGITS])


def _measured(place: Path) -> set[str]:
    from spade.evaluations import found

    return {kept.rules.policy for kept in found(place.parent)}


def _linked(policy: KeptPolicy, place: Path) -> PinnedPolicy:
    from spade.disk import hold, link_folder, whole
    from spade.policy import manifest

    try:
        with hold(policy.folder / manifest.PARAMETERS):
            digest = sound_digest(policy)
            folder = place / WEIGHTS / digest
            if not folder.is_dir():
                with whole(folder) as part:
                    link_folder(policy.folder, part)
    except FileNotFoundError:
        raise RunError(f"{policy.folder}: is no longer here; the same command takes what is newest now") from None
    return PinnedPolicy(digest, folder, f"step {policy.step}", policy.step)


def _listed(policies: Sequence[KeptPolicy]) -> str:
    return ", ".join(f"step {policy.step} ({policy.place})" for policy in policies) or "none"
