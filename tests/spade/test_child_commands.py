"""Commands that end with their starter."""

import select
import subprocess
import sys

SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
STARTER = "import sys; from spade.processes.commands import run_child; run_child([sys.executable, '-c', sys.argv[1]])"


def test_a_command_does_not_outlive_a_killed_starter():
    starter = subprocess.Popen([sys.executable, "-c", STARTER, SLEEPER], stdout=subprocess.PIPE, text=True)
    try:
        assert starter.stdout.readline().strip().isdecimal()  # the command runs, and holds the pipe open
    finally:
        starter.kill()
        starter.wait()
    with starter.stdout as pipe:
        assert select.select([pipe], [], [], 60)[0], "the command is still there"
        assert pipe.read() == ""
