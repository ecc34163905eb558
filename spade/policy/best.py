"""Keep the policy of a run's best evaluation so far, in one folder. A better policy replaces it. No torch here.

ROOT/7/policy/      hard links to the published weights, so that the policy stays when the learner deletes them
ROOT/7/best.json    the evaluation
ROOT/.draft-…/      a folder that is being written or deleted, or that a crash has left. Never used as a policy
"""

import logging
import os
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import DRAFT, discard_unless_held, link_folder, list_folder, open_draft, read_all, sync
from spade.errors import RunError, format_reason
from spade.policy.manifest import PARAMETERS

log = logging.getLogger(__name__)

FOLDER, POLICY, RECORD = "best", "policy", "best.json"


class Best(msgspec.Struct, frozen=True):
    """The result of an evaluation, and the policy at its start."""

    step: int
    """Learner step of the policy."""

    digest: str
    """Digest of the policy's weights."""

    measure: str
    """Identifies the plays of the evaluation. Only evaluations of the same plays are compared."""

    win_rate: float
    """Win rate of the evaluation."""

    error: float
    """Standard error of the win rate."""

    plays: int
    """Number of plays."""

    def __str__(self) -> str:
        rate = f"{self.win_rate:.2f} ± {self.error:.2f}"
        return f"held-out win rate {rate} over {self.plays} plays after step {self.step}"


_records: msgspec.json.Decoder[Best] = msgspec.json.Decoder(Best)


def find(root: Path) -> tuple[Path, Best] | None:
    """Return the folder of the best policy and its evaluation, or None if no policy is kept.

    Raises RunError if `root` cannot be listed, or if the record of the evaluation is damaged.
    """
    for folder in reversed(_list_numbered(root)):
        try:
            return folder / POLICY, try_decode(_records.decode, read_all(folder / RECORD))
        except (OSError, UnreadableError) as error:
            if folder.exists():  # otherwise the folder was deleted meanwhile
                raise RunError(
                    f"{folder / RECORD}: cannot be read ({format_reason(error)}); restore it, or delete {folder}"
                ) from None
    return None


def keep(root: Path, weights: Path, new: Best) -> bool:
    """Keep the published folder `weights`, durably, in place of the earlier best policy.

    Returns False, and keeps the earlier policy, if it had a higher win rate in the same plays. Replaces a policy with a
    damaged record. If this raises OSError, the earlier policy is still there.
    """
    try:
        before = find(root)
    except RunError as error:
        log.warning("the best policy is replaced: %s", error)
        before = None
    if before is not None and before[1].measure == new.measure and new.win_rate < before[1].win_rate:
        return False
    folder = root / str(1 + max((int(path.name) for path in _list_numbered(root)), default=0))
    with open_draft(root) as made:
        link_folder(weights, made / POLICY)
        (made / RECORD).write_bytes(msgspec.json.encode(new))
        for path in (*made.rglob("*"), made):
            sync(path)
        os.replace(made, folder)
    sync(root)
    for other in {*_list_numbered(root), *root.glob(f"{DRAFT}*")} - {folder}:  # any other file is the user's
        discard_unless_held(other, f"{POLICY}/{PARAMETERS}")
    return True


def _list_numbered(root: Path) -> list[Path]:
    """Return the complete folders, newest last."""
    return [root / name for name in sorted(filter(str.isdecimal, list_folder(root)), key=int)]
