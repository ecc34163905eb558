"""The pages of the live page: return the HTML or the asset of each address."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from learner.advantage import compute_agent_advantages
from replay.inspect.designs import DesignRecords, collect_shown
from replay.ledger.keys import make_arm_prefix, make_chunk_id
from replay.ledger.records import Environment, PlayRecord, Reject
from replay.store import Store
from spade.app.report.arms import group_arms
from spade.app.report.collect import load_decoder, read_transcripts, try_or_note
from spade.app.report.entries import LONGEST_FACT, make_entry
from spade.app.report.gallery import choose_pair, find_children, pick
from spade.app.report.page import TEMPLATES as REPORT
from spade.app.report.page import make_overview, make_templates
from spade.app.report.tables import make_rejections
from spade.app.screen.observe import explain
from spade.app.web import lanes
from spade.app.web.designs import count_reasons, list_rejects, read_rejects
from spade.app.web.environments import list_environments
from spade.app.web.families import make_family
from spade.app.web.following import FollowedRun
from spade.app.web.plays import find_outcome, list_plays, name_arm
from spade.app.web.server import PageAnswer
from spade.app.web.strips import make_strip
from spade.app.web.tables import Query, make_link, read_count
from spade.errors import RunError, SpadeError, format_placed
from spade.protocol import Trajectory
from spade.returns import has_different_returns
from spade.text import as_line, format_clock

TEMPLATES = Path(__file__).with_name("templates")
ASSETS = {
    "report.css": (REPORT / "page.css", "text/css; charset=utf-8"),
    "web.css": (TEMPLATES / "web.css", "text/css; charset=utf-8"),
    "web.js": (TEMPLATES / "web.js", "text/javascript; charset=utf-8"),
}

Context = dict[str, Any]


class Pages:
    """All pages about some runs."""

    def __init__(self, runs: Sequence[FollowedRun], arms: Sequence[str]) -> None:
        self._runs, self._given = runs, arms
        self._templates = make_templates(TEMPLATES)
        self._shows: Mapping[str, Callable[[FollowedRun, Query], Context]] = {
            "": self._show_overview,
            "environments": _show_environments,
            "environment": _show_environment,
            "plays": _show_plays,
            "play": _show_play,
            "designs": _show_designs,
            "reject": _show_reject,
        }

    def render(self, path: str, query: str, number: int) -> PageAnswer:
        """Return the answer to a request. `path` follows the token in the address.

        `number` is the number of the present state of the runs.
        """
        if path in ASSETS:
            file, kind = ASSETS[path]
            return PageAnswer(file.read_bytes(), kind)
        words, template = dict(parse_qsl(query)), f"{path or 'overview'}.html"
        head = {"page": path, "number": number, "names": [each.name for each in self._runs], "run": 0}
        try:
            if path not in self._shows:
                raise RunError(f"{as_line(path, LONGEST_FACT)}: no such page")
            head["run"] = place = read_count(words, "run")
            if place >= len(self._runs):
                raise RunError(f"run {place}: this page has {len(self._runs)} runs")
            context, status = self._shows[path](self._runs[place], words), 200
        except (SpadeError, OSError) as error:
            template, context, status = "error.html", {"why": format_placed(error)}, 404
        text = self._templates.get_template(template).render(**head, **context, sort=words.get("sort", ""))
        return PageAnswer(text.encode(errors="replace"), status=status)

    def _show_overview(self, _: FollowedRun, __: Query) -> Context:
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


def _make_missing_error(followed: FollowedRun, id: str, what: str) -> RunError:
    return RunError(f"{as_line(id, LONGEST_FACT)}: {followed.name} has no such {what}")


def _show_environments(followed: FollowedRun, query: Query) -> Context:
    environments, steps = followed.environments, followed.seen.designs.steps
    children = find_children(tuple(environments.values()))
    table = list_environments(environments, steps, children, query)
    return {"heading": "Environments", "table": table, "remark": ""}


def _show_environment(followed: FollowedRun, query: Query) -> Context:
    id = query.get("id", "")
    if id not in followed.environments:
        raise _make_missing_error(followed, id, "environment")
    with followed.reading() as store:
        shown = collect_shown(store, followed.environments[id], pick)
    seen, notes = followed.seen, list[str]()
    designs = DesignRecords(digest=followed.digest, shown=(shown,))
    transcripts = try_or_note(notes, lambda: read_transcripts(followed.run, followed.config, designs)) or {}
    children = find_children(tuple(followed.environments.values()))
    own = {"run": query.get("run", "")}

    def link(other: str) -> str:
        return make_link(own, id=other) if other in followed.environments else ""

    entry = make_entry(msgspec.structs.replace(seen, transcripts=transcripts), shown, children.get(id, []), link)
    return {
        "entry": entry,
        "tree": make_family(id, followed.environments, children, link),
        "plays": f"plays{make_link(own, environment=id)}",
        "shown": [(f"play{make_link(own, id=play.id)}", name_arm(play)) for play in choose_pair(shown.plays)],
        "note": "; ".join(notes),
    }


def _show_plays(followed: FollowedRun, query: Query) -> Context:
    with followed.reading() as store:
        table, remark = list_plays(store, followed.config, query)
    return {"heading": "Plays", "table": table, "remark": remark}


def _show_play(followed: FollowedRun, query: Query) -> Context:
    id = query.get("id", "")
    with followed.reading() as store:
        play = store.get("plays", id, PlayRecord)
        if play is None:
            raise _make_missing_error(followed, id, "play")
        (environment,) = store.get_many("environments", [play.environment], Environment)
        facts = _list_play_facts(store, play, followed.config.play.win_return)
        strip = _read_strip(followed, store, id)
    own = {"run": query.get("run", "")}
    return {
        **strip,
        "heading": f"{id} {name_arm(play)}",
        "above": (f"environment{make_link(own, id=environment.id)}", as_line(environment.name, LONGEST_FACT)),
        "facts": facts,
    }


def _list_play_facts(store: Store, play: PlayRecord, least: float) -> list[tuple[str, str]]:
    ended = "ended by the program" if play.terminated else "cut off"
    known = (
        ("outcome", find_outcome(play, least)), ("return", f"{play.episode_return:g}, {ended}"),
        ("advantage", _describe_advantage(store, play)), ("instance", str(play.index)), ("turns", str(play.turns)),
        ("sampled tokens", f"{play.sampled:,}"), ("seconds", f"{play.seconds:.1f}"),
        ("oldest version", str(play.version)), ("played by", play.holder), ("fault", play.fault),
    )  # fmt: skip
    return [(name, as_line(value, LONGEST_FACT)) for name, value in known if value]


def _describe_advantage(store: Store, play: PlayRecord) -> str:
    """Describe the advantage of a play within its chunk. The learner gives it to every sampled token of the play."""
    if play.hinted:
        return "none, because hinted plays are not trained"
    if play.state != "finished":
        return ""
    prefix = make_arm_prefix(make_chunk_id(play.environment, play.chunk), hinted=False)
    chunk = [each for each in store.scan("plays", PlayRecord, prefix=prefix) if each.state == "finished"]
    returns = [each.episode_return for each in chunk]
    if not has_different_returns(returns):
        return "none, because the returns of its chunk are equal"
    return f"{compute_agent_advantages(returns)[[each.id for each in chunk].index(play.id)]:+.2f}"


def _read_strip(followed: FollowedRun, store: Store, key: str) -> Context:
    """Return the tokens of a trajectory, or a note if they cannot be read."""
    trajectory = store.get("trajectories", key, Trajectory)
    if trajectory is None:
        return {"strip": None, "note": "Its tokens are not kept: retention deleted them, or there never were any."}
    notes = list[str]()
    decode = try_or_note(notes, lambda: load_decoder(followed.run, followed.config, followed.digest))
    return {"strip": None if decode is None else make_strip(trajectory, decode), "note": "; ".join(notes)}


def _show_designs(followed: FollowedRun, query: Query) -> Context:
    with followed.reading() as store:
        rejects = read_rejects(store)
    reasons, examples = count_reasons(rejects)
    designs = msgspec.structs.replace(followed.seen.designs, reasons=reasons, examples=examples)
    counted = make_rejections(followed.name, [msgspec.structs.replace(followed.seen, designs=designs)])
    return {"heading": "Rejected designs", "counted": counted, "table": list_rejects(rejects, query), "remark": ""}


def _show_reject(followed: FollowedRun, query: Query) -> Context:
    key = query.get("id", "")
    with followed.reading() as store:
        reject = store.get("rejects", key, Reject)
        if reject is None:
            raise _make_missing_error(followed, key, "rejected attempt")
        strip = _read_strip(followed, store, key)
    known = (
        ("stage", reject.stage), ("reason", reject.reason), ("skill", reject.skill), ("document", reject.document),
        ("setting", reject.setting), ("variant", reject.variant), ("shown", ", ".join(reject.shown)),
    )  # fmt: skip
    facts = [(name, as_line(value, 1_000)) for name, value in known if value]
    above = f"designs{make_link({'run': query.get('run', '')})}", "rejected designs"
    return {**strip, "heading": key, "above": above, "facts": facts, "completion": reject.completion}
