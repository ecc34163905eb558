"""The card of a published policy: its run in words, with the curves as pictures."""

import re
from pathlib import Path

import jinja2
import msgspec

from spade.app.report import drawing
from spade.app.report.arms import Arm
from spade.app.report.charts import Chart, draw_chapters
from spade.app.report.collect import SavedRun
from spade.app.report.curriculum import pair_designs
from spade.app.report.figures import RunFigures
from spade.app.report.page import TEMPLATES, make_templates
from spade.app.report.tables import list_suites
from spade.app.rundir import RunDir
from spade.config import PATH_SETTINGS, Config, hide_folders, list_differences, list_published_settings
from spade.policy import hub
from spade.policy.model_folder import SHIPPED, find_licence, strip_commit
from spade.text import as_line

_CARDS = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    trim_blocks=True, autoescape=False,
)  # fmt: skip  # the cards are Markdown, so HTML escaping would spoil them
_CARDS.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # TOML and YAML do not accept surrogate pairs
_CURVES = "curves"
"""The folder with the pictures of the curves, beside the card."""
_LONGEST_VALUE = 200
_UNFIT = re.compile(r"[^a-z0-9]+")


def write_model_card(folder: Path, seen: SavedRun, run: RunDir, step: int, digest: str, licence: str) -> None:
    """Write the card of a policy and its pictures into a folder. If `licence` is "", look for the base model's licence.

    The policy was made after the learner step `step`.
    """
    config, origin = run.config(), run.origin
    started = origin.model if origin else config.model.path
    model = strip_commit(started)
    charts = _draw_learning(seen)
    pictures = {f"{_CURVES}/{_UNFIT.sub('-', chart.title.lower()).strip('-')}.svg": chart for chart in charts}
    for path, chart in pictures.items():
        (folder / path).parent.mkdir(exist_ok=True)
        text = make_templates().get_template("picture.svg").render(chart=chart, drawing=drawing)
        (folder / path).write_text(text, encoding="utf-8")
    facts = {
        "run": seen.name,
        "step": step,
        "digest": digest,
        "base": hide_folders(model),
        "hub_base": hub.is_name(model) and model not in SHIPPED and not Path(model).is_dir(),
        "licence": licence or find_licence(started, ask=True),
        "config": config,
        "corpus": hide_folders(config.design.corpus),
        "pool": hide_folders(config.pool.source),
        "settings": _list_settings(config),
        "pictures": pictures,
        "suites": [row._replace(suite=hide_folders(row.suite)) for row in list_suites(seen)],
        "environments": len(seen.designs.environments),
        "record": seen.record,
        "origin": origin,
    }
    (folder / "README.md").write_text(_CARDS.get_template("model.md").render(facts), encoding="utf-8")


def _draw_learning(seen: SavedRun) -> tuple[Chart, ...]:
    """Draw the curves of the first chapter of a report: what the run learned."""
    figures = RunFigures(seen.rows, pair_designs(seen.designs.environments, seen.designs.steps))
    return draw_chapters([Arm(seen.name, (0,))], [figures])[0].charts


def _list_settings(config: Config) -> list[tuple[str, str]]:
    """List the settings that say what was trained and differ from their defaults."""
    published = list_published_settings(config)
    return [
        (setting, _make_cell(value if setting in PATH_SETTINGS else msgspec.json.encode(value).decode()))
        for setting in list_differences(Config(), config)
        if (value := published.get(setting)) is not None
    ]


def _make_cell(text: str) -> str:
    """Make a text fit into a cell of a Markdown table."""
    return as_line(text, _LONGEST_VALUE).replace("|", "\\|").replace("`", "'")
