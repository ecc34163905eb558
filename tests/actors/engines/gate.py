"""Engines whose steps the test gives out, so that nothing depends on how fast they are."""

import threading

import pytest

from actors.engines import server
from actors.engines.torch.engine import TorchEngine

PATIENCE_S = 120


def gated(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Engine processes that start from now on take one of these for each step; there is none at first."""
    steps = threading.Semaphore(0)

    class Gated(TorchEngine):
        def step(self):
            assert not self.busy or steps.acquire(timeout=PATIENCE_S), "the test gives out no steps"
            return super().step()

    monkeypatch.setattr(server, "TorchEngine", Gated)
    return steps
