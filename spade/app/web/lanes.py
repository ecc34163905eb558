"""The phases of a run's processes over the last minutes, one lane for each process. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from spade.app.report.drawing import format_figure
from spade.protocol import Process, Status, Wait

WIDTH = 1000
"""Width of a lane in the units of its picture."""
WAITING = "waiting"
BUSY = {
    "engine": ("rows_active", "sampling"),
    "endpoint": ("rows_active", "sampling"),
    "agent": ("episodes", "playing"),
    "evaluator": ("episodes", "playing"),
    "env-runner": ("live_episodes", "playing"),
    "designer": ("designs", "designing"),
    "curator": ("designs", "designing"),
    "gateway": ("requests_in_hand", "serving"),
}
"""For each role: the gauge that counts its current work, and the name of its phase while this gauge is not 0."""
PHASES = ("sampling", "training", "swapping", "playing", "designing", "serving", WAITING, "starting", "down")
_STATES = {"starting": "starting", "restarting": "starting", "silent": "down", "failed": "down", "stopped": "down"}


class Sample(NamedTuple):
    """The phases of all processes at one moment."""

    at: float
    """Time of the sample, in seconds since the epoch."""

    phases: dict[str, str]
    """The phase of each process."""


class PhaseSpan(NamedTuple):
    """A time that a process spent in one phase."""

    x: float
    """The beginning, in the units of the picture."""

    width: float
    """The length, in the units of the picture."""

    phase: str
    """The phase."""

    seconds: float
    """The length in seconds."""


class Lane(NamedTuple):
    """The phases of one process, one after the other."""

    name: str
    """The name of the process."""

    stretches: tuple[PhaseSpan, ...]
    """The spans of its phases, in order of time."""

    says: str
    """The share of each phase in the whole time, in words, the largest first."""


def take_sample(at: float, status: Status) -> Sample:
    """Return the phases of the processes of a status."""
    return Sample(at, {process.name: find_phase(process, status.waits) for process in status.processes})


def find_phase(process: Process, waits: Sequence[Wait]) -> str:
    """Return the phase of a process, by its state, its waits and its gauges."""
    if process.state != "ready":
        return _STATES.get(process.state, WAITING)
    mine = [wait for wait in waits if wait.who == process.name]
    if any(wait.what.startswith("weights of version") for wait in mine):
        return "swapping"
    if process.role == "learner":
        return "training" if not mine or any(wait.holder == "its backend" for wait in mine) else WAITING
    gauge, phase = BUSY.get(process.role, ("", "serving"))
    return phase if not gauge or process.gauges.get(gauge) else WAITING


def make_lanes(samples: Sequence[Sample]) -> list[Lane]:
    """Return the lanes of the processes of the newest sample. A phase lasts from its sample to the next one."""
    if len(samples) < 2:
        return []
    first, span = samples[0].at, samples[-1].at - samples[0].at
    return [_make_lane(name, samples, first, span) for name in samples[-1].phases]


def _make_lane(name: str, samples: Sequence[Sample], first: float, span: float) -> Lane:
    runs: list[tuple[str, float, float]] = []
    for sample, after in pairwise(samples):
        phase = sample.phases.get(name, "")
        if runs and runs[-1][0] == phase:
            runs[-1] = phase, runs[-1][1], after.at
        else:
            runs.append((phase, sample.at, after.at))
    scale = WIDTH / span if span else 0.0
    known = [(phase, begin, end) for phase, begin, end in runs if phase]
    stretches = (
        PhaseSpan(round((begin - first) * scale, 1), round((end - begin) * scale, 1), phase, end - begin)
        for phase, begin, end in known
    )
    whole = sum(end - begin for _, begin, end in known) or 1.0
    shares = {phase: sum(end - begin for each, begin, end in known if each == phase) / whole for phase, *_ in known}
    ranked = sorted(shares.items(), key=lambda share: -share[1])
    return Lane(
        name, tuple(stretches), ", ".join(f"{phase} {format_figure(part, share=True)}" for phase, part in ranked)
    )
