"""Start a role process: `python -m spade.processes MODULE LAUNCH_JSON PIPE`.

Imports leave no garbage, but a collector that searches for it takes a fifth of the time of a start. So the collector is
off until `spade.processes.entry` switches it on after the imports.
"""

import gc
import runpy
import sys

gc.disable()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
