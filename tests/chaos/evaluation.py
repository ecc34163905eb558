"""Chaos: evaluations whose processes are killed (SIGKILL) at random instants, and whose records are then compared.

    python -m tests.chaos.evaluation --suite reasoning-gym-nano --kills 10 --out runs/chaos-eval

The command is played twice undisturbed; the records have to be the same bit for bit, `seconds` apart. Then each victim
is killed so many times: the whole process tree, the command alone, or one of its processes; `interrupt` is Ctrl-C. A
command that was killed, or that gave up, is started again; where an evaluation ended before its victim was killed often
enough, another begins. Prints a row a victim; exit code 1 where anything is wrong.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from spade.evaluations import find_evaluations
from tests.chaos.processes import SUPERVISOR, Command, adopt_orphans, descendants

TREE, SANDBOX, INTERRUPT = "tree", "sandbox", "interrupt"
VICTIMS = (TREE, SUPERVISOR, "engine", "env-runner", SANDBOX, "replay", INTERRUPT)
SETTLE_S = 900.0
MOST_UNKILLED = 4
Records = dict[tuple[str, int], str]


class Disturbed(NamedTuple):
    """The evaluations with one victim: `restarts` of the command, and what is wrong."""

    kills: int
    evaluations: int
    restarts: int
    wrong: list[str]


def begun(words: Sequence[str], folder: Path) -> Command:
    """An evaluation whose results go below `folder`."""
    folder.mkdir(parents=True)
    return Command(("spade.app.cli", "eval", *words), folder / "said", folder)


def records(folder: Path) -> Records:
    """The lines of all records, without their seconds, by item and sample."""
    (evaluation,) = find_evaluations(folder)
    lines = [json.loads(line) for line in (evaluation.folder / "records.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds") >= 0 for line in lines)
    assert len({(line["item"], line["sample"]) for line in lines}) == len(lines), "a sample has two records"
    return {(line["item"], line["sample"]): json.dumps(line) for line in lines}


def undisturbed(words: Sequence[str], folder: Path) -> tuple[Records, float]:
    """The records, and the seconds it took."""
    began = time.monotonic()
    command = begun(words, folder)
    code = command.wait(SETTLE_S)
    assert code == 0, command.tail()
    return records(folder), time.monotonic() - began


def pids(command: Command, victim: str) -> list[int]:
    """The processes of a victim that are up now. A sandbox is whatever an env-runner has started."""
    roles = command.roles()
    if victim == SANDBOX:
        return [pid for runner in roles.get("env-runner", []) for pid in descendants(runner)]
    return roles.get(victim, [])


def disturbed(
    words: Sequence[str], folder: Path, victim: str, kills: int, within_s: float, expected: Records, random: Random
) -> Disturbed:
    """Kill the victim so many times, each within `within_s` of its start or of the last kill."""
    done = restarts = number = 0
    wrong: list[str] = []
    while done < kills:
        number += 1
        place = folder / f"{victim}-{number}"
        command = begun(words, place)
        unkilled = 0  # ends of the command by itself, one after the other
        try:
            while command.code != 0 and unkilled < MOST_UNKILLED:
                time.sleep(random.uniform(0.0, within_s) if done < kills else 0.2)
                if command.code is None and done < kills:
                    done, unkilled = done + killed(command, victim, random), 0
                if command.code not in (None, 0):
                    restarts, unkilled = restarts + 1, unkilled + 1
                    command.start()
            command.wait_gone(SETTLE_S)
        finally:
            command.abandon()
        wrong += [f"{place.name}: {each}" for each in differences(place, expected)]
        print(f"{place.name}: {done} of {kills} kills, {restarts} restarts of the command", flush=True)
    return Disturbed(done, number, restarts, wrong)


def killed(command: Command, victim: str, random: Random) -> int:
    """The number of kills: 0 where the victim is not up now."""
    if victim == TREE:
        command.end_all(SETTLE_S)
        return 1
    if victim == SUPERVISOR:
        command.die()  # what it had started may still be leaving when it begins again
        return 1
    if victim == INTERRUPT:
        code = command.interrupt(SETTLE_S)
        assert code in (0, 130), f"Ctrl-C: {code}: {command.tail()}"
        return 1
    there = pids(command, victim)
    if there:
        command.kill(random.choice(there))
    return len(there[:1])


def differences(folder: Path, expected: Records) -> Iterator[str]:
    """All that is wrong with an evaluation that has ended, a line each."""
    kept = records(folder)
    for key in sorted(expected.keys() | kept.keys()):
        if kept.get(key) != expected.get(key):
            yield f"{key}: {kept.get(key)} in place of {expected.get(key)}"
    evaluated = find_evaluations(folder)[0].summary
    if evaluated is None or evaluated.played < len(expected):
        yield f"it did not end: {(folder / 'said').read_text(errors='replace')[-500:]!r}"
    for left in "processes", "weights":
        yield from (f"{path} is left" for path in (folder / "evaluations" / left).glob("*"))
    if "Traceback" in (folder / "said").read_text(errors="replace"):
        yield "a traceback"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.evaluation", description="Kill `spade eval`.")
    parser.add_argument("--suite", default="nano")
    parser.add_argument("--kills", type=int, default=10, help="of each victim")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--within", type=float, default=None, help="most seconds before a kill [as it takes undisturbed]"
    )
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--words", default="", help="further words of the command, as one")
    given = parser.parse_args()
    adopt_orphans()
    words = ("nano", "--suite", given.suite, *given.words.split())
    out = given.out.resolve()
    expected, seconds = undisturbed(words, out / "undisturbed")
    again, _ = undisturbed(words, out / "again")
    print(
        f"{len(expected)} records in {seconds:.1f} s; {'the same' if again == expected else 'OTHERS'} when made again"
    )
    wrong = [] if again == expected else ["undisturbed: other records when made again"]
    for victim in given.victims:
        random = Random(f"{given.seed} {victim}")
        ended = disturbed(words, out, victim, given.kills, given.within or seconds, expected, random)
        print(
            f"{victim:<12} {ended.kills} kills in {ended.evaluations} evaluations, {len(ended.wrong)} wrong", flush=True
        )
        wrong += ended.wrong
    print("\n".join(wrong or ["nothing is wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
