"""One further process of the DeepSpeed backend: `python -m learner.backends.rank_process PIPE`; `Ranks` starts it."""

import logging
import signal
import socket
import sys
from pathlib import Path

import torch

from learner.backends.deepspeed_settings import dtype, prepare
from learner.backends.rank_control import CommandReader, Failed, Gather, Halt, Here, Load, Place, Train, Trained
from learner.backends.zero import Shard
from learner.models import CPU, policy, reference
from spade.errors import SpadeError
from spade.processes import logs

log = logging.getLogger(__name__)


class HaltError(Exception):
    """The learner abandons the step."""


def main() -> None:
    """Execute commands until the learner is gone (`CommandReader`) or this process fails."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the learner decides when it ends
        signal.signal(number, signal.SIG_IGN)
    pipe = socket.socket(fileno=int(sys.argv[1]))
    pipe.set_inheritable(False)
    learner = CommandReader(pipe)
    try:
        orders = learner.next()
        assert isinstance(orders, Place)
        _obey(learner, orders)
    except SpadeError as error:
        learner.answer(Failed(str(error)))
        sys.exit(1)
    except Exception as error:
        log.exception("a bug, or a consequence of another process's end")
        learner.answer(Failed(" ".join(f"{type(error).__name__}: {error}".split())))
        sys.exit(1)


def _obey(learner: CommandReader, orders: Place) -> None:
    config = orders.config
    logs.begin(f"learner rank {orders.rank}")
    if config.learner.threads:
        torch.set_num_threads(config.learner.threads)
    prepare(orders.rank, config)
    model, held_to = policy(config, CPU, dtype(config)), reference(config, CPU)
    learner.answer(Here())
    shard = Shard(model, held_to, config, orders.rank, orders.meeting)

    def go() -> None:
        if isinstance(learner.next(), Halt):
            raise HaltError

    while True:
        match learner.next():
            case Train(batch):
                try:
                    totals, _ = shard.train(batch, go)
                except HaltError:
                    continue
                learner.answer(Trained(totals))
            case Gather(optimizer):
                shard.gather(optimizer)
            case Load(folder):
                shard.load(Path(folder))
            case other:
                raise ValueError(f"{other} out of turn")


if __name__ == "__main__":
    main()
