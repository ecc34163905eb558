"""Pin one policy of a run or of a model for a measurement: keep its weights from deletion."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from spade.app.rundir import RunDir, suggest_runs
from spade.app.supervisor.kept import KeptPolicy, check_policy, list_kept_policies
from spade.errors import ConfigError, RunError
from spade.text import as_line

WEIGHTS = "weights"
_FEWEST_DIGITS = 8  # minimum length of an abbreviated digest
_DIGEST = re.compile("[0-9a-f]{32}")
_EVERY = re.compile(r"every:(?P<steps>[1-9][0-9]{0,8})")
_ASKED = re.compile(r"newest|start|step:(?P<step>[0-9]{1,9})|(?P<digest>[0-9a-f]{8,32})")


class PinnedPolicy(NamedTuple):
    """A policy to measure."""

    digest: str
    """The digest of its weights."""

    folder: Path | None
    """A folder with its weights. None if they are gone, so that only earlier measurements can be shown."""

    name: str
    """The policy's name for people."""

    step: int | None = None
    """The learner step after which it was made, or None if the step is unknown."""


def check_asked(asked: str, *, curve: bool = False) -> None:
    """Raise ConfigError if the text cannot be the name of a policy. With `curve`, the error also lists every:N."""
    if not _ASKED.fullmatch(asked):
        forms = f"newest, start, step:N{', every:N' if curve else ''}"
        raise ConfigError(
            f"policy {as_line(asked, 60)!r}: write {forms}, or {_FEWEST_DIGITS} to 32 digits of a digest; "
            f"{suggest_runs(asked)}".rstrip("; ")
        )


def list_policy_names(run: RunDir | None, asked: str) -> list[str]:
    """Return names of policies for `pin`. "every:N" stands for all policies of the run at multiples of N.

    Raises ConfigError if `asked` cannot be read, RunError if the run lacks such policies.
    """
    if not asked.startswith("every:"):
        check_asked(asked, curve=True)
        return [asked]
    every = _EVERY.fullmatch(asked)
    if not every:
        raise ConfigError(f"policy {as_line(asked, 60)!r}: write every:N, a number of learner steps from 1")
    if run is None:
        raise ConfigError(f"policy {asked!r}: only a run has steps; write newest for a model")
    there = list_kept_policies(run)
    steps = {one.step for one in there if one.step and one.step % int(every["steps"]) == 0}
    if not steps:
        setting = f"learner.keep_policy_every = {run.config().learner.keep_policy_every}"
        raise RunError(f"{run.path}: no policy of {asked!r} is kept ({setting}); there is {_format_policies(there)}")
    return [f"step:{step}" for step in sorted(steps)]


@contextmanager
def hold_pinned(
    run: RunDir | None, model: str, dtype: str, asked: str, place: Path, *, sampled: bool = False
) -> Iterator[PinnedPolicy]:
    """Pin the requested policy of a run, or of a model if `run` is missing. Its weights stay during the block.

    Weights that a run may retire are linked into `place`. The links stay while an evaluation of these weights is
    unfinished, or while another command measures them. Raises ConfigError or RunError if the policy is not kept.
    """
    from spade.disk import hold
    from spade.policy.manifest import PARAMETERS

    policy = pin(run, model, dtype, asked, place, sampled=sampled)
    try:
        with nullcontext() if policy.folder is None else hold(policy.folder / PARAMETERS):
            yield policy
    finally:
        release(policy, place)


def pin(run: RunDir | None, model: str, dtype: str, asked: str, place: Path, *, sampled: bool = False) -> PinnedPolicy:
    """Pin the requested policy; see `hold_pinned`. Its weights stay until `release`.

    With `sampled`, raises RunError for a model that the torch engine cannot run.
    """
    check_asked(asked)
    if asked == "start" or (run is None and asked == "newest"):
        return _start(model, dtype, place, "start" if run else as_line(model, 60), sampled)
    if found := _ASKED.fullmatch(asked)["digest"]:  # type: ignore[index]
        return _pin_digest(run, found, place)
    if run is None:
        raise ConfigError(f"policy {asked!r}: only a run has steps; write newest for a model")
    return _link_policy(choose_kept_policy(run, asked), place)


def choose_kept_policy(run: RunDir, asked: str) -> KeptPolicy:
    """Return the policy "newest" or "step:N" of a run. Raises RunError if it is not kept."""
    kept = there = list_kept_policies(run)
    if asked != "newest":
        kept = [policy for policy in kept if policy.step == int(asked.removeprefix("step:"))]
    if not kept:
        raise RunError(f"{run.path}: the policy {asked!r} is not kept; there is {_format_policies(there)}")
    return max(kept, key=lambda policy: policy.step)


