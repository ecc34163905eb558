"""Build the tree of commands and run the command line. Heavy modules are imported only if a command needs them."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from enum import IntEnum
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from spade import progress
from spade.app.commands import (
    actors,
    config,
    corpus,
    doctor,
    evaluation,
    experiment,
    keys,
    model,
    nano,
    pool,
    serve,
    stop,
    up,
)
from spade.app.commands.cluster import template
from spade.app.commands.env import export, play, programs, push, stats
from spade.app.commands.look import profile, report, status, top, track, web, why
from spade.app.commands.replay import batch, lineage, store, verify
from spade.app.printing import complain, open_streams, say
from spade.errors import SpadeError, format_placed
from spade.processes import ending, logs

Commands = dict[str, Callable[..., None]]

COMMANDS: Commands = {
    "up": up.up,
    "status": status.status,
    "why": why.why,
    "profile": profile.profile,
    "stop": stop.stop,
    "top": top.top,
    "report": report.report,
    "web": web.web,
    "track": track.track,
    "serve": serve.serve,
    "doctor": doctor.doctor,
}
GROUPS: dict[str, tuple[str, Commands]] = {
    "actors": (
        "Add actors to a run, scale, list and drain them.",
        {"up": up.actors_up, "scale": actors.scale, "ls": actors.ls, "drain": actors.drain},
    ),
    "learner": ("Start the learner of a run.", {"up": up.learner_up}),
    "replay": (
        "Start the replay service; look into a run's store.",
        {
            "up": up.replay_up,
            "stats": store.stats,
            "verify": verify.verify,
            "lineage": lineage.lineage,
            "batch": batch.batch,
            "export": store.export,
            "compact": store.compact,
            "import": store.import_run,
        },
    ),
    "cluster": ("Write files for the schedulers of clusters.", {"template": template.template}),
    "config": (
        "List, show, compare and check configs.",
        {"ls": config.ls, "show": config.show_config, "diff": config.diff, "check": config.check},
    ),
    "corpus": (
        "Build, show and publish corpora of documents.",
        {"build": corpus.build, "show": corpus.show_corpus, "push": corpus.push},
    ),
    "env": (
        "List, show, check, play, export and publish environments.",
        {
            "ls": programs.ls,
            "show": programs.show,
            "stats": stats.stats,
            "check": programs.check,
            "play": play.play,
            "export": export.export,
            "push": push.push,
        },
    ),
    "pool": (
        "Make, list, check and copy environment pools.",
        {
            "make": pool.make,
            "ls": pool.ls,
            "check": pool.check,
            "import": pool.import_pool,
            "export": pool.export,
            "demonstrate": pool.demonstrate,
        },
    ),
    "eval": (
        "Measure a policy on suites; list and average evaluations.",
        {
            "run": evaluation.run,
            "ls": evaluation.ls,
            "show": evaluation.show_evaluations,
            "average": evaluation.average,
            "setup": evaluation.setup,
        },
    ),
    "experiment": (
        "Run a grid of recipes and seeds; show its table.",
        {"run": experiment.run, "table": experiment.table},
    ),
    "model": (
        "Import foreign models; export and publish models of a run.",
        {"import": model.import_model, "export": model.export, "best": model.export_best, "push": model.push},
    ),
    "nano": ("Make and measure the embedded nano model.", {"build": nano.build, "report": nano.measure}),
    "keys": ("Make and list keys of hosts that join over a network.", {"new": keys.new, "ls": keys.ls}),
}


class _RunsByDefault(TyperGroup):
    """A command group with the default command `run`: `spade eval …` means `spade eval run …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `run` if the first word is not a command."""
        named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if named else ["run", *args])


def _make_typer(help_text: str, commands: Commands, completion: bool = False) -> typer.Typer:
    """Make a group of commands. `completion` adds the options that install completion in a shell."""
    group = typer.Typer(
        cls=_RunsByDefault if "run" in commands else TyperGroup,
        help=help_text,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name, command in commands.items():
        group.command(name)(command)
    return group


def _print_version(asked: bool) -> None:
    """Print the version of the package and end the command."""
    if asked:
        say(f"spade {metadata.version('spade-rl')}")
        raise typer.Exit


def _take_options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declare the options that may stand before the command's name."""


_SUMMARY = "Self-play for language models: one policy designs executable environments and learns to play them."
app = _make_typer(_SUMMARY, COMMANDS, completion=True)
app.callback(help=_SUMMARY)(_take_options)
for name, (help_text, commands) in GROUPS.items():
    app.add_typer(_make_typer(help_text, commands), name=name)


class ExitCode(IntEnum):
    """The exit codes of all commands (docs/commands.md)."""

    DONE = 0
    FAILED = 1
    MISTYPED = 2
    INTERRUPTED = ending.INTERRUPTED


def main() -> None:
    """Run the `spade` command, and exit with its ExitCode."""
    # Imported modules stay in memory, so the garbage collector need not look at them often. With its default
    # threshold it takes a fifth of a command's time.
    gc.set_threshold(50_000)
    try:
        _run()
    except SystemExit:
        if ending.was_interrupted():
            sys.exit(ExitCode.INTERRUPTED)
        raise


def _run() -> None:
    """Run the command. Prints a SpadeError or OSError as one line."""
    open_streams()
    logs.warn_plainly()
    if sys.stdout.isatty() and "--json" not in sys.argv:
        progress.set_display(_display_progress)
    try:
        try:
            app(prog_name="spade")  # scripts for shell completion contain this name, also under `python -m spade`
        finally:
            sys.stdout.flush()  # flush here, so that a failed write is reported below like other errors
    except* BrokenPipeError:  # the reader closed the pipe
        logs.forget_unwritten()
        sys.exit(ExitCode.FAILED)
    except* (SpadeError, OSError) as errors:
        for line in dict.fromkeys(_format_lines(errors)):
            complain(line)
        logs.forget_unwritten()
        sys.exit(ExitCode.FAILED)
    except* KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _display_progress(what: str, total: float | None, count: Callable[[], float]) -> AbstractContextManager[object]:
    from spade.app.commands.progress import ProgressBar  # imports rich

    return ProgressBar(what, total, count)


def _format_lines(errors: BaseExceptionGroup[SpadeError | OSError]) -> Iterator[str]:
    """Yield one line for each error, followed by the error's notes."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _format_lines(error)
            continue
        yield f"spade: {format_placed(error)}"
        yield from (line for note in getattr(error, "__notes__", ()) for line in note.splitlines())


if __name__ == "__main__":
    main()
