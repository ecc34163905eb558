"""Pools of a library's environments, each a program of a few lines.

`LIBRARY:NAME,NAME` names environments, `LIBRARY:all` all of them, `LIBRARY:SET` a set.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from actors.sandbox.catalogue import list_catalogue
from actors.sandbox.inside.libraries import LIBRARIES
from actors.sandbox.inside.libraries.excluded import EXCLUDED
from actors.suites.programs import make_class_name, write_program
from actors.suites.reasoning_gym import SMALL
from spade.errors import RunError
from spade.pools import PoolProgram
from spade.text import as_line

# The 16 environments that RLVE itself trains on in its comparison of 1, 4, 16, 256 and 400 problems.
OFFICIAL16 = (
    "Division", "EuclidGame", "GCDOne_Counting", "HamiltonianPath", "LampChanging", "LargestConvexPolygon",
    "Multiplication", "PCPPermutation", "Path_NoGoingBack_Counting", "SAT", "ShortestPath", "Sorting", "SpiralMatrix",
    "SubsequenceReversalLNDS", "UndamagedSubmatrixCounting", "WYRLevelingGround",
)  # fmt: skip
RISES: Mapping[str, Mapping[str, int]] = {
    "basic_arithmetic": {"max_terms": 1},
    "chain_sum": {"max_digits": 1},
    "count_primes": {"max_n": 10},
    "gcd": {"max_value": 10},
    "letter_counting": {"max_words": 1},
    "spell_backward": {"max_word_len": 1},
}
"""The increase of each parameter from one level to the next, by data set and parameter."""
SETS: Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]] = {
    ("rlve", "official16"): {name: {} for name in OFFICIAL16},
    ("reasoning-gym", "nano"): {
        name: {"level": 0, "parameters": dict(small), "rises": dict(RISES[name])} for name, small in SMALL.items()
    },
}
"""The environments of each set, by library and set. Each name has the additional attributes of its program."""


def read_library_programs(library: str, names: str) -> Iterator[PoolProgram]:
    """Yield the programs of a library's environments.

    Raises RunError with the first name that is unknown or excluded.
    """
    everything = names in ("", "all")
    asked = [] if everything else [name.strip() for name in names.split(",")]
    known = list_catalogue(library, [name for name in asked if name.isprintable()])
    if library == "verifiers" and everything:
        raise RunError(f"{library}: name the tasksets; those here are {', '.join(known) or 'none'}")
    chosen = SETS.get((library, names))
    if chosen is None:
        chosen = {name: {} for name in (known if everything else asked)}
    for name in chosen:
        _check(library, name, known)
    return (_make_program(library, name, {**known[name], **more}) for name, more in chosen.items())


def pay_by_score(program: PoolProgram) -> PoolProgram:
    """Make a library's program pay the library's score of an answer, in [-1, 1], instead of 1 or 0."""
    return replace(program, source=f"{program.source}    pays = 'score'\n")


def _check(library: str, name: str, known: Mapping[str, Mapping[str, Any]]) -> None:
    if name in known and "refused" not in known[name]:
        return
    if why := EXCLUDED[library].get(name) or known.get(name, {}).get("refused"):
        raise RunError(f"{library}: {name} is left out: {as_line(why, 200)}")
    nearest = ", ".join(get_close_matches(name, known, 3, cutoff=0.0)) or "none"
    raise RunError(f"{library}: unknown name {as_line(name, 80)!r}; the nearest are {nearest}")


def _make_program(library: str, name: str, attributes: dict[str, Any]) -> PoolProgram:
    [base] = LIBRARIES[library].classes
    source = write_program(base, make_class_name(name), **attributes)
    return PoolProgram(name, source, origin=LIBRARIES[library].requirement, levels="level" in attributes)
