"""Shared by the checks of a GPU: the device, a reference on the CPU, and a model for both.

The device is the GPU if there is one, else the CPU. So the checks themselves are tested where no GPU is.
"""

import pytest
import torch

from spade.policy.model import load, pick_device
from tests.gpu.shapes import SHAPES, write_model
from tests.models import MODELS


def pytest_report_header():
    device = pick_device("auto")
    return f"device: {torch.cuda.get_device_name(device) if device.type == 'cuda' else 'CPU'}"


@pytest.fixture(scope="session")
def device():
    return pick_device("auto")


@pytest.fixture(scope="session")
def folder(device, tmp_path_factory):
    """SmolLM2-135M-Instruct if it is in the cache, else a random model of another shape. A tiny model on the CPU."""
    if device.type == "cpu":
        return write_model(SHAPES["1M"], tmp_path_factory.mktemp("model"))
    cached = MODELS / "smollm2-135m-instruct"
    if (cached / "config.json").is_file():
        return cached
    return write_model(SHAPES["30M"], tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def reference(folder):
    """The model in float32 on the CPU."""
    return load(folder, dtype="float32", device=torch.device("cpu"))
