"""Claim a run for the newest life of its learner, so that an older life can no longer change the run's files.

An older life may still exist when a newer life starts: it may be suspended, cut off from the bus, or slow to end. So
the newest life writes its number beside the checkpoints. Every life reads this number before a checkpoint, weights or a
deletion takes effect.

A checkpoint is a draft until it gets its name. A newer life first writes its number, then deletes all drafts, then
reads the newest checkpoint. So either the older life named its checkpoint before the newer life reads, or the draft is
gone. So an older life that was suspended at any instant cannot add a checkpoint later.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import DRAFT, discard, read, replace
from spade.errors import RunError
from spade.protocol import LifeNumber

FILE = "life.json"

Check = Callable[[], None]
"""A function that raises RunError if a newer life has claimed the run."""

_numbers: msgspec.json.Decoder[LifeNumber] = msgspec.json.Decoder(LifeNumber)

log = logging.getLogger(__name__)


class Claim:
    """The claim of one life of the process `name` on the checkpoint folder `root`.

    If lives are not counted (`LifeNumber()`), the claim is never written.
    """

    def __init__(self, root: Path, name: str, life: LifeNumber) -> None:
        self._file = root / FILE
        self._name = name
        self._life = life

    def take(self, *roots: Path) -> None:
        """Take over from older processes of the learner. Delete the drafts in `roots` that they left or still write.

        Raises RunError as `check` does.
        """
        begins = self._life > self._read_newest()
        self.check()
        for draft in [path for root in roots for path in root.glob(f"{DRAFT}*")] if begins else []:
            log.info("%s: deleted, so that no older process of the learner can finish it", draft)
            discard(draft)

    def check(self) -> None:
        """Claim the run, if it is not claimed yet. Raises RunError if a newer life has, or if the file is damaged."""
        newest = self._read_newest()
        if newest > self._life:
            raise RunError(self._life.over(self._name, newest))
        # The file may have an older number even after the first claim, because an older process that began at the same
        # time wrote last.
        if newest < self._life:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace(self._file, msgspec.json.encode(self._life), durable=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Call `check` before the block. If the block fails because a newer life took over, raise RunError as `check`
        does."""
        self.check()
        try:
            yield
        except Exception:
            self.check()
            raise

    def _read_newest(self) -> LifeNumber:
        try:
            return try_decode(_numbers.decode, read(self._file))
        except FileNotFoundError:
            return LifeNumber()
        except UnreadableError as error:
            raise RunError(
                f"{self._file}: is damaged ({error}); delete it once no other learner of this run is up"
            ) from None
