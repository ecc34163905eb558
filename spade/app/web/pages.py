"""The pages: from an address to HTML or an asset."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from spade.app.report.arms import group_arms
from spade.app.report.page import TEMPLATES as REPORT
from spade.app.report.page import make_overview, make_templates
from spade.app.screen.observe import explain
from spade.app.web import lanes
from spade.app.web.following import FollowedRun
from spade.app.web.server import Answer
from spade.errors import SpadeError, format_placed
from spade.text import as_line, format_clock

TEMPLATES = Path(__file__).with_name("templates")
ASSETS = {
    "report.css": (REPORT / "page.css", "text/css; charset=utf-8"),
    "web.css": (TEMPLATES / "web.css", "text/css; charset=utf-8"),
    "web.js": (TEMPLATES / "web.js", "text/javascript; charset=utf-8"),
}

Query = Mapping[str, str]
Context = dict[str, Any]


class Pages:
    """All pages about some runs."""

    def __init__(self, runs: Sequence[FollowedRun], arms: Sequence[str]) -> None:
        self._runs, self._given = runs, arms
        self._templates = make_templates(TEMPLATES)
        self._pages: dict[str, Callable[[Query], Context]] = {"": self._show_overview}

    def render(self, path: str, query: str, number: int) -> Answer:
        """Return the answer to a path below the token. `number` is the number of the runs' state."""
        if path in ASSETS:
            file, kind = ASSETS[path]
            return Answer(file.read_bytes(), kind)
        found = self._pages.get(path)
        try:
            if found is None:
                raise SpadeError(f"{as_line(path, 100)}: no such page")
            context, status = found(dict(parse_qsl(query))), 200
        except (SpadeError, OSError) as error:
            path, context, status = "error", {"why": format_placed(error)}, 404
        template = self._templates.get_template(f"{path or 'overview'}.html")
        head = {"page": path, "number": number, "names": [each.name for each in self._runs]}
        return Answer(template.render(**head, **context).encode(errors="replace"), status=status)

    def _show_overview(self, query: Query) -> Context:
        seen = [each.seen for each in self._runs]
        arms = group_arms([run.name for run in seen], self._given, [run.config for run in seen])
        return {
            **make_overview(seen, arms),
            "nows": [_describe_now(each) for each in self._runs],
            "phases": lanes.PHASES,
            "lane_width": lanes.WIDTH,
        }


def _describe_now(followed: FollowedRun) -> Context:
    """Return the verdict, the waits and the lanes of a run."""
    seen, samples = followed.seen, followed.samples
    live = bool(seen.status and followed.run.holders())
    return {
        "name": followed.name,
        "state": "up" if live else seen.state,
        "verdict": seen.verdict,
        "waits": [as_line(line, 300) for line in explain(seen.status)[:40]] if seen.status and live else [],
        "lanes": lanes.make_lanes(samples) if live else [],
        "span": format_clock(samples[-1].at - samples[0].at) if samples else "",
    }
