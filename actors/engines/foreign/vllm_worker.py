"""Our extension of vLLM's worker. `worker_extension_cls` mixes it into the worker class in every process of a model."""

from typing import Any


class Reloader:
    """Methods of a worker, called by name through `collective_rpc`."""

    reload_weights: Any  # a method of vLLM's worker
    model_runner: Any

    def reload(self, folder: str) -> None:
        """Load the parameters of the checkpoint `folder` in place."""
        self.reload_weights(weights_path=folder)
        model = self.model_runner.get_model()
        head = getattr(model, "lm_head", None)
        if head is not None and hasattr(head, "cpu_linear"):
            # A CPU build multiplies by a packed copy of the head. A head that is tied to the embedding does not count
            # as a parameter. So a reload skips the head, and the packed copy would keep the old weights.
            head.quant_method.process_weights_after_loading(head)
