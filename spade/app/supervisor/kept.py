"""Find the policies that a run has on its disk: published ones, checkpoints, those kept for good, and the best."""

from pathlib import Path
from typing import NamedTuple

from spade.app.rundir import RunDir
from spade.decoding import UnreadableError
from spade.errors import RunError, WeightsError, format_reason


class KeptPolicy(NamedTuple):
    """A policy that a run keeps."""

    step: int
    """The learner step after which it was made."""

    place: str
    """The kind of its folder: "published", "checkpoint", "kept" or "best"."""

    folder: Path
    """The folder with its weights."""

    digests: tuple[str, ...] = ()
    """The digests that the run recorded for its weights. Empty for a checkpoint."""


def list_kept_policies(run: RunDir) -> list[KeptPolicy]:
    """List the policies on the disk, without the best. If a step was published twice, the newer policy comes first.

    A folder without parameters is left out. Raises RunError if a folder cannot be listed.
    """
    from learner import checkpoint
    from replay.inspect.environments import list_published
    from spade.disk import list_folder
    from spade.policy import kept, manifest

    recorded = list_published(run.store)
    there = [KeptPolicy(one.step, "published", run.weights / one.digest, (one.digest,)) for one in reversed(recorded)]
    checkpoints = reversed(checkpoint.list_kept(run.checkpoints))
    there += [KeptPolicy(step, "checkpoint", folder / "model") for step, folder in checkpoints]
    for step, folder in reversed(kept.list_by_step(run.path / kept.FOLDER)):
        there.append(KeptPolicy(step, "kept", folder, tuple(one.digest for one in recorded if one.step == step)))
    return [policy for policy in there if manifest.PARAMETERS in list_folder(policy.folder)]


def find_kept_best(run: RunDir) -> KeptPolicy | None:
    """Return the policy of the best evaluation, or None without one. Raises RunError if its record is damaged."""
    from spade.policy import best

    found = best.find(run.path / best.FOLDER)
    return KeptPolicy(found[1].step, "best", found[0], (found[1].digest,)) if found else None


def find_newest_policy(run: RunDir) -> KeptPolicy:
    """Return the policy of the highest learner step. A stopped run may have it only in a checkpoint.

    Raises RunError if no policy was published, or if all kept policies are older than the last published one. In the
    second case, `choose_kept_policy` of evaluations returns an older policy instead.
    """
    from replay.inspect.environments import list_published

    recorded = list_published(run.store)
    newest = max(list_kept_policies(run), key=lambda policy: policy.step, default=None)
    if recorded and (newest is None or newest.step < recorded[-1].step):
        raise RunError(
            f"{run.weights / recorded[-1].digest}: the newest policy, of step {recorded[-1].step}, is missing"
        )
    if newest is None:
        raise RunError(f"{run.path}: no policy was published yet")
    return newest


def compute_sound_digest(policy: KeptPolicy) -> str:
    """Read every byte of a policy's weights. Return their digest.

    Raises WeightsError if the weights were changed, if the run published other weights after that step, or if the
    folder is named after another step. Raises OSError if the weights cannot be read.
    """
    from spade.policy import manifest

    digest = manifest.verify_parameters(policy.folder)
    if policy.place == "kept" and not policy.digests:
        raise WeightsError(
            f"{policy.folder}: the run published no policy of step {policy.step}; was the folder renamed?"
        )
    if policy.place == "checkpoint" and (made := _read_step(policy.folder.parent)) != policy.step:
        raise WeightsError(f"{policy.folder.parent}: is the checkpoint of step {made}; was the folder renamed?")
    if policy.digests and digest not in policy.digests:
        raise manifest.make_changed_error(policy.folder, policy.digests[-1])
    return digest


def check_policy(policy: KeptPolicy) -> str:
    """Check every file of a policy, and return the digest of its weights.

    Raises RunError or WeightsError for a fault. Raises OSError if the weights cannot be read.
    """
    from spade.policy.checkpoint_files import check_files

    check_files(policy.folder)
    return compute_sound_digest(policy)


def _read_step(folder: Path) -> int:
    """Return the learner step that a checkpoint states. Raises WeightsError if its manifest is missing or damaged."""
    from learner import checkpoint

    try:
        return checkpoint.read_manifest(folder).step
    except (FileNotFoundError, UnreadableError) as error:
        raise WeightsError(f"{folder / checkpoint.MANIFEST}: {format_reason(error)}") from None
