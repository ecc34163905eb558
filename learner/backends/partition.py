"""Find a rank's part of the parameters and of AdamW's state under each ZeRO stage, and gather the parts.

DeepSpeed keeps parameters twice: float32 values that AdamW updates, and values that the forward pass reads. From stage
1 on, the float32 values are divided over the ranks. At stages 1 and 2 the float32 parameters of a group are
concatenated, and each rank has an equal part of the result. At stage 3 each rank has an equal part of each parameter.
Stage 0 divides nothing, and keeps one copy.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from learner.backends.fragments import MOMENTS, PARAMETER, Fragment, Fragments, get_whole_shape, list_trained
from learner.backends.state import Shapes


class Partition:
    """The part of one rank. All ranks must call a method together, except `fragments`."""

    def __init__(self, model: Any, adamw: torch.optim.AdamW, engine: Any, stage: int, rank: int) -> None:
        """Find the part of `rank` in DeepSpeed's `engine`, which was made from `model` and `adamw`."""
        self._model, self._adamw, self._engine = model, adamw, engine
        self._stage, self._rank = stage, rank

    @property
    def shapes(self) -> Shapes:
        """Return the whole shapes of the trained parameters, by name."""
        return {name: tuple(get_whole_shape(parameter)) for name, parameter in list_trained(self._model)}

    @property
    def steps(self) -> Tensor | None:
        """Return AdamW's count of steps, which all parameters share, or None before the first step."""
        return next((one["step"] for one in self._adamw.state.values() if one), None)

    def set_steps(self, steps: Tensor) -> None:
        """Set AdamW's count of steps."""
        for one in self._adamw.state.values():
            one["step"].copy_(steps)

    def fragments(self) -> Fragments:
        """Return this rank's part of the trained parameters and, after the first step, of the moments."""
        self._link()
        kinds = (PARAMETER, *MOMENTS) if self.steps is not None else (PARAMETER,)
        found = {
            f"{kind}.{name}": self._make_fragment(one, kind)
            for name, one in list_trained(self._model)
            for kind in kinds
        }
        return {name: fragment for name, fragment in found.items() if len(fragment.data)}

    def refresh(self) -> None:
        """Copy the values of the fragments to the parameters of the forward pass. Call it after changing fragments."""
        shards = self._engine.optimizer
        if self._stage in (1, 2):
            shards.update_lp_params()
        elif self._stage == 3:  # DeepSpeed does the same after loading its own checkpoints
            shards.checkpoint_event_prologue()
            for group in range(len(shards.fp32_partitioned_groups_flat)):
                shards._reassign_or_swap_out_partitioned_parameters(group)
            shards.checkpoint_event_epilogue()

    def gathered(self, optimizer: bool) -> Iterator[tuple[str, Tensor]]:
        """Yield (fragment name, tensor) of each whole parameter in float32 and, with `optimizer`, of its moments."""
        self._link()
        kinds = (PARAMETER, *MOMENTS) if optimizer and self.steps is not None else (PARAMETER,)
        for name, parameter in list_trained(self._model):
            for kind in kinds:
                yield f"{kind}.{name}", self._gather_whole(parameter, kind)

    def _make_fragment(self, parameter: Parameter, kind: str) -> Fragment:
        moment, shape = None if kind == PARAMETER else kind, get_whole_shape(parameter)
        if self._stage == 0:
            value = self._adamw.state[parameter][moment] if moment else parameter.detach()
            return Fragment(value.view(-1), 0, shape)
        if self._stage == 3:
            kept, _ = self._engine.optimizer._get_fp32_opt_state_partition(
                parameter, release_swap_buffers=True, optim_state_key=moment
            )
            start = self._rank * len(kept)
            return Fragment(kept[: max(shape.numel() - start, 0)], start, shape)  # cut the padding of the last ranks
        held = cast(Any, parameter)._hp_mapping
        if held is None:
            return Fragment(torch.empty(0), 0, shape)
        return Fragment(held.get_hp_fragment(moment), held.lp_fragment_address.start, shape)

    def _gather_whole(self, parameter: Parameter, kind: str) -> Tensor:
        """Return a whole parameter in float32, or one of its moments, from the fragments of all ranks."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        if self._stage == 0:
            value = parameter.detach() if kind == PARAMETER else self._adamw.state[parameter][kind]
        elif kind == PARAMETER:
            value = safe_get_full_fp32_param(parameter)
        else:
            value = safe_get_full_optimizer_state(parameter, kind)
        return cast(Tensor, value)

    def _link(self) -> None:
        """Link the parameters to their moments. DeepSpeed 0.19.8 does this only for the first group."""
        from deepspeed.utils.mixed_precision_linkage import lazy_init_hp_params_optimizer_state as link

        if self._stage in (1, 2):
            shards = self._engine.optimizer
            for parameters, flat in zip(shards.bit16_groups, shards.single_partition_of_fp32_groups, strict=True):
                link(parameters, flat, self._adamw.state)
