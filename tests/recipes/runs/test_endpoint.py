"""The rows in which another model designs, at nano size: a server of the nano model stands for that model.

`frozen-designer-30b` at nano size is `nano-no-designer-training` with an endpoint.
"""

import pytest

from actors.engines.torch.engine import TorchEngine
from spade.config import Engine
from spade.policy.model import compute_parameters_digest
from spade.policy.model_folder import resolve
from spade.pools import list_names, read_program
from spade.protocol import Weights
from spade.tokens import Tokenizer
from tests.actors.engines.completions_server import completions
from tests.recipes.small_runs import hinted, play, processes, spade, trained_roles


@pytest.fixture(scope="module")
def url():
    """The API of a server of the nano model."""
    folder = resolve("nano")
    weights = Weights(1, 0, compute_parameters_digest(folder), str(folder))
    engine = TorchEngine(weights, Engine(rows=8, context_tokens=768, kv_bytes=1 << 28, device="cpu"), "float32")
    with completions(engine, Tokenizer.load(folder)) as server:
        yield server.url


def test_a_frozen_designer_is_not_trained_and_no_design_is_wasted(tmp_path, url):
    found = play(tmp_path, "nano-no-designer-training", f"endpoint.url={url}", steps=2)
    assert any(environment.score is not None for environment in found.environments.values())
    assert trained_roles(found) == {"agent"}
    assert hinted(found)  # the memory shows the programs of the highest regret
    assert found.counters.designer_trainable == 0
    assert "endpoint-0" in processes(tmp_path / "nano-no-designer-training")


def test_an_endpoint_writes_a_pool_that_hides_its_address_and_no_designer_or_engine_runs(tmp_path, url):
    spade(tmp_path, "pool", "make", "nano", "--count", "4", "-o", "made", "--set", f"endpoint.url={url}")
    made = tmp_path / "made"
    programs = [read_program(made, name) for name in list_names(made)]
    assert len(programs) == 4
    assert all(program.origin.endswith("written by a model behind an endpoint") for program in programs)
    assert not any(name.startswith("engine") for name in processes(made / ".make"))
    found = play(tmp_path, "nano-fixed-pool", "pool.source=folder:made", steps=1)
    assert found.environments
    assert {environment.program for environment in found.environments.values()} <= set(list_names(made))
    assert hinted(found) == 0
    assert trained_roles(found) == {"agent"}
    had = processes(tmp_path / "nano-fixed-pool")
    assert "curator-0" in had
    assert not any(name.startswith("designer") for name in had)
