"""A harness of others that asks a real gateway, behind which an engine says what a script has for each seed."""

import json
from contextlib import asynccontextmanager

import pytest

from actors.suites import resolve
from actors.suites.harnesses import HARNESSES, environment
from spade.app.evaluation.harnessed import play_by_harness
from spade.app.evaluation.planned import PlannedEvaluation
from spade.app.evaluation.servers import ServerOptions
from spade.codec import pack_floats, pack_ids
from spade.evaluations import SampleSchedule, open_folder, sample_seed
from spade.protocol import Generated
from spade.seeds import derive
from spade.tokens import Tokenizer
from tests.actors.gateway.clients import gateway_settings, served
from tests.actors.small_services import VERSION
from tests.spade.token_shapes import TOOL_SHAPES

CONTEXT = 400_000


def need(name):
    """Skip where the environment of a harness is not there."""
    if not environment.is_installed(name):
        pytest.skip(f"the harness is not here: spade eval setup {name}")


def packages(name):
    """The folder of a harness's packages."""
    return next((environment.find_folder(name) / "lib").glob("python3.*/site-packages"))


def calls(*made):
    """A message that makes these calls, each a name and its arguments."""
    told = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in made]
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in told)


class Script:
    """The answers of a policy, and of what plays its users, by item and in their order; `default` for all others."""

    def __init__(self, suite, default="Nothing."):
        self._suite = suite
        self._said = {}
        self._default = default

    def add(self, item, agent, user=()):
        seed = sample_seed(self._suite, item, 0, 0)
        for who, answers in (("turn", agent), ("user", user)):
            self._said |= {derive(b"", who, seed, number): text for number, text in enumerate(answers, 1)}

    def says(self, seed):
        return self._said.get(seed, self._default)


def planned(name, data=None):
    """The whole evaluation by the short protocol, one sample an item; for a fixture, outside of trio."""
    need(name)
    suite = HARNESSES[name]
    return resolve(suite, suite.protocol("short"), "0" * 32, 0, data)


def part(plan, names):
    """The same with these items alone."""
    items = {name: plan.items[name] for name in names}
    return plan._replace(
        items=items, scheduled=SampleSchedule({name: each.category for name, each in items.items()}, 1)
    )


async def records(folder, plan, script, data=None):
    """The records of an evaluation whose policy speaks by the script."""
    async with scripted(folder, script) as (config, url):
        suite = HARNESSES[plan.rules.suite]
        exam = PlannedEvaluation(folder, suite, plan, lambda: None, data)
        with open_folder(folder, plan.rules, plan.scheduled) as kept:
            server = ServerOptions(url, "small", "")
            await play_by_harness([(exam, kept)], config, folder / "logs", server, None, lambda _: None)
            return kept.records


@asynccontextmanager
async def scripted(folder, script):
    """A gateway whose engine speaks by the script: its config and the root of its API."""
    next(shape for shape in TOOL_SHAPES if shape.name == "qwen3-2507").build(folder)
    (folder / "config.json").write_text("{}")
    tokenizer = Tokenizer.load(folder)
    config = gateway_settings(
        folder,
        f"engine.context_tokens={CONTEXT}",
        "engine.rows=64",
        "evaluation.in_flight=4",
        "learner.batch_sequences=2",
        "play.group_size=2",
    )

    def answer(request):
        ids = [*tokenizer.encode(script.says(request.seed)), *tokenizer.end_ids]
        return Generated(pack_ids(ids), pack_floats([-0.5] * len(ids)), ((VERSION, len(ids)),), "stop")

    async with served(config, tokenizer, answer=answer) as gateway:
        yield config, f"http://127.0.0.1:{gateway.port}/v1"
