"""`spade eval`: measure a policy on suites, and list the evaluations that were made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spade.app.commands.options import Json, Recipe, Set
from spade.app.printing import complain, print_json, say, show

if TYPE_CHECKING:
    from replay.inspect.journal import EvaluationRow
    from spade.evaluations import KeptEvaluation

PostMachine = Annotated[
    Path, typer.Argument(metavar="[RUN]", help="A run directory, or the folder in which models were measured.")
]


def run(
    suite: Annotated[
        str, typer.Option(metavar="games|tools|NAME[,NAME…]", help="The suites (docs/evaluation.md has a table).")
    ],
    model: Annotated[
        str,
        typer.Argument(metavar="[RUN|MODEL]", help="A run directory, a checkpoint folder, a hub name, or nano."),
    ] = "",
    protocol: Annotated[
        Literal["paper", "release", "short"], typer.Option(help="The rules by which the suites are played.")
    ] = "paper",
    policy: Annotated[
        str,
        typer.Option(
            metavar="newest|start|step:N|every:N|DIGEST",
            help="The policy of the run; every:N makes a curve of the policies at multiples of N learner steps.",
        ),
    ] = "newest",
    against: Annotated[
        str,
        typer.Option(
            metavar="start|RUN|DIGEST|none",
            help="Another policy to compare with, by paired differences. It is measured first if necessary.",
        ),
    ] = "none",
    samples: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Plays of each item [default: the protocol's].")
    ] = None,
    items: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Play only the first N items; needs --protocol short.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of all sampling.")] = 0,
    data: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="The data file of a suite that ships without one.")
    ] = None,
    endpoint: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Measure an OpenAI-compatible server; RUN|MODEL, if given, supplies the tokenizer."
        ),
    ] = "",
    endpoint_model: Annotated[str, typer.Option(metavar="NAME", help="The server's model, if it has several.")] = "",
    key: Annotated[str, typer.Option(metavar="FILE", help="File with the key for the server.")] = "",
    user_url: Annotated[
        str, typer.Option(metavar="URL|self", help="The server of the model that plays the users of tau2 and acebench.")
    ] = "",
    user_model: Annotated[str, typer.Option(metavar="NAME", help="The users' model, if that server has several.")] = "",
    user_key: Annotated[str, typer.Option(metavar="FILE", help="File with the key for the users' server.")] = "",
    config: Recipe = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Measure a policy on suites. The word `run` may be left out.

    The policy stays the same to the end, even if its run trains on. The same command, given again, plays only the
    samples that are missing. Exit code 1 if a suite lacks its headline figure.
    """
    from spade.app.evaluation.measuring import EvalOptions, evaluate, find_suites
    from spade.app.evaluation.servers import ServerOptions
    from spade.app.screen.curves import format_curves
    from spade.app.screen.evaluations import format_table

    words = data or (), config, set_ or ()
    server = ServerOptions.typed("--endpoint", endpoint, endpoint_model, key)
    user = ServerOptions.typed("--user-url", user_url, user_model, user_key)
    asked = EvalOptions(model, suite, protocol, policy, against, samples, items, seed, *words, server, user)
    measured = evaluate(asked, complain if json else say, complain)
    if json:
        print_json(measured)
    elif measured:
        show(format_curves(measured) if asked.curve else format_table(measured))
    missing = len({each.rules.suite for each in measured}) < len(find_suites(suite))
    if missing or any(each.why or each.summary.headline is None for each in measured):
        raise typer.Exit(1)


def setup(
    harness: Annotated[str, typer.Argument(metavar="bfcl|tau2|acebench", help="The suite.")],
    index_url: Annotated[str, typer.Option(metavar="URL", help="The package index [default: pip's].")] = "",
) -> None:
    """Install the harness of a suite below ~/.cache/spade."""
    from actors.suites.harnesses import HARNESSES, environment
    from spade.errors import ConfigError
    from spade.text import as_line

    if harness not in HARNESSES:
        raise ConfigError(f"{as_line(harness, 60)!r}: unknown harness; take one of {', '.join(HARNESSES)}")
    say(f"the harness is at {environment.set_up(harness, index_url, say)}")


