"""The endpoint engine in front of the real counterpart: vLLM's own server of OpenAI's API."""

import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from actors.engines.foreign.endpoint import EndpointEngine
from spade.checkpoints import NANO
from spade.config import Config, Endpoint, Engine
from spade.errors import BusError
from spade.tokens import Tokenizer
from tests.actors.engines.engine_contract import CONTEXT, ROWS, EngineContract

READY_S = 420  # a busy machine takes minutes where an idle one takes seconds
ARGUMENTS = {
    "--model": str(NANO), "--served-model-name": "nano", "--dtype": "float32", "--generation-config": "vllm",
    "--max-model-len": CONTEXT, "--max-num-seqs": ROWS, "--max-num-batched-tokens": CONTEXT,
    "--logprobs-mode": "processed_logprobs", "--host": "127.0.0.1",
}  # fmt: skip
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR",
}  # fmt: skip


@contextmanager
def server(log):
    # Held without listening, so that nobody else is given the port; the server takes it with SO_REUSEADDR as well.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    command += ["--no-enable-chunked-prefill", "--port", str(port)]
    command += [str(part) for pair in ARGUMENTS.items() for part in pair]
    with held, log.open("wb") as file:
        process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=file, stderr=file)
        try:
            yield process, f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(READY_S)


class TestServer(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, tmp_path_factory):
        log = tmp_path_factory.mktemp("server") / "log"
        with server(log) as (process, url):
            config = Config(engine=Engine(rows=ROWS, context_tokens=CONTEXT), endpoint=Endpoint(url=url))
            until = time.monotonic() + READY_S
            while True:
                try:
                    engine = EndpointEngine(config, Tokenizer.load(NANO))
                    break
                except BusError:
                    assert process.poll() is None, log.read_text()[-4_000:]
                    assert time.monotonic() < until, log.read_text()[-4_000:]
                    time.sleep(0.5)  # it says in no other way that it is ready
            with closing(engine):
                yield engine
