"""The models of a learner: the trained policy, the reference of `loss.kl`, and the published plain model."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from learner.models import lora
from spade.config import Config
from spade.policy.model import load
from spade.policy.model_folder import resolve

CPU = torch.device("cpu")


def load_policy(config: Config, device: torch.device, dtype: str = "float32") -> Any:
    """Load the model of model.path, with an adapter if the config has one. Its trained parameters require gradients."""
    model: Any = load(resolve(config.model.path), dtype=dtype, device=device).requires_grad_(True)
    if config.learner.lora_rank:
        lora.adapt(model, config.learner)
    return model


def load_reference(config: Config, device: torch.device) -> Any:
    """Load the model of model.path in model.dtype. Returns None if `loss.kl` is 0."""
    return load(resolve(config.model.path), dtype=config.model.dtype, device=device) if config.loss.kl else None


class Whole:
    """The policy as a plain float32 model on the CPU. Used if the trained model is sharded or has an adapter."""

    def __init__(self, config: Config) -> None:
        self._model: Any = load(resolve(config.model.path), dtype="float32", device=CPU)
        self._parameters = dict(self._model.named_parameters())
        self._scale = lora.scale(config.learner) if config.learner.lora_rank else None
        self._base: dict[str, Tensor] = {}

    @torch.no_grad()
    def filled(self, trained: Iterable[tuple[str, Tensor]]) -> Any:
        """Copy the trained parameters into the model, or merge the adapter into it, and return the model.

        Returns the same object every time.
        """
        if self._scale is None:
            for name, value in trained:
                self._parameters[name].copy_(value)
        else:
            for name, (down, up) in lora.pair_weights(dict(trained)).items():
                weight = self._parameters[name]
                base = self._base.setdefault(name, weight.clone())
                weight.copy_(base.addmm(up.to(CPU), down.to(CPU), alpha=self._scale))
        return self._model
