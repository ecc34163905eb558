"""`spade config`: list recipes, show and compare configs, and check a config as the processes of a run would."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json, Set
from spade.app.printing import print_json, say, show
from spade.errors import SpadeError
from spade.processes.memory import count_machine_bytes
from spade.text import as_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spade.app.screen.console import Screen
    from spade.config import Config
    from spade.config.described import Setting

COMMENT_WIDTH = 100  # characters
_GPU_FILES = "/dev/nvidiactl", "/dev/kfd"  # files of the drivers of NVIDIA and AMD


def ls(json: Json = False) -> None:
    """List the shipped recipes."""
    from spade.config import list_recipes

    recipes = list_recipes().items()
    found = {name: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for name, path in recipes}
    if json:
        print_json(found)
        return
    width = max(map(len, found))
    for name, first in found.items():
        say(f"{name:<{width}} {first}")


def show_config(
    config: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run directory.")] = "nano",
    set_: Set = None,
    help_fields: Annotated[bool, typer.Option("--help-fields", help="Print what each setting means, too.")] = False,
    json: Json = False,
) -> None:
    """Print a config with all settings, defaults included. --json prints only the values."""
    from spade.app.rundir import RunDir
    from spade.config import dump

    resolved = _load(config, tuple(set_ or ()))
    if json:
        print_json(resolved)
        return
    if Path(config).is_dir() and (origin := RunDir(Path(config)).origin):
        show(f"# {as_line(str(origin))}")
    if help_fields:
        _show_documented(resolved)
    else:
        show(dump(resolved).removesuffix("\n"))


def _show_documented(config: "Config") -> None:
    """Print every setting as TOML, below a comment with its documentation and its allowed values."""
    from spade.app.screen.console import Screen
    from spade.config.described import list_sections

    screen = Screen()
    for section in list_sections():
        screen.tell((f"[{section.name}]", "bold"))
        for setting in section.settings:
            _show_setting(screen, setting, getattr(getattr(config, section.name), setting.name))


def _show_setting(screen: "Screen", setting: "Setting", value: object) -> None:
    import tomli_w

    from spade.config import format_inline
    from spade.config.allowed import describe_allowed

    for words in textwrap.wrap(f"{setting.doc} Values: {describe_allowed(setting.type)}.", COMMENT_WIDTH - 2):
        screen.tell((f"# {words}", "dim"))
    if value is None:
        written = f"# {setting.name} is left out"
    elif isinstance(value, dict):  # tomli_w would write a table of settings as a section
        written = f"{setting.name} = {format_inline(value)}"
    else:
        written = tomli_w.dumps({setting.name: value})
    for each in written.splitlines():
        screen.tell(each)
    screen.tell()


def _load(name: str, overrides: tuple[str, ...] = ()) -> "Config":
    """Load a recipe, a TOML file or a run's config. If it is missing, the ConfigError suggests similar names."""
    from spade.app.rundir import suggest_runs
    from spade.config import list_recipes, load
    from spade.errors import ConfigError

    try:
        return load(name, overrides)
    except ConfigError as error:
        near = "" if name in list_recipes() or Path(name).exists() else suggest_runs(name)
        raise ConfigError(f"{error}; {near}".rstrip("; ")) from None


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A recipe, a TOML file or a run directory.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The config to compare A with.")],
    json: Json = False,
) -> None:
    """Print the settings that differ, each with its values in A and B."""
    from spade.config import list_differences

    found = list_differences(_load(a), _load(b))
    if json:
        print_json({setting: {"a": one, "b": other} for setting, (one, other) in found.items()})
        return
    if not found:
        say(f"{a} and {b} have the same settings")
    width = max(map(len, found), default=0)
    shown = [(setting, _format_value(one), _format_value(other)) for setting, (one, other) in found.items()]
    wide = max((len(one) for _, one, _ in shown), default=0)
    for setting, one, other in shown:
        say(f"{setting:<{width}}  {one:<{wide}}  {other}")


