"""The cards of published models and corpora, and the curves of a run as pictures."""

import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import jinja2
import msgspec
import trio

from actors.corpus import load as load_corpus
from spade.app.models.licences import find_licence
from spade.app.report import drawing
from spade.app.report.arms import Arm
from spade.app.report.charts import Chart, draw_chapters
from spade.app.report.collect import SeenRun, collect
from spade.app.report.curriculum import pair_designs
from spade.app.report.figures import RunFigures
from spade.app.report.page import make_templates
from spade.app.report.tables import list_suites
from spade.app.rundir import RunDir
from spade.app.screen.observe import try_read_status
from spade.app.supervisor.kept import KeptPolicy
from spade.config import PATH_SETTINGS, Config, list_differences
from spade.policy import hub
from spade.policy.model_folder import SHIPPED, strip_commit
from spade.text import as_line

_TEMPLATES = Path(__file__).with_name("templates")
_CARDS = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    trim_blocks=True, autoescape=False,
)  # fmt: skip  # Markdown
_CURVES = "curves"
"""The folder of the pictures."""
_SECTIONS = (
    "run", "model", "design", "pool", "play", "tools", "reward", "loss", "learner", "evaluation", "sandbox", "audit",
)  # fmt: skip
"""Sections that say what was trained. The others say where and how fast, and may hold addresses."""
_LONGEST_VALUE = 200
_MOST_FIELDS = 50
_UNFIT = re.compile(r"[^a-z0-9]+")


def write_model_card(folder: Path, run: RunDir, policy: KeptPolicy, digest: str, licence: str) -> None:
    """Write the card of a policy and its pictures into a folder. If `licence` is "", look for the base model's."""
    name = as_line(run.path.name, 80)
    seen = collect(run, name, trio.run(try_read_status, run), "", most=0)
    config, origin = run.config(), run.origin
    started = origin.model if origin else config.model.path
    model = strip_commit(started)
    charts = _draw_learning(seen)
    pictures = {f"{_CURVES}/{_UNFIT.sub('-', chart.title.lower()).strip('-')}.svg": chart for chart in charts}
    for path, chart in pictures.items():
        (folder / path).parent.mkdir(exist_ok=True)
        text = make_templates(_TEMPLATES).get_template("picture.svg").render(chart=chart, drawing=drawing)
        (folder / path).write_text(text, encoding="utf-8")
    facts = {
        "run": name,
        "step": policy.step,
        "digest": digest,
        "base": _name_file(model),
        "hub_base": hub.is_name(model) and model not in SHIPPED and not Path(model).is_dir(),
        "licence": licence or find_licence(started),
        "config": config,
        "corpus": _name_file(config.design.corpus),
        "pool": _name_file(config.pool.source),
        "settings": _list_settings(config),
        "pictures": pictures,
        "suites": list_suites(seen),
        "environments": len(seen.designs.environments),
        "record": seen.record,
        "origin": origin,
    }
    _write_card(folder, "model.md", facts)


def write_corpus_card(folder: Path, corpus: Path, licence: str) -> None:
    """Copy a corpus, a JSON Lines file, into a folder and write its card. Raises ConfigError if it cannot be read."""
    documents = load_corpus(str(corpus))
    fields = Counter(documents[index].field for index in range(len(documents)))
    shutil.copyfile(corpus, folder / "train.jsonl")
    facts = {
        "name": as_line(corpus.stem, 80), "digest": documents.digest, "licence": licence, "count": len(documents),
        "fields": [(_make_cell(field), count) for field, count in fields.most_common(_MOST_FIELDS)],
    }  # fmt: skip
    _write_card(folder, "corpus.md", facts)


def _write_card(folder: Path, template: str, facts: Mapping[str, object]) -> None:
    text = _CARDS.get_template(template).render(facts)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _draw_learning(seen: SeenRun) -> tuple[Chart, ...]:
    """Draw the curves of the first chapter of a report: what the run learned."""
    figures = RunFigures(seen.rows, pair_designs(seen.designs.environments, seen.designs.steps))
    return draw_chapters([Arm(seen.name, (0,))], [figures])[0].charts


def _list_settings(config: Config) -> list[tuple[str, str]]:
    """List the settings that say what was trained and differ from their defaults. Of a path, only the name is shown."""
    changed = list_differences(Config(), config)
    return [
        (setting, _make_cell(_name_file(value) if setting in PATH_SETTINGS else msgspec.json.encode(value).decode()))
        for setting, (_, value) in changed.items()
        if setting.partition(".")[0] in _SECTIONS
    ]


def _name_file(path: str) -> str:
    """Return the last part of an absolute path. Other texts stay, such as names of the hub."""
    kind, colon, place = path.partition(":")
    if colon:
        return f"{kind}:{_name_file(place)}"
    return Path(path).name if Path(path).is_absolute() else path


def _make_cell(text: str) -> str:
    """Make a text fit into a cell of a Markdown table."""
    return as_line(text, _LONGEST_VALUE).replace("|", "\\|").replace("`", "'")
