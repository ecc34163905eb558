"""The policies that a run keeps for good: their parameters, without the optimiser's state. No torch here.

ROOT/step-40/       the policy after learner step 40 in the Hugging Face layout: hard links to its published files
ROOT/.draft-…/      a folder that is being written, or that a crash has left. No command takes it for a policy
"""

from collections.abc import Callable
from pathlib import Path

from spade.disk import link_folder, list_folder, move_from_draft, open_draft, read_all, sync
from spade.policy.manifest import MANIFEST

FOLDER, PREFIX = "policies", "step-"


def list_by_step(root: Path) -> list[tuple[int, Path]]:
    """List the folders `root`/step-N by rising N. Ignores other names, which belong to the user.

    Raises RunError if `root` cannot be listed.
    """
    named = ((name.removeprefix(PREFIX), root / name) for name in list_folder(root) if name.startswith(PREFIX))
    return sorted((int(number), path) for number, path in named if number.isdecimal())


def keep(root: Path, step: int, weights: Path, check: Callable[[], None]) -> bool:
    """Keep the published folder `weights` as the policy of `step`. It is durable when this returns.

    Returns False if the same policy is kept already. Replaces other weights of this step, because a resumed learner may
    have trained the step again. Before that, calls `check`, which raises if another learner has taken over. Raises
    OSError.
    """
    folder = root / f"{PREFIX}{step}"
    if _is_same(folder, weights):
        return False
    with open_draft(root) as made:
        copy = made / folder.name
        link_folder(weights, copy)
        for path in (*copy.rglob("*"), copy):
            sync(path)
        check()
        move_from_draft(copy, folder)  # fails if another learner has taken over since and deleted the draft
    return True


def _is_same(one: Path, other: Path) -> bool:
    """Compare the digests that two folders record of their parameters."""
    try:
        return read_all(one / MANIFEST) == read_all(other / MANIFEST)
    except FileNotFoundError:
        return False
