"""Invariants of a run that was killed at random: its store in itself, and against what was acknowledged."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from learner import checkpoint
from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.records import BatchRecord, Environment, Job, PlayRecord, RunCounters
from replay.store import Store, open_reader
from spade.config import Config
from spade.protocol import Trajectory
from tests.chaos.role import FOLDER, fingerprint


def check(run: Path, config: Config) -> list[str]:
    """Everything that is wrong with a run that is down, a line each."""
    notes = list(_notes(run))
    with open_reader(run / "store") as store:
        found = find_problems(read_contents(store))
        return [*found, *_slots(store, config), *_acknowledged(store, notes), *_learner(store, run, notes)]


def _notes(run: Path) -> Iterator[dict]:
    for path in sorted((run / FOLDER).glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            yield msgspec.json.decode(line)


def _slots(store: Store, config: Config) -> Iterator[str]:
    """Limits that verify leaves to those who know the settings: no more is going on than may."""
    alive = [job for job in store.scan("jobs", Job) if job.state in ("open", "leased")]
    active = [environment for environment in store.scan("environments", Environment) if environment.state == "active"]
    if len(alive) + len(active) > config.design.active_environments:
        yield f"{len(alive)} design jobs and {len(active)} environments are over design.active_environments"


def _acknowledged(store: Store, notes: list[dict]) -> Iterator[str]:
    """Everything acknowledged is there, and only as it was handed in by one of those who did."""
    handed_in: dict[str, set[str | None]] = {}
    for note in notes:
        if note["kind"] in ("play", "design", "reject"):
            key = note.get("id") or note.get("job") or note["key"]
            handed_in.setdefault(key, set()).add(note["trajectory"])
    late, counters = 0, store.get("meta", "counters", RunCounters)
    for key, submitted in handed_in.items():
        work = store.get("plays", key, PlayRecord) or store.get("jobs", key[:7], Job)
        if work is None:
            yield f"{key} was acknowledged and nobody ever had it to do"
            continue
        if work.state == "cancelled":
            late += 1  # its window had closed: counted, as it was told
            continue
        if work.state in ("open", "leased") and "/" not in key:
            yield f"{key} was acknowledged and is {work.state}"
        found = store.get("trajectories", key, Trajectory)
        # What was leased again may have been handed in twice; the first counts, also if its sender died of the answer.
        if work.lease == 1 and (None if found is None else fingerprint(found)) not in submitted:
            yield f"{key} was acknowledged and is not there as it was handed in"
    if counters is not None and late > counters.late_plays:
        yield f"{late} acknowledged plays came late, the store counts {counters.late_plays}"


def _learner(store: Store, run: Path, notes: list[dict]) -> Iterator[str]:
    """Steps in sequence: +1 within a life of the learner, from its last checkpoint on in the next."""
    recorded = {batch.step: batch for batch in store.scan("batches", BatchRecord)}
    seen: dict[int, tuple[list, list]] = {}
    pid, last, saved = 0, 0, 0
    for note in notes:
        if note["kind"] == "checkpointed":
            saved = max(saved, note["step"])
        elif note["kind"] == "take":
            step = note["step"]
            if note["pid"] == pid and step != last + 1:
                yield f"a learner took step {step} after step {last}"
            if note["pid"] != pid and not saved < step <= last + 1:
                yield f"a learner began at step {step}; acknowledged were step {last} and checkpoint {saved}"
            pid, last = note["pid"], step
            batch = (note["groups"], note["members"])
            if seen.setdefault(step, batch) != batch:
                yield f"step {step} was given two batches"
            if step not in recorded or [group.id for group in recorded[step].groups] != note["groups"]:
                yield f"step {step} is not recorded as it was given"
    versions: dict[int, tuple[int, str]] = {}
    for note in notes:
        if note["kind"] == "publish":
            weights = (note["step"], note["digest"])
            if versions.setdefault(note["version"], weights) != weights:
                yield f"version {note['version']} was given to {versions[note['version']]} and to {weights}"
    found = checkpoint.find_newest(run / "checkpoints")
    if found is None or found[1].step < saved:
        yield f"checkpoint {saved} was acknowledged and is not there"


def steps_repeated(run: Path) -> int:
    """The number of learner steps that were taken again."""
    takes = [note["step"] for note in _notes(run) if note["kind"] == "take"]
    return len(takes) - len(set(takes))
