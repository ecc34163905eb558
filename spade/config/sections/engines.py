"""Settings of sampling: the run's own engines, an endpoint elsewhere, and a gateway for external programs."""

from typing import Literal

from spade.config.engine_kinds import EngineKind
from spade.config.sections.bounds import Bytes, Count, CountOrZero, Gpu, Positive, Seconds, Section


class Engine(Section, frozen=True):
    """The engines, which sample for all roles that no endpoint serves (docs/engines.md)."""

    kind: EngineKind = "torch"
    """Implementation: "torch" ships with the package, "vllm" needs the extra of that name."""

    device: str = "auto"
    """Device of an engine as torch names it: `cpu`, `cuda`, `cuda:1`; "auto" is the GPU if there is one."""

    gpus: tuple[Gpu, ...] = ()
    """GPUs of the engines: the first engine gets the first `tensor_parallel` of them, the second engine the next ones.
    A GPU named twice is shared. With an empty list, every engine sees all visible GPUs."""

    arithmetic: Literal["model", "float64"] = "model"
    """Number format of the engine's arithmetic: "model" is `model.dtype`. In "float64" (only with torch) rounding
    almost never changes a token, so a request gets the same tokens whichever other requests run with it."""

    threads: CountOrZero = 0
    """CPU threads of torch in each engine; 0 leaves the number to torch."""

    rows: Count = 64
    """Sequences that one engine samples at once."""

    context_tokens: Count = 32_768
    """Largest number of tokens of a sequence, prompt and answer together. The default is the paper's."""

    request_deadline_s: Seconds = 1_800.0
    """Seconds that an engine has for one request, including its wait for a row. Then the request fails, and the play
    or design is leased again."""

    tensor_parallel: Count = 1
    """GPUs that together hold one copy of the model (only with vLLM)."""

    canary_tolerance: Positive | None = None
    """Largest mean difference, in nats, between an engine's log-probabilities of the canary and the learner's. The
    default is 1e-3 in float32 and 0.25 in bfloat16."""

    kv_bytes: Bytes = 17_179_869_184
    """Bytes for the keys and values of all sequences of an engine (16 GiB). On a CPU the torch engine takes at most
    half of the machine's memory."""

    swap: Literal["keep", "wait"] = "keep"
    """Treatment of unfinished sequences when new weights arrive. "keep" continues them with the new weights. "wait"
    first finishes them with the old weights, and begins no other sequence meanwhile."""


class Endpoint(Section, frozen=True):
    """An OpenAI-compatible server that samples for some roles. Its tokens are not trained (docs/engines.md)."""

    url: str = ""
    """Root of the server's API, for example http://127.0.0.1:8000/v1; "" switches the endpoint off."""

    model: str = ""
    """Name of the model at the server; "" is for a server with a single model."""

    key: str = ""
    """File with the API key. With "", no key is sent."""

    roles: tuple[Literal["designer", "agent", "evaluator"], ...] = ("designer",)
    """Roles that the endpoint samples for. The designer and the agent together are refused, because then nothing
    would be trained. With `evaluation.suite` the evaluator is refused, because it measures the run's policy."""

    def serves(self, role: str) -> bool:
        """Return True if an endpoint is set and samples for this role."""
        return bool(self.url) and role in self.roles


class Serve(Section, frozen=True):
    """The gateway: an OpenAI-compatible server over the run's engines (`spade serve`, docs/serving.md)."""

    address: str = "127.0.0.1:8000"
    """Address HOST:PORT at which the gateway listens. If other machines can reach it, it needs a key, and a proxy
    with TLS in front."""

    key: str = ""
    """File with the key that clients must send. With "", clients need no key."""

    name: str = ""
    """Name of the model as clients know it; "" is `model.path`."""
