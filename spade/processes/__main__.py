"""Start a role process: `python -m spade.processes MODULE LAUNCH_JSON PIPE`.

Imports leave no garbage, but the search for garbage would take a fifth of the start time. So the garbage collector is
off until `spade.processes.entry` switches it on after the imports.
"""

import gc
import runpy
import sys

gc.disable()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
