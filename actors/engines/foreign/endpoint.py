"""A remote engine: any server of OpenAI's completions API that reads token ids of the run's tokenizer.

Requests have two fields that vLLM added: `return_token_ids` and `stop_token_ids`. Other servers answer with text alone.

This engine samples for roles that are not trained (`endpoint.roles`), such as a frozen, stronger designer. The server
uses no published weights. So its answers carry no policy version and are never trained on.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec
import numpy as np
import trio

from actors.engines.base import explain_misfit
from actors.engines.foreign.asyncio_engine import AsyncioEngine
from actors.engines.service.request_queue import RequestQueue
from spade.codec import pack_floats, pack_ids, unpack_ids
from spade.config import Config
from spade.errors import BusError, ConfigError
from spade.keyfiles import read_key
from spade.openai_api import OpenAIClient, ServerError, parse_answer
from spade.policy import model_folder
from spade.processes.entry import Launch, main, open_service
from spade.protocol import Generate, Generated, Refused, Weights
from spade.tokens import Tokenizer

log = logging.getLogger(__name__)

_MOST_FLOAT = float(np.finfo(np.float32).max)


class Logprobs(msgspec.Struct):
    """Log-probabilities of the sampled tokens."""

    token_logprobs: list[float | None] | None = None


class Choice(msgspec.Struct):
    """An answer. Fields that the server does not send are None."""

    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct):
    """The answer to a completions request."""

    choices: list[Choice]


class EndpointEngine(AsyncioEngine):
    """See `base.Engine`. The version stays 0. A request that the server refuses or fails to answer becomes Refused."""

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        """Find the model on the server.

        Raises ConfigError if the server does not know the key or the model, BusError if no server answers.
        """
        self._url = config.endpoint.url
        self._api = OpenAIClient(
            self._url, read_key(config.endpoint.key, "endpoint.key"), config.engine.request_deadline_s
        )
        self._context = config.engine.context_tokens
        self._tokenizer = tokenizer
        super().__init__(config.engine.rows)
        try:
            self._model = self.wait_for(self._find(config.endpoint.model))
        except BaseException:
            self.close()
            raise

    def refusal(self, request: Generate) -> str | None:
        return explain_misfit(request, self._context, self._tokenizer.size)

    def load_weights(self, weights: Weights) -> None:
        raise AssertionError("an endpoint has its own weights")

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        raise AssertionError("an endpoint has no canary")

    async def generate(self, request: Generate) -> Generated | Refused:
        prompt = unpack_ids(request.prompt).tolist()
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "logprobs": 1,
            "return_token_ids": True,
            "stop_token_ids": sorted(self._tokenizer.end_ids),
            "top_p": request.top_p,
            "top_k": request.top_k,
            "stop": list(request.stop),
            "include_stop_str_in_output": True,
        }
        try:
            answer = await self._api.ask("POST", "/completions", msgspec.json.encode(body))
            return self._convert_answer(
                prompt, request.max_tokens, parse_answer(self._url, answer, Completion, "completions API")
            )
        except BusError as error:
            log.warning("%s", error)
            return Refused(str(error))

    def _convert_answer(self, prompt: list[int], max_tokens: int, completion: Completion) -> Generated:
        """Check an answer and convert it to a reply.

        Raises BusError if the server read other tokens than it was sent, or if its answer cannot be used.
        """
        if not completion.choices:
            raise BusError(f"{self._url} answers with no choice")
        choice, cut = completion.choices[0], False
        if choice.prompt_token_ids not in (None, prompt):
            raise BusError(f"{self._url} changes the prompt's token ids; it must take them as they are")
        ids, logprobs = choice.token_ids, choice.logprobs
        if ids is None:
            ids, logprobs = self._tokenizer.encode(choice.text, max_tokens), None
            cut = len(ids) > max_tokens  # retokenised text may have more tokens than were sampled
            ids = ids[:max_tokens]
        elif len(ids) > max_tokens:
            raise BusError(f"{self._url} answers with {len(ids)} tokens, more than max_tokens = {max_tokens}")
        if not ids:
            raise BusError(f"{self._url} answers with no token")
        if not 0 <= min(ids) <= max(ids) < self._tokenizer.size:
            raise BusError(f"{self._url} answers with token ids that model.path's tokenizer does not have")
        known = (logprobs and logprobs.token_logprobs) or []
        floats = [value for value in known if value is not None and abs(value) <= _MOST_FLOAT]
        return Generated(
            pack_ids(ids),
            pack_floats(floats) if len(floats) == len(known) == len(ids) else b"",
            (),
            "length" if cut or choice.finish_reason == "length" else "stop",
        )

    async def _find(self, name: str) -> str:
        """Find the model called `name`. If `name` is "", return the server's only model."""
        try:
            return await self._api.find_model(name, "endpoint.model: ")
        except ServerError as error:
            if error.passing:
                raise
            raise ConfigError(f"endpoint.url, endpoint.key: {error}") from None


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve Generate requests at `launch.bind` until cancelled, by asking the server at `endpoint.url`."""
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path))
    engine = await trio.to_thread.run_sync(EndpointEngine, config, tokenizer)
    with closing(engine):
        async with open_service(launch, config) as (server, replay):
            log.info("passing requests on to %s at %s", config.endpoint.url, server.address)
            ready()
            await RequestQueue(server, replay, engine, config).run()


if __name__ == "__main__":
    main(run)
