"""The folder of an experiment's runs. Runs left by earlier commands must belong to the same experiment."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from actors.suites import SUITES
from actors.suites.suite import compute_items_digest
from spade.app.experiment.plan import Experiment, Piece
from spade.app.experiment.results import Origins
from spade.app.report.arms import compare_settings
from spade.app.rundir import RunDir
from spade.config import load
from spade.decoding import UnreadableError, try_decode
from spade.disk import read, replace
from spade.errors import RunError
from spade.policy import manifest, model_folder
from spade.pools import MADE, make_writing_config

_origins: msgspec.json.Decoder[Origins] = msgspec.json.Decoder(Origins)


class ExperimentFolder(NamedTuple):
    """An experiment and its folder."""

    experiment: Experiment
    """The plan."""

    folder: Path
    """The folder of the experiment's runs, pools and logs."""

    origins: Origins
    """Digests of the held-out items and of the first checkpoint of the experiment's runs."""

    def run(self, piece: Piece) -> RunDir:
        """Return the directory of a run."""
        return RunDir(self.folder / "runs" / str(piece))

    def pool(self, piece: Piece) -> Path:
        """Return the folder of the pool that a run plays."""
        return self.folder / "pools" / str(piece)

    def settings(self, piece: Piece) -> tuple[str, ...]:
        """Return the settings of a run, including its pool."""
        pool = (f"pool.source=folder:{self.pool(piece)}",) if self.experiment.arms[piece.arm].pool else ()
        return (*self.experiment.overrides(piece), *pool)

    def writer(self, piece: Piece) -> Piece:
        """Return the run that gives the settings for writing this run's pool: its match, or the run itself."""
        return self.experiment.match(piece) or piece


def collect_origins(experiment: Experiment) -> Origins:
    """Compute the origins of runs that begin now: the digests of the held-out items and of the first checkpoint.

    Raises ConfigError if the suite cannot be played here, RunError if arms begin with different checkpoints.
    """
    suite = SUITES[experiment.suite]
    suite.versions(suite.protocol(experiment.protocol))
    models = {experiment.config(Piece(name, arm.seeds[0])).model.path for name, arm in experiment.arms.items()}
    digests = {manifest.compute_digest(manifest.measure(model_folder.resolve(path))) for path in models}
    if len(digests) != 1:
        raise RunError(f"the arms begin with different checkpoints: {', '.join(sorted(models))}")
    return Origins(
        world=compute_items_digest(suite.items(suite.protocol(experiment.protocol))), checkpoint=digests.pop()
    )


def hold_origins(folder: Path, origins: Origins) -> None:
    """Record the origins in the folder before its first run.

    Raises RunError if earlier runs in the folder had other origins, because a resumed run would mix both.
    """
    file = folder / "origins.json"
    try:
        earlier = try_decode(_origins.decode, read(file))
    except FileNotFoundError:
        replace(file, msgspec.json.encode(origins), durable=True)
        return
    except UnreadableError as error:
        raise RunError(f"{file}: is damaged ({error}); choose another --out") from None
    if earlier != origins:
        raise RunError(f"{folder}: its runs began with another world or checkpoint; choose another --out")


def refuse_left(place: ExperimentFolder, piece: Piece) -> None:
    """Raise RunError if an earlier command began this run or its pool with other settings.

    The results would not show that a part of the run had other settings.
    """
    arms, writer = place.experiment.arms, place.writer(piece)
    asked = [(place.run(piece), load(arms[piece.arm].recipe, place.settings(piece)))]
    if arms[piece.arm].pool:
        settings = make_writing_config(arms[writer.arm].recipe, place.experiment.overrides(writer))
        asked.append((RunDir(place.pool(piece) / MADE), settings))
    for run, config in asked:
        if run.exists and (differing := compare_settings({"asked": config, "there": run.config()})):
            raise RunError(
                f"{run.path}: was begun with other settings ({', '.join(differing)}); delete it to make it anew, or "
                "choose another --out"
            )