def ls(where: PostMachine = Path(), json: Json = False) -> None:
    """List the evaluations of a run. Without RUN, list the evaluations of models that were measured in this folder."""
    from spade.app.screen.evaluations import format_own_row, format_row
    from spade.evaluations import find_evaluations

    kept, own = find_evaluations(_find_folder(where)), _read_own(where)
    if json:
        _tell_json(where, kept, own)
        return
    for each in kept:
        say(format_row(each))
    for measured in own:
        say(format_own_row(measured))
    if not kept and not own:
        say(f"{where}: no evaluation was made here")


def show_evaluations(
    where: PostMachine,
    suite: Annotated[str | None, typer.Argument(help="Only this suite.")] = None,
    json: Json = False,
) -> None:
    """Show evaluations with their categories, errors and rules."""
    from spade.app.screen.evaluations import format_own_sheet, format_sheet
    from spade.errors import RunError
    from spade.evaluations import find_evaluations
    from spade.text import as_line

    kept, own = (
        find_evaluations(_find_folder(where), suite),
        [each for each in _read_own(where) if suite in (None, each.suite)],
    )
    if not kept and not own:
        raise RunError(f"{where}: no evaluation{f' of {as_line(suite, 60)}' if suite else ''} was made here")
    if json:
        _tell_json(where, kept, own)
        return
    measures = dict.fromkeys((each.suite, each.measure) for each in own)
    of_run = [format_own_sheet([each for each in own if (each.suite, each.measure) == one]) for one in measures]
    show("\n\n".join([*map(format_sheet, kept), *of_run]))


def _read_own(where: Path) -> "Sequence[EvaluationRow]":
    """Read the evaluations that a run's own evaluator measured. Returns () if the folder is not a run's."""
    from replay.inspect.journal import read_journal
    from spade.app.rundir import RunDir

    try:
        rows = read_journal(RunDir(where).metrics_path)
    except FileNotFoundError:
        return ()
    if rows.gap:
        complain(f"{where}/{rows.gap}")
    return rows.evaluations


def average(
    where: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, or the folder in which models were measured.")
    ],
    suite: Annotated[
        str,
        typer.Option(metavar="games|tools|NAME[,NAME…]", help="The suites of a table of the paper, or named suites."),
    ],
    policy: Annotated[
        str, typer.Option(metavar="newest|start|step:N|DIGEST", help="The policy [default: the only measured one].")
    ] = "",
    against: Annotated[
        str, typer.Option(metavar="start|step:N|DIGEST|RUN", help="Another policy, for paired differences.")
    ] = "",
    protocol: Annotated[
        Literal["paper", "release", "short"], typer.Option(help="The rules by which the suites were played.")
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the evaluations.")] = 0,
    json: Json = False,
) -> None:
    """Print the mean over measured suites.

    The columns are as in the paper's tables. Nothing is played.
    """
    from spade.app.evaluation.averaging import AverageOptions, compute_averages
    from spade.app.screen.evaluations import format_average_table

    found = compute_averages(AverageOptions(_find_folder(where), suite, policy, against, protocol, seed))
    if json:
        print_json(found)
    else:
        show(format_average_table(found))


def _find_folder(where: Path) -> Path:
    from spade.app.rundir import suggest_runs
    from spade.errors import RunError

    if not where.is_dir():
        raise RunError(f"{where}: there is no such folder; {suggest_runs(where)}".rstrip("; "))
    return where


def _tell_json(where: Path, kept: "Sequence[KeptEvaluation]", own: "Sequence[EvaluationRow]") -> None:
    """Print evaluations as JSON. `own` are those of the run's own evaluator, with their figures in `in_run`."""
    others = [{**each._asdict(), "folder": str(each.folder), "in_run": None} for each in kept]
    print_json([*others, *({"folder": str(where), "rules": None, "summary": None, "in_run": each} for each in own)])