def _format_value(value: object) -> str:
    """Format a value in one line as TOML writes it."""
    import msgspec

    return "left out" if value is None else msgspec.json.encode(value).decode()


def check(
    config: Annotated[str, typer.Argument(help="A recipe or a TOML file.")], json: Json = False, set_: Set = None
) -> None:
    """Check a config and the files it names.

    Prints every fault that would stop a process at its start: in the corpus, evaluation programs, keys, a checkpoint
    folder, the tokens left for a design prompt. Opens no port, asks no server, downloads nothing and needs no GPU.

    Ends with an estimate of the memory that engines and learner take, if the model is on this machine.
    """
    overrides = tuple(set_ or ())
    checked, memory = check_config(config, overrides), _estimate_memory(config, overrides)
    if json:
        print_json({"checked": checked, "memory": [*memory]})
        return
    say(checked)
    for line in memory:
        say(line)


def check_config(name: str, overrides: tuple[str, ...]) -> str:
    """Check a config and return a line about it. Raises a group of SpadeErrors, one for each fault."""
    from spade.config import compute_digest, load, read_merged
    from spade.processes.gpus import describe_placement

    config = load(name, overrides)
    merged = read_merged(name)
    found = [f"digest {compute_digest(config)[:12]} of [run], [model] and [reward]"]
    refused: list[SpadeError] = []
    for look in (
        _check_environments,
        _describe_short_lease,
        _check_held_out,
        _check_embedding,
        _trackers,
        _check_keys,
        _check_endpoint,
        _check_model,
    ):
        try:
            found.append(look(config))
        except SpadeError as error:
            refused.append(type(error)(merged.name_files(str(error))))
    if refused:
        raise ExceptionGroup(f"{name} is refused", refused)
    if gpus := describe_placement(config):
        found.append(f"GPUs: {gpus}")
    return f"{name}: fine, {'; '.join(filter(None, found))}"


def _estimate_memory(name: str, overrides: tuple[str, ...]) -> "Iterator[str]":
    """Yield the lines of an estimate of the memory that a run takes.

    If the checkpoint is missing or does not state its sizes, yield one line with the reason why nothing is estimated.
    """
    from spade.app.models.memory import estimate, format_memory_lines, read_sizes
    from spade.config import load
    from spade.policy import hub, model_folder

    config = load(name, overrides)
    if hub.is_name(config.model.path) and not Path(config.model.path).is_dir():
        yield "memory: not estimated, since the model is not on this machine"
        return
    try:
        sizes = read_sizes(model_folder.resolve(config.model.path))
    except SpadeError as error:
        yield f"memory: not estimated: {error}"
        return
    yield f"memory, estimated for {sizes.parameters / 1e6:,.1f} million parameters:"
    yield from format_memory_lines(estimate(config, sizes), list(_measure_memory()))


def _measure_memory() -> "Iterator[str]":
    """Yield the memory of the machine, and of each GPU that torch sees."""
    from spade.app.models.memory import GIB

    yield f"{count_machine_bytes() / GIB:.0f} GiB in this machine"
    if not any(map(os.path.exists, _GPU_FILES)):  # torch takes seconds to import
        return
    import torch

    for index in range(torch.cuda.device_count()):
        yield f"{torch.cuda.get_device_properties(index).total_memory / GIB:.0f} GiB in GPU {index}"


def _check_environments(config: "Config") -> str:
    programs = 0
    if config.design.source == "pool" or config.design.seeds:
        from spade.app.supervisor.pools import read_config_programs

        programs = sum(1 for _ in read_config_programs(config))
    if config.design.source == "pool":
        return f"{programs} programs in the pool"
    from actors import corpus

    grounds = corpus.load_grounds(config)
    seeds = f"{programs} seeds, " if programs else ""
    return f"{seeds}{len(grounds.documents)} documents (digest {grounds.digest[:12]})"


