"""`spade config check`: what the processes of a run would refuse when they start, found before.

It opens no port, asks no server, downloads nothing and needs no GPU; what only these would show is left out.
"""

import re
from pathlib import Path

from actors import corpus
from actors.design_prompt import fit_prompt
from actors.evaluator import read_programs
from actors.prompts import load_profile
from spade import checkpoints
from spade.config import Config, digest, load
from spade.errors import SpadeError
from spade.gpus import placement
from spade.protocol import DesignJob
from spade.tokens import Tokenizer, dialogues
from spade.transport import keys


def check_config(name: str, overrides: tuple[str, ...]) -> str:
    """A line that says what was found. Raises a group of SpadeErrors, one for each thing that would be refused."""
    config = load(name, overrides)
    found = [f"meaning {digest(config)[:12]}"]
    refused: list[SpadeError] = []
    for look in (_corpus, _programs, _keys, _endpoint, _model):
        try:
            found.append(look(config))
        except SpadeError as error:
            refused.append(error)
    if refused:
        raise ExceptionGroup(f"{name} is refused", refused)
    if gpus := placement(config):
        found.append(f"GPUs: {gpus}")
    return f"{name}: fine, {'; '.join(filter(None, found))}"


_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def _corpus(config: Config) -> str:
    return f"{len(corpus.load(config.design.corpus))} documents"


def _programs(config: Config) -> str:
    return f"{len(read_programs(config))} programs to evaluate on" if config.evaluation.programs else ""


def _keys(config: Config) -> str:
    """Those of this host's clients, and where services listen theirs and the allow-list."""
    if not config.bus.keys:
        return ""
    folder = Path(config.bus.keys)
    keys.client_pair(folder)
    keys.client_name(folder)
    keys.server_public(folder)
    if not config.bus.bind:
        return "keys of a client"
    keys.server_pair(folder)
    names = [grant.name for grant in keys.allowed(folder).values()]
    return f"keys that let in {', '.join(names) or 'nobody'}"


def _endpoint(config: Config) -> str:
    if not config.endpoint.url:
        return ""
    from actors.engines.foreign.endpoint import read_key  # with torch: for who has an endpoint alone

    read_key(config.endpoint.key)
    return f"endpoint {config.endpoint.url}"


def _model(config: Config) -> str:
    """A checkpoint that lies here: its thoughts, and the room of a design's prompt. One on the hub is not looked up."""
    path = config.model.path
    if _HUB_NAME.fullmatch(path) and path != "nano" and not Path(path).is_dir():
        return f"model {path} of the hub"
    tokenizer = Tokenizer.load(checkpoints.resolve(path), thinking=config.model.thinking)
    dialogues(tokenizer, config.play.thoughts)
    profile, document = load_profile(config), corpus.load("builtin")[0]
    room = config.engine.context_tokens - config.design.max_tokens
    for skill in config.run.skills:
        fit_prompt(profile, tokenizer, DesignJob("", 0, 0, skill, 0, 0), document, room)
    return f"model {path}"
