"""Write the won plays and admitted designs of a run as training examples for other tools, one row for each answer."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from replay.ledger.records import Environment, PlayRecord
from replay.store import Store
from spade.decoding import UnreadableError
from spade.protocol import Trajectory
from spade.returns import is_won
from spade.sequences import TokenSequence, split_sequences
from spade.tokens import ExampleMessage, Tokenizer, write_example

TRAIN = "train.jsonl"
"""The file of the data set. `datasets.load_dataset(DIR)` takes it as the split `train`."""

Role = Literal["agent", "designer"]


class ExampleRow(msgspec.Struct, frozen=True):
    """One answer with its prompt, in the columns of TRL's conversational prompt and completion."""

    id: str
    """The id of the play or of the environment, "/", and the number of the answer in it, from 0."""

    role: Role
    """The role that answered."""

    skill: str
    """The environment's skill."""

    reward: float
    """The play's return. For a design, the designer's reward, or 0 if there is none yet."""

    prompt: list[ExampleMessage]
    """The messages before the answer."""

    completion: list[ExampleMessage]
    """The answer."""

    chat_template_kwargs: dict[str, bool]
    """Variables for the chat template."""


class AnswerFilter(NamedTuple):
    """The choice of answers to export."""

    roles: tuple[Role, ...]
    """The roles that answered."""

    skills: tuple[str, ...]
    """Skills of the environments; all if empty."""

    least_return: float
    """The least return of a play."""


class ExampleReader:
    """Reads the training examples of a store, and counts the answers that it leaves out.

    Like the learner, reads only unhinted plays, because an answer that relies on a hint does not help without the hint.
    """

    def __init__(self, store: Store, tokenizer: Tokenizer, thinking: bool) -> None:
        self._store = store
        self._tokenizer = tokenizer
        self._variables = {"enable_thinking": thinking}
        self.counts: Counter[Role] = Counter()
        """Rows of each role."""

        self.retokenised = 0
        """Number of rows in which the answer's text encodes to other tokens than the model sampled."""

        self.left_out: Counter[str] = Counter()
        """Answers without a row, by reason."""

    def rows(self, wanted: AnswerFilter) -> Iterator[ExampleRow]:
        """Yield the rows of all designs, then of all plays, both in the order of their ids."""
        found = {each.id: each for each in self._store.scan("environments", Environment) if each.state != "quarantined"}
        chosen = {id: each for id, each in found.items() if not wanted.skills or each.skill in wanted.skills}
        if "designer" in wanted.roles:
            for each in chosen.values():
                if each.designed_version:  # without a version, a pool or an endpoint provided the program
                    reward = (each.score.reward if each.score else None) or 0.0
                    yield from self._split_answers(
                        each.job, ExampleRow(each.id, "designer", each.skill, reward, [], [], {})
                    )
        if "agent" in wanted.roles:
            for play in self._store.scan("plays", PlayRecord):
                finished = play.state == "finished" and not play.hinted
                if finished and play.environment in chosen and is_won(play.episode_return, wanted.least_return):
                    skill = chosen[play.environment].skill
                    yield from self._split_answers(
                        play.id, ExampleRow(play.id, "agent", skill, play.episode_return, [], [], {})
                    )

    def _split_answers(self, key: str, row: ExampleRow) -> Iterator[ExampleRow]:
        trajectory = self._store.get("trajectories", key, Trajectory)
        if trajectory is None:
            self.left_out["with deleted tokens"] += 1
            return
        runs = ((sequence, run) for sequence in split_sequences(trajectory) for run in _find_runs(sequence))
        for number, (sequence, run) in enumerate(runs):
            try:
                example = write_example(self._tokenizer, sequence.ids[: run.start].tolist(), sequence.ids[run].tolist())
            except UnreadableError as error:
                self.left_out[str(error)] += 1
                continue
            self.counts[row.role] += 1
            self.retokenised += not example.exact
            yield msgspec.structs.replace(
                row, id=f"{row.id}/{number}", prompt=example.prompt, completion=[example.completion],
                chat_template_kwargs=self._variables,
            )  # fmt: skip


def write_rows(file: Path, rows: Iterable[ExampleRow]) -> None:
    """Write rows as JSON Lines."""
    encoder = msgspec.json.Encoder()
    with file.open("wb") as opened:
        for row in rows:
            opened.write(encoder.encode(row) + b"\n")


def list_left_out(left_out: Counter[str]) -> str:
    """List the reasons why answers were left out, each after its count. Returns "" if no answer was."""
    return ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()) if count)


def _find_runs(sequence: TokenSequence) -> Iterator[slice]:
    """Yield the ranges of the sampled answers of a sequence."""
    trained = sequence.trained
    for part in np.split(trained, np.flatnonzero(np.diff(trained) > 1) + 1):
        if len(part):
            yield slice(int(part[0]), int(part[-1]) + 1)
