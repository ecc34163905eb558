"""Start a role process: `python -m spade.processes MODULE LAUNCH_JSON PIPE`.

While modules are imported nothing is garbage, and a collector that looks all the same takes a fifth of a start's time.
`spade.processes.entry` lets the collector begin when the imports are done.
"""

import gc
import runpy
import sys

gc.disable()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
