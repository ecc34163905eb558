"""Arms: runs that are pooled, since they were given one name or have the same settings. Pure."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from spade.config import Config, differences
from spade.text import line

APART = ("limits", "bus", "supervise", "run.seed")
"""Sections and settings that say how long, where and with which seed a run goes on, not what it is."""

LONGEST_NAME = 80


class AskedRun(NamedTuple):
    """A run as it was asked for: the name of its arm, "" where settings decide, and its folder."""

    arm: str
    path: Path


class Arm(NamedTuple):
    """The name of an arm, and the places of its runs among all."""

    name: str
    members: tuple[int, ...]


def asked(word: str) -> AskedRun:
    """A run of the command line: FOLDER, or NAME=FOLDER. A folder that exists under the whole word is meant first."""
    name, equals, folder = word.partition("=")
    return AskedRun(name, Path(folder)) if equals and name and not os.path.lexists(word) else AskedRun("", Path(word))


def run_names(paths: Sequence[Path]) -> list[str]:
    """A name for each run, no two alike: that of its folder, with as many folders above it as this takes."""
    parts = [[part for part in path.parts if part != "/"] or ["/"] for path in paths]
    names = [each[-1] for each in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        twins = {name for name, count in Counter(names).items() if count > 1}
        if not twins:
            break
        names = ["/".join(each[-depth:]) if name in twins else name for each, name in zip(parts, names, strict=True)]
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):  # the same folder, given twice
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name} ({seen[name]})"
    return names


def arms(names: Sequence[str], given: Sequence[str], configs: Sequence[Config | None]) -> list[Arm]:
    """The arms in the order of their first runs: those of one given name, then those of the same settings.

    A run whose settings cannot be read is an arm by itself.
    """
    members: dict[object, list[int]] = {}
    for place, (arm, config) in enumerate(zip(given, configs, strict=True)):
        key: object = ("named", arm) if arm else ("alone", place) if config is None else settings_of_arm(config)
        members.setdefault(key, []).append(place)
    found = [Arm(_name(key, [names[place] for place in places]), tuple(places)) for key, places in members.items()]
    return _told_apart(found)


def settings_apart(configs: Mapping[str, Config]) -> dict[str, list[object]]:
    """The settings in which configs differ, each with its value in every one of them, in their order."""
    each = list(configs.values())
    keys = {key: None for other in each[1:] for key in differences(each[0], other) if not _apart(key)}
    trees = [msgspec.to_builtins(config) for config in each]
    return {key: [tree[section][field] for tree in trees] for key in keys for section, field in [key.split(".")]}


def settings_of_arm(config: Config) -> bytes:
    """The settings that make an arm: equal for runs that differ in those of APART alone."""
    tree = {
        f"{section}.{name}": value
        for section, settings in msgspec.to_builtins(config).items()
        for name, value in settings.items()
        if not _apart(f"{section}.{name}")
    }
    return msgspec.json.encode(tree, order="sorted")


def _apart(setting: str) -> bool:
    return setting in APART or setting.partition(".")[0] in APART


def _name(key: object, runs: Sequence[str]) -> str:
    match key:
        case ("named", str(name)):
            return name
    if len(runs) == 1:
        return runs[0]
    stems = {run.rstrip("0123456789-_. ") for run in runs}
    return stems.pop() if len(stems) == 1 and "" not in stems else f"{len(runs)} runs with the settings of {runs[0]}"


def _told_apart(found: Sequence[Arm]) -> list[Arm]:
    """The arms with names of bounded length, no two alike: equal ones are numbered."""
    short = [line(arm.name, LONGEST_NAME) for arm in found]
    twins = {name for name, times in Counter(short).items() if times > 1}
    taken = set(short)
    told = []
    for arm, name in zip(found, short, strict=True):
        if name in twins:
            name = next(numbered for number in count(1) if (numbered := f"{name} {number}") not in taken)
            taken.add(name)
        told.append(Arm(name, arm.members))
    return told
