"""`python forked.py FOLDER`: the commands of stdin (JSON, a list of lists of words), each in a fork of this process.

Prints a JSON list of [exit code, standard output, standard error], the bytes as Latin-1. Starting Python and importing
what commands need is most of what a command takes.
"""
# ruff: noqa: F401

import json
import os
import sys
from pathlib import Path

import actors.environments.admission
import learner.checkpoint
import replay.inspect.environments
import replay.inspect.export
import replay.inspect.lineage
import replay.inspect.verify
import replay.store.load
import spade.app.screen.view
import spade.app.supervisor.orders
import spade.app.supervisor.up
from spade.app import cli


def run(folder: Path, words: list[str]) -> tuple[int, str, str]:
    files = [folder / name for name in ("stdout", "stderr")]
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in enumerate(files, 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
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
    said = [file.read_bytes().decode("latin-1") for file in files]
    return os.waitstatus_to_exitcode(status), said[0], said[1]


if __name__ == "__main__":
    print(json.dumps([run(Path(sys.argv[1]), words) for words in json.load(sys.stdin)]))