def _describe_short_lease(config: "Config") -> str:
    """Describe a lease of plays that voids plays of programs which keep the sandbox's limits. Returns "" otherwise."""
    begin_s = config.sandbox.load_s + config.sandbox.step_s
    if config.play.program_s >= begin_s:
        return ""
    return (
        f"caution: a program has {config.play.program_s:g} s by the clock for its answers in a play (half of "
        f"play.lease_s), but may need {begin_s:g} s to begin (sandbox.load_s + sandbox.step_s); plays of slow programs "
        "are void"
    )


def _check_embedding(config: "Config") -> str:
    """Check that the packages for an embedding model are installed. The model itself may still need a download."""
    from spade.extras import require

    evaluation = config.evaluation
    if not evaluation.diversity_programs or evaluation.embedding == "tfidf":
        return ""
    require("measures")
    return f"diversity by {evaluation.embedding}"


def _trackers(config: "Config") -> str:
    """Check that the packages of the trackers are installed."""
    from spade.extras import require

    for choice in config.track.choices:
        require(choice.kind)
    return f"trackers of {', '.join(config.track.to)}" if config.track.to else ""


def _check_held_out(config: "Config") -> str:
    from actors.suites.held_out import read_held_out

    held_out = read_held_out(config)
    if held_out is None:
        return ""
    return f"{held_out.items} items of {held_out.suite or 'programs'} to evaluate on"


def _check_keys(config: "Config") -> str:
    """Check the keys of this host's clients. If services listen here, check their keys and the allow-list too."""
    if not config.bus.keys:
        return ""
    from spade.transport import keys

    folder = Path(config.bus.keys)
    keys.read_client_pair(folder)
    keys.read_client_name(folder)
    keys.read_server_public(folder)
    if not config.bus.bind:
        return "keys of a client"
    keys.read_server_pair(folder)
    names = [grant.name for grant in keys.read_allowed(folder).values()]
    return f"keys that let in {', '.join(names) or 'nobody'}"


def _check_endpoint(config: "Config") -> str:
    if not config.endpoint.url:
        return ""
    from spade.keyfiles import describe_exposure, read_key

    read_key(config.endpoint.key, "endpoint.key")
    exposed = describe_exposure(config.endpoint.key)
    return f"endpoint {config.endpoint.url}" + (f"; {exposed}" if exposed else "")


def _check_model(config: "Config") -> str:
    """Check a checkpoint folder: its files, its thought tokens, and whether a design prompt fits if the run designs.

    A hub name is not looked up.
    """
    from actors import corpus
    from actors.corpus.settings import BUILTIN
    from actors.play.domains import load_chat_formats, load_profile
    from actors.suites import SUITES
    from actors.text.design_prompt import fit_prompt
    from spade.policy import hub, model_folder
    from spade.policy.checkpoint_files import check_checkpoint
    from spade.protocol import DesignJob
    from spade.tokens import make_dialogues

    path = config.model.path
    if hub.is_name(path) and path not in model_folder.MADE_HERE and not Path(path).is_dir():
        return f"model {path} of the hub"
    tokenizer = check_checkpoint(model_folder.resolve(path), config)
    make_dialogues(tokenizer, config.play.thoughts)
    load_chat_formats(config, tokenizer)
    measured = config.evaluation.measured
    if suite := SUITES.get(measured.name):
        suite.chat_formats(suite.protocol(measured.protocol), tokenizer)
    if config.design.source == "pool":
        return f"model {path}"
    profile, document = load_profile(config), corpus.load("builtin", config.run.domain)[0]
    situation = profile.situation(BUILTIN, 0)
    room = config.engine.context_tokens - config.design.max_tokens
    for skill in config.run.skills:
        fit_prompt(profile, tokenizer, DesignJob("", 0, 0, skill, 0, 0), document, room, situation)
    return f"model {path}"
