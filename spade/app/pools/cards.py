"""The cards of exported environments: README files that say what a folder holds and where it is from."""

from pathlib import Path
from typing import Any

import jinja2

from spade.app.models.licences import read_licence
from spade.app.supervisor.pools import describe_author
from spade.config import Config

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    autoescape=False,  # Markdown and TOML, of values that a run's config has checked
)


def render(template: str, config: Config, **values: Any) -> str:
    """Render a template about environments of a run with this config."""
    author, licence = _describe_origin(config), _describe_licence(config)
    return _TEMPLATES.get_template(template).render(config=config, author=author, licence=licence, **values)


def _describe_origin(config: Config) -> str:
    if config.design.source == "pool":
        return f"They are from the pool `{config.pool.source}`."
    return f"Their programs were written by a policy that began as the model `{describe_author(config)}`."


def _describe_licence(config: Config) -> str:
    known = config.design.source == "model" and read_licence(config.model.path)
    if known:
        return f"The licence of the model that wrote the programs is `{known}`; the licence of the documents may apply."
    return "No licence of the programs is stated: the licence of the model and of the documents may apply."
