"""Write, find and check checkpoints: folders that appear whole under their final name, with a checksum of every file.

ROOT/step-40/            the backend's state, the policy as a Hugging Face folder, and the manifest
ROOT/.draft-…/           a checkpoint that is still being written, or that a crash left unfinished (never loaded)
"""

import hashlib
import logging
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from learner.claim import Check
from spade.decoding import try_decode
from spade.disk import DRAFT, discard, move_from_draft, open_draft, open_regular, read_all, sync
from spade.policy.kept import PREFIX, list_by_step
from spade.protocol import StepMetrics

MANIFEST = "manifest.json"

Save = Callable[[Path], dict[str, str]]
"""A function that writes a state into an existing folder.

It returns the digests (`compute_file_digest`) of files that other processes wrote, by their paths in the folder.
"""

log = logging.getLogger(__name__)


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a checkpoint."""

    step: int
    """Learner steps taken."""
    metrics: StepMetrics
    """Metrics of this step."""
    checksums: dict[str, str]
    """blake2b-128 of each file in hex, by the file's path in the checkpoint."""


def write(root: Path, step: int, metrics: StepMetrics, save: Save, check: Check) -> Path:
    """Write the checkpoint `root`/step-N, with the files that `save` writes. It is durable when this returns.

    `check` raises an error if the checkpoint must not take effect.
    """
    folder = root / f"{PREFIX}{step}"
    with open_draft(root) as draft:
        made = draft / folder.name
        made.mkdir()
        measured = save(made)
        files = sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file())
        checksums = _compute_digests(made, [name for name in files if name not in measured]) | measured
        manifest = Manifest(step, metrics, checksums)
        (made / MANIFEST).write_bytes(msgspec.json.encode(manifest))
        # A network file system may not yet list a file that another machine wrote, but opening the file by name works.
        for path in {*made.rglob("*"), *(made / name for name in measured), made}:
            sync(path)
        check()
        # If a folder already has this name, it is damaged. Otherwise the learner would have resumed from it.
        # The move fails if a newer life of the learner has deleted the draft.
        move_from_draft(made, folder)
    return folder


def find_newest(root: Path, until: float = math.inf) -> tuple[Path, Manifest] | None:
    """Return the undamaged checkpoint of the highest step up to `until`, with every byte checked, or None."""
    for step, folder in reversed(list_kept(root)):
        if step > until:
            continue
        try:
            return folder, verify_checkpoint(folder)
        except (OSError, ValueError) as error:
            log.warning("%s: passed over: %s", folder, error)
    return None


def prune(root: Path, step: int, keep: int, check: Check) -> None:
    """Delete drafts, checkpoints beyond `step`, which `find_newest` found damaged, and all but the newest `keep`."""
    found = list_kept(root)
    stay = [folder for number, folder in found if number <= step][-keep:]
    for folder in [*root.glob(f"{DRAFT}*"), *(folder for _, folder in found if folder not in stay)]:
        check()  # check after listing, so that the files of a newer process are never deleted
        discard(folder)


def list_kept(root: Path) -> list[tuple[int, Path]]:
    """Return (step, folder) of each checkpoint that is not a draft, by rising step."""
    return list_by_step(root)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint. Raises OSError or UnreadableError."""
    return try_decode(msgspec.json.Decoder(Manifest).decode, read_all(folder / MANIFEST))


def verify_checkpoint(folder: Path) -> Manifest:
    """Check every file and return the manifest. Raises OSError or ValueError if the checkpoint is damaged."""
    manifest = read_manifest(folder)
    for name, digest in _compute_digests(folder, list(manifest.checksums)).items():
        if digest != manifest.checksums[name]:
            raise ValueError(f"{name} is damaged")
    return manifest


def _compute_digests(folder: Path, names: list[str]) -> dict[str, str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the interpreter's lock
        return dict(zip(names, pool.map(lambda name: compute_file_digest(folder / name), names), strict=True))


def compute_file_digest(path: Path) -> str:
    """Return the blake2b-128 of a file in hex."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
