"""`spade replay export --format messages`: write the good answers of a run as a data set to fine-tune on."""

from pathlib import Path

from replay.inspect.training_examples import TRAIN, AnswerFilter, ExampleReader, Role, list_left_out, write_rows
from replay.store import open_reader
from spade.app.commands.options import known_skills
from spade.app.printing import say
from spade.app.rundir import RunDir
from spade.disk import write_whole
from spade.errors import RunError
from spade.policy import model_folder
from spade.tokens import Tokenizer


def export_messages(
    run: RunDir, out: Path, role: Role | None, skills: list[str] | None, least_return: float | None
) -> None:
    """Write the answers of a run as `train.jsonl` in `out`. Raises RunError if no answer meets the conditions."""
    config = run.config()
    least = config.play.win_return if least_return is None else least_return
    chosen = known_skills(skills, config, run.path)
    wanted = AnswerFilter(("agent", "designer") if role is None else (role,), chosen, least)
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    with write_whole(out) as part, open_reader(run.store) as store, store.pinned():
        reader = ExampleReader(store, tokenizer, config.model.thinking)
        part.mkdir(parents=True)
        write_rows(part / TRAIN, reader.rows(wanted))
        if not reader.counts:
            raise RunError(f"{run.path}: no answer was chosen{_describe_left_out(reader)}; nothing was written")
    answers, designs = reader.counts["agent"], reader.counts["designer"]
    say(f"{out / TRAIN}: {answers} answers of plays and {designs} designs of {run.path}{_describe_left_out(reader)}")
    if reader.retokenised:
        say(f"the text of {reader.retokenised} answers encodes to other tokens than the model sampled")


def _describe_left_out(reader: ExampleReader) -> str:
    found = list_left_out(reader.left_out)
    return f"; left out: {found}" if found else ""
