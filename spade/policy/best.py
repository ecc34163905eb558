"""The policy of a run's best evaluation so far: one folder, replaced when a better one comes. No torch here.

ROOT/7/policy/      the weights as they were published: further names of their files, which outlive their pruning
ROOT/7/best.json    the evaluation
ROOT/.draft-…/      one being written or deleted, or the rest of one after a crash; never chosen
"""

import os
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, decoded
from spade.disk import discard_unless_held, draft, link_folder, sync
from spade.policy.manifest import PARAMETERS

FOLDER, POLICY, RECORD = "best", "policy", "best.json"


class Best(msgspec.Struct, frozen=True):
    """An evaluation, and the policy it began with: its learner step and the digest of its weights.

    `measure` names the plays it was made of; only evaluations of the same ones are compared.
    """

    step: int
    digest: str
    measure: str
    win_rate: float
    error: float
    plays: int

    def __str__(self) -> str:
        rate = f"{self.win_rate:.2f} ± {self.error:.2f}"
        return f"held-out win rate {rate} over {self.plays} plays after step {self.step}"


_records: msgspec.json.Decoder[Best] = msgspec.json.Decoder(Best)


def find(root: Path) -> tuple[Path, Best] | None:
    """The folder of the policy and its evaluation; None where none is kept."""
    for folder in reversed(_numbered(root)):
        try:
            return folder / POLICY, decoded(_records.decode, (folder / RECORD).read_bytes())
        except (OSError, UnreadableError):  # deleted meanwhile, or damaged: not chosen
            continue
    return None


def keep(root: Path, weights: Path, new: Best) -> bool:
    """Keep the published folder `weights`, durably and in place of the one before; False if that one is better.

    Of two that are equal the later one is kept. Raises OSError; the one before is still there then.
    """
    before = find(root)
    if before is not None and before[1].measure == new.measure and new.win_rate < before[1].win_rate:
        return False
    folder = root / str(1 + max((int(path.name) for path in _numbered(root)), default=0))
    with draft(root) as made:
        link_folder(weights, made / POLICY)
        (made / RECORD).write_bytes(msgspec.json.encode(new))
        for path in (*made.rglob("*"), made):
            sync(path)
        os.replace(made, folder)
    sync(root)
    for other in [path for path in root.iterdir() if path != folder]:
        discard_unless_held(other, f"{POLICY}/{PARAMETERS}")
    return True


def _numbered(root: Path) -> list[Path]:
    """The whole folders, the newest last."""
    return sorted((path for path in root.glob("*") if path.name.isdecimal()), key=lambda path: int(path.name))
