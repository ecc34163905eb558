"""The cards of exported environments and corpora: README files that say what a folder holds and where it is from."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2

from actors.corpus import load as load_corpus
from spade.config import Config, describe_author, hide_folders
from spade.policy.model_folder import find_licence
from spade.text import as_line

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    # The output is Markdown and TOML, not HTML, and a run's config has checked the values. So nothing is escaped.
    autoescape=False,
)

_TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # TOML and YAML do not accept surrogate pairs
_MOST_FIELDS = 50


def render(template: str, config: Config, **values: Any) -> str:
    """Render a template about environments of a run. `config` is the run's config."""
    author, licence = _describe_origin(config), _describe_licence(config)
    return _TEMPLATES.get_template(template).render(config=config, author=author, licence=licence, **values)


def write_corpus(folder: Path, corpus: Path, licence: str) -> None:
    """Copy a corpus, a JSON Lines file, into a folder and write its card. Raises ConfigError if it cannot be read."""
    documents = load_corpus(str(corpus))
    fields = Counter(documents[index].field for index in range(len(documents)))
    shutil.copyfile(corpus, folder / "train.jsonl")
    text = _TEMPLATES.get_template("corpus.md").render(
        name=as_line(corpus.stem, 80), digest=documents.digest, licence=licence, count=len(documents),
        fields=[(as_line(field, 80).replace("|", "\\|"), count) for field, count in fields.most_common(_MOST_FIELDS)],
    )  # fmt: skip
    (folder / "README.md").write_text(text, encoding="utf-8")


def _describe_origin(config: Config) -> str:
    if config.design.source == "pool":
        return f"They are from the pool `{hide_folders(config.pool.source)}`."
    return f"Their programs were written by {describe_author(config)}."


def _describe_licence(config: Config) -> str:
    own = config.design.source == "model" and not config.endpoint.serves("designer")
    if own and (known := find_licence(config.model.path)):
        return f"The licence of the model that wrote the programs is `{known}`; the licence of the documents may apply."
    return "No licence of the programs is stated: the licence of the model and of the documents may apply."
