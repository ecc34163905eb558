"""The shipped checkpoint, and the report that measures it."""

from pathlib import Path

import msgspec
import pytest

from actors.corpus import load
from actors.nano.games import GAMES
from actors.nano.world import is_held_out
from spade.app.nano import report as reporting
from spade.app.nano.build import RECORD, Build
from spade.app.nano.report import (
    ENVIRONMENTS,
    Rate,
    Report,
    collect_training_programs,
    compare_reports,
    compute_rate,
    report,
)
from spade.policy.model_folder import resolve


def test_a_rate_has_its_standard_error() -> None:
    assert compute_rate([0.0, 1.0, 0.0, 1.0]) == Rate(0.5, pytest.approx(0.2887, abs=1e-4))
    assert compute_rate([]) == Rate(0.0, 0.0)
    assert str(Rate(0.5, 0.25)) == "0.500 ± 0.250"


def test_held_out_environments_cover_every_skill_and_no_training_program() -> None:
    documents = load("builtin")
    environments = GAMES.unseen(0, documents, ENVIRONMENTS)
    assert all(is_held_out(environment.family, environment.knobs) for environment in environments)
    assert len({environment.skill for environment in environments}) == 6
    known = collect_training_programs(GAMES, Build(0, 20), documents)
    assert known
    assert not known & {environment.source for environment in environments}


def test_the_shipped_checkpoint_is_small() -> None:
    folder = Path(resolve("nano"))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 8_000_000
    assert msgspec.json.decode((folder / RECORD).read_bytes(), type=Build).steps > 0


@pytest.mark.slow
def test_the_shipped_checkpoint_designs_and_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "PROGRAMS", 12)
    monkeypatch.setattr(reporting, "ENVIRONMENTS", 24)
    # Of the first of its tens of thousands of demonstrations alone.
    monkeypatch.setattr(Build, "demonstrations", 100)
    measured = report(resolve("nano"), resolve("nano"), seed=1)
    assert measured.valid.mean >= 0.7
    assert measured.hinted.mean > 0.2
    assert msgspec.json.decode(msgspec.json.encode(measured), type=Report) == measured
    assert "held-out win rate, unhinted" in str(measured)
    rows = [
        line.split()
        for line in compare_reports(measured, msgspec.structs.replace(measured, valid=Rate(0.5, 0.25))).split("\n")
    ]
    assert rows[1][-3:] == ["0.500", "±", "0.250"]
    assert rows[2][-6:-3] == rows[2][-3:]
