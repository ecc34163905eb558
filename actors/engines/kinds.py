"""The implementation of each kind of engine."""

from collections.abc import Callable

from actors.engines.base import Engine
from actors.engines.torch.engine import TorchEngine
from spade.config import Engine as Settings
from spade.config import EngineKind
from spade.protocol import Weights


def open_engine(weights: Weights, settings: Settings, dtype: str) -> Engine:
    """An engine of `settings.kind` that serves `weights`, computing in `dtype`.

    An empty digest is not checked. Raises WeightsError; ConfigError or RunError where the model cannot run here.
    """
    return _implementation(settings.kind)(weights, settings, dtype)


def _implementation(kind: EngineKind) -> Callable[[Weights, Settings, str], Engine]:
    match kind:
        case "torch":
            return TorchEngine
        case "vllm":
            from actors.engines.foreign.vllm import VllmEngine  # it need not be installed

            return VllmEngine
