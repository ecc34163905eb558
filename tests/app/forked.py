"""Commands of `spade`, each in a fork of a process that has imported all that they need: that is most of their time.

`python -m tests.app.forked FOLDER`: a line of stdin (JSON: working directory, words, what is typed) is a command, its
line of stdout (JSON) is [exit code, standard output, standard error].
"""
# ruff: noqa: F401

import gc
import json
import os
import sys
from pathlib import Path

import rich.syntax

import actors.environments.admission
import actors.sandbox
import actors.suites.harnesses
import actors.text.measures.diversity
import learner.checkpoint
import replay.inspect.environments
import replay.inspect.export
import replay.inspect.import_memory
import replay.inspect.lineage
import replay.inspect.thirds
import replay.inspect.verify
import replay.service.journal
import replay.store.compact
import replay.store.load
import spade.app.commands.env.transcript
import spade.app.evaluation.measuring
import spade.app.evaluation.serving
import spade.app.experiment.page
import spade.app.experiment.pieces
import spade.app.report.page
import spade.app.screen.evaluations
import spade.app.screen.view
import spade.app.supervisor.orders
import spade.app.supervisor.pools
import spade.app.supervisor.up
import spade.cluster.schedulers
import spade.policy.best
from spade.app import cli


def run(folder: Path, place: str, words: list[str], typed: str) -> tuple[int, str, str]:
    files = [folder / name for name in ("stdin", "stdout", "stderr")]
    for file, text in zip(files, (typed, "", ""), strict=True):
        file.write_text(text)
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            for number, file in enumerate(files):
                os.dup2(os.open(file, os.O_WRONLY if number else os.O_RDONLY), number)
            os.chdir(place)
            sys.argv = ["spade", *words]
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    said = [file.read_bytes().decode() for file in files[1:]]
    return os.waitstatus_to_exitcode(status), said[0], said[1]


if __name__ == "__main__":
    gc.freeze()  # else a collection in a fork would copy the pages of all that is imported here
    for line in sys.stdin.buffer:  # its text is read by the commands
        print(json.dumps(run(Path(sys.argv[1]), *json.loads(line))), flush=True)