def release(policy: PinnedPolicy, place: Path) -> None:
    """Remove the files that `pin` made for this policy, unless an evaluation in `place` still needs them."""
    from spade.disk import discard_unless_held
    from spade.policy.manifest import PARAMETERS

    folder = place / WEIGHTS / policy.digest
    if folder.is_dir() and not _is_needed(policy.digest, place):
        with suppress(OSError):  # the folder is read-only, or its parent has the weights of another policy
            discard_unless_held(folder, PARAMETERS)
            folder.parent.rmdir()


def _is_needed(digest: str, place: Path) -> bool:
    """Return True if an evaluation of this policy still has samples to play."""
    from spade.evaluations import find_evaluations

    try:
        kept = [each.summary for each in find_evaluations(place.parent) if each.rules.policy == digest]
    except RunError:
        return True  # an unreadable evaluation may be an evaluation of this policy
    return any(summary is None or summary.played < summary.scheduled for summary in kept)


def _start(model: str, dtype: str, place: Path, name: str, sampled: bool) -> PinnedPolicy:
    """Pin the checkpoint `model` in its folder. A checkpoint of several files is first merged into one, for the digest.

    Raises RunError if its files do not fit together.
    """
    from spade.policy import manifest
    from spade.policy.checkpoint_files import check_checkpoint
    from spade.policy.model_folder import resolve

    folder = resolve(model)
    check_checkpoint(folder, sampled=sampled)
    if not (folder / manifest.PARAMETERS).is_file():
        import torch

        from learner.weights import publish
        from spade.policy.model import load

        loaded = load(folder, dtype=dtype, device=torch.device("cpu"))
        digest, folder = publish(loaded, dtype, folder, place / WEIGHTS)
        return PinnedPolicy(digest, folder, name)
    return PinnedPolicy(manifest.verify_parameters(folder), folder, name)


def _pin_digest(run: RunDir | None, digits: str, place: Path) -> PinnedPolicy:
    """Pin a policy by the beginning of its digest: a policy that the run keeps, or that was pinned or measured here.

    A measured policy may lack its weights. Then `folder` of the result is None.
    """
    from spade.disk import list_folder
    from spade.policy import manifest
    from spade.policy.checkpoint_files import check_files

    policies = list_kept_policies(run) if run is not None else []
    recorded = {digest: policy for policy in reversed(policies) for digest in policy.digests}
    pinned = {name: place / WEIGHTS / name for name in list_folder(place / WEIGHTS) if _DIGEST.fullmatch(name)}
    measured = _list_measured(place)
    found = sorted(name for name in {*recorded, *pinned, *measured} if name.startswith(digits))
    if len(found) > 1:
        raise ConfigError(f"policy {digits}: several digests begin with it: {', '.join(found[:3])}")
    for digest in found:
        if digest in recorded:
            policy = _link_policy(recorded[digest], place)
            if policy.digest == digest:
                return policy
            release(policy, place)  # the run published two policies at this step, and the folder has the other one
        if digest in pinned:
            check_files(pinned[digest])
            manifest.verify_parameters(pinned[digest], digest)
        if digest in pinned or digest in measured:
            return PinnedPolicy(digest, pinned.get(digest), digest[:_FEWEST_DIGITS])
    raise RunError(f"{place.parent}: no policy {digits} is kept or was measured; there is {_format_policies(policies)}")


def _list_measured(place: Path) -> set[str]:
    from spade.evaluations import find_evaluations

    return {kept.rules.policy for kept in find_evaluations(place.parent)}


def _link_policy(policy: KeptPolicy, place: Path) -> PinnedPolicy:
    from spade.disk import discard, hold, is_copy, link_folder, write_whole
    from spade.policy import manifest

    try:
        with hold(policy.folder / manifest.PARAMETERS):
            digest = check_policy(policy)
            folder = place / WEIGHTS / digest
            if folder.is_dir() and not is_copy(folder, policy.folder):
                discard(folder)  # a file is damaged, or was when the folder was made
            if not folder.is_dir():
                try:
                    with write_whole(folder) as part:
                        link_folder(policy.folder, part)
                except RunError:  # the place is read-only, but a finished evaluation can still be shown
                    folder = policy.folder
    except FileNotFoundError:
        raise RunError(f"{policy.folder}: was deleted meanwhile; give the same command again") from None
    return PinnedPolicy(digest, folder, f"step {policy.step}", policy.step)


def _format_policies(policies: Sequence[KeptPolicy]) -> str:
    return ", ".join(f"step {policy.step} ({policy.place})" for policy in policies) or "none"
